package rawjson

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// The rules are RFC 8259's; encoding/json, which has them too, is the other reading.
func TestValid(t *testing.T) {
	for raw, want := range map[string]bool{
		``: false, ` `: false, `null`: true, `nul`: false, `nulll`: false, `Null`: false,
		`true`: true, `tru`: false, `false`: true, `falsy`: false, ` 1 `: true, "\t\r\n1\n": true, "\v1": false, "\u00a01": false,
		`0`: true, `-0`: true, `00`: false, `01`: false, `-`: false, `+1`: false, `-1`: true, `1.`: false, `.5`: false, `1.5`: true,
		`1e5`: true, `1E+5`: true, `1e-5`: true, `1e`: false, `1e+`: false, `1.e5`: false, `0.0e0`: true, `0e1`: true, `1 2`: false, `1,2`: false, `NaN`: false, `0x1`: false,
		`""`: true, `"`: false, `"\"`: false, `"a`: false, `"\\"`: true, `"\/\b\f\n\r\t\""`: true, `"\a"`: false, `"\'"`: false, `'a'`: false,
		`"\u0041"`: true, `"\u00zz"`: false, `"\u004"`: false, `"\uD800"`: true, `"\ud800\udc00"`: true, `"\U0041"`: false,
		"\"\x00\"": false, "\"\x1f\"": false, "\"\x7f\"": true, "\"\n\"": false, "\"é\u2028\"": true, "\"\xff\"": true, "\xff": false, "\ufeff1": false,
		`[]`: true, `[ ]`: true, `[`: false, `]`: false, `[]]`: false, `[,]`: false, `[1,]`: false, `[1,2]`: true, `[1 2]`: false, `[1}`: false, `[}`: false,
		`{}`: true, `{ }`: true, `{`: false, `}`: false, `{]`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1}`: true, `{"a":1,}`: false, `{,}`: false, `{"a" : 1 , "a":2}`: true,
		`{1:2}`: false, `{a:1}`: false, `{"a":1]`: false, `{"a":1 "b":2}`: false, `{"a",1}`: false, `["a":1]`: false, `{"a":[{"b":[]}]}`: true,
		`// c`: false, `[1]//`: false, `[[],{},[{}]]`: true, `{"":{"":""}}`: true,
	} {
		if _, ok := Valid([]byte(raw)); ok != want || json.Valid([]byte(raw)) != want {
			t.Errorf("Valid(%q) is %v, and of encoding/json %v; want %v", raw, ok, json.Valid([]byte(raw)), want)
		}
	}
}

func TestDepth(t *testing.T) {
	for raw, want := range map[string]int{
		`1`: 0, `"[["`: 0, `[]`: 1, `{}`: 1, `[[],[]]`: 2, `{"a":{"b":[1]},"c":[[]]}`: 3, `[1,[2],3]`: 2, `"\"["`: 0,
	} {
		if depth, ok := Valid([]byte(raw)); depth != want || !ok {
			t.Errorf("the depth of %s is %d, %v; want %d", raw, depth, ok, want)
		}
	}
	// Each level keeps its kind, however deep: a wrong end anywhere is seen.
	for _, n := range []int{62, 63, 64, 65, 126, 127, 128, 129, 191, 192, 193, deepest} {
		kinds := make([]bool, n)
		for i := range kinds {
			kinds[i] = rand.IntN(2) == 0
		}
		raw := nested(kinds)
		if depth, ok := Valid(raw); depth != n || !ok {
			t.Errorf("the depth of %d levels is %d, %v", n, depth, ok)
		}
		wrong := rand.IntN(n)
		end := len(raw) - 1 - wrong
		raw[end] = '}' + ']' - raw[end]
		if _, ok := Valid(raw); ok {
			t.Errorf("of %d levels, the one at %d ends as another kind", n, wrong)
		}
	}
}

func TestDeeperThanAnyReaderGoes(t *testing.T) {
	raw := nested(make([]bool, deepest+1))
	if _, ok := Valid(raw); ok || json.Valid(raw) {
		t.Errorf("%d levels are valid, or encoding/json has another bound", deepest+1)
	}
}

// nested is one value inside the other, true for an object.
func nested(kinds []bool) []byte {
	var b, end []byte
	for _, object := range kinds {
		if object {
			b, end = append(b, `{"a":`...), append(end, '}')
		} else {
			b, end = append(b, '['), append(end, ']')
		}
	}
	b = append(b, '1')
	for i := len(end) - 1; i >= 0; i-- {
		b = append(b, end[i])
	}
	return b
}

// What is nearly valid is where two readings part.
func TestValidIsAsInEncodingJSON(t *testing.T) {
	valid := 0
	for range 300_000 {
		raw := drawn()
		if _, ok := Valid(raw); ok != json.Valid(raw) {
			t.Fatalf("Valid(%q) is %v, and of encoding/json %v", raw, ok, !ok)
		} else if ok {
			valid++
		}
	}
	if valid < 10_000 || valid > 290_000 {
		t.Errorf("%d of 300,000 were valid: the draw is one-sided", valid)
	}
}

// drawn is a value that was written by rule, and then, as a rule, changed in a byte or two.
func drawn() []byte {
	var b bytes.Buffer
	draw(&b, 4)
	raw := b.Bytes()
	const bytes = "{}[]\",:\\ \n0123456789-+.eEtruefalsn/u\x00\x1f\xff"
	for range rand.IntN(3) {
		at := rand.IntN(len(raw))
		switch c := bytes[rand.IntN(len(bytes))]; rand.IntN(4) {
		case 0:
			raw = append(raw[:at], raw[at+1:]...)
		case 1:
			raw[at] = c
		case 2:
			raw = append(raw[:at], append([]byte{c}, raw[at:]...)...)
		case 3:
			raw = raw[:at]
		}
		if len(raw) == 0 {
			break
		}
	}
	return raw
}

func draw(b *bytes.Buffer, deep int) {
	gap := func() { b.WriteString([]string{"", "", "", " ", "\n\t", "\r"}[rand.IntN(6)]) }
	gap()
	defer gap()
	kind := rand.IntN(6)
	if deep == 0 {
		kind = rand.IntN(4)
	}
	switch kind {
	case 0:
		b.WriteString([]string{"true", "false", "null"}[rand.IntN(3)])
	case 1:
		b.WriteString([]string{"0", "-0", "12", "-1.50", "1e9", "2E-7", "0.0e+0", "123456789012345678901234567890"}[rand.IntN(8)])
	case 2, 3:
		drawString(b)
	case 4:
		b.WriteByte('[')
		for i := range rand.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			draw(b, deep-1)
		}
		gap()
		b.WriteByte(']')
	case 5:
		b.WriteByte('{')
		for i := range rand.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			gap()
			drawString(b)
			gap()
			b.WriteByte(':')
			draw(b, deep-1)
		}
		gap()
		b.WriteByte('}')
	}
}

func drawString(b *bytes.Buffer) {
	b.WriteByte('"')
	for range rand.IntN(5) {
		b.WriteString([]string{"a", "é", "\U0001f600", `\"`, `\\`, `\/`, `\n`, `\u00e9`, `\uD83D\uDE00`, "[", "}", "\x7f", "\xff"}[rand.IntN(13)])
	}
	b.WriteByte('"')
}

func FuzzValid(f *testing.F) {
	for _, raw := range []string{`{"a":[1,-2.5e+7,"\u00e9\n",{}],"b":null}`, `[[[]]]`, `"\ud800"`, `01`, ` { "a" : "b" } `} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, ok := Valid(raw); ok != json.Valid(raw) {
			t.Fatalf("Valid(%q) is %v, and of encoding/json %v", raw, ok, !ok)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	raw := []byte(`{"type":"order.paid","args":[{"order":"ord_8fK2","total":1299,"currency":"EUR","lines":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}],"note":"` + strings.Repeat("please ring twice ", 6) + `"}],"queue":"orders","priority":10}`)
	b.Run("rawjson", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			Valid(raw)
		}
	})
	b.Run("encoding", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			json.Valid(raw)
		}
	})
}
