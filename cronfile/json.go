package cronfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// cursor follows a text from one of its parts to the next, and counts the lines.
type cursor struct {
	rest []byte
	line int
}

// next passes a part of the text, and is the line where that begins. Between it
// and the part before must be nothing but white space and punctuation.
func (c *cursor) next(part []byte) (line int) {
	begin := bytes.Index(c.rest, part)
	line = c.line + bytes.Count(c.rest[:begin], []byte("\n"))
	c.line = line + bytes.Count(part, []byte("\n"))
	c.rest = c.rest[begin+len(part):]
	return line
}

// readJSON takes the members of a file that is valid JSON.
func (f *File) readJSON(raw []byte) error {
	c := cursor{raw, 1}
	found := false
	err := rawjson.Walk(raw, func(quoted, list json.RawMessage) error {
		at := c.next(quoted)
		entries := cursor{list, c.next(list)}
		switch isCrons, err := f.member(rawjson.Unquote(quoted), at, list[0] == '['); {
		case err != nil || !isCrons:
			return err
		case found:
			return fmt.Errorf("%s:%d: crons comes twice", f.Name, at)
		}
		found = true
		return rawjson.Elements(list, func(_ int, entry json.RawMessage) error {
			f.takeJSON(entry, entries.next(entry))
			return nil
		})
	})
	if _, noObject := err.(*rawjson.Error); noObject || err == nil && !found {
		return f.noCrons()
	}
	return err
}

// takeJSON reads an entry that begins in a line, and adds it to the file.
func (f *File) takeJSON(raw json.RawMessage, line int) {
	e := &Entry{Line: line}
	if raw[0] == '{' {
		e.Name, _ = plain(rawjson.Member(raw, "name")).(string)
	}
	v, err := jsonEntry(raw, line)
	f.take(e, func(path ...string) int { return lineIn(raw, line, path) }, v, err)
}

// jsonEntry is an entry as [Entry.read] takes it. What goes into the job is raw,
// so that it keeps every byte.
func jsonEntry(raw json.RawMessage, line int) (any, error) {
	if err := job.CheckJSON(raw); err != nil {
		return nil, err // it is nested too deep
	}
	if err := refuseTwice(raw, line); err != nil || raw[0] != '{' {
		return nil, err
	}
	entry := members(raw)
	for name, v := range entry {
		switch value, given := v.(json.RawMessage); {
		case !given || slices.Contains(templateKeys, name):
		case name == "job_template" && value[0] == '{':
			entry[name] = members(value)
		default:
			entry[name] = plain(value)
		}
	}
	return entry, nil
}

// members are the raw members of a valid object; those that are null are nil.
func members(obj json.RawMessage) map[string]any {
	m := map[string]any{}
	_ = rawjson.Walk(obj, func(quoted, value json.RawMessage) error { // no error comes from below
		if m[rawjson.Unquote(quoted)] = value; value[0] == 'n' {
			m[rawjson.Unquote(quoted)] = nil
		}
		return nil
	})
	return m
}

// plain is what a valid value stands for, nil for none.
func plain(value json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	_ = d.Decode(&v) // it is valid, or there is none
	return v
}

// refuseTwice refuses a name that an object, or one that is a member of it, holds
// twice. In args and meta it may: nobody but the job's handler reads those.
func refuseTwice(raw json.RawMessage, line int) error {
	if raw[0] != '{' {
		return nil
	}
	c := cursor{raw, line}
	seen := map[string]bool{}
	return rawjson.Walk(raw, func(quoted, value json.RawMessage) error {
		name, at := rawjson.Unquote(quoted), c.next(quoted)
		if seen[name] {
			return &misplaced{at, fmt.Errorf("%.80q comes twice in one object", name)}
		}
		seen[name] = true
		if below := c.next(value); name != "args" && name != "meta" {
			return refuseTwice(value, below)
		}
		return nil
	})
}

// lineIn is the line of the value under a path of names in a value that begins in
// a line, 0 if there is none.
func lineIn(raw json.RawMessage, line int, path []string) (found int) {
	if len(path) == 0 {
		return line
	}
	if raw[0] != '{' {
		return 0
	}
	c := cursor{raw, line}
	_ = rawjson.Walk(raw, func(quoted, value json.RawMessage) error { // no error comes from below
		c.next(quoted)
		if below := c.next(value); found == 0 && rawjson.Unquote(quoted) == path[0] {
			found = lineIn(value, below, path[1:])
		}
		return nil
	})
	return found
}
