package servicetest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var waiting = []verdict{
	{"a waiting fetch is woken by a push", wokenByPush},
	{"a waiting fetch is woken by a schedule that comes due, never early", wokenBySchedule},
	{"a waiting fetch is woken by a job that is given back", wokenByRequeue},
	{"a waiting fetch is woken by a retry, never early", wokenByRetry},
	{"a waiting fetch is woken by a reservation that ran out", wokenByLoss},
	{"a waiting fetch is woken by an activation and by a revival", wokenByOperator},
	{"a wait that ends is empty", waitEnds},
	{"a caller that leaves takes no job with it", waitLeft},
	{"a worker that said it is quiet gets nothing, even where it waits already", quietWhileWaiting},
}

// waiter fetches in the background. The channel gives what came, once.
func (k *kit) waiter(f job.FetchRequest) <-chan []*job.Job {
	out := make(chan []*job.Job, 1)
	if f.Queues == nil {
		f.Queues = []string{queue}
	}
	go func() {
		jobs, err := k.s.Fetch(k.ctx(), f)
		if err != nil && k.ctx().Err() == nil {
			k.t.Errorf("fetch: %v", err)
		}
		out <- jobs
	}()
	k.pause(blink) // so that it waits by now, mostly
	return out
}

// woken waits for a fetch that has to come soon with one job.
func (k *kit) woken(what string, out <-chan []*job.Job) *job.Job {
	k.t.Helper()
	begin := time.Now()
	select {
	case jobs := <-out:
		if len(jobs) != 1 {
			k.t.Fatalf("%s: the fetch came with %d jobs, want 1", what, len(jobs))
		}
		return jobs[0]
	case <-time.After(soon):
		k.t.Fatalf("%s: the fetch was not woken in %s", what, time.Since(begin))
	}
	return nil
}

func wokenByPush(k *kit) {
	out := k.waiter(job.FetchRequest{Queues: []string{"other", queue}, Wait: 2 * patience})
	j := k.push(nil)
	if got := k.woken("push", out); got.ID != j.ID {
		k.t.Errorf("got %s, want %s", got.ID, j.ID)
	}
}

func wokenBySchedule(k *kit) {
	out := k.waiter(job.FetchRequest{Wait: 2 * patience})
	j := k.push(func(e *job.Envelope) { e.Delay = 3 * blink })
	k.stands(j, job.Scheduled)
	got := k.woken("schedule", out)
	if got.ID != j.ID || got.StartedAt.Before(j.ScheduledAt) || got.EnqueuedAt.Before(j.ScheduledAt) {
		k.t.Errorf("scheduled at %s, got %s", j.ScheduledAt, text(got))
	}
}

func wokenByRequeue(k *kit) {
	j := k.push(nil)
	held := k.take()
	out := k.waiter(job.FetchRequest{Wait: 2 * patience})
	k.fail(held, job.Failure{Requeue: true})
	if got := k.woken("requeue", out); got.ID != j.ID || got.Attempt != 2 {
		k.t.Errorf("got %s", text(got))
	}
}

func wokenByRetry(k *kit) {
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval_ms":120,"jitter":false}`) })
	held := k.take()
	out := k.waiter(job.FetchRequest{Wait: 2 * patience})
	failed := k.fail(held, job.Failure{Message: "refused"})
	got := k.woken("retry", out)
	if got.StartedAt.Before(failed.NextRetryAt) || got.RetryDelay != 120*time.Millisecond {
		k.t.Errorf("next retry at %s, got %s", failed.NextRetryAt, text(got))
	}
	k.shows(got, "retry_delay_ms", "120")
	k.shows(got, "next_retry_at", "")
}

func wokenByLoss(k *kit) {
	k.push(nil)
	held := k.one(job.FetchRequest{Visibility: 3 * blink})
	out := k.waiter(job.FetchRequest{Wait: 2 * patience})
	got := k.woken("loss", out)
	if got.ID != held.ID || got.Attempt != 2 || got.StartedAt.Before(held.Lease.Until) {
		k.t.Errorf("reserved until %s, got %s", held.Lease.Until, text(got))
	}
}

func wokenByOperator(k *kit) {
	held := k.push(func(e *job.Envelope) { e.Hold = true })
	out := k.waiter(job.FetchRequest{Wait: 2 * patience})
	if _, err := k.s.Activate(k.ctx(), held.ID); err != nil {
		k.t.Fatal(err)
	}
	dead := k.fail(k.woken("activation", out), job.Failure{Code: "DEAD_LETTER"})
	out = k.waiter(job.FetchRequest{Wait: 2 * patience})
	if _, err := k.s.Revive(k.ctx(), dead.ID); err != nil {
		k.t.Fatal(err)
	}
	k.woken("revival", out)
}

func waitEnds(k *kit) {
	begin := time.Now()
	jobs := k.fetch(job.FetchRequest{Wait: 2 * blink})
	if took := time.Since(begin); len(jobs) != 0 || took < 2*blink || took > patience {
		k.t.Errorf("%d jobs after %s", len(jobs), took)
	}
	begin = time.Now()
	k.none()
	if took := time.Since(begin); took > soon {
		k.t.Errorf("without a wait it took %s", took)
	}
}

func waitLeft(k *kit) {
	ctx, leave := context.WithCancel(k.ctx())
	gone := make(chan error, 1)
	go func() {
		_, err := k.s.Fetch(ctx, job.FetchRequest{Queues: []string{queue}, Wait: 2 * patience})
		gone <- err
	}()
	k.pause(blink)
	leave()
	select {
	case err := <-gone:
		k.is("a fetch whose caller left", err, job.Unavailable)
	case <-time.After(soon):
		k.t.Fatal("the fetch went on")
	}
	j := k.push(nil)
	if got := k.take(); got.ID != j.ID {
		k.t.Errorf("got %s", text(got))
	}
}

func quietWhileWaiting(k *kit) {
	beat := func(state string) {
		if _, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1", State: state}}); err != nil {
			k.t.Fatal(err)
		}
	}
	beat("running")
	out := k.waiter(job.FetchRequest{Worker: "w1", Wait: 10 * blink})
	beat("quiet")
	j := k.push(nil)
	if jobs := <-out; len(jobs) != 0 {
		k.t.Errorf("a worker that had said it is quiet got %s", text(jobs[0]))
	}
	k.stands(k.read(j.ID), job.Available)
}
