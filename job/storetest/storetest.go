// Package storetest judges any job.Store: it holds a test for every promise of
// that interface, and an audit of what is stored.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Now is the instant at which the tests happen.
var Now = time.UnixMilli(1_800_000_000_000).UTC()

// Run judges the stores that open makes: a new, empty one for each test. The
// store is audited and closed after every test.
func Run(t *testing.T, open func(t *testing.T) job.Store) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, job.Store)
	}{
		{"a job comes back as it was stored", roundTrip},
		{"every member of the status is kept when a job is stored", statusMembers},
		{"every member of the status is kept when a job changes", statusChanges},
		{"a missing job is NotFound", missingJob},
		{"an id is stored once", duplicateID},
		{"many jobs are stored together", together},
		{"many jobs are stored together, beside some that are there", togetherTaken},
		{"many jobs are undone together", togetherUndone},
		{"a call that fails leaves nothing", failedCall},
		{"a call that panics leaves nothing and the store alive", panickingCall},
		{"a call whose caller has left is not run", leftCaller},
		{"one that fails leaves its neighbours alone", failingNeighbour},
		{"a view is one snapshot and holds what was answered", snapshot},
		{"what is handed out is a copy", copies},
		{"the queue is first in, first out", fifo},
		{"priority comes before age", priority},
		{"queues are taken in the order given", queueOrder},
		{"a job that comes back goes to the end of its queue", reentry},
		{"due jobs come in the order of their time", due},
		{"counters follow every change", counters},
		{"a deleted job is gone", deletion},
		{"lists are filtered and paged", lists},
		{"pages end where there is no more room", pageRoom},
		{"pages of events end where there is no more room", eventRoom},
		{"large jobs are handed out a few at a time", largeClaims},
		{"dead letters are listed and counted", deadLetters},
		{"dead letters are taken oldest first", oldestDead},
		{"events are read in order and filtered", events},
		{"the events of one job are found", history},
		{"the events of one job are found inside a commit, too", historyInside},
		{"the events of one job are found beside those of neighbours", historyBeside},
		{"the events of one job are bounded, and pruned with the others", historyBounds},
		{"events that are no job's are kept", tellings},
		{"thousands of events of one call are kept, or none", manyTellings},
		{"tenants are listed by the jobs that they have", tenants},
		{"old events are pruned", pruneEvents},
		{"workers are kept", workers},
		{"the keys of a job come back as they were stored", keysRoundTrip},
		{"twins are the holder and the newest of each state", twins},
		{"a deduplication key has an owner while its window is open", dedupOwner},
		{"who waits for a job is found until it waits no more", waiting},
		{"a custom id names one job of its queue", customID},
		{"a job is rewritten", rewriting},
		{"jobs that hold a key are listed", holding},
		{"a key is held once", doubleKeys},
		{"where a store can insert first, it stores what has neither id nor key in common with another", insertFirst},
		{"a schedule comes back as it was stored", cronsRoundTrip},
		{"a schedule is stored in place of one of its name", cronsReplaced},
		{"a schedule that is handed out is a copy", cronCopies},
		{"schedules are listed by name", cronsInOrder},
		{"a missing schedule is NotFound", cronsMissing},
		{"a tick is claimed once, with the spec that was read", cronSteps},
		{"a first tick is claimed from the zero time", cronZeroSteps},
		{"a call that fails gives its tick back", cronStepUndone},
		{"a tick that many claim makes one job", cronNeighbours},
		{"a limit comes back as it was stored", limitsRoundTrip},
		{"a call that fails leaves a limit as it was", limitUndone},
		{"limits open in the order of their time", limitsOpen},
		{"the first of a lane is found", laneHeads},
		{"who is behind is not claimed", behind},
		{"schemas are kept in their order, each once", schemas},
		{"webhooks come back as they were stored", webhooks},
		{"what a webhook could not deliver is kept and goes with it", deliveries},
		{"what is set of a queue is kept, and holds under the template", settings},
		{"of a paused queue nothing is available", pausedQueues},
		{"a queue can be made and deleted", madeQueues},
		{"what happens in a queue is counted by the minute", slots},
		{"the priorities of a queue are counted, and its oldest job is known", waitingOf},
		{"a job can change its queue", movedJobs},
		{"an answer is kept under its key", keptAnswers},
		{"a workflow comes back as it was stored and changed", flowsRoundTrip},
		{"a call that fails leaves the nodes of a workflow as they were", flowUndone},
		{"workflows that ended long ago are pruned", flowsPruned},
		{"a closed store is Unavailable", closed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			tt.test(t, s)
			if t.Name() != "" && !t.Failed() && tt.name != "a closed store is Unavailable" {
				Audit(t, s)
			}
		})
	}
}

var serial atomic.Int64

// New is a pushed job that no store has seen. Its fields are for the test to change.
func New(t *testing.T, queue string, change func(*job.Job)) *job.Job {
	t.Helper()
	id := fmt.Sprintf("0197f6a0-%04x-7000-8000-%012x", serial.Add(1)&0xffff, serial.Add(1))
	j := &job.Job{Envelope: job.Envelope{ID: job.ID(id), Type: "email.send", Queue: queue, Args: json.RawMessage(`["ada@example.com"]`)}}
	if change != nil {
		change(j)
	}
	c, err := j.Check()
	if err != nil {
		t.Fatal(err)
	}
	if j, err = c.Push(Now); err != nil {
		t.Fatal(err)
	}
	return j
}

func update(t *testing.T, s job.Store, fn func(job.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, s job.Store, fn func(job.ReadTx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func insert(t *testing.T, s job.Store, jobs ...*job.Job) {
	t.Helper()
	update(t, s, func(tx job.Tx) error {
		for _, j := range jobs {
			if err := tx.InsertJob(j); err != nil {
				return err
			}
		}
		return nil
	})
}

// change applies a verb to a stored job.
func change(t *testing.T, s job.Store, id job.ID, verb func(*job.Job) error) *job.Job {
	t.Helper()
	var out *job.Job
	update(t, s, func(tx job.Tx) error {
		j, err := tx.Job(id)
		if err != nil {
			return err
		}
		if err := verb(j); err != nil {
			return err
		}
		out = j
		return tx.UpdateJob(j)
	})
	return out
}

func read(t *testing.T, s job.Store, id job.ID) *job.Job {
	t.Helper()
	var out *job.Job
	view(t, s, func(tx job.ReadTx) (err error) {
		out, err = tx.Job(id)
		return err
	})
	return out
}

// Reporter hears what an audit finds: a *testing.T, or the T of a property test.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Audit checks what is stored against itself (invariants of the project): the
// counters against a recount, the times and marks of each job against its
// state, no position of a queue given twice, and the keys against a look at all
// jobs. Nobody may write meanwhile: each page is asked of a snapshot of its own, as
// a store may bound how long one may be read that looks at all jobs.
func Audit(t Reporter, s job.Store) {
	t.Helper()
	jobs, err := pages(s, job.Filter{Limit: 1000})
	var holding []*job.Job
	if err == nil {
		holding, err = pages(s, job.Filter{Holding: true, Limit: 1000})
	}
	if err == nil {
		err = s.View(context.Background(), func(tx job.ReadTx) error {
			recount(t, tx, jobs)
			return nil
		})
	}
	if err == nil {
		err = s.View(context.Background(), func(tx job.ReadTx) error {
			auditKeys(t, tx, jobs, holding)
			return nil
		})
	}
	if err == nil {
		err = auditLimits(t, s, jobs)
	}
	places := map[string]job.ID{}
	for _, j := range jobs {
		sound(t, j)
		if j.State == job.Available {
			at := fmt.Sprint(j.Queue, j.Seq)
			if other := places[at]; other != "" || j.Seq <= 0 {
				t.Errorf("audit: %s and %s share place %s", j.ID, other, at)
			}
			places[at] = j.ID
		}
	}
	if err != nil {
		t.Errorf("audit: %v", err)
	}
}

// pages reads all jobs of a filter, page by page.
func pages(s job.Store, f job.Filter) (all []*job.Job, err error) {
	for {
		var page job.Page
		if err := s.View(context.Background(), func(tx job.ReadTx) (err error) {
			page, err = tx.Jobs(f)
			return err
		}); err != nil {
			return nil, err
		}
		if all = append(all, page.Jobs...); page.Next == "" {
			if n := int64(len(all)); n != page.Total && (!page.AtLeast || n < page.Total) {
				return nil, fmt.Errorf("the list has %d jobs and says %d", len(all), page.Total)
			}
			return all, nil
		}
		f.Cursor = page.Next
	}
}

// recount compares the counters with the jobs.
func recount(t Reporter, tx job.ReadTx, jobs []*job.Job) {
	t.Helper()
	queues, err := tx.Queues()
	if err != nil {
		t.Errorf("audit: %v", err)
		return
	}
	type key struct {
		queue string
		state job.State
	}
	counted := map[key]int64{}
	for _, j := range jobs {
		counted[key{j.Queue, j.State}]++
		if j.Dead {
			counted[key{j.Queue, "dead"}]++
		}
	}
	for _, q := range queues {
		for _, st := range job.States {
			if q.Counts[st] != counted[key{q.Name, st}] {
				t.Errorf("audit: queue %s counts %d %s, there are %d", q.Name, q.Counts[st], st, counted[key{q.Name, st}])
			}
			delete(counted, key{q.Name, st})
		}
		if q.Dead != counted[key{q.Name, "dead"}] {
			t.Errorf("audit: queue %s counts %d dead, there are %d", q.Name, q.Dead, counted[key{q.Name, "dead"}])
		}
		delete(counted, key{q.Name, "dead"})
	}
	for k, n := range counted {
		t.Errorf("audit: %d jobs are %s in queue %s, which is not listed", n, k.state, k.queue)
	}
}

// sound checks that a job's state agrees with everything else about it.
func sound(t Reporter, j *job.Job) {
	t.Helper()
	wrong := func(what string) {
		t.Errorf("audit: job %s is %s, %s", j.ID, j.State, what)
	}
	if (j.State == job.Active) != (j.Lease.Token != "") {
		wrong("and its lease is " + fmt.Sprintf("%+v", j.Lease))
	}
	if j.State.Terminal() == j.FinishedAt.IsZero() {
		wrong("and finished_at is " + j.FinishedAt.String())
	}
	if (j.State == job.Retryable) == j.NextRetryAt.IsZero() {
		wrong("and next_retry_at is " + j.NextRetryAt.String())
	}
	if needsClock := j.State == job.Scheduled || j.State == job.Retryable || j.State == job.Active; needsClock && j.DueAt.IsZero() {
		wrong("and no clock will ever look at it")
	}
	if j.State == job.Available && !j.DueAt.Equal(j.ExpiresAt) {
		wrong("and a clock still waits for it at " + j.DueAt.String())
	}
	if j.State == job.Active && (j.DueAt.After(j.Lease.Until) || j.Timeout > 0 && j.DueAt.After(j.StartedAt.Add(j.Timeout))) {
		wrong("and a clock looks at it too late, at " + j.DueAt.String())
	}
	if j.Dead && j.State != job.Discarded {
		wrong("and marked dead")
	}
	if j.State == job.Available && j.EnqueuedAt.IsZero() {
		wrong("and was never enqueued")
	}
	if n := j.Attempt - j.Releases; n > max(j.MaxAttempts, 1) || n < 0 {
		wrong(fmt.Sprintf("after %d executions of at most %d", n, j.MaxAttempts))
	}
	if began := j.StartedAt; j.State == job.Active || j.State == job.Completed && !began.IsZero() {
		if began.Before(j.ScheduledAt) || !j.ExpiresAt.IsZero() && !began.Before(j.ExpiresAt) {
			wrong("and was started outside its time, at " + began.String())
		}
	}
	if j.State == job.Completed && j.Error != nil {
		wrong("and has an error")
	}
	soundErrors(t, j)
}
