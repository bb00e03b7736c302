// Package sift chooses jobs by the words that a person writes. They are the same
// for every command that lists jobs or does something to many.
//
// What a server can look at becomes a [job.Filter]; the rest is looked at here, job
// by job. It asks no server and prints nothing.
package sift

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// Words are what a person has written. What is empty does not restrict.
type Words struct {
	States []string
	Type   string // exact, or a prefix that ends in *
	Queue  string
	Since  string // as Time reads it
	Until  string
	Tenant string
	Args   []string // NAME=VALUE, INDEX=VALUE or VALUE; all of them must be there
	Error  string   // a part of the latest error, in whatever case
	Tags   []string // all of them must be there
}

// Sieve is what words have chosen.
type Sieve struct {
	Filter job.Filter // for the server
	args   []arg
	error  string // in lower case
	tags   []string
}

// Sieve reads the words at an instant. The error names the flag.
func (w Words) Sieve(now time.Time) (s Sieve, err error) {
	s.Filter = job.Filter{Type: w.Type, Queue: w.Queue, Tenant: w.Tenant}
	s.error, s.tags = strings.ToLower(w.Error), w.Tags
	for _, name := range w.States {
		state, err := State(name)
		if err != nil {
			return s, fmt.Errorf("--state %w", err)
		}
		if !slices.Contains(s.Filter.States, state) {
			s.Filter.States = append(s.Filter.States, state)
		}
	}
	if strings.Contains(strings.TrimSuffix(w.Type, "*"), "*") {
		return s, fmt.Errorf("--type %.140q: a * may stand at the end only, as email.* has it", w.Type)
	}
	if w.Queue != "" {
		if err := job.CheckQueueName(w.Queue); err != nil {
			return s, fmt.Errorf("--queue %.140q is not the name of a queue, which has lower-case letters, digits, dashes and dots alone", w.Queue)
		}
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"--since", w.Since, &s.Filter.Since}, {"--until", w.Until, &s.Filter.Until}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = Time(t.text, now, Past); err != nil {
			return s, fmt.Errorf("%s %w", t.flag, err)
		}
	}
	if f := s.Filter; !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return s, fmt.Errorf("--since %s is not before --until %s, so no job lies between", w.Since, w.Until)
	}
	for _, text := range w.Args {
		if text == "" {
			return s, fmt.Errorf("--arg must be NAME=VALUE, INDEX=VALUE or VALUE, got nothing")
		}
		s.args = append(s.args, parseArg(text))
	}
	return s, nil
}

// meant are the states that people know by other words.
var meant = map[string]job.State{
	"running": job.Active, "processing": job.Active, "queued": job.Available, "waiting": job.Available, "ready": job.Available,
	"enqueued": job.Available, "delayed": job.Scheduled, "retry": job.Retryable, "retrying": job.Retryable, "done": job.Completed,
	"succeeded": job.Completed, "success": job.Completed, "finished": job.Completed, "failed": job.Discarded, "dead": job.Discarded,
	"error": job.Discarded, "archived": job.Discarded, "canceled": job.Cancelled,
}

// State reads the name of a state, and names the one that was meant.
func State(name string) (job.State, error) {
	if slices.Contains(job.States, job.State(name)) {
		return job.State(name), nil
	}
	names := make([]string, len(job.States))
	for i, s := range job.States {
		names[i] = string(s)
	}
	near := strings.ToLower(name)
	if meant[near] == "" {
		near = wording.Nearest(near, append(names, slices.Sorted(maps.Keys(meant))...))
	}
	if other := meant[near]; other != "" {
		near = string(other)
	}
	if near != "" {
		return "", fmt.Errorf("%.60q is no state of a job; did you mean %s?", name, near)
	}
	return "", fmt.Errorf("%.60q is no state of a job; there are %s", name, strings.Join(names, ", "))
}

// Whole reports whether the server alone can answer.
func (s Sieve) Whole() bool { return len(s.args) == 0 && s.error == "" && len(s.tags) == 0 }

// Open reports whether every job is chosen.
func (s Sieve) Open() bool {
	f := s.Filter
	return s.Whole() && len(f.States) == 0 && f.Type == "" && f.Queue == "" && f.Tenant == "" && f.Since.IsZero() && f.Until.IsZero()
}

// Bulk is the filter of a request about many jobs. It is not there where the server
// cannot look at all that was written, or does not hold such a request to a tenant:
// then the jobs must be named one by one.
func (s Sieve) Bulk() (*job.BulkFilter, bool) {
	if !s.Whole() || s.Filter.Tenant != "" {
		return nil, false
	}
	return &job.BulkFilter{Filter: s.Filter}, true
}

// Takes reports whether a job that the server has let through is chosen.
func (s Sieve) Takes(j *job.Job) bool {
	for _, a := range s.args {
		if !a.of(j.Args) {
			return false
		}
	}
	if s.error != "" {
		e := Latest(j)
		if !slices.ContainsFunc([]string{e.Type, e.Code, e.Message}, func(text string) bool { return strings.Contains(strings.ToLower(text), s.error) }) {
			return false
		}
	}
	if len(s.tags) == 0 {
		return true
	}
	has := tagsOf(j)
	return !slices.ContainsFunc(s.tags, func(tag string) bool { return !slices.Contains(has, tag) })
}

// About says which jobs are chosen, for a question about them: "in queue mail, of type a.b".
func (s Sieve) About() string {
	var parts []string
	add := func(form string, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(form, text))
		}
	}
	f := s.Filter
	add("in queue %s", f.Queue)
	add("of type %s", wording.Printable(f.Type))
	add("of tenant %s", wording.Printable(f.Tenant))
	if len(f.States) > 0 && len(f.States) < 3 {
		names := make([]string, len(f.States))
		for i, state := range f.States {
			names[i] = string(state)
		}
		add("in state %s", strings.Join(names, " or "))
	}
	if !f.Since.IsZero() {
		add("since %s", job.FormatTime(f.Since))
	}
	if !f.Until.IsZero() {
		add("before %s", job.FormatTime(f.Until))
	}
	for _, a := range s.args {
		add("with the arg %s", wording.Printable(strings.TrimPrefix(a.path+"="+a.value, "=")))
	}
	add("with %s in their error", wording.Printable(s.error))
	add("with the tag %s", wording.Printable(strings.Join(s.tags, " and ")))
	return strings.Join(parts, ", ")
}
