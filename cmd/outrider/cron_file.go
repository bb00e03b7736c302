package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// maxCronFile is how long a file of schedules may be.
const maxCronFile = 1 << 20

// fromFile is the Source of schedules that a file keeps.
const fromFile = "file"

// cronFile is a file of schedules.
type cronFile struct {
	name    string
	entries []*cronEntry
}

// loadCronFile reads a file of schedules, or with - standard input. Without a
// standard input it is the file of a server, which reads it again. An error is
// about all of it; what is wrong with one entry is kept with that.
func loadCronFile(name string, stdin io.Reader) (*cronFile, error) {
	shown, raw, err := name, []byte(nil), error(nil)
	if name == "-" {
		shown = "standard input"
		raw, err = io.ReadAll(io.LimitReader(stdin, maxCronFile+1))
	} else {
		raw, err = readFile(name, reading{limit: maxCronFile + 1, again: stdin == nil, devices: stdin != nil})
	}
	if err != nil {
		return nil, fmt.Errorf("read the schedules: %w", err)
	}
	return parseCronFile(shown, raw)
}

// parseCronFile reads the text of a file in YAML or JSON.
func parseCronFile(name string, raw []byte) (*cronFile, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(raw) > maxCronFile:
		return nil, fmt.Errorf("%s is longer than 1 MiB, as no file of schedules may be", name)
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("%s is not in UTF-8", name)
	case len(trimmed) == 0:
		return nil, noCrons(name)
	}
	f := &cronFile{name: name}
	var err error
	switch isJSON := json.Valid(raw); {
	case isJSON && trimmed[0] == '{':
		err = f.readJSON(raw)
	case isJSON || !strings.EqualFold(filepath.Ext(name), ".json"):
		err = f.readYAML(raw)
	default:
		err = checkText(name, raw)
	}
	if err != nil {
		return nil, err
	}
	f.refuseTwins()
	return f, nil
}

// noCrons is the error of a file without a list of schedules. It is no list of
// none: a file that was cut short would remove every schedule.
func noCrons(name string) error {
	return fmt.Errorf("%s has no crons:, a list of schedules; for none write crons: []", name)
}

// topLevel refuses a member of the whole file that is not known. Those that
// begin with x- are a place for anchors.
func (f *cronFile) topLevel(name string, line int) error {
	switch {
	case name == "crons" || strings.HasPrefix(name, "x-"):
		return nil
	case nearest(name, []string{"crons"}) != "":
		return fmt.Errorf("%s:%d: %.80q is not known here; did you mean crons?", f.name, line, name)
	}
	return fmt.Errorf("%s:%d: %.80q is not known here; the file is one object with crons, a list of schedules", f.name, line, name)
}

func (f *cronFile) readJSON(raw []byte) error {
	left := maxSpent
	r := newJSONReader(raw)
	r.next() // the {
	found := false
	for r.dec.More() {
		t, line := r.next()
		name, _ := t.(string)
		if err := f.topLevel(name, line); err != nil {
			return err
		}
		t, line = r.next()
		if name != "crons" {
			_, _ = r.read(t, line) // nothing refers to it
			continue
		}
		if t != json.Delim('[') {
			return fmt.Errorf("%s:%d: crons must be a list", f.name, line)
		}
		if found {
			return fmt.Errorf("%s:%d: crons comes twice", f.name, line)
		}
		for found = true; r.dec.More(); {
			t, line := r.next()
			l, err := r.read(t, line)
			e := &cronEntry{line: line}
			if l != nil {
				e.hint(l)
			}
			f.take(e, l, err, nil, &left)
		}
		r.next()
	}
	if !found {
		return noCrons(f.name)
	}
	return nil
}

func (f *cronFile) readYAML(raw []byte) error {
	body, err := parseYAML(f.name, raw)
	var bare map[int]bool
	if err != nil {
		quoted, lines := quoteExpressions(raw)
		again, failed := parseYAML(f.name, quoted)
		if len(lines) == 0 || failed != nil {
			return err
		}
		body, bare = again, lines
	}
	top, ok := body.(*ast.MappingNode)
	if !ok {
		return noCrons(f.name)
	}
	left := maxSpent
	y := &yamlReader{anchors: map[string]*leaf{}, left: &left}
	found := false
	for _, v := range top.Values {
		name, at := v.Key.GetToken().Value, v.Key.GetToken().Position.Line
		if err := f.topLevel(name, at); err != nil {
			return err
		}
		if name != "crons" {
			_, _ = y.read(v.Value) // for its anchors; who needs one that is wrong will miss it
			continue
		}
		list, ok := v.Value.(*ast.SequenceNode)
		switch {
		case !ok:
			return fmt.Errorf("%s:%d: crons must be a list; for none write crons: []", f.name, at)
		case found:
			return fmt.Errorf("%s:%d: crons comes twice", f.name, at)
		}
		found = true
		for _, n := range list.Values {
			e := &cronEntry{line: line(n), name: nameIn(n)}
			l, err := y.read(n)
			f.take(e, l, err, bare, &left)
		}
	}
	if !found {
		return noCrons(f.name)
	}
	return nil
}

// nameIn is the name of an entry, also of one that cannot be read.
func nameIn(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok {
		for _, v := range m.Values {
			if s, ok := v.Value.(*ast.StringNode); ok && v.Key.GetToken().Value == "name" {
				return s.Value
			}
		}
	}
	return ""
}

// take reads an entry and adds it to the file.
func (f *cronFile) take(e *cronEntry, l *leaf, err error, bare map[int]bool, left *int) {
	if err == nil {
		err = e.read(l, bare, left)
	}
	if err != nil {
		at, text := e.line, reported(err)
		var m *misplaced
		if errors.As(err, &m) {
			at = m.line
		}
		e.err = fmt.Errorf("%s:%d: %s", f.name, at, text)
	}
	f.entries = append(f.entries, e)
	if e.shown = e.name; e.shown == "" {
		e.shown = fmt.Sprintf("entry %d", len(f.entries))
	}
}

// refuseTwins refuses the second entry of a name. The first one counts, also
// when it is refused itself: nobody knows which of them is meant.
func (f *cronFile) refuseTwins() {
	first := map[string]*cronEntry{}
	for _, e := range f.entries {
		if e.name == "" {
			continue
		}
		if one := first[e.name]; one == nil {
			first[e.name] = e
		} else {
			e.err = fmt.Errorf("%s:%d: the entry in line %d has the same name; only that one counts", f.name, e.line, one.line)
			e.twin = true
		}
	}
}
