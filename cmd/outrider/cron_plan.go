package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// mark says what becomes of a schedule.
type mark byte

// The marks, as they are printed.
const (
	markAdded   mark = '+'
	markChanged mark = '~'
	markSame    mark = '='
	markRemoved mark = '-'
	markRefused mark = '!'
)

// cronChange is what becomes of one schedule.
type cronChange struct {
	mark  mark
	name  string
	what  []string // what changes, for a person
	err   error    // why it is refused
	entry *cronEntry
	was   *job.Cron // nil for a new one
	now   *job.Cron // what the server made of it; nil before that
}

// cronPlan is all that a file changes on a server.
type cronPlan struct {
	file    string
	changes []*cronChange
	left    []string // schedules of files that are not in this one, and stay
	unsure  bool     // none is removed, as a refused entry has no name
}

// planCrons compares a file with what a server has. With prune the schedules of
// files are removed that are not in this one; those that were made over the API
// never are. It changes nothing.
func planCrons(ctx context.Context, to job.CronService, f *cronFile, prune bool) (*cronPlan, error) {
	page, err := to.Crons(ctx, job.CronFilter{})
	if err != nil {
		return nil, err
	}
	has := make(map[string]*job.Cron, len(page.Crons))
	for _, c := range page.Crons {
		has[c.Name] = c
	}
	p := &cronPlan{file: f.name}
	inFile := map[string]bool{}
	for _, e := range f.entries {
		inFile[e.name] = true
		p.unsure = p.unsure || e.name == ""
		p.changes = append(p.changes, compared(e, has[e.name]))
	}
	for _, c := range page.Crons {
		switch {
		case c.Source != fromFile || inFile[c.Name]:
		case prune && !p.unsure:
			p.changes = append(p.changes, &cronChange{mark: markRemoved, name: c.Name, was: c})
		default:
			p.left = append(p.left, c.Name)
		}
	}
	p.unsure = p.unsure && prune && len(p.left) > 0
	return p, nil
}

// compared is what an entry changes.
func compared(e *cronEntry, was *job.Cron) *cronChange {
	c := &cronChange{name: e.shown, entry: e, was: was}
	switch {
	case e.err != nil:
		c.mark, c.err = markRefused, e.err
	case was == nil:
		c.mark = markAdded
	default:
		if c.what = differences(was, e); len(c.what) == 0 {
			c.mark = markSame
		} else {
			c.mark = markChanged
		}
	}
	return c
}

// differences are what an entry changes, for a person. What was made over the
// API is the file's as soon as it is in there.
func differences(was *job.Cron, e *cronEntry) (what []string) {
	differ := func(name, old, now string) {
		if old != now {
			what = append(what, fmt.Sprintf("%s %q -> %q", name, old, now))
		}
	}
	differ("expression", was.Expression, e.spec.Expression)
	differ("timezone", zoneOf(was), e.sched.Zone())
	differ("overlap_policy", string(was.Overlap), string(e.spec.Overlap))
	if e.spec.Enabled != nil && *e.spec.Enabled != was.On() {
		what = append(what, map[bool]string{true: "resumed", false: "paused"}[*e.spec.Enabled])
	}
	if was.Description != e.spec.Description {
		what = append(what, "description changed")
	}
	if !sameJSON(was.Template, e.spec.Template) {
		what = append(what, "job_template changed")
	}
	if was.Source != fromFile {
		what = append(what, "kept by the file from now on")
	}
	return what
}

// zoneOf is the name of the zone in which a schedule runs.
func zoneOf(c *job.Cron) string {
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

// carryOut makes the changes. What the server refuses is marked so; an error is
// that it does not answer, and then the rest was not tried.
func (p *cronPlan) carryOut(ctx context.Context, to job.CronService) error {
	for _, c := range p.changes {
		var err error
		switch c.mark {
		case markAdded, markChanged:
			c.now, _, err = to.PutCron(ctx, c.entry.spec)
		case markRemoved:
			if _, err = to.DeleteCron(ctx, c.name); job.KindOf(err) == job.NotFound {
				err = nil // somebody else has removed it
			}
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil || job.KindOf(err) == job.Unavailable {
			return fmt.Errorf("schedule %s: %w", c.name, err)
		}
		c.refuse(p.file, err)
	}
	return nil
}

// refuse marks a change that the server does not make.
func (c *cronChange) refuse(file string, err error) {
	c.mark = markRefused
	if c.entry == nil {
		c.err = fmt.Errorf("is not removed: %w", err)
		return
	}
	text := err.Error()
	if f := faultIn(err, &c.entry.spec); f != nil {
		text = f.Report()
	}
	c.err = fmt.Errorf("%s:%d: the server refuses it: %s", file, c.entry.line, text)
}

// count is how many schedules have a mark.
func (p *cronPlan) count(m mark) (n int) {
	for _, c := range p.changes {
		if c.mark == m {
			n++
		}
	}
	return n
}

// differs reports whether the file is not what the server has.
func (p *cronPlan) differs() bool { return p.count(markSame) < len(p.changes) }

// summary is the plan in one line.
func (p *cronPlan) summary() string {
	var parts []string
	for _, s := range []struct {
		mark
		word string
	}{{markAdded, "added"}, {markChanged, "changed"}, {markRemoved, "removed"}, {markSame, "unchanged"}, {markRefused, "refused"}} {
		if n := p.count(s.mark); n > 0 || s.mark == markSame {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.word))
		}
	}
	return p.file + ": " + strings.Join(parts, ", ")
}

// on reports whether the schedule fires after the change.
func (c *cronChange) on() bool {
	switch {
	case c.now != nil:
		return c.now.On()
	case c.entry.spec.Enabled != nil:
		return *c.entry.spec.Enabled
	}
	return c.was == nil || c.was.On()
}

// nextRuns is how many runs are shown of what is new or changed.
const nextRuns = 5

// runs are the next ticks after the change.
func (c *cronChange) runs(now time.Time) []cronsched.Occurrence {
	next := time.Time{}
	switch e := c.entry.spec.Expression; {
	case c.now != nil:
		next = c.now.NextRunAt
	case c.was != nil && c.was.Expression == e:
		next = c.was.NextRunAt
	}
	return runsFrom(c.entry.sched, now, next)
}

// runsFrom are the next ticks of a schedule whose next run is known, or zero.
// What is skipped among them does not count.
func runsFrom(s cronsched.Spec, now, next time.Time) (runs []cronsched.Occurrence) {
	switch every := s.Every(); {
	case next.IsZero():
	case every > 0:
		now = next.Add(-every) // it counts from when it was made, which its runs tell
	case !next.After(now):
		now = next.Add(-1) // it is due
	}
	n := 0
	for o := range s.Upcoming(now) {
		if runs = append(runs, o); o.Skipped == "" {
			n++
		}
		if n == nextRuns || len(runs) == 2*nextRuns {
			break
		}
	}
	return runs
}

// refusal is the error of a command whose file was refused in part, or nil.
func (p *cronPlan) refusal() error {
	switch n := p.count(markRefused); n {
	case 0:
		return nil
	case 1:
		return errors.New("1 schedule was refused; the others were not held up by it")
	default:
		return fmt.Errorf("%d schedules were refused; the others were not held up by them", n)
	}
}
