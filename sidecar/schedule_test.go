package sidecar

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const tick = time.Millisecond

func policy(s string) func(*job.Envelope) {
	return func(e *job.Envelope) { e.Retry = json.RawMessage(s) }
}

func TestPromotionIsExactAndNeverEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(func(e *job.Envelope) { e.Delay = 5 * time.Second })
	if at := w.clock.next[dutyPromote]; !at.Equal(genesis.Add(5 * time.Second)) {
		t.Errorf("the next promotion is planned for %s", at)
	}
	w.pass(5*time.Second - tick)
	w.is("one tick early", j.ID, job.Scheduled)
	if got := w.fetch("", 1, 0); len(got) != 0 {
		t.Errorf("fetched %s early", got[0].ID)
	}
	w.pass(tick)
	w.is("in time", j.ID, job.Available)
	if now := w.read(j.ID); !now.EnqueuedAt.Equal(genesis.Add(5 * time.Second)) {
		t.Errorf("enqueued at %s", now.EnqueuedAt)
	}
}

// A schedule given in microseconds must hold back neither its own job nor others.
func TestScheduleBetweenTwoMilliseconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	at := genesis.Add(time.Second)
	odd := w.push(func(e *job.Envelope) { e.ScheduledAt = at.Add(300 * time.Microsecond) })
	even := w.push(func(e *job.Envelope) { e.ScheduledAt = at })
	w.pass(time.Second - tick)
	w.is("early", odd.ID, job.Scheduled)
	w.is("early", even.ID, job.Scheduled)
	w.pass(tick)
	w.is("its neighbour in time", even.ID, job.Available)
	w.pass(tick)
	w.is("a millisecond later", odd.ID, job.Available)
}

// An expiry given in microseconds must not stop the others either.
func TestExpiryBetweenTwoMilliseconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	at := genesis.Add(time.Second)
	odd := w.push(func(e *job.Envelope) { e.ExpiresAt = at.Add(300 * time.Microsecond) })
	even := w.push(func(e *job.Envelope) { e.ExpiresAt = at })
	w.pass(time.Second)
	w.is("its neighbour in time", even.ID, job.Discarded)
	w.pass(tick)
	w.is("a millisecond later", odd.ID, job.Discarded)
}

// contract §4.14: promotion keeps FIFO by due time, then creation.
func TestPromotionOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	push := func(name string, id int, at time.Duration) {
		w.push(func(e *job.Envelope) {
			e.Type, e.ScheduledAt = name, genesis.Add(at)
			e.ID = job.ID(fmt.Sprintf("0197f6a0-0000-7000-8000-%012d", id))
		})
		w.pass(tick)
	}
	push("late", 1, 3*time.Second)
	push("first", 9, 2*time.Second)
	push("second", 8, 2*time.Second)
	push("third", 7, 2*time.Second)
	push("early", 6, time.Second)
	w.set(genesis.Add(time.Minute))
	w.settle()
	var got []string
	for _, j := range w.fetch("", 9, 0) {
		got = append(got, j.Type)
	}
	if want := []string{"early", "first", "second", "third", "late"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBackoffIsHonoured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(policy(`{"max_attempts":4,"initial_interval":"PT1S","jitter":false}`))
	for n, delay := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		failed := w.fail(w.take("w", 0), job.Failure{Message: "no"})
		if failed.RetryDelay != delay || !failed.NextRetryAt.Equal(w.time().Add(delay)) {
			t.Errorf("failure %d: delay %s until %s", n+1, failed.RetryDelay, failed.NextRetryAt)
		}
		w.pass(delay - tick)
		w.is("one tick early", j.ID, job.Retryable)
		w.pass(tick)
		w.is("in time", j.ID, job.Available)
	}
	w.fail(w.take("w", 0), job.Failure{Message: "no"})
	w.is("after the last", j.ID, job.Discarded)
}

func TestReservationRunsOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		retry string
		want  job.State
	}{{"without a policy", "", job.Available}, {"with a policy", `{"jitter":false}`, job.Retryable}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Retention{})
			j := w.push(func(e *job.Envelope) {
				if tt.retry != "" {
					e.Retry = json.RawMessage(tt.retry)
				}
			})
			held := w.take("w", 30*time.Second)
			w.pass(20 * time.Second)
			w.beat("w", held)
			w.pass(30*time.Second - tick)
			w.is("a beat moved the end", j.ID, job.Active)
			w.pass(tick)
			w.is("at the end", j.ID, tt.want)
			lost := w.read(j.ID)
			if lost.Attempt != 1 || !lost.StartedAt.IsZero() {
				t.Errorf("%+v", lost.Status)
			}
			if want := w.time().Add(time.Second); tt.want == job.Retryable && !lost.NextRetryAt.Equal(want) {
				t.Errorf("next retry at %s, want %s", lost.NextRetryAt, want)
			}
		})
	}
}

// contract §4.8: a late ack is heard for max(60 s, visibility length) after the loss.
func TestLateAckWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		length, late time.Duration
		good         bool
	}{{time.Second, time.Minute, true}, {time.Second, time.Minute + tick, false}, {5 * time.Minute, 5 * time.Minute, true}, {5 * time.Minute, 5*time.Minute + tick, false}} {
		w := newWorld(t, Retention{})
		w.push(nil)
		held := w.take("w", tt.length)
		w.pass(tt.length)
		w.is("lost", held.ID, job.Available)
		w.pass(tt.late)
		_, err := w.Ack(t.Context(), job.Claim{ID: held.ID, Token: held.Lease.Token}, nil)
		if (err == nil) != tt.good || err != nil && job.KindOf(err) != job.Conflict {
			t.Errorf("reserved for %s, acknowledged %s after the loss: %v", tt.length, tt.late, err)
		}
	}
}

func TestExecutionTimeoutIsNotExtended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(func(e *job.Envelope) { e.Timeout = 10 * time.Second; policy(`{"jitter":false}`)(e) })
	held := w.take("w", time.Minute)
	for range 9 {
		w.pass(time.Second)
		w.beat("w", held)
	}
	w.pass(time.Second - tick)
	w.is("one tick early", j.ID, job.Active)
	w.pass(tick)
	w.is("in time", j.ID, job.Retryable)
	w.pass(time.Second)
	again := w.take("w", time.Minute)
	w.pass(10*time.Second - tick)
	w.is("the second attempt has its own limit", j.ID, job.Active)
	w.pass(tick)
	w.is("and ends there", again.ID, job.Retryable)
}

// contract §4.6: a beat sets the deadline to now + its length, also where that
// is sooner than the deadline before.
func TestBeatMayShortenTheReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(nil)
	held := w.take("w", 30*time.Minute)
	c := job.Claim{ID: held.ID, Token: held.Lease.Token}
	r, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w"}, Jobs: []job.Claim{c}, Visibility: 10 * time.Second})
	if err != nil || len(r.Extended) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.pass(10*time.Second - tick)
	w.is("one tick early", j.ID, job.Active)
	w.pass(tick)
	w.is("10 s after the beat", j.ID, job.Available)
}

// The clock is looked at a few times for a call, however many jobs it is about.
func TestACallLooksAtTheClockAFewTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{Cancelled: time.Second})
	var looks atomic.Int64
	w.o.Now = func() time.Time { looks.Add(1); return w.time() }
	const jobs = 80
	for name, change := range map[string]func(*job.Envelope){
		"available": func(*job.Envelope) {}, "with an end": func(e *job.Envelope) { e.TTL = time.Hour },
		"scheduled": func(e *job.Envelope) { e.Delay = time.Hour }, "keyed": func(e *job.Envelope) { e.Unique = json.RawMessage(`{"on_conflict":"replace"}`) },
	} {
		es := make([]job.Envelope, jobs)
		for i := range es {
			es[i] = job.Envelope{Type: "email.send", Queue: mail, Args: json.RawMessage(`[]`)}
			change(&es[i])
		}
		looks.Store(0)
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		if n := looks.Load(); n > 4 {
			t.Errorf("a PUSH of %d jobs, %s, looks %d times", jobs, name, n)
		}
	}
	looks.Store(0)
	if got := w.fetch("w", jobs, 0); len(got) != jobs {
		t.Fatalf("%d jobs", len(got))
	}
	if n := looks.Load(); n > 4 {
		t.Errorf("a FETCH of %d jobs looks %d times", jobs, n)
	}
}
