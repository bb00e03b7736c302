package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/outrider-jobs/outrider/cronfile"
	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// noCronsYet says how a first schedule is made.
const noCronsYet = "this server has no schedules; create some with: outrider cron apply -f crons.yaml"

// table writes rows in columns, with nothing at the ends of lines.
func table(out io.Writer, rows [][]string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = wording.Printable(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// inZone is a time in the zone of a schedule.
func inZone(c *job.Cron, t time.Time) time.Time {
	if s, err := cronsched.Parse(c.Expression, c.Timezone); err == nil {
		return t.In(s.Location())
	}
	return t.UTC()
}

// wall is a time in the zone of a schedule, and how far off it is.
func wall(c *job.Cron, t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	seconds := t.Unix() - now.Unix()
	switch {
	case seconds < 0:
		return inZone(c, t).Format(wallForm) + " (" + term.Span(-seconds) + " ago)"
	case seconds == 0:
		return inZone(c, t).Format(wallForm) + " (now)"
	}
	return inZone(c, t).Format(wallForm) + " (in " + term.Span(seconds) + ")"
}

// instant is a time of a job, or a dash.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return job.FormatTime(t)
}

// stateOf says whether a schedule fires.
func stateOf(c *job.Cron) string {
	if c.On() {
		return "active"
	}
	return "paused"
}

var cronColumns = []term.Column{{Head: "NAME", Min: 12}, {Head: "SCHEDULE", Min: 12}, {Head: "ZONE", Min: 6, Drop: 2},
	{Head: "NEXT"}, {Head: "LAST", Drop: 1}, {Head: "RUNS", Right: true, Drop: 3}, {Head: "STATE", Style: term.OfState}}

// printCrons writes a line for each schedule.
func (q *question) printCrons(all []*job.Cron) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(q.out, noCronsYet)
		return err
	}
	now := q.clock()
	var rows [][]string
	for _, c := range all {
		rows = append(rows, []string{c.Name, c.Expression, cronfile.Zone(c), term.Ago(c.NextRunAt, now), term.Ago(c.LastRunAt, now),
			strconv.FormatInt(c.RunCount, 10), stateOf(c)})
	}
	return q.screen.Table(q.out, cronColumns, rows)
}

// printCron writes all of a schedule, its next runs and what a person may not have meant by it.
func printCron(out io.Writer, c *job.Cron, now time.Time) error {
	made := "the API"
	if c.Source != "" {
		made = "a " + c.Source
	}
	var template bytes.Buffer
	if err := json.Compact(&template, c.Template); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	rows := [][]string{
		{"name", c.Name}, {"expression", c.Expression}, {"zone", cronfile.Zone(c)}, {"state", stateOf(c)},
		{"next run", wall(c, c.NextRunAt, now)}, {"last run", wall(c, c.LastRunAt, now)}, {"runs", strconv.FormatInt(c.RunCount, 10)},
		{"overlap", string(c.Overlap)}, {"kept by", made}, {"created", instant(c.CreatedAt)}, {"updated", instant(c.UpdatedAt)},
		{"job", template.String()},
	}
	if c.Description != "" {
		rows = append(rows, []string{"description", c.Description})
	}
	if err := table(out, rows); err != nil {
		return err
	}
	s, err := cronsched.Parse(c.Expression, c.Timezone)
	if err != nil {
		return nil // the server knows a zone that this machine does not
	}
	if c.On() {
		fmt.Fprintln(out)
		for _, o := range runsFrom(s, now, c.NextRunAt) {
			fmt.Fprintln(out, occasion(o, now))
		}
	}
	for _, w := range s.Warnings(now) {
		fmt.Fprintf(out, "warning: %s\n", w.Message)
	}
	for _, w := range c.Warnings() {
		fmt.Fprintf(out, "warning: %s\n", w.Message)
	}
	return nil
}
