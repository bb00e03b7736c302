package cronfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// MaxBytes is how long a file of schedules may be.
const MaxBytes = 1 << 20

// Source is the [job.CronSpec.Source] of schedules that come from a file.
const Source = "file"

// File is what a file of schedules says.
type File struct {
	Name    string
	Entries []*Entry
}

// Entry is one schedule of a file. Err is why it is refused, with the name of
// the file and the line; then Spec and Schedule must not be used.
type Entry struct {
	Line     int
	Name     string // empty when it cannot be read
	Label    string // the name, or "entry N" without one
	Spec     job.CronSpec
	Schedule cronsched.Spec
	Err      error
}

// Parse reads the text of a file in YAML or JSON; name is what errors call it.
// An error is about the whole file. What is wrong with one entry is in its Err.
func Parse(name string, raw []byte) (*File, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	isJSON := json.Valid(raw)
	switch {
	case len(raw) > MaxBytes:
		return nil, fmt.Errorf("%s is larger than 1 MiB, the limit for a file of schedules", name)
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("%s is not in UTF-8", name)
	case isJSON:
		raw = bytes.ReplaceAll(raw, []byte("\t"), []byte(" ")) // never inside a string of JSON, and not white space everywhere in YAML
	case strings.EqualFold(filepath.Ext(name), ".json") && len(bytes.TrimSpace(raw)) > 0:
		return nil, wording.BadJSON(name, raw)
	}
	body, err := parse(name, raw)
	if err != nil {
		quoted := quoteExpressions(raw)
		again, failed := parse(name, quoted)
		if bytes.Equal(raw, quoted) || failed != nil {
			return nil, err
		}
		body = again
	}
	f := &File{Name: name}
	if err := f.read(body); err != nil {
		return nil, err
	}
	f.refuseTwins()
	return f, nil
}

// Specs are the schedules of the file, without those that are refused; the error
// joins why those are.
func (f *File) Specs() ([]job.CronSpec, error) {
	var specs []job.CronSpec
	var errs []error
	for _, e := range f.Entries {
		if errs = append(errs, e.Err); e.Err == nil {
			specs = append(specs, e.Spec)
		}
	}
	return specs, errors.Join(errs...)
}

// read takes the members of the file: crons, and those that begin with x-, which
// are a place for anchors.
func (f *File) read(body ast.Node) error {
	top, ok := body.(*ast.MappingNode)
	if !ok {
		return f.noCrons()
	}
	d := newDecoder()
	found := false
	for _, m := range top.Values {
		at, name := m.Key.GetToken().Position.Line, m.Key.GetToken().Value
		list, isList := m.Value.(*ast.SequenceNode)
		switch {
		case strings.HasPrefix(name, "x-"):
			_, _ = d.value(m.Value) // for its anchors; an entry that needs one that is wrong will miss it
		case name != "crons" && wording.Nearest(name, []string{"crons"}) != "":
			return fmt.Errorf("%s:%d: %.80q is not known here; did you mean crons?", f.Name, at, name)
		case name != "crons":
			return fmt.Errorf("%s:%d: %.80q is not known here; the file is one object with crons, a list of schedules", f.Name, at, name)
		case !isList:
			return fmt.Errorf("%s:%d: crons must be a list; for none write crons: []", f.Name, at)
		default:
			found = true
			for _, n := range list.Values {
				f.take(d, n)
			}
		}
	}
	if !found {
		return f.noCrons()
	}
	return nil
}

// noCrons is the error of a file without a list of schedules. It is no list of
// none: a file that was cut short would remove every schedule.
func (f *File) noCrons() error {
	return fmt.Errorf("%s has no crons:, a list of schedules; for none write crons: []", f.Name)
}

// take reads an entry and adds it to the file.
func (f *File) take(d *decoder, n ast.Node) {
	e := &Entry{Line: lineOf(n)}
	if s, ok := find(n, "name").(*ast.StringNode); ok {
		e.Name = s.Value
	}
	v, err := d.value(n)
	if err == nil {
		err = e.read(n, v)
	}
	if err != nil {
		at, text := e.Line, err.Error()
		var m *misplaced
		if errors.As(err, &m) {
			at = m.line
		}
		if fault := faultIn(err, nil); fault != nil {
			text = fault.Report()
		}
		e.Err = fmt.Errorf("%s:%d: %s", f.Name, at, text)
	}
	f.Entries = append(f.Entries, e)
	if e.Label = e.Name; e.Label == "" {
		e.Label = fmt.Sprintf("entry %d", len(f.Entries))
	}
}

// refuseTwins refuses the second entry of a name. The first one counts, also
// when it is refused itself: nobody knows which of them is meant.
func (f *File) refuseTwins() {
	first := map[string]*Entry{}
	for _, e := range f.Entries {
		if e.Name == "" {
			continue
		}
		if one := first[e.Name]; one == nil {
			first[e.Name] = e
		} else {
			e.Err = fmt.Errorf("%s:%d: line %d has an entry with the same name; only that one counts", f.Name, e.Line, one.Line)
		}
	}
}
