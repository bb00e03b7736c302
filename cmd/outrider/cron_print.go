package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// print writes a line for each schedule, and under what is new or changed its
// next runs and what a person may not have meant. Those that stay as they are
// are shown with verbose.
func (p *cronPlan) print(w io.Writer, now time.Time, verbose bool) error {
	var b strings.Builder
	for _, c := range p.changes {
		switch c.mark {
		case markAdded:
			fmt.Fprintf(&b, "+ %s  %s  %s\n", c.name, wording.Printable(c.entry.spec.Expression), c.entry.sched.Zone())
			c.printRuns(&b, now)
		case markChanged:
			fmt.Fprintf(&b, "~ %s: %s\n", c.name, strings.Join(c.what, ", "))
			c.printRuns(&b, now)
		case markRemoved:
			fmt.Fprintf(&b, "- %s\n", c.name)
		case markRefused:
			fmt.Fprintf(&b, "! %s: %s\n", wording.Printable(c.name), indented(c.err.Error()))
		default:
			if verbose {
				fmt.Fprintf(&b, "= %s\n", c.name)
			}
		}
	}
	fmt.Fprintln(&b, p.summary())
	switch list := strings.Join(p.left, ", "); {
	case p.unsure:
		fmt.Fprintf(&b, "nothing was removed, as an entry that was refused has no name and may be one of these: %s\n", list)
	case len(p.left) > 0:
		fmt.Fprintf(&b, "on the server from a file, and not in this one: %s; --prune removes them\n", list)
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
func (c *cronChange) printRuns(b *strings.Builder, now time.Time) {
	if !c.on() {
		fmt.Fprintln(b, "    paused: it does not run until it is resumed")
	} else {
		for _, o := range c.runs(now) {
			fmt.Fprintf(b, "    %s\n", occasion(o, now))
		}
	}
	for _, w := range c.warnings(now) {
		fmt.Fprintf(b, "    warning: %s\n", w)
	}
}

// warnings are what a person may not have meant, by when the schedule fires and
// by the options of its jobs.
func (c *cronChange) warnings(now time.Time) (all []string) {
	for _, w := range c.entry.sched.Warnings(now) {
		all = append(all, w.Message)
	}
	for _, w := range c.entry.spec.Warnings() {
		all = append(all, w.Message)
	}
	return all
}

// occasion is one tick in a line.
func occasion(o cronsched.Occurrence, now time.Time) string {
	if o.Skipped != "" {
		return o.Wall().Format("Mon 2006-01-02 15:04:05") + "  skipped: the clock is set over it"
	}
	if !o.At.After(now) {
		return o.At.Format(wallForm) + "  due"
	}
	return fmt.Sprintf("%s  in %s", o.At.Format(wallForm), away(o.At.Unix()-now.Unix()))
}

// wallForm is how a time on the wall is shown.
const wallForm = "Mon 2006-01-02 15:04:05 -07:00"

// json writes the plan for programs.
func (p *cronPlan) json(w io.Writer, now time.Time) error {
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
	words := map[mark]string{markAdded: "added", markChanged: "changed", markSame: "unchanged", markRemoved: "removed", markRefused: "refused"}
	answer := struct {
		Changes   []change `json:"changes"`
		Added     int      `json:"added"`
		Changed   int      `json:"changed"`
		Removed   int      `json:"removed"`
		Unchanged int      `json:"unchanged"`
		Refused   int      `json:"refused"`
		Left      []string `json:"left,omitempty"`
	}{[]change{}, p.count(markAdded), p.count(markChanged), p.count(markRemoved), p.count(markSame), p.count(markRefused), p.left}
	for _, c := range p.changes {
		line := change{Change: words[c.mark], Name: c.name, What: c.what}
		switch c.mark {
		case markRefused:
			line.What, line.Error = nil, c.err.Error()
		case markAdded, markChanged:
			line.Expression, line.Timezone = c.entry.spec.Expression, c.entry.sched.Zone()
			line.Warnings = c.warnings(now)
			if !c.on() {
				break
			}
			for _, o := range c.runs(now) {
				if o.Skipped == "" {
					line.NextRuns = append(line.NextRuns, o.At.UTC().Format(time.RFC3339))
				}
			}
		}
		answer.Changes = append(answer.Changes, line)
	}
	return json.NewEncoder(w).Encode(answer)
}
