package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/cronfile"
	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// printPlan writes a line for each schedule, and under what is new or changed its
// next runs and what a person may not have meant. Those that stay as they are
// are shown with verbose.
func printPlan(w io.Writer, p *cronfile.Plan, now time.Time, verbose bool) error {
	var b strings.Builder
	for _, c := range p.Changes {
		switch c.Mark {
		case cronfile.Added:
			fmt.Fprintf(&b, "+ %s  %s  %s\n", c.Name, wording.Printable(c.Entry.Spec.Expression), c.Entry.Schedule.Zone())
			printRuns(&b, c, now)
		case cronfile.Changed:
			fmt.Fprintf(&b, "~ %s: %s\n", c.Name, strings.Join(c.What, ", "))
			printRuns(&b, c, now)
		case cronfile.Removed:
			fmt.Fprintf(&b, "- %s\n", c.Name)
		case cronfile.Refused:
			fmt.Fprintf(&b, "! %s: %s\n", wording.Printable(c.Name), indented(c.Err.Error()))
		default:
			if verbose {
				fmt.Fprintf(&b, "= %s\n", c.Name)
			}
		}
	}
	fmt.Fprintln(&b, p.Summary())
	switch list := strings.Join(p.Left, ", "); {
	case p.Unsure:
		fmt.Fprintf(&b, "nothing was removed: a refused entry has no name and may be one of these: %s\n", list)
	case len(p.Left) > 0:
		fmt.Fprintf(&b, "on the server, from a file, but not in this file: %s; --prune removes them\n", list)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// indented is a text of several lines under one that begins further left.
func indented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = wording.Printable(line)
	}
	return strings.Join(lines, "\n  ")
}

// printRuns writes the next runs of a schedule, and its warnings.
func printRuns(b *strings.Builder, c *cronfile.Change, now time.Time) {
	if !fires(c) {
		fmt.Fprintln(b, "    paused: it does not run until it is resumed")
	} else {
		for _, o := range runsAfter(c, now) {
			fmt.Fprintf(b, "    %s\n", occasion(o, now))
		}
	}
	for _, w := range warningsOf(c, now) {
		fmt.Fprintf(b, "    warning: %s\n", w)
	}
}

// warningsOf are what a person may not have meant, by when the schedule fires and
// by the options of its jobs.
func warningsOf(c *cronfile.Change, now time.Time) (all []string) {
	for _, w := range c.Entry.Schedule.Warnings(now) {
		all = append(all, w.Message)
	}
	for _, w := range c.Entry.Spec.Warnings() {
		all = append(all, w.Message)
	}
	return all
}

// occasion is one tick in a line.
func occasion(o cronsched.Occurrence, now time.Time) string {
	if o.Skipped != "" {
		return o.Wall().Format("Mon 2006-01-02 15:04:05") + "  skipped: this time does not exist (clock change)"
	}
	if !o.At.After(now) {
		return o.At.Format(wallForm) + "  due"
	}
	return fmt.Sprintf("%s  in %s", o.At.Format(wallForm), term.Span(o.At.Unix()-now.Unix()))
}

// wallForm is how a local time is shown.
const wallForm = "Mon 2006-01-02 15:04:05 -07:00"

// printPlanData writes the plan for programs.
func printPlanData(w io.Writer, format format, p *cronfile.Plan, now time.Time) error {
	type change struct {
		Change     string   `json:"change"`
		Name       string   `json:"name"`
		Expression string   `json:"expression,omitempty"`
		Timezone   string   `json:"timezone,omitempty"`
		What       []string `json:"what,omitempty"`
		NextRuns   []string `json:"next_runs,omitempty"`
		Warnings   []string `json:"warnings,omitempty"`
		Error      string   `json:"error,omitempty"`
	}
	words := map[cronfile.Mark]string{cronfile.Added: "added", cronfile.Changed: "changed", cronfile.Unchanged: "unchanged", cronfile.Removed: "removed", cronfile.Refused: "refused"}
	answer := struct {
		Changes   []change `json:"changes"`
		Added     int      `json:"added"`
		Changed   int      `json:"changed"`
		Removed   int      `json:"removed"`
		Unchanged int      `json:"unchanged"`
		Refused   int      `json:"refused"`
		Left      []string `json:"left,omitempty"`
	}{[]change{}, p.Count(cronfile.Added), p.Count(cronfile.Changed), p.Count(cronfile.Removed), p.Count(cronfile.Unchanged), p.Count(cronfile.Refused), p.Left}
	for _, c := range p.Changes {
		line := change{Change: words[c.Mark], Name: c.Name, What: c.What}
		switch c.Mark {
		case cronfile.Refused:
			line.What, line.Error = nil, c.Err.Error()
		case cronfile.Added, cronfile.Changed:
			line.Expression, line.Timezone = c.Entry.Spec.Expression, c.Entry.Schedule.Zone()
			line.Warnings = warningsOf(c, now)
			if !fires(c) {
				break
			}
			for _, o := range runsAfter(c, now) {
				if o.Skipped == "" {
					line.NextRuns = append(line.NextRuns, o.At.UTC().Format(time.RFC3339))
				}
			}
		}
		answer.Changes = append(answer.Changes, line)
	}
	return format.printValue(w, answer, "changes")
}

// fires reports whether the schedule fires after the change.
func fires(c *cronfile.Change) bool {
	switch {
	case c.Now != nil:
		return c.Now.On()
	case c.Entry.Spec.Enabled != nil:
		return *c.Entry.Spec.Enabled
	}
	return c.Was == nil || c.Was.On()
}

// nextRuns is how many runs are shown of what is new or changed.
const nextRuns = 5

// runsAfter are the next ticks after the change.
func runsAfter(c *cronfile.Change, now time.Time) []cronsched.Occurrence {
	next := time.Time{}
	switch e := c.Entry.Spec.Expression; {
	case c.Now != nil:
		next = c.Now.NextRunAt
	case c.Was != nil && c.Was.Expression == e:
		next = c.Was.NextRunAt
	}
	return runsFrom(c.Entry.Schedule, now, next)
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

// refused is the error of a command whose file was refused in part, or nil.
func refused(p *cronfile.Plan) error {
	n := p.Count(cronfile.Refused)
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s refused; the others were applied", count(int64(n), "schedule was", "schedules were"))
}
