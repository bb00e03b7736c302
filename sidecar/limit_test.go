package sidecar

import (
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// limited makes the next life of the server one with a standard limit; 0 is the default.
func (w *world) limited(standard time.Duration) {
	w.t.Helper()
	w.Sidecar = New(w.store, Options{Now: w.time, Rand: w.o.Rand, Timeout: standard})
	w.settle()
}

// beatFor lets time pass while a worker beats for its job, every 10 s.
func (w *world) beatFor(d time.Duration, j *job.Job) {
	w.t.Helper()
	for end := w.time().Add(d); w.time().Before(end); {
		if w.read(j.ID).State == job.Active {
			w.beat("w", j)
		}
		w.pass(min(10*time.Second, end.Sub(w.time())))
	}
}

// ojs-core.md §5.2: a job that names no timeout has 1800 s. Heartbeats do not
// extend it, and it is not shown as the job's own.
func TestAnAttemptWithoutATimeoutEndsAfterHalfAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(nil)
	held := w.take("w", 30*time.Second)
	if shown := string(held.AppendJSON(nil, job.View{})); strings.Contains(shown, `"timeout`) || held.Timeout != 0 {
		t.Errorf("it shows a timeout that it does not have: %s", shown)
	}
	w.beatFor(30*time.Minute-tick, held)
	w.is("one tick before", j.ID, job.Active)
	w.pass(tick)
	w.is("after 1800 s of beating", j.ID, job.Retryable)
	if got := string(w.read(j.ID).Error); !strings.Contains(got, `"type":"timeout"`) || !strings.Contains(got, "30m0s") {
		t.Errorf("%s", got)
	}
}

// The limit is one of the attempt: the next has as long again, and after a manual
// retry, too. A job's own timeout is longer or shorter as it says.
func TestTheLimitIsOfOneAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.limited(time.Minute)
	own := w.push(func(e *job.Envelope) { e.Timeout = 10 * time.Minute })
	held := w.take("w", 30*time.Second)
	w.beatFor(9*time.Minute, held)
	w.is("its own timeout is longer", own.ID, job.Active)
	w.ack(held)
	j := w.push(nil)
	for attempt := range 2 {
		held := w.take("w", 30*time.Second)
		w.beatFor(time.Minute-tick, held)
		w.is("one tick before", j.ID, job.Active)
		w.pass(tick)
		w.is("after a minute", j.ID, job.Retryable)
		if got := w.read(j.ID); got.Attempt != attempt+1 {
			t.Errorf("attempt %d", got.Attempt)
		}
		w.pass(time.Minute)
	}
}

// Who is not heard of loses a reservation, which is another failure than a run
// that takes too long: what ends first counts.
func TestTheLimitIsNotTheReservation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reservation time.Duration
		want        job.State
		cause       string
	}{
		{59 * time.Second, job.Available, "visibility_timeout"},
		{time.Minute, job.Available, "visibility_timeout"},
		{time.Hour, job.Retryable, "timeout"},
	} {
		w := newWorld(t, Retention{})
		w.limited(time.Minute)
		j := w.push(nil)
		w.take("", tt.reservation)
		w.pass(min(time.Minute, tt.reservation) - tick)
		w.is("one tick before", j.ID, job.Active)
		w.pass(tick)
		w.is("reserved for "+tt.reservation.String(), j.ID, tt.want)
		if got := string(w.read(j.ID).Error); !strings.Contains(got, `"type":"`+tt.cause+`"`) {
			t.Errorf("reserved for %s: %s", tt.reservation, got)
		}
	}
}

// A limit that is set off is none.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.limited(-1)
	j := w.push(nil)
	held := w.take("w", 30*time.Second)
	w.beatFor(2*time.Hour, held)
	w.is("after two hours", j.ID, job.Active)
	w.ack(held)
}

// Jobs that were claimed by the server before have the limit of the present one,
// counted from their claim, whether it is shorter or longer.
func TestTheLimitOverARestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ before, after, ends time.Duration }{
		{-1, 10 * time.Minute, 10 * time.Minute},
		{time.Hour, 10 * time.Minute, 10 * time.Minute},
		{10 * time.Minute, time.Hour, time.Hour},
		{10 * time.Minute, -1, 24 * time.Hour}, // its reservation
		{0, 0, 30 * time.Minute},
	} {
		w := newWorld(t, Retention{})
		w.limited(tt.before)
		var all []job.ID
		for range 3 {
			all = append(all, w.push(nil).ID)
			w.take("", 24*time.Hour)
		}
		w.pass(5 * time.Minute)
		w.limited(tt.after)
		w.pass(tt.ends - 5*time.Minute - tick)
		for _, id := range all {
			w.is("one tick before", id, job.Active)
		}
		w.pass(tick)
		for _, id := range all {
			if j := w.read(id); j.State == job.Active {
				t.Errorf("%s before, %s now: still active after %s", tt.before, tt.after, tt.ends)
			}
		}
	}
}
