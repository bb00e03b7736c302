package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"
	"unicode/utf8"
)

// Each tool against a plain reading with encoding/json.

// values are the seeds of every target that reads: objects, arrays and neither, names
// that come twice or need to be decoded, and white space wherever it may stand.
var values = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":1,"b":[{"a":2}],"c":"}"}`, " {\t\"a\" : 1 ,\n\"\\u0061\" : 2 } ", `{"":{"":""},"\"":"\\\""}`,
	`{"é":1,"e\u0301":2,"\ud800":3,"\udc00":4}`, `{"<&>":true,"\u2028":false}`, `{"a":null,"a":null,"b":1}`,
	`{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,"l":11,"m":12,"n":13,"o":14,"p":15,"q":16,"r":17,"q":18}`,
	`{"a":["}\"]",{"b":"[{"}],"c":1}`, `[["]"],["\"["]]`,
	`[]`, ` [ ] `, `[1]`, "[ 1 ,\r\n-2.5e+7, \"[\\\"],\", {\"a\":[]} , null]", `[[[]],{},[{}]]`,
	`null`, ` true `, `"a\\"`, `-0.5E9`, `123456789012345678901234567890`,
}

// addValues adds the seeds with a name beside them.
func addValues(f *testing.F) {
	for _, v := range values {
		f.Add([]byte(v), "a")
	}
	f.Add([]byte(`{"\u00e9":1,"x":2}`), "é")
	f.Add([]byte(`{"\ud800":1}`), "�")
}

// member is one of an object, as the plain reading has it.
type member struct{ name, value string }

// readObject is the plain reading of an object; ok is false for what is none.
func readObject(t *testing.T, raw []byte) (all []member, ok bool) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			t.Fatalf("%q: encoding/json: %v", raw, err)
		}
		all = append(all, member{name.(string), string(value)})
	}
	return all, true
}

// checkNeed reports an error that is not that of a value of another kind.
func checkNeed(t *testing.T, raw []byte, err error, need string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Need != need || e.Got != Kind(bytes.TrimSpace(raw)) || e.Twice != "" {
		t.Fatalf("%q: got %v, want an error that needs an %s", raw, err, need)
	}
}

func FuzzMembers(f *testing.F) {
	addValues(f)
	table := Names{"a": "a", "é": "é"}
	f.Fuzz(func(t *testing.T, raw []byte, _ string) {
		if !isJSON(raw) {
			t.Skip()
		}
		want, object := readObject(t, raw)
		var got []member
		err := table.Members(raw, func(name string, v json.RawMessage) error {
			got = append(got, member{name, string(v)})
			return nil
		})
		if !object {
			checkNeed(t, raw, err, "object")
			return
		}
		seen := map[string]bool{}
		twice := slices.IndexFunc(want, func(m member) bool {
			again := seen[m.name]
			seen[m.name] = true
			return again
		})
		if twice < 0 {
			twice = len(want)
		}
		if !slices.Equal(got, want[:twice]) {
			t.Fatalf("%q: got %q, want %q", raw, got, want[:twice])
		}
		if e, ok := err.(*Error); twice < len(want) && (!ok || e.Twice != want[twice].name) || twice == len(want) && err != nil {
			t.Fatalf("%q: got %v", raw, err)
		}
	})
}

func FuzzElements(f *testing.F) {
	addValues(f)
	f.Fuzz(func(t *testing.T, raw []byte, _ string) {
		if !isJSON(raw) {
			t.Skip()
		}
		var got, want []json.RawMessage
		err := Elements(raw, func(i int, v json.RawMessage) error {
			if i != len(got) {
				t.Fatalf("%q: element %d comes as %d", raw, len(got), i)
			}
			got = append(got, v)
			return nil
		})
		if bytes.TrimSpace(raw)[0] != '[' {
			checkNeed(t, raw, err, "array")
			return
		}
		if err != nil || json.Unmarshal(raw, &want) != nil || !slices.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%q: got %q, %v, want %q", raw, got, err, want)
		}
		if first := First(raw); len(want) == 0 && first != nil || len(want) > 0 && !bytes.Equal(first, want[0]) {
			t.Fatalf("%q: the first is %q", raw, first)
		}
	})
}

func FuzzCutting(f *testing.F) {
	addValues(f)
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		if !isJSON(raw) {
			t.Skip()
		}
		all, _ := readObject(t, raw)
		var left []member
		var value json.RawMessage
		names := map[string]bool{}
		for _, m := range all {
			names[m.name] = true
			if m.name != name {
				left = append(left, m)
			} else if value == nil {
				value = json.RawMessage(m.value)
			}
		}
		if got := Member(raw, name); !bytes.Equal(got, value) || Has(raw, name) != (value != nil) {
			t.Fatalf("%q has %q at %q, want %q", raw, got, name, value)
		}
		if got := Names(nil).Set(raw); len(got) != len(names) || slices.ContainsFunc(all, func(m member) bool { return !got[m.name] }) {
			t.Fatalf("%q has the names %v, want %v", raw, got, names)
		}
		cut := Without(raw, name)
		if got, ok := readObject(t, cut); !ok || !json.Valid(cut) || !slices.Equal(got, left) {
			t.Fatalf("%q less %q is %q, want %q", raw, name, cut, left)
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", `"\/`, "\x00\x1f\x7f\n", "é\u2028<&>", "\xff", "a\xc3", "�"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := AppendString([]byte("before"), s)
		text, kept := bytes.CutPrefix(b, []byte("before"))
		var back string
		if err := json.Unmarshal(text, &back); !kept || err != nil {
			t.Fatalf("%q is written as %q: %v", s, b, err)
		}
		if want := string([]rune(s)); back != want || Unquote(text) != want || Halved(text) {
			t.Fatalf("%q is written as %q, which is %q", s, text, back)
		}
	})
}

func FuzzWriter(f *testing.F) {
	for i, v := range values {
		f.Add([]byte(v), "a", int64(i)*1e12-5e12, i%2 == 0)
	}
	f.Add([]byte(`{"x":[1]}`), "\x00\"é{[", int64(-1), true)
	f.Fuzz(func(t *testing.T, raw []byte, s string, n int64, yes bool) {
		if !isJSON(raw) || !utf8.ValidString(s) || len(raw) > 1000 {
			t.Skip()
		}
		const head = `[{"not":"ours"}`
		at := time.UnixMilli(n % 1e14)
		w := Object([]byte(head))
		w.Optional("optional", s).Time("zero", time.Time{}).Raw("nil", nil)
		w.Str("str", s).Int("int", n).Bool("bool", yes).Time("time", at).Null("null").Raw("raw", raw)
		w.Object("empty").End()
		w.Object("object").Quoted("q"+s, raw).Splice(raw).End()
		w.Array("array")
		w.Begin().Int("n", n).End()
		w.Element()
		w = append(w, raw...)
		w.EndArray()
		Strings(&w, "strings", []string{s, ""})
		w.Object("more").End().Reopen().Int("a", 1).End().Reopen().Int("b", 2).End()
		text, kept := bytes.CutPrefix(w.Close(), []byte(head))
		var got struct {
			Optional, Str   string
			Zero, Nil, Null json.RawMessage
			Int             int64
			Bool            bool
			Time            string
			Raw, Empty      json.RawMessage
			Object, More    json.RawMessage
			Array           []json.RawMessage
			Strings         []string
		}
		if err := json.Unmarshal(text, &got); err != nil || !kept {
			t.Fatalf("%q: %v", w, err)
		}
		if got.Optional != s || got.Str != s || got.Int != n || got.Bool != yes || !slices.Equal(got.Strings, []string{s, ""}) ||
			got.Zero != nil || got.Nil != nil || string(got.Null) != "null" || string(got.Empty) != "{}" || string(got.More) != `{"a":1,"b":2}` || got.Time != at.UTC().Format(TimeFormat) {
			t.Fatalf("got %+v of %s", got, text)
		}
		value := string(bytes.TrimSpace(raw))
		members := []member{{"q" + s, value}}
		if value[0] == '{' {
			more, _ := readObject(t, raw)
			members = append(members, more...)
		}
		if o, _ := readObject(t, got.Object); string(got.Raw) != value || value[0] == '{' && !slices.Equal(o, members) || len(got.Array) != 2 || string(got.Array[1]) != value {
			t.Fatalf("got %s of %s", text, raw)
		}
	})
}
