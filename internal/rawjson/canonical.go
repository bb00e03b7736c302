package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
	"golang.org/x/text/unicode/norm"
)

// The canonical form is RFC 8785 (ojs-unique-jobs.md §4.1) with the additions of
// contract §4.10. jcs sorts, escapes and writes numbers; it refuses three things
// that a job may hold, so a tidier goes over the text before it:
//
//   - a name that comes twice in an object: the last one counts;
//   - half of a surrogate pair: it stays what it is, as \ud800, for two halves are
//     two values (ojs-unique-jobs.md §3.3);
//   - a number beyond float64, such as 1e400: its literal stays, in lower case.
//
// The tidier also brings strings and names into NFC, and keeps the digits of
// numbers beyond 2^53 that float64 would merge with their neighbours. NFC is that
// of x/text, which sets U+034F into a run of more than 30 combining marks. Names
// with half a pair come in an order of their own: before all but "" and those that
// begin with U+0000.

// Canonical is the canonical form of one JSON value. An error means that raw is not
// JSON. It takes time linear in the size of raw, but for the sorting.
func Canonical(raw []byte) ([]byte, error) {
	if _, ok := Valid(raw); !ok || !utf8.Valid(raw) {
		return nil, errors.New("the JSON is not valid")
	}
	if out, ok := simple(raw); ok {
		return out, nil
	}
	t := tidier{raw: raw, out: make([]byte, 0, len(raw)+len(raw)/8)}
	t.value(skipSpace(raw, 0))
	out, err := jcs.Transform(t.rest())
	if err != nil {
		return nil, fmt.Errorf("canonicalize JSON: %w", err)
	}
	if t.marked {
		out = unmark(out)
	}
	return out, nil
}

// mark is how U+0000 is written, with which a string begins that stands for what
// jcs must not see: for a number, or with an s behind it for a string that holds
// half a pair. A string that begins with U+0000 by itself is given one more, so
// that they are never mixed up and names keep their order.
const mark = `\u0000`

// tidier rewrites raw into JSON that jcs takes. Its strings have no needless
// escapes, so two names are equal if, and only if, they are written equally.
type tidier struct {
	raw, out []byte
	drop     []span // members of out that a later one of the same name replaces
	marked   bool   // out holds a string that begins with mark
}

// span is a part of out.
type span struct{ start, end int }

// value writes the value that starts at i and returns the index behind it.
func (t *tidier) value(i int) int {
	switch t.raw[i] {
	case '{':
		return t.object(i)
	case '[':
		return t.array(i)
	}
	end := skipValue(t.raw, i)
	v := t.raw[i:end]
	if v[0] == '"' {
		t.text(v)
	} else if digits := exact(v); digits != nil {
		t.marked = true
		t.out = append(append(append(t.out, '"'), mark...), digits...)
		t.out = append(t.out, '"')
	} else {
		t.out = append(t.out, v...)
	}
	return end
}

func (t *tidier) array(i int) int {
	t.out = append(t.out, '[')
	for i = skipSpace(t.raw, i+1); t.raw[i] != ']'; {
		i = t.comma(t.value(i))
	}
	t.out = append(t.out, ']')
	return i + 1
}

func (t *tidier) object(i int) int {
	t.out = append(t.out, '{')
	seen := map[string]span{}
	for i = skipSpace(t.raw, i+1); t.raw[i] != '}'; {
		start, end := len(t.out), skipValue(t.raw, i)
		t.text(t.raw[i:end])
		name := string(t.out[start:])
		t.out = append(t.out, ':')
		i = t.comma(t.value(skipSpace(t.raw, skipSpace(t.raw, end)+1)))
		if old, ok := seen[name]; ok {
			t.drop = append(t.drop, old) // with its comma: it is not the last
		}
		seen[name] = span{start, len(t.out)}
	}
	t.out = append(t.out, '}')
	return i + 1
}

// comma copies the comma behind a value, if there is one, and returns the index
// of what comes next.
func (t *tidier) comma(i int) int {
	if i = skipSpace(t.raw, i); t.raw[i] != ',' {
		return i
	}
	t.out = append(t.out, ',')
	return skipSpace(t.raw, i+1)
}

// text writes a JSON string in NFC, with those escapes only that it needs.
func (t *tidier) text(v []byte) {
	if bytes.IndexByte(v, '\\') < 0 && norm.NFC.IsNormal(v) {
		t.out = append(t.out, v...)
		return
	}
	if Halved(v) {
		t.marked = true
		t.out = appendQuoted(append(append(t.out, '"'), mark+"s"...), appendHalves(nil, v))
		t.out = append(t.out, '"')
		return
	}
	s := Unquote(v) // it is valid JSON
	s = norm.NFC.String(s)
	t.out = append(t.out, '"')
	if strings.HasPrefix(s, "\x00") {
		t.marked = true
		t.out = append(t.out, mark...)
	}
	t.out = append(appendQuoted(t.out, []byte(s)), '"')
}

// appendQuoted writes s with those escapes only that a JSON string needs.
func appendQuoted(dst, s []byte) []byte {
	for _, c := range s {
		switch {
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', '0'+c>>4, "0123456789abcdef"[c&15])
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// rest is out without the members that were replaced. One may lie within another.
func (t *tidier) rest() []byte {
	if t.drop == nil {
		return t.out
	}
	slices.SortFunc(t.drop, func(a, b span) int { return a.start - b.start })
	kept, from := make([]byte, 0, len(t.out)), 0
	for _, s := range t.drop {
		if s.start >= from {
			kept = append(kept, t.out[from:s.start]...)
			from = s.end
		}
	}
	return append(kept, t.out[from:]...)
}

// unmark puts what a tidier has marked back into canonical text. A quotation mark
// within a string has a backslash before it, and the one that ends a string has
// none behind it: every other one before a mark begins a string of the tidier's.
func unmark(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for {
		i := bytes.Index(text, []byte(`"`+mark))
		if i < 0 {
			return append(out, text...)
		}
		body := text[i+1+len(mark):]
		switch {
		case i > 0 && text[i-1] == '\\':
			out, text = append(out, text[:i+1]...), text[i+1:]
		case bytes.HasPrefix(body, []byte(mark)):
			out, text = append(out, text[:i+1]...), body
		case body[0] == 's':
			out = append(append(out, text[:i]...), '"')
			end := skipValue(text, i)
			for in := text[i+1+len(mark)+1 : end-1]; len(in) > 0; in = in[1:] {
				if in[0] == '\\' {
					in = in[1:]
				}
				out = append(out, in[0])
			}
			out, text = append(out, '"'), text[end:]
		default:
			end := bytes.IndexByte(body, '"')
			out = append(append(out, text[:i]...), body[:end]...)
			text = body[end+1:]
		}
	}
}
