package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/job"
)

// bindFilter gives cmd the words that choose jobs, or dead letters; what it returns
// reads them.
func (a *app) bindFilter(cmd *cobra.Command, dead bool) func() (sift.Sieve, error) {
	w, f := &sift.Words{}, cmd.Flags()
	var states []string
	what, came := "jobs", "came"
	if dead {
		what, came = "dead letters", "died"
	} else {
		f.StringArrayVar(&states, "state", nil, "jobs in this `state`; may be repeated, or have commas between")
	}
	f.StringVar(&w.Type, "type", "", what+" of this `type`, or, with * at the end, of all types with this prefix")
	f.StringVar(&w.Queue, "queue", "", what+" of this `queue`")
	f.StringVar(&w.Since, "since", "", what+" that "+came+" in the last `1h`, or since a time")
	f.StringVar(&w.Until, "until", "", what+" that "+came+" before the last `1h`, or before a time")
	f.StringVar(&w.Tenant, "tenant", "", what+" of this `tenant`")
	f.StringArrayVar(&w.Args, "arg", nil, what+" with this `name=value` in args, or index=value, or just a value; may be repeated")
	f.StringVar(&w.Error, "error", "", what+" whose latest error has this `text` in it")
	f.StringArrayVar(&w.Tags, "tag", nil, what+" with this `tag`; may be repeated")
	return func() (sift.Sieve, error) {
		w.States = nil
		for _, s := range states {
			w.States = append(w.States, strings.Split(s, ",")...)
		}
		s, err := w.Sieve(a.clock())
		s.Filter.Dead = dead
		if err != nil {
			return s, usage("%w", err)
		}
		return s, nil
	}
}

// pageSize is how many jobs are asked for at once.
const pageSize = 1000

// found is a list of jobs, or a part of it.
type found struct {
	jobs    []*job.Job
	total   int64
	atLeast bool // there may be more than total
	more    bool // behind jobs
}

// jobs reads at most limit of the jobs that a sieve takes, the newest first; 0 is all.
// With each they are handed over as they come, and not kept.
func (q *question) jobs(ctx context.Context, s sift.Sieve, limit int, each func([]*job.Job) error) (all found, err error) {
	f, n := s.Filter, 0
	for {
		f.Limit = pageSize
		if limit > 0 && s.Whole() {
			f.Limit = min(pageSize, limit-n)
		}
		page, err := q.client.Jobs(ctx, f)
		if err != nil {
			return all, asked(err)
		}
		if f.Cursor == "" {
			all.total, all.atLeast = page.Total, page.AtLeast
		}
		var some []*job.Job
		for _, j := range page.Jobs {
			if !s.Takes(j) {
				continue
			}
			if limit > 0 && n == limit {
				all.more = true
				break
			}
			some = append(some, j)
			n++
		}
		if each == nil {
			all.jobs = append(all.jobs, some...)
		} else if err := each(some); err != nil {
			return all, err
		}
		switch full := limit > 0 && n >= limit; {
		case page.Next == "" || all.more || full && s.Whole():
			all.more = all.more || page.Next != ""
			if !s.Whole() {
				all.total, all.atLeast = int64(n), all.more
			}
			return all, nil
		}
		f.Cursor = page.Next
	}
}

// encoded is a job as every answer of a server has it.
func encoded(j *job.Job) json.RawMessage { return j.AppendJSON(nil, job.View{}) }

// printJobs prints a list for a program: the jobs as the server has them.
func (q *question) printJobs(all found) error {
	list := struct {
		Jobs    []json.RawMessage `json:"jobs"`
		Total   int64             `json:"total"`
		AtLeast bool              `json:"total_at_least,omitempty"`
		More    bool              `json:"has_more"`
	}{Jobs: []json.RawMessage{}, Total: all.total, AtLeast: all.atLeast, More: all.more}
	for _, j := range all.jobs {
		list.Jobs = append(list.Jobs, encoded(j))
	}
	return q.format.printValue(q.out, list, "jobs")
}

// printEach prints jobs as lines, for a list that may be longer than memory.
func printEach(w io.Writer) func([]*job.Job) error {
	return func(some []*job.Job) error {
		for _, j := range some {
			if _, err := fmt.Fprintf(w, "%s\n", encoded(j)); err != nil {
				return err
			}
		}
		return nil
	}
}

// thousands writes a number with commas: 1,204.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// jobCount is a number of jobs in words.
func jobCount(n int64) string {
	if n == 1 {
		return "1 job"
	}
	return thousands(n) + " jobs"
}
