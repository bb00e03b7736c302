package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

func TestCanonicalJSON(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"no space", " { \"a\" : [ 1 , true , null ] } \n", `{"a":[1,true,null]}`},
		{"empty containers", `{"b":{ },"a":[ ]}`, `{"a":[],"b":{}}`},
		{"a string alone", ` "x" `, `"x"`},
		{"a number alone", ` 1.0 `, `1`},
		{"members at every depth", `[{"b":{"d":1,"c":2},"a":3}]`, `[{"a":3,"b":{"c":2,"d":1}}]`},
		{"short escapes", `"\u0008\u0009\u000a\u000c\u000d\"\\\/"`, `"\b\t\n\f\r\"\\/"`},
		{"other controls in lower case", `"\u0000\u000B\u001F"`, `"\u0000\u000b\u001f"`},
		{"nothing else is escaped", `"\u007f\u2028\u2029\u003c\u0026é"`, "\"\u007f\u2028\u2029<&é\""},
		{"escaped slash in a name", `{"a\/b":1}`, `{"a/b":1}`},
		// By UTF-16 the emoji (D83D DE00) comes before U+FB01, by UTF-8 after it.
		{"UTF-16 order", `{"\ufb01":1,"\ud83d\ude00":2,"\u20ac":3,"\r":4,"1":5,"\u00f6":6,"\u0080":7}`,
			"{\"\\r\":4,\"1\":5,\"\u0080\":7,\"ö\":6,\"€\":3,\"😀\":2,\"ﬁ\":1}"},
		{"a prefix comes first", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"NFC", `["e\u0301","é","\u00e9"]`, `["é","é","é"]`},
		// The RFC's own example has U+FB33, which NFC takes apart.
		{"NFC before sorting", `{"\u20ac":1,"\ufb33":2}`, "{\"\u05d3\u05bc\":2,\"€\":1}"},
		{"a name twice", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"a name twice, spelled differently", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"a name twice after NFC", `{"é":1,"e\u0301":2}`, `{"é":2}`},
		{"a name thrice", `{"a":1,"a":2,"a":3}`, `{"a":3}`},
		{"twice within what is dropped", `{"a":{"b":1,"b":2},"a":{"c":3,"c":4},"d":5}`, `{"a":{"c":4},"d":5}`},
		{"half of a pair", `["\uD800","\udc00x","\ud83d\ud83d\ude00","�","\ude00\ud83d","\\ud800"]`, `["\ud800","\udc00x","\ud83d😀","�","\ude00\ud83d","\\ud800"]`},
		{"text around half of a pair", `["e\u0301\ud800\u0301\n\u0000\"\\\/","\u0000\ud800","\\\ud800\\","s\ud800","\ud800\""]`,
			`["é\ud800́\n\u0000\"\\/","\u0000\ud800","\\\ud800\\","s\ud800","\ud800\""]`},
		{"names with half of a pair", `{"a":0,"\ud801":2,"\ud800":1,"\uD800":3,"":4,"\u0000x":5}`, `{"":4,"\u0000x":5,"\ud800":3,"\ud801":2,"a":0}`},
		{"numbers", `[1.0,1e2,-0,-0.0,0e9,1E+2,1e21,1e-7,0.000001,123456789012345680000.0]`, `[1,100,0,0,0,100,1e+21,1e-7,0.000001,123456789012345680000]`},
		{"underflow", `[1e-400,-1e-400]`, `[0,0]`},
		{"integers that float64 holds", `[9007199254740991,-9007199254740991]`, `[9007199254740991,-9007199254740991]`},
		{"integers beyond", `[9007199254740992,9007199254740993,-9007199254740992,-9007199254740993,123456789012345678901234567890]`,
			`[9007199254740992,9007199254740993,-9007199254740992,-9007199254740993,123456789012345678901234567890]`},
		{"an integer beyond, with a point", `[9007199254740993.0,-9007199254740993.000,9007199254740992.0,9007199254740991.0,123456789012345683968.0]`,
			`[9007199254740993,-9007199254740993,9007199254740992,9007199254740991,123456789012345683968]`},
		{"an integer beyond, with an exponent", `[9.007199254740993e15,90071992547409930E-1,-9007199254740993e0,9.007199254740992e+15,1.7976931348623158e308,1.23456789012345678901234e23]`,
			`[9007199254740993,9007199254740993,-9007199254740993,9007199254740992,1.7976931348623158e+308,1.23456789012345678901234e+23]`},
		{"an integer that float64 holds, in any notation", `[1000000000000000000000.0,1e21,10e20,9.9999999999999992e22,9.99999999999999916114e22,1E23,123456789012345680000.0]`,
			`[1e+21,1e+21,1e+21,1e+23,1e+23,1e+23,123456789012345680000]`},
		{"a fraction beyond", `[9007199254740992.5,9007199254740992.50,90071992547409925e-1,9007199254740991.5]`, `[9007199254740992.5,9007199254740992.5,9007199254740992.5,9007199254740991.5]`},
		{"a fraction within, as RFC 8785 has it", `[333333333.33333329,0.10000000000000001]`, `[333333333.3333333,0.1]`},
		{"a number beyond float64", `[1E400,-1e+400,{"a":1E400}]`, `[1e400,-1e+400,{"a":1e400}]`},
		{"a big integer alone", `9007199254740993`, `9007199254740993`},
		{"what looks like a stand-in", `["\u00009007199254740993",9007199254740993,"\u0000","\u0000\u0000","\"\u00001","\\\u0000","\\\"\u00002"]`,
			`["\u00009007199254740993",9007199254740993,"\u0000","\u0000\u0000","\"\u00001","\\\u0000","\\\"\u00002"]`},
		{"names like stand-ins", `{"\u0000b":9007199254740993,"\u0000":2,"":3,"\u0001":4,"\u0000\u0000":5}`,
			`{"":3,"\u0000":2,"\u0000\u0000":5,"\u0000b":9007199254740993,"\u0001":4}`},
	} {
		got, err := Canonical([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s\n got %s, %v\nwant %s", tt.name, tt.in, got, err, tt.want)
		}
	}
}

func TestCanonicalJSONRefusesWhatIsNoJSON(t *testing.T) {
	for _, bad := range []string{"", " ", "{", `{"a":1,}`, "[1 2]", "01", "nul", "\"\xff\"", `"\x"`, "1 1", "{]"} {
		if got, err := Canonical([]byte(bad)); err == nil {
			t.Errorf("%q: got %s, %v", bad, got, err)
		}
	}
}

// The numbers of RFC 8785, appendix B.
func TestCanonicalNumbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992", 0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001", 0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325", 0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343", 0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		in := strconv.FormatFloat(math.Float64frombits(bits), 'e', 20, 64)
		if got, err := Canonical([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
}

// A gardener grows random documents, and writes each in many ways.
type gardener struct {
	*rand.Rand
	wild bool // also what only contract §4.10 covers: names twice, half pairs, numbers beyond float64
	nfd  bool // write strings decomposed
}

type twig struct {
	name  string
	value any
}

var soil = []rune("abcxyz01 <&/\"\\\n\t\r\b\f\x00\x00\x01\x1f\x7f\u0080éöüÅ\u0301\u0323\u030a\u2028\u2029€ﬁ\ufb33한\u1112\u1161\uffff\ufffd😀𝄞")

// word is a short text in NFC.
func (g gardener) word() string {
	var rs []rune
	for range g.IntN(5) {
		rs = append(rs, soil[g.IntN(len(soil))])
	}
	return norm.NFC.String(string(rs))
}

// grow makes a value: nil, bool, string, float64, []any or []twig.
func (g gardener) grow(depth int) any {
	n := 10
	if depth == 0 {
		n = 6
	}
	switch g.IntN(n) {
	case 0:
		return []any{nil, true, false}[g.IntN(3)]
	case 1, 2:
		return g.word()
	case 3:
		return float64(g.Int64N(1<<54) - 1<<53)
	case 4:
		return float64(g.IntN(2000)-1000) / 8
	case 5:
		for {
			if f := math.Float64frombits(g.Uint64()); f-f == 0 {
				return f
			}
		}
	case 6, 7:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.grow(depth-1))
		}
		return list
	}
	members, seen := []twig{}, map[string]bool{}
	for range g.IntN(5) {
		if name := g.word(); !seen[name] {
			seen[name] = true
			members = append(members, twig{name, g.grow(depth - 1)})
		}
	}
	return members
}

func (g gardener) space() string { return []string{"", "", "", " ", "\n\t", "\r "}[g.IntN(6)] }

// write puts v down in one of many ways.
func (g gardener) write(b *strings.Builder, v any) {
	b.WriteString(g.space())
	switch v := v.(type) {
	case string:
		g.quote(b, v)
	case float64:
		b.WriteString(g.number(v))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			g.write(b, e)
		}
		b.WriteString(g.space() + "]")
	case []twig:
		g.members(b, v)
	default:
		fmt.Fprint(b, map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
	b.WriteString(g.space())
}

func (g gardener) members(b *strings.Builder, v []twig) {
	b.WriteByte('{')
	order := g.Perm(len(v))
	if g.wild && len(v) > 0 {
		order = append(order, g.IntN(len(v)), g.IntN(len(v)))
	}
	for i, n := range order {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(g.space())
		g.quote(b, v[n].name)
		b.WriteString(g.space() + ":")
		if i >= len(v) {
			g.write(b, g.grow(1))
		} else {
			g.write(b, v[n].value)
		}
	}
	b.WriteString(g.space() + "}")
}

func (g gardener) quote(b *strings.Builder, s string) {
	if g.nfd || g.wild && g.IntN(2) == 0 {
		s = norm.NFD.String(s)
	}
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	b.WriteByte('"')
	if g.wild && g.IntN(20) == 0 {
		b.WriteString([]string{`\ud800`, `\uDFFF`, `\u0000`}[g.IntN(3)])
	}
	for _, r := range s {
		switch e, ok := short[r]; {
		case ok && g.IntN(2) == 0:
			b.WriteString(e)
		case r < 0x20 || r == '"' || r == '\\' || g.IntN(5) == 0:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, []string{`\u%04x`, `\u%04X`}[g.IntN(2)], u)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// number writes f in a way that reads back as f.
func (g gardener) number(f float64) string {
	if g.wild && g.IntN(5) == 0 {
		return []string{"9007199254740993", "-9007199254740993", "18446744073709551617", "1E999", "-0", "9007199254740993.0", "9.007199254740993e15"}[g.IntN(7)]
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && g.IntN(2) == 0 {
		return strconv.FormatFloat(f, 'f', g.IntN(3), 64)
	}
	return strconv.FormatFloat(f, "eE"[g.IntN(2)], []int{-1, 16, 20}[g.IntN(3)], 64)
}

func (g gardener) text(v any) string {
	var b strings.Builder
	g.write(&b, v)
	return b.String()
}

func newGardener(seed uint64) gardener { return gardener{Rand: rand.New(rand.NewPCG(seed, 8785))} }

// RFC 8785 alone: what another implementation says of 100,000 documents. They
// have no name twice, no half pair and no integer beyond float64, and are in NFC.
func TestCanonicalAgreesWithJSONText(t *testing.T) {
	t.Parallel()
	g := newGardener(1)
	for range 100_000 {
		doc := g.text(g.grow(3))
		want := jsontext.Value(doc)
		if err := want.Canonicalize(); err != nil {
			t.Fatalf("%s: jsontext: %v", doc, err)
		}
		if got, err := Canonical([]byte(doc)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s\n got %s, %v\nwant %s", doc, got, err, want)
		}
	}
}

// Order, space, escapes, notation of numbers and Unicode form do not matter.
func TestCanonicalDoesNotDependOnSpelling(t *testing.T) {
	t.Parallel()
	g, nfd := newGardener(2), newGardener(3)
	nfd.nfd = true
	for range 20_000 {
		v := g.grow(3)
		one, other := g.text(v), nfd.text(v)
		a, errA := Canonical([]byte(one))
		b, errB := Canonical([]byte(other))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s\n%s\n came to %s, %v\n and to %s, %v", one, other, a, errA, b, errB)
		}
	}
}

// All of contract §4.10: what a slow and plain reading of it says.
func TestCanonicalAgreesWithThePlainReading(t *testing.T) {
	t.Parallel()
	g := newGardener(4)
	g.wild = true
	for range 30_000 {
		doc := g.text(g.grow(3))
		want := plainForm(t, []byte(halves.Replace(doc)))
		got, err := Canonical([]byte(doc))
		if err != nil || string(got) != want {
			t.Fatalf("%s\n got %s, %v\nwant %s", doc, got, err, want)
		}
		if again, err := Canonical(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%s\n came to %s\n and then to %s, %v", doc, got, again, err)
		}
	}
}

// plainForm is the canonical form by contract §4.10, token by token.
func plainForm(t *testing.T, doc []byte) string {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	next := func() json.Token {
		tok, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		return tok
	}
	var read func(json.Token) string
	read = func(tok json.Token) string {
		switch tok := tok.(type) {
		case string:
			return plainString(tok)
		case json.Number:
			return plainNumber(string(tok))
		case json.Delim:
			var items []string
			values := map[string]string{}
			for d.More() {
				if tok == '[' {
					items = append(items, read(next()))
					continue
				}
				name := norm.NFC.String(next().(string))
				values[name] = read(next())
			}
			next()
			if tok == '[' {
				return "[" + strings.Join(items, ",") + "]"
			}
			return "{" + strings.Join(plainMembers(values), ",") + "}"
		}
		return map[any]string{nil: "null", true: "true", false: "false"}[tok]
	}
	return read(next())
}

func plainMembers(values map[string]string) (items []string) {
	var names []string
	for name := range values {
		names = append(names, name)
	}
	key := func(name string) []uint16 {
		text := plainString(name)
		switch { // as the doc of Canonical has it
		case strings.ContainsAny(name, "\ue000\ue001"):
			name = "\x00s" + text[1:len(text)-1]
		case strings.HasPrefix(name, "\x00"):
			name = "\x00" + name
		}
		return utf16.Encode([]rune(name))
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Compare(key(a), key(b)) })
	for _, name := range names {
		items = append(items, plainString(name)+":"+values[name])
	}
	return items
}

// The oracle reads half a pair as a character of private use, which no document has.
var halves = strings.NewReplacer(`\ud800`, `\ue000`, `\uDFFF`, `\ue001`)

func plainString(s string) string {
	var b strings.Builder
	for _, r := range norm.NFC.String(s) {
		if r == 0xe000 || r == 0xe001 {
			b.WriteString([]string{`\ud800`, `\udfff`}[r-0xe000])
			continue
		}
		short := strings.IndexRune("\b\t\n\f\r\"\\", r)
		switch {
		case short >= 0:
			b.WriteString(`\` + `btnfr"\`[short:short+1])
		case r < 0x20:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

func plainNumber(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		return strings.Replace(s, "-0", "0", 1) // only "-0" has these digits: JSON has no leading zeros
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return strings.ToLower(s)
	}
	if f == 0 {
		return "0"
	}
	if s == "9007199254740993.0" || s == "9.007199254740993e15" { // all of its kind that a gardener grows
		return "9007199254740993"
	}
	b, _ := json.Marshal(f) // by the rules of ECMAScript
	return string(b)
}

// What a job may have.
const (
	maxDepth = 128
	maxBytes = 1 << 20
)

func isJSON(doc []byte) bool {
	_, ok := Valid(doc)
	return ok && utf8.Valid(doc)
}

func canonical(t *testing.T, doc []byte) []byte {
	t.Helper()
	out, err := Canonical(doc)
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	return out
}

// At the depth and the size that a job may have, with a name twice at each depth.
func TestCanonicalJSONTakesWhatAJobMayHold(t *testing.T) {
	t.Parallel()
	deep := `{"a":1,"a":`
	doc := strings.Repeat(deep, maxDepth) + `"` + strings.Repeat("é\\u0000", maxBytes/8) + `"` + strings.Repeat("}", maxDepth)
	want := strings.Repeat(`{"a":`, maxDepth) + `"` + strings.Repeat("é\\u0000", maxBytes/8) + `"` + strings.Repeat("}", maxDepth)
	if got, err := Canonical([]byte(doc)); err != nil || string(got) != want {
		t.Errorf("deep: %d bytes came to %d, %v, want %d", len(doc), len(got), err, len(want))
	}
	wide := "{" + strings.Repeat(`"a":9007199254740993,`, maxBytes/21) + `"a":1}`
	if got, err := Canonical([]byte(wide)); err != nil || string(got) != `{"a":1}` {
		t.Errorf("wide: %.60s, %v", got, err)
	}
}

// x/text sets a joiner into a run of more than 30 marks: the same one, however
// the marks are spelled.
func TestLongRunsOfMarks(t *testing.T) {
	for n := range 70 {
		for _, first := range []string{"", "a", "e", "한"} {
			for _, marks := range []string{"\u0301", "\u0323", "\u0301\u0323", "\u0344", "\u1161"} {
				s := first + strings.Repeat(marks, n)
				var escaped strings.Builder
				for _, r := range s {
					fmt.Fprintf(&escaped, `\u%04x`, r)
				}
				raw := canonical(t, []byte(`"`+s+`"`))
				spelled := canonical(t, []byte(`"`+escaped.String()+`"`))
				again := canonical(t, raw)
				if !bytes.Equal(raw, spelled) || !bytes.Equal(raw, again) {
					t.Fatalf("%q and %d times %q: got %q, escaped %q, again %q", first, n, marks, raw, spelled, again)
				}
			}
		}
	}
}

func FuzzCanonical(f *testing.F) {
	g := newGardener(5)
	g.wild = true
	for range 50 {
		f.Add([]byte(g.text(g.grow(3))))
	}
	f.Add([]byte("\"a" + strings.Repeat("\u0301\u0323", 40) + "\"")) // more marks than x/text lets stand together
	f.Fuzz(func(t *testing.T, doc []byte) {
		once, err := Canonical(doc)
		if valid := isJSON(doc); err != nil {
			if valid {
				t.Fatalf("%q: %v", doc, err)
			}
			return
		}
		if !json.Valid(once) {
			t.Fatalf("%q: came to %q, which is not JSON", doc, once)
		}
		if twice, err := Canonical(once); err != nil || !bytes.Equal(twice, once) {
			t.Fatalf("%q\n came to %q\n and then to %q, %v", doc, once, twice, err)
		}
	})
}

func BenchmarkCanonicalMiB(b *testing.B) {
	doc := []byte("[" + strings.Repeat(`{"user":42,"a":"b\n\u00e9","zzz":[1,2.5,null]},`, maxBytes/48) + "1]")
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := Canonical(doc); err != nil {
			b.Fatal(err)
		}
	}
}
