package cronfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

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
	f := &File{Name: name}
	var err error
	switch {
	case len(raw) > MaxBytes:
		return nil, fmt.Errorf("%s is larger than 1 MiB, the limit for a file of schedules", name)
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("%s is not in UTF-8", name)
	case json.Valid(raw):
		err = f.readJSON(raw)
	case strings.EqualFold(filepath.Ext(name), ".json") && len(bytes.TrimSpace(raw)) > 0:
		err = wording.BadJSON(name, raw)
	default:
		err = f.readYAML(raw)
	}
	if err != nil {
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

// member reports whether a member of the file is its list of schedules, and
// refuses what no file has. Members that begin with x- are a place for anchors.
func (f *File) member(name string, line int, isList bool) (isCrons bool, err error) {
	switch {
	case strings.HasPrefix(name, "x-"):
		return false, nil
	case name != "crons" && wording.Nearest(name, []string{"crons"}) != "":
		return false, fmt.Errorf("%s:%d: %.80q is not known here; did you mean crons?", f.Name, line, name)
	case name != "crons":
		return false, fmt.Errorf("%s:%d: %.80q is not known here; the file is one object with crons, a list of schedules", f.Name, line, name)
	case !isList:
		return false, fmt.Errorf("%s:%d: crons must be a list; for none write crons: []", f.Name, line)
	}
	return true, nil
}

// noCrons is the error of a file without a list of schedules. It is no list of
// none: a file that was cut short would remove every schedule.
func (f *File) noCrons() error {
	return fmt.Errorf("%s has no crons:, a list of schedules; for none write crons: []", f.Name)
}

// take reads an entry from its value v and adds it to the file; err is why there
// is no value.
func (f *File) take(e *Entry, at lines, v any, err error) {
	if err == nil {
		err = e.read(at, v)
	}
	if err != nil {
		line := e.Line
		var m *misplaced
		if errors.As(err, &m) {
			line = m.line
		}
		e.Err = fmt.Errorf("%s:%d: %s", f.Name, line, report(err, nil))
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
