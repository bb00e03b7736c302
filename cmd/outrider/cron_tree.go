package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// leaf is a value of a file, with its line. Values may be shared, as aliases share them.
type leaf struct {
	line    int
	kind    byte            // '{', '[', or 's' for all others
	raw     json.RawMessage // of an 's'
	members []pair
	items   []*leaf
}

// pair is a member of an object.
type pair struct {
	name string
	line int
	*leaf
}

// misplaced is a mistake and its line.
type misplaced struct {
	line int
	error
}

func (m *misplaced) Unwrap() error { return m.error }

// add adds a member, unless there is one of its name.
func (l *leaf) add(name string, line int, v *leaf) error {
	if l.of(name) != nil {
		return &misplaced{line, fmt.Errorf("%.80q comes twice in one object", name)}
	}
	if len(l.members) >= maxWide {
		return &misplaced{line, fmt.Errorf("an object has more than %d members", maxWide)}
	}
	l.members = append(l.members, pair{name, line, v})
	return nil
}

// of is the member of a name, or nil.
func (l *leaf) of(name string) *leaf {
	if l == nil {
		return nil
	}
	for _, m := range l.members {
		if m.name == name {
			return m.leaf
		}
	}
	return nil
}

// null reports whether the value is not given.
func (l *leaf) null() bool { return l == nil || string(l.raw) == "null" }

// errTooMuch is the mistake of a file whose aliases stand for too much.
var errTooMuch = errors.New("the aliases of the file stand for more than 4 MiB altogether")

// json adds the value to dst. left is how many more bytes all values of the file may have.
func (l *leaf) json(dst []byte, left *int) ([]byte, error) {
	if *left -= len(l.raw) + 1; *left < 0 {
		return dst, errTooMuch
	}
	var err error
	switch l.kind {
	case 's':
		return append(dst, l.raw...), nil
	case '[':
		dst = append(dst, '[')
		for i, v := range l.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = v.json(dst, left); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
	dst = append(dst, '{')
	for i, m := range l.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		*left -= len(m.name)
		dst = append(rawjson.AppendString(dst, m.name), ':')
		if dst, err = m.json(dst, left); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// jsonReader reads values of JSON with their lines.
type jsonReader struct {
	raw  []byte
	dec  *json.Decoder
	line int
	seen int // bytes whose lines are counted
}

func newJSONReader(raw []byte) *jsonReader {
	r := &jsonReader{raw: raw, dec: json.NewDecoder(bytes.NewReader(raw)), line: 1}
	r.dec.UseNumber()
	return r
}

// next is a token and its line. The text has been checked.
func (r *jsonReader) next() (json.Token, int) {
	t, _ := r.dec.Token()
	to := int(r.dec.InputOffset())
	r.line += bytes.Count(r.raw[r.seen:to], []byte("\n"))
	r.seen = to
	return t, r.line
}

// read is the value that begins with a token. A name that comes twice is told
// after all of the value has been read, so that what follows can be.
func (r *jsonReader) read(t json.Token, line int) (*leaf, error) {
	switch t := t.(type) {
	case json.Delim:
		l := &leaf{line: line, kind: byte(t)}
		var twice error
		for r.dec.More() {
			name := ""
			at := line
			if t == '{' {
				key, keyLine := r.next()
				name, at = key.(string), keyLine
			}
			v, err := r.read(r.next())
			switch {
			case err != nil:
			case t == '{':
				err = l.add(name, at, v)
			default:
				l.items = append(l.items, v)
			}
			if twice == nil {
				twice = err
			}
		}
		r.next()
		return l, twice
	case string:
		return textLeaf(line, t), nil
	}
	raw, err := json.Marshal(t)
	return &leaf{line: line, kind: 's', raw: raw}, err
}
