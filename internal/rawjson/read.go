package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Error is why a valid value cannot be read as it was asked for.
type Error struct {
	Need  string // "object" or "array", if the value is another; else empty
	Got   string // what it is instead, as Kind says it
	Twice string // else the name that an object holds twice
}

// Error says what is wrong.
func (e *Error) Error() string {
	if e.Need == "" {
		return e.Twice + " is given twice in one object"
	}
	return "a JSON " + e.Need + " is needed, got " + e.Got
}

// Names is a table of names that are met often: to read one of them allocates nothing.
// It may be nil.
type Names map[string]string

// Members calls fn for each member of a valid JSON object in order, with the decoded
// name and the raw value, until fn returns an error, which it returns. An [Error] is
// returned for a value that is no object, and for a name that comes twice, before fn
// would see it again: two readers must not see two objects.
func (t Names) Members(raw []byte, fn func(name string, value json.RawMessage) error) error {
	var seen seenNames
	return Walk(raw, func(quoted, value json.RawMessage) error {
		name := t.Unquote(quoted)
		if seen.again(name) {
			return &Error{Twice: name}
		}
		return fn(name, value)
	})
}

// Set is the set of the names of a valid object, nil for none.
func (t Names) Set(obj json.RawMessage) map[string]bool {
	if len(obj) <= 2 {
		return nil
	}
	names := map[string]bool{}
	_ = Walk(obj, func(quoted, _ json.RawMessage) error { // what is no object has no names
		names[t.Unquote(quoted)] = true
		return nil
	})
	return names
}

// Walk calls fn for each member of a valid JSON object in order, with its name as it is
// written, until fn returns an error, which it returns. A name may come twice. An
// [Error] is returned for a value that is no object.
func Walk(raw []byte, fn func(quoted, value json.RawMessage) error) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return &Error{Need: "object", Got: Kind(bytes.TrimSpace(raw[i:]))}
	}
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		end := skipValue(raw, i)
		quoted := raw[i:end:end]
		i = skipSpace(raw, skipSpace(raw, end)+1) // over the colon
		end = skipValue(raw, i)
		if err := fn(quoted, raw[i:end:end]); err != nil {
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

// Elements calls fn for each element of a valid JSON array in order, until fn returns
// an error, which it returns. An [Error] is returned for a value that is no array.
func Elements(raw []byte, fn func(i int, value json.RawMessage) error) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return &Error{Need: "array", Got: Kind(bytes.TrimSpace(raw[i:]))}
	}
	i = skipSpace(raw, i+1)
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

// First is the first element of a valid array, nil for none. What is no array has none.
func First(raw json.RawMessage) json.RawMessage {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return nil
	}
	if i = skipSpace(raw, i+1); raw[i] == ']' {
		return nil
	}
	return raw[i:skipValue(raw, i)]
}

// Has reports whether a valid object has a member of that name.
func Has(obj json.RawMessage, name string) bool { return Member(obj, name) != nil }

// Member is the value of the first member of that name, nil for none. An empty obj has
// no members.
func Member(obj json.RawMessage, name string) (value json.RawMessage) {
	if len(obj) > 2 {
		_ = Walk(obj, func(quoted, v json.RawMessage) error { // what is no object has no members
			if value == nil && is(quoted, name) {
				value = v
			}
			return nil
		})
	}
	return value
}

// is reports whether a JSON string holds s.
func is(quoted []byte, s string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == s
	}
	return Unquote(quoted) == s
}

// Without is a valid object less the members of one name.
func Without(obj json.RawMessage, drop string) json.RawMessage {
	w := Object(make([]byte, 0, len(obj)))
	_ = Walk(obj, func(quoted, v json.RawMessage) error { // what is no object has no members
		if name := Unquote(quoted); name != drop {
			w.Quoted(name, v)
		}
		return nil
	})
	return w.Close()
}

// skipSpace is where the white space at raw[i:] has ended.
func skipSpace(raw []byte, i int) int {
	for i < len(raw) && space[raw[i]] {
		i++
	}
	return i
}

// skipValue is where the valid value that begins at raw[i] has ended.
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

// Unquote is what a valid JSON string holds; half a surrogate pair becomes U+FFFD.
func Unquote(quoted []byte) string { return Names(nil).Unquote(quoted) }

// Unquote is [Unquote], and takes what the table holds from there.
func (t Names) Unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		if name, ok := t[string(quoted[1:len(quoted)-1])]; ok {
			return name
		}
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is a valid string
	return s
}

// Integer is a JSON number without a fraction, in whatever notation: "1e2" is 100. One
// that is not written as an integer counts up to 2^53.
func Integer(v []byte) (n int64, ok bool) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Kind names the type of a valid value for a person.
func Kind(raw []byte) string {
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
