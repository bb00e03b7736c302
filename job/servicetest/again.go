package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var again = []verdict{
	{"any discarded job can be retried by hand, and begins anew", retriesDiscarded},
	{"a job that is not discarded cannot be retried by hand", retriesNoOther},
	{"a job that has expired cannot be retried by hand, nor be revived", retriesNoExpired},
	{"discarded jobs are in the list of jobs", listsDiscarded},
	{"a job that is given back a hundred times has failed once more", requeuesBounded},
	{"the error of who gives a job back too often is recorded", requeuesBoundedError},
	{"what is given back too often by workers that leave has failed, too", requeuesBoundedLeaving},
	{"a job whose time has come keeps the text of its schedule, and no clock waits for it", clearsSchedule},
	{"a pending job, one that is given back, and one of a worker that leaves tell their events", eventsOfReturns},
}

func retriesDiscarded(k *kit) {
	lasting := func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":1}`) }
	for name, f := range map[string]job.Failure{
		"attempts are spent": {Type: "net.x", Message: "no"}, "not retryable": {Message: "no", Retryable: ptr(false)},
		"DISCARD": {Code: "DISCARD", Message: "no"}, "FAIL": {Code: "FAIL", Message: "no"}, "DEAD_LETTER": {Code: "DEAD_LETTER", Message: "no"},
	} {
		k.push(lasting)
		j := k.fail(k.take(), f)
		k.stands(j, job.Discarded)
		c, err := k.s.Retry(k.ctx(), j.ID)
		if err != nil || c.Previous != job.Discarded || c.State != job.Available || c.Attempt != 0 || c.Error != nil || c.Errors != nil ||
			!c.FinishedAt.IsZero() || c.Dead || text(c.Job) != text(k.read(j.ID)) {
			k.t.Fatalf("%s: %+v, %v", name, c, err)
		}
		if told := k.told(j.ID); !slices.Equal(told[len(told)-3:], []string{"job.discarded", "job.retried", "job.enqueued"}) {
			k.t.Errorf("%s: told %q", name, told)
		}
		got := k.take()
		if got.ID != j.ID || got.Attempt != 1 {
			k.t.Errorf("%s: fetched %s", name, text(got))
		}
		k.ack(got, "")
	}
	if st, err := k.s.DeadStats(k.ctx()); err != nil || st.Total != 0 {
		k.t.Errorf("%d dead letters are left, %v", st.Total, err)
	}
}

func retriesNoOther(k *kit) {
	for _, p := range uniquePlaces() {
		if p.state == job.Discarded {
			continue
		}
		j := p.reach(k, func(*job.Envelope) {})
		if err := k.untouched(p.name, j, func() error {
			_, err := k.s.Retry(k.ctx(), j.ID)
			e := k.is(p.name, err, job.Conflict)
			if e.Details["current_state"] != string(p.state) {
				k.t.Errorf("%s: details %v", p.name, e.Details)
			}
			return nil
		}); err != nil {
			k.t.Error(err)
		}
		k.clear(k.read(j.ID))
	}
	_, err := k.s.Retry(k.ctx(), newID())
	k.is("a job that never was", err, job.NotFound)
}

func retriesNoExpired(k *kit) {
	soon := func(e *job.Envelope) { e.TTL = blink }
	unrun := k.push(soon)
	k.until(unrun.ID, job.Discarded)
	k.push(soon)
	failed := k.fetch(job.FetchRequest{})
	for _, j := range failed {
		k.fail(j, job.Failure{Code: "DEAD_LETTER", Message: "no"})
	}
	k.pause(2 * blink)
	for _, j := range append(failed, unrun) {
		before := text(k.read(j.ID))
		_, err := k.s.Retry(k.ctx(), j.ID)
		e := k.is("retry", err, job.Conflict)
		if e.Details["reason"] != "expired" || text(k.read(j.ID)) != before {
			k.t.Errorf("details %v, now\n%s", e.Details, text(k.read(j.ID)))
		}
	}
	if len(failed) == 0 {
		return // the machine was too busy to start it in time
	}
	_, err := k.s.Revive(k.ctx(), failed[0].ID)
	k.is("revive", err, job.Conflict)
	fine := k.bury("fine", "net.x")
	if n, err := k.s.ReviveDead(k.ctx(), job.Filter{}); n != 1 || err != nil || k.read(fine.ID).State != job.Available || !k.read(failed[0].ID).Dead {
		k.t.Errorf("revived %d, %v", n, err)
	}
}

func listsDiscarded(k *kit) {
	k.push(nil)
	j := k.fail(k.take(), job.Failure{Message: "no", Retryable: ptr(false)})
	k.push(nil)
	page, err := k.s.Jobs(k.ctx(), job.Filter{States: []job.State{job.Discarded}})
	if err != nil || page.Total != 1 || len(page.Jobs) != 1 || page.Jobs[0].ID != j.ID || page.Jobs[0].Error == nil {
		k.t.Errorf("%+v, %v", page, err)
	}
}

// clearsSchedule: the timer goes at the promotion (ojs-core.md §6.3), and what
// the client wrote stays as it is (contract §4.1).
func clearsSchedule(k *kit) {
	for _, change := range []func(*job.Envelope){
		func(e *job.Envelope) { e.Delay = blink },
		func(e *job.Envelope) { e.ScheduledAt = time.Now().Add(blink) },
		func(e *job.Envelope) { e.Delay, e.TTL = blink, time.Hour },
	} {
		j := k.push(change)
		k.stands(j, job.Scheduled)
		k.until(j.ID, job.Available)
		got := k.read(j.ID)
		if !got.ScheduledAt.Equal(j.ScheduledAt) || got.EnqueuedAt.Before(j.ScheduledAt) {
			k.t.Errorf("it was to start at %s; now %s", j.ScheduledAt, text(got))
		}
		k.shows(got, "scheduled_at", `"`+job.FormatTime(j.ScheduledAt)+`"`)
		k.shows(got, "next_retry_at", "")
		k.ack(k.take(), "")
	}
}

// returnOften gives the one job of the queue back as often as a server lets it.
func (k *kit) returnOften() *job.Job {
	k.t.Helper()
	var j *job.Job
	for i := range job.DefaultReleases {
		j = k.take()
		if j.Attempt != i+1 {
			k.t.Fatalf("attempt %d is counted %d", i+1, j.Attempt)
		}
		if j = k.fail(j, job.Failure{Requeue: true}); j.State != job.Available || j.Errors != nil {
			k.t.Fatalf("given back for the %d. time: %s", i+1, text(j))
		}
	}
	return j
}

func requeuesBounded(k *kit) {
	k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":2,"initial_interval":"PT0.001S","jitter":false}`)
	})
	k.returnOften()
	j := k.fail(k.take(), job.Failure{Requeue: true})
	if j.State != job.Retryable || j.Attempt != job.DefaultReleases+1 || len(k.history(j)) != 1 || j.RetryDelay != time.Millisecond {
		k.t.Fatalf("once more: %s", text(j))
	}
	k.expect(j.Error, "type", `"requeue_limit"`)
	k.expect(j.Error, "attempt", fmt.Sprint(j.Attempt))
	k.until(j.ID, job.Available)
	j = k.fail(k.take(), job.Failure{Requeue: true})
	if j.State != job.Discarded || len(k.history(j)) != 2 {
		k.t.Fatalf("and again: %s", text(j))
	}
	if told := k.told(j.ID); !slices.Equal(told[len(told)-2:], []string{"job.failed", "job.discarded"}) {
		k.t.Errorf("told %q", told[len(told)-4:])
	}
	if _, err := k.s.Retry(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	if j = k.fail(k.take(), job.Failure{Requeue: true}); j.State != job.Available {
		k.t.Errorf("after a retry by hand it counts anew: %s", text(j))
	}
}

func requeuesBoundedError(k *kit) {
	k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":9,"non_retryable_errors":["pool.closed"]}`)
	})
	k.returnOften()
	j := k.fail(k.take(), job.Failure{Requeue: true, Type: "pool.closed", Message: "no worker left"})
	k.stands(j, job.Discarded) // by the ordinary path
	k.expect(j.Error, "type", `"pool.closed"`)
	k.expect(j.Error, "message", `"no worker left"`)
}

func requeuesBoundedLeaving(k *kit) {
	k.push(nil)
	k.returnOften()
	k.beat(job.Beat{})
	j := k.take()
	released, err := k.s.Deregister(k.ctx(), "w1")
	if err != nil || !slices.Equal(released, []job.ID{j.ID}) {
		k.t.Errorf("released %v, %v", released, err)
	}
	if j = k.read(j.ID); j.State != job.Retryable {
		k.t.Errorf("it is %s", text(j))
	}
	k.expect(j.Error, "type", `"requeue_limit"`)
}

func eventsOfReturns(k *kit) {
	waiting := fact{"job.enqueued", map[string]string{"state": `"pending"`, "priority": "0"}}
	j := k.push(func(e *job.Envelope) { e.Hold = true })
	k.tells(j.ID, waiting)
	if _, err := k.s.Activate(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	k.fail(k.take(), job.Failure{Requeue: true})
	k.beat(job.Beat{})
	k.take()
	if _, err := k.s.Deregister(k.ctx(), "w1"); err != nil {
		k.t.Fatal(err)
	}
	k.tells(j.ID, waiting, fact{"job.activated", nil}, enqueued, started, enqueued, fact{"job.started", map[string]string{"attempt": "2"}}, enqueued)
}
