package sidecar

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// bubble runs a sidecar with its duties inside a synctest bubble, where time
// passes only while everybody waits.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	bubbleOn(t, func(s job.Store) job.Store { return s }, test)
}

// bubbleOn is bubble with what through makes of the store between it and the sidecar.
func bubbleOn(t *testing.T, through func(job.Store) job.Store, test func(t *testing.T, w *world)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, path: path, store: store}
		w.Sidecar = New(through(store), Options{Rand: func() float64 { return 0.5 },
			Now: func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		test(t, w)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// next waits for a job with a long poll.
func (w *world) next(wait time.Duration) *job.Job {
	w.t.Helper()
	jobs, err := w.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: wait})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(jobs) == 0 {
		return nil
	}
	return jobs[0]
}

// Run sleeps until the instant that is next, and hands over at that instant.
func TestRunIsExact(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		for _, d := range []time.Duration{9137, 137, 12_001, 3000, 3001, 1} {
			w.push(func(e *job.Envelope) { e.Delay = d * tick })
		}
		for range 6 {
			j := w.next(20 * time.Second)
			if j == nil {
				t.Fatal("a scheduled job never came")
			}
			if !j.StartedAt.Equal(j.ScheduledAt) {
				t.Errorf("scheduled for %s, started %s later", j.ScheduledAt, j.StartedAt.Sub(j.ScheduledAt))
			}
		}
		held := w.push(policy(`{"initial_interval":"PT7S","jitter":false}`))
		failed := w.fail(w.next(0), job.Failure{Message: "no"})
		again := w.next(20 * time.Second)
		if again == nil || again.ID != held.ID || !again.StartedAt.Equal(failed.NextRetryAt) || again.StartedAt.Sub(failed.StartedAt) != 7*time.Second {
			t.Errorf("failed %+v, again %+v", failed.Status, again)
		}
	})
}

// The duties run slice by slice, so that calls get their turn in between.
func TestHerd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = 3000
	es := make([]job.Envelope, n)
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Delay: time.Second}
	}
	if _, err := w.Enqueue(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	w.set(genesis.Add(time.Hour))
	for rounds, seen := 1, int64(0); ; rounds++ {
		w.Recover(t.Context())
		q, err := w.Queue(t.Context(), mail)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Counts[job.Available] - seen; got > n/3 {
			t.Errorf("round %d let %d jobs in at once, of %d", rounds, got, n)
		}
		if seen = q.Counts[job.Available]; seen == n {
			break
		}
		if rounds > n/10 {
			t.Fatalf("%d of %d jobs after %d rounds", seen, n, rounds)
		}
	}
	first := w.fetch("", 100, 0)
	for i := 1; i < len(first); i++ {
		if first[i].Seq <= first[i-1].Seq {
			t.Errorf("place %d behind place %d", first[i].Seq, first[i-1].Seq)
		}
	}
}

// While many jobs are let in, a call is answered between two slices.
func TestHerdLetsCallsThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	es := make([]job.Envelope, 3000)
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Delay: time.Second}
	}
	if _, err := w.Enqueue(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	w.set(genesis.Add(time.Hour))
	var between atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	called := make(chan struct{})
	go func() {
		defer close(called)
		for ctx.Err() == nil {
			if _, err := w.Enqueue(context.Background(), job.Envelope{Type: "a.b", Queue: "other", Args: json.RawMessage(`[]`)}); err != nil {
				t.Error(err)
				return
			}
			between.Add(1)
		}
	}()
	turns := 0
	for left := int64(1); left > 0; {
		before := between.Load()
		w.Recover(t.Context())
		if between.Load() > before {
			turns++
		}
		q, err := w.Queue(t.Context(), mail)
		if err != nil {
			t.Fatal(err)
		}
		left = q.Counts[job.Scheduled]
	}
	stop()
	<-called
	if turns == 0 {
		t.Error("no call was answered while the jobs were let in")
	}
}

// Run ends with its context and leaves nothing behind, nor does a fetch that waits.
func TestRunLeaksNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := New(store, Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended, left := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	go func() {
		_, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{mail}, Wait: 20 * time.Second})
		left <- err
	}()
	if _, err := s.Enqueue(ctx, job.Envelope{Type: "a.b", Args: json.RawMessage(`[]`), Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if err := <-left; job.KindOf(err) != job.Unavailable {
		t.Errorf("fetch: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}

// Quiet answers those who wait at once, and those who come, but work goes on.
func TestQuiet(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		w.push(nil)
		held := w.next(0)
		const waiters = 20
		out := make(chan int, waiters)
		begin := time.Now()
		for range waiters {
			go func() {
				jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: 20 * time.Second})
				if err != nil {
					t.Error(err)
				}
				out <- len(jobs)
			}()
		}
		synctest.Wait()
		w.Quiet()
		w.Quiet()
		for range waiters {
			if n := <-out; n != 0 {
				t.Errorf("a waiting fetch got %d jobs", n)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("they were answered after %s", took)
		}
		j := w.push(nil)
		if got := w.next(time.Second); got != nil {
			t.Errorf("a fetch after Quiet got %s", got.ID)
		}
		w.ack(held)
		w.is("pushed while quiet", j.ID, job.Available)
	})
}
