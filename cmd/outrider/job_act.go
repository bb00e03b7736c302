package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/job"
)

// deed is what a command does to jobs, those that are named or those of a filter.
type deed struct {
	action string // of a request about many jobs
	past   string // what is said in front of the jobs to which it was done
	can    string // what a job can be
	would  string // what is asked, with %s for the jobs
	asks   bool   // also where jobs are named one by one
	dead   bool   // it is about dead letters alone
	states []job.State
	one    func(ctx context.Context, q *question, id job.ID) error
	advise func(id job.ID, state job.State) string // where the state of a job forbids it
}

var live = []job.State{job.Available, job.Active, job.Retryable, job.Scheduled, job.Pending}

// does makes cmd one that does something to jobs.
func (a *app) does(cmd *cobra.Command, d deed) *cobra.Command {
	sieve := a.bindFilter(cmd, d.dead)
	yes := bindYes(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "only say to which jobs it would be done")
	every := false
	if d.dead {
		cmd.Flags().BoolVar(&every, "all", false, "all dead letters")
	}
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		s, err := sieve()
		if err != nil {
			return err
		}
		open := s.Open() && !every
		switch {
		case len(args) > 0 && !open:
			return usage("%s takes ids, or filters such as --queue, not both", q.command)
		case len(args) == 0 && open:
			return usage("%s needs ids, or filters such as --type or --queue; see %[1]s --help", q.command)
		case len(args) == 0:
			return q.toMany(ctx, d, s, *yes, *dry)
		}
		ids, err := idsFrom(args)
		if err != nil {
			return err
		}
		return q.toNamed(ctx, d, ids, *yes, *dry)
	})
}

// idsFrom reads ids. One that stands there twice is meant once.
func idsFrom(words []string) (ids []job.ID, err error) {
	for _, word := range words {
		id, err := theID(word)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// done is what became of jobs, for a person and for a program.
type done struct {
	Action    string     `json:"action"`
	DryRun    bool       `json:"dry_run,omitempty"`
	Matched   int64      `json:"matched"`
	Succeeded int64      `json:"succeeded"`
	Failed    int64      `json:"failed"`
	Skipped   int64      `json:"skipped"`
	Items     []doneItem `json:"items"`
}

type doneItem struct {
	ID     job.ID `json:"job_id"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	err    error
}

// add adds an answer about many jobs.
func (d *done) add(r job.BulkResult) {
	d.Matched, d.Succeeded, d.Failed, d.Skipped = d.Matched+r.Total, d.Succeeded+r.Succeeded, d.Failed+r.Failed, d.Skipped+r.Skipped
	for _, it := range r.Items {
		one := doneItem{ID: it.ID, Status: it.Status, err: it.Err}
		if it.Err != nil {
			one.Reason = it.Err.Error()
		}
		d.Items = append(d.Items, one)
	}
}

// bulk asks for a deed on jobs that are named, however many.
func (q *question) bulk(ctx context.Context, action string, ids []job.ID, dry bool) (done, error) {
	all := done{Action: action, DryRun: dry, Items: []doneItem{}}
	for len(ids) > 0 {
		n := min(len(ids), job.MaxBatch)
		r, err := q.client.Bulk(ctx, job.BulkAct{Action: action, IDs: ids[:n], DryRun: dry})
		if err != nil {
			if all.Matched > 0 {
				err = fmt.Errorf("%w; it was done to %s before, and to the others not", err, jobCount(all.Succeeded))
			}
			return all, asked(err)
		}
		all.add(r)
		ids = ids[n:]
	}
	return all, nil
}

// toNamed does it to jobs that are named by their ids.
func (q *question) toNamed(ctx context.Context, d deed, ids []job.ID, yes, dry bool) (err error) {
	if d.asks && !dry {
		what := "job " + string(ids[0])
		if len(ids) > 1 {
			what = jobCount(int64(len(ids)))
		}
		if err := q.sure(yes, fmt.Sprintf(d.would, what)); err != nil {
			return err
		}
	}
	var all done
	switch {
	case dry && d.dead:
		d.one = isDead
		all, err = q.oneByOne(ctx, d, ids)
	case dry || d.one == nil:
		all, err = q.bulk(ctx, d.action, ids, dry)
	default:
		all, err = q.oneByOne(ctx, d, ids)
	}
	if err != nil {
		return err
	}
	if q.format.data() {
		if err := q.format.printValue(q.out, all, "items"); err != nil {
			return err
		}
	}
	var wrong []error
	for _, it := range all.Items {
		switch {
		case it.err != nil:
			wrong = append(wrong, q.refused(ctx, d, it))
		case q.format.data():
		case dry:
			fmt.Fprintf(q.out, "%s: could be done\n", it.ID)
		default:
			fmt.Fprintf(q.out, "%s %s\n", d.past, it.ID)
		}
	}
	if len(wrong) <= 1 {
		return errors.Join(wrong...)
	}
	for _, err := range wrong {
		fmt.Fprintf(q.stderr, "error: %s\n", mask(err, nil))
	}
	return &failure{exitCode(wrong[0]), fmt.Errorf("%d of %d could not be done", len(wrong), len(ids))}
}

// oneByOne does it to one job after the other, as callers may who are no operators.
func (q *question) oneByOne(ctx context.Context, d deed, ids []job.ID) (all done, err error) {
	all = done{Action: d.action, Items: []doneItem{}}
	for _, id := range ids {
		r := job.BulkResult{}
		it := job.BulkItem{ID: id, Status: job.BulkDone}
		if err := d.one(ctx, q, id); err != nil {
			if k := job.KindOf(err); k != job.NotFound && k != job.Conflict && k != job.Finished {
				return all, asked(err)
			}
			it.Status, it.Err = job.BulkFailed, err
		}
		r.Note(it, true)
		all.add(r)
	}
	return all, nil
}

// refused says why it was not done to a job, and what can be.
func (q *question) refused(ctx context.Context, d deed, it doneItem) error {
	switch {
	case d.dead:
		return q.notDead(ctx, it.ID, it.err)
	case job.KindOf(it.err) == job.NotFound:
		return gone(it.ID, it.err)
	}
	text := it.err.Error()
	if j, err := q.client.Job(ctx, it.ID); err == nil && d.advise != nil {
		text = fmt.Sprintf("job %s is %s; %s", it.ID, j.State, d.advise(it.ID, j.State))
	}
	return &failure{exitConflict, errors.New(text)}
}

// toMany does it to all jobs that a sieve takes, once a person has seen how many they are.
func (q *question) toMany(ctx context.Context, d deed, s sift.Sieve, yes, dry bool) error {
	if len(s.Filter.States) == 0 && !d.dead {
		s.Filter.States = d.states
	}
	do, err := q.choose(ctx, d, s)
	if err != nil {
		return err
	}
	all, err := do(true)
	switch {
	case err != nil:
		return err
	case dry || all.Succeeded == 0:
		return q.printDone(all, func(w io.Writer) error {
			if all.Succeeded == 0 {
				_, err := fmt.Fprintf(w, "nothing to do: none of the jobs%s can be %s\n", about(s), d.can)
				return err
			}
			_, err := fmt.Fprintf(w, "would "+d.would+"; nothing was done\n", jobCount(all.Succeeded)+about(s))
			return err
		})
	}
	if err := q.sure(yes, fmt.Sprintf(d.would, jobCount(all.Succeeded)+about(s))); err != nil {
		return err
	}
	if all, err = do(false); err != nil {
		return err
	}
	return q.printDone(all, func(w io.Writer) error {
		rest := ""
		if all.Failed+all.Skipped > 0 {
			rest = fmt.Sprintf("; %s had changed meanwhile, and stayed as they were", thousands(all.Failed+all.Skipped))
		}
		_, err := fmt.Fprintf(w, "%s %s%s\n", d.past, jobCount(all.Succeeded), rest)
		return err
	})
}

func (q *question) printDone(all done, print func(io.Writer) error) error {
	if q.format.data() {
		return q.format.printValue(q.out, all, "items")
	}
	return print(q.out)
}

// about says which jobs a sieve takes, behind a word.
func about(s sift.Sieve) string {
	if text := s.About(); text != "" {
		return " " + text
	}
	return ""
}

// choose finds the jobs of a sieve: the server does where it can look at all of it.
// Else they are named one by one, and none that comes later is among them.
func (q *question) choose(ctx context.Context, d deed, s sift.Sieve) (func(dry bool) (done, error), error) {
	if f, ok := s.Bulk(); ok && !d.dead {
		return func(dry bool) (done, error) {
			all := done{Action: d.action, DryRun: dry, Items: []doneItem{}}
			r, err := q.client.Bulk(ctx, job.BulkAct{Action: d.action, Filter: f, DryRun: dry})
			all.add(r)
			return all, asked(err)
		}, nil
	}
	var ids []job.ID
	_, err := q.jobs(ctx, s, 0, func(some []*job.Job) error {
		for _, j := range some {
			ids = append(ids, j.ID)
		}
		return nil
	})
	return func(dry bool) (done, error) { return q.bulk(ctx, d.action, ids, dry) }, err
}
