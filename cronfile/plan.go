package cronfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// Mark says what becomes of a schedule.
type Mark byte

// The marks, as they are printed.
const (
	Added     Mark = '+'
	Changed   Mark = '~'
	Unchanged Mark = '='
	Removed   Mark = '-'
	Refused   Mark = '!'
)

// Change is what becomes of one schedule.
type Change struct {
	Mark  Mark
	Name  string
	What  []string  // what changes, for a person
	Err   error     // why it is refused
	Entry *Entry    // nil for one that is removed
	Was   *job.Cron // nil for a new one
	Now   *job.Cron // what the server made of it; nil before that
}

// Plan is all that a file changes on a server.
type Plan struct {
	File    string
	Changes []*Change
	Left    []string // schedules of files that are not in this one, and stay
	Unsure  bool     // none is removed, as a refused entry has no name
}

// Compare compares a file with what a server has. With prune the schedules of
// files are removed that are not in this one; those that were made over the API
// never are. It changes nothing.
func Compare(ctx context.Context, to job.CronService, f *File, prune bool) (*Plan, error) {
	page, err := to.Crons(ctx, job.CronFilter{})
	if err != nil {
		return nil, err
	}
	has := make(map[string]*job.Cron, len(page.Crons))
	for _, c := range page.Crons {
		has[c.Name] = c
	}
	p := &Plan{File: f.Name}
	inFile := map[string]bool{}
	for _, e := range f.Entries {
		inFile[e.Name] = true
		p.Unsure = p.Unsure || e.Name == ""
		p.Changes = append(p.Changes, compared(e, has[e.Name]))
	}
	for _, c := range page.Crons {
		switch {
		case c.Source != Source || inFile[c.Name]:
		case prune && !p.Unsure:
			p.Changes = append(p.Changes, &Change{Mark: Removed, Name: c.Name, Was: c})
		default:
			p.Left = append(p.Left, c.Name)
		}
	}
	p.Unsure = p.Unsure && prune && len(p.Left) > 0
	return p, nil
}

// compared is what an entry changes.
func compared(e *Entry, was *job.Cron) *Change {
	c := &Change{Name: e.Label, Entry: e, Was: was}
	switch {
	case e.Err != nil:
		c.Mark, c.Err = Refused, e.Err
	case was == nil:
		c.Mark = Added
	default:
		if c.What = differences(was, e); len(c.What) == 0 {
			c.Mark = Unchanged
		} else {
			c.Mark = Changed
		}
	}
	return c
}

// differences are what an entry changes, for a person. What was made over the
// API is the file's as soon as it is in there.
func differences(was *job.Cron, e *Entry) (what []string) {
	differ := func(name, old, now string) {
		if old != now {
			what = append(what, fmt.Sprintf("%s %q -> %q", name, old, now))
		}
	}
	differ("expression", was.Expression, e.Spec.Expression)
	differ("timezone", Zone(was), e.Schedule.Zone())
	differ("overlap_policy", string(was.Overlap), string(e.Spec.Overlap))
	if e.Spec.Enabled != nil && *e.Spec.Enabled != was.On() {
		what = append(what, map[bool]string{true: "resumed", false: "paused"}[*e.Spec.Enabled])
	}
	if was.Description != e.Spec.Description {
		what = append(what, "description changed")
	}
	if !sameJSON(was.Template, e.Spec.Template) {
		what = append(what, "job_template changed")
	}
	if was.Source != Source {
		what = append(what, "managed by the file from now on")
	}
	return what
}

// Zone is the name of the zone in which a schedule runs.
func Zone(c *job.Cron) string {
	if s, err := cronsched.Parse(c.Expression, c.Timezone); err == nil {
		return s.Zone()
	}
	return c.Timezone
}

// sameJSON reports whether two templates say the same. Without args one has none.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	read := func(raw json.RawMessage) any {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			return err
		}
		if v["args"] == nil {
			v["args"] = []any{}
		}
		return v
	}
	return reflect.DeepEqual(read(a), read(b))
}

// Apply makes the changes. What the server refuses is marked so; an error is
// that it does not answer, and then the rest was not tried.
func (p *Plan) Apply(ctx context.Context, to job.CronService) error {
	for _, c := range p.Changes {
		var err error
		switch c.Mark {
		case Added, Changed:
			c.Now, _, err = to.PutCron(ctx, c.Entry.Spec)
		case Removed:
			if _, err = to.DeleteCron(ctx, c.Name); job.KindOf(err) == job.NotFound {
				err = nil // somebody else has removed it
			}
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || job.KindOf(err) == job.Unavailable {
			return fmt.Errorf("schedule %s: %w", c.Name, err)
		}
		c.refuse(p.File, err)
	}
	return nil
}

// refuse marks a change that the server does not make.
func (c *Change) refuse(file string, err error) {
	c.Mark = Refused
	if c.Entry == nil {
		c.Err = fmt.Errorf("is not removed: %w", err)
		return
	}
	c.Err = fmt.Errorf("%s:%d: the server refuses it: %s", file, c.Entry.Line, report(err, &c.Entry.Spec))
}

// Count is how many schedules have a Mark.
func (p *Plan) Count(m Mark) (n int) {
	for _, c := range p.Changes {
		if c.Mark == m {
			n++
		}
	}
	return n
}

// Differs reports whether the file is not what the server has.
func (p *Plan) Differs() bool { return p.Count(Unchanged) < len(p.Changes) }

// Summary is the plan in one line.
func (p *Plan) Summary() string {
	var parts []string
	for _, s := range []struct {
		Mark
		word string
	}{{Added, "added"}, {Changed, "changed"}, {Removed, "removed"}, {Unchanged, "unchanged"}, {Refused, "refused"}} {
		if n := p.Count(s.Mark); n > 0 || s.Mark == Unchanged {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.word))
		}
	}
	return p.File + ": " + strings.Join(parts, ", ")
}

// report is the text of an error, with a mark under what is wrong in an expression or
// a zone. spec is what was sent to a server; nil is nothing.
func report(err error, spec *job.CronSpec) string {
	if f := faultIn(err, spec); f != nil {
		return f.Report()
	}
	return err.Error()
}

// faultIn is the fault of an expression or a zone that an error tells of: its
// cause, or what a server has told of one in the details. spec is what that was sent.
func faultIn(err error, spec *job.CronSpec) *cronsched.Fault {
	var f *cronsched.Fault
	var told *job.Error
	if errors.As(err, &f) || spec == nil || !errors.As(err, &told) {
		return f
	}
	f = &cronsched.Fault{}
	f.Field, _ = told.Details["field"].(string)
	switch f.Field {
	case "expression":
		f.Text = spec.Expression
	case "timezone":
		f.Text = spec.Timezone
	default:
		return nil
	}
	var placed bool
	if f.Position, placed = number(told.Details["position"]); !placed || f.Position < 0 {
		return nil
	}
	f.Length, _ = number(told.Details["length"])
	f.Length = max(f.Length, 1)
	f.Suggestion, _ = told.Details["suggestion"].(string)
	f.Hint, _ = told.Details["hint"].(string)
	f.Problem = strings.TrimPrefix(told.Message, "cron "+f.Field+": ")
	return f
}

// number is a whole number of details that came over the wire, or did not.
func number(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case float64:
		return int(v), v == float64(int(v))
	case json.Number:
		n, err := v.Int64()
		return int(n), err == nil
	}
	return 0, false
}
