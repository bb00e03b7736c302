package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// A body is checked once, whole, by CheckJSON. Everything after that may trust
// it to be well formed, and cuts it into members without decoding them.

// CheckJSON refuses what is not one JSON value: invalid UTF-8, a syntax error,
// trailing data, nesting deeper than MaxDepth. The error is Malformed, or
// Invalid for the depth, and says where.
func CheckJSON(raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return Errorf(Malformed, "the JSON is empty")
	}
	if !utf8.Valid(raw) {
		i := 0
		for i < len(raw) {
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		return Errorf(Malformed, "the JSON is not valid UTF-8 at byte %d", i)
	}
	deep, ok := rawjson.Valid(raw)
	if !ok {
		var v any
		err := json.Unmarshal(raw, &v)
		at := int64(len(raw))
		if s, ok := err.(*json.SyntaxError); ok {
			at = s.Offset
		}
		return Errorf(Malformed, "the JSON is not valid at byte %d: %v", at, err)
	}
	if deep > MaxDepth {
		return Errorf(Invalid, "the JSON is nested deeper than %d levels", MaxDepth)
	}
	return nil
}

// Members calls fn for each member of a valid JSON object in order, with the
// decoded name and the raw value, until fn returns an error. A name that comes
// twice is Invalid: two readers must not see two jobs. A value that is not an
// object is Malformed.
func Members(raw []byte, fn func(name string, value json.RawMessage) error) error {
	return walk(raw, true, fn)
}

// walk is Members, for objects in which a name may come twice where once is false.
func walk(raw []byte, once bool, fn func(name string, value json.RawMessage) error) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return Errorf(Malformed, "a JSON object is needed, got %s", kindOfJSON(raw))
	}
	var seen seenNames
	i := skipSpace(raw, 1)
	for raw[i] != '}' {
		end := skipValue(raw, i)
		name, err := unquote(raw[i:end])
		if err != nil {
			return err
		}
		if once && seen.again(name) {
			return invalid(Invalid, name, "is given twice in one object")
		}
		i = skipSpace(raw, skipSpace(raw, end)+1) // over the colon
		end = skipValue(raw, i)
		if err := fn(name, raw[i:end:end]); err != nil {
			return err
		}
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// seenNames is a set that costs nothing for the few names of an honest object,
// and stays quick for the thousands of a hostile one.
type seenNames struct {
	room [16]string
	n    int
	more map[string]bool
}

// again adds a name and reports whether it was there.
func (s *seenNames) again(name string) bool {
	for _, old := range s.room[:s.n] {
		if old == name {
			return true
		}
	}
	if s.n < len(s.room) {
		s.room[s.n] = name
		s.n++
		return false
	}
	if s.more == nil {
		s.more = map[string]bool{}
	}
	if s.more[name] {
		return true
	}
	s.more[name] = true
	return false
}

// Elements calls fn for each element of a valid JSON array in order. A value
// that is not an array is Invalid.
func Elements(raw []byte, fn func(i int, value json.RawMessage) error) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return Errorf(Invalid, "a JSON array is needed, got %s", kindOfJSON(raw))
	}
	i := skipSpace(raw, 1)
	for n := 0; raw[i] != ']'; n++ {
		end := skipValue(raw, i)
		if err := fn(n, raw[i:end:end]); err != nil {
			return err
		}
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// names holds the member names of the specification, so that reading one allocates nothing.
var names = func() map[string]string {
	m := map[string]string{}
	for _, set := range []map[string]bool{known, system, answered, echoed} {
		for name := range set {
			m[name] = name
		}
	}
	for _, name := range []string{"job_id", "worker_id", "queues", "count", "lease_token", DefaultQueue} {
		m[name] = name
	}
	return m
}()

// hasMember reports whether a small object has a member of that name.
func hasMember(obj json.RawMessage, name string) bool {
	return memberOf(obj, name) != nil
}

// memberOf is the value of a member of a small object, nil for none.
func memberOf(obj json.RawMessage, name string) (value json.RawMessage) {
	if len(obj) > 2 {
		_ = Members(obj, func(n string, v json.RawMessage) error { // Extra was written by this package
			if n == name {
				value = v
			}
			return nil
		})
	}
	return value
}

// memberNames is the set of names of a small object, nil for none.
func memberNames(obj json.RawMessage) map[string]bool {
	if len(obj) <= 2 {
		return nil
	}
	names := map[string]bool{}
	_ = Members(obj, func(name string, _ json.RawMessage) error { // Extra was written by this package
		names[name] = true
		return nil
	})
	return names
}

// without is the object less one member.
func without(obj json.RawMessage, drop string) json.RawMessage {
	o := newObject(make([]byte, 0, len(obj)))
	_ = Members(obj, func(name string, v json.RawMessage) error {
		if name != drop {
			o.quoted(name, v)
		}
		return nil
	})
	return o.close()
}

// quoted adds a member whose name may need escapes.
func (o *object) quoted(name string, v json.RawMessage) {
	if len(o.b) > o.start {
		o.b = append(o.b, ',')
	}
	o.b = append(AppendString(o.b, name), ':')
	o.b = append(o.b, v...)
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// skipValue is the index behind the value that starts at i.
func skipValue(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		for i++; raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		return i + 1
	case '{', '[':
		for level := 0; ; i++ {
			switch raw[i] {
			case '"':
				i = skipValue(raw, i) - 1
			case '{', '[':
				level++
			case '}', ']':
				if level--; level == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(raw) && raw[i] != ',' && raw[i] != '}' && raw[i] != ']' && raw[i] > ' ' {
		i++
	}
	return i
}

// unquote decodes a JSON string. The names of members come from a table: they
// are the same few in every body.
func unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		if name, ok := names[string(raw[1:len(raw)-1])]; ok {
			return name, nil
		}
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", Errorf(Malformed, "a member name is not a JSON string: %w", err)
	}
	return s, nil
}

// kindOfJSON names the type of a raw value for a person.
func kindOfJSON(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return fmt.Sprintf("the number %.20s", raw)
}
