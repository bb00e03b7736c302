package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Every job that is pushed is taken by somebody who waits, in the instant in
// which it is pushed: a bubble's clock stands still while anybody has work, so
// a wake-up that is lost shows as time that passed.
func TestBellLosesNoWakeUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) { bellRound(t, w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

var bellQueues = []string{"a", "b", "c"}

// bellRound lets fetchers wait, each for some of the queues and all together for
// each, and pushes as many jobs as there are fetchers. Some leave before.
func bellRound(t *testing.T, w *world, r *rand.Rand) {
	const fetchers, leavers = 24, 8
	begin := time.Now()
	var wg sync.WaitGroup
	for range fetchers {
		queues := append([]string{bellQueues[r.IntN(3)]}, bellQueues...) // one of them twice
		wg.Go(func() {
			jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: queues, Wait: 20 * time.Second})
			if err != nil || len(jobs) != 1 || time.Since(begin) != 0 {
				t.Errorf("a fetch came with %d jobs after %s, %v", len(jobs), time.Since(begin), err)
			}
		})
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	back := make(chan job.ID, leavers)
	for range leavers {
		wg.Go(func() {
			jobs, _ := w.Fetch(ctx, job.FetchRequest{Queues: bellQueues, Wait: 20 * time.Second})
			for _, j := range jobs { // it got one before it left: it gives it back
				back <- j.ID
			}
		})
	}
	if r.IntN(2) == 0 {
		synctest.Wait()
	}
	for i := range fetchers {
		if i == fetchers/2 {
			leave()
		}
		wg.Go(func() { bellPush(t, w, bellQueues[i%3]) })
	}
	wg.Go(func() { giveBack(t, w, back) })
	synctest.Wait()
	close(back)
	wg.Wait()
}

func bellPush(t *testing.T, w *world, queue string) {
	if _, err := w.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: queue, Args: json.RawMessage(`[]`)}); err != nil {
		t.Error(err)
	}
}

func giveBack(t *testing.T, w *world, ids <-chan job.ID) {
	for id := range ids {
		if _, err := w.Fail(t.Context(), job.Claim{ID: id}, job.Failure{Requeue: true}); err != nil {
			t.Error(err)
		}
	}
}

// A waiter that was rung and leaves without a job passes its signal on.
func TestBellPassesSignalsOn(t *testing.T) {
	t.Parallel()
	var b wakeups
	first := newWaiter(t.Context(), job.FetchRequest{Queues: []string{"a", "b"}})
	second := newWaiter(t.Context(), job.FetchRequest{Queues: []string{"b"}})
	third := newWaiter(t.Context(), job.FetchRequest{Queues: []string{"b"}})
	for _, w := range []*waiter{first, second, third} {
		b.arm(w)
	}
	b.ring("b")
	if len(first.signal) != 1 || len(second.signal)+len(third.signal) != 0 {
		t.Error("the first in line was not rung, or not alone")
	}
	b.leave(first)
	if len(second.signal) != 1 || len(third.signal) != 0 {
		t.Error("the signal did not go to the next in line")
	}
	<-second.signal
	b.leave(second)
	if len(third.signal) != 0 {
		t.Error("a signal that was used was passed on")
	}
	b.ring("b")
	b.ring("b") // nobody is left
	b.leave(third)
	if len(b.waiting) != 0 {
		t.Errorf("%d lines are left behind", len(b.waiting))
	}
	b.ring("b") // nobody is there
}

// Who is woken for nothing, or was taken out of the line for nothing, has its place
// again. If somebody was rung for meanwhile and nobody was there, it looks.
func TestBellKeepsPlaces(t *testing.T) {
	t.Parallel()
	var b wakeups
	may := func(*waiter) bool { return true }
	waiters := make([]*waiter, 3)
	for i := range waiters {
		waiters[i] = newWaiter(t.Context(), job.FetchRequest{Queues: []string{"a", "b"}[i%2:]})
		b.arm(waiters[i])
		b.rest(waiters[i])
	}
	for range 2 {
		b.ring("b")
		<-waiters[0].signal
		b.arm(waiters[0])
		w := b.take("a", easy, may)
		next := b.take("b", easy, may)
		if w != waiters[0] || next != waiters[1] {
			t.Fatal("the first in line was not the one that came first")
		}
		b.putBack(next)
		b.putBack(w)
	}
	only := b.take("a", easy, may)
	other := b.take("a", easy, may)
	b.ring("a") // nobody is there
	b.putBack(other)
	b.putBack(only)
	if len(only.signal)+len(other.signal) != 2 || b.waiting["a"] != nil || b.waiting["b"].Len() != 1 {
		t.Error("who was not there when somebody was rung for was not woken")
	}
	last := b.take("b", easy, may)
	b.give(last, &claiming{})
	if b.rise(last) == nil || len(last.signal) != 0 { // its time was up in the same moment
		t.Error("who was served has nothing, or a signal beside it")
	}
	for _, w := range waiters {
		b.leave(w)
	}
}

// A fetcher that is woken for one queue and finds an older job of another leaves the one
// that it was woken for to the next in line.
func TestAWakeUpForAnotherQueueGoesOn(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		first := w.waits(t.Context(), job.FetchRequest{Queues: []string{"a", "b"}})
		next := w.waits(t.Context(), job.FetchRequest{Queues: []string{"b"}})
		s.set(func() { s.paused = "a" })
		old := w.push(func(e *job.Envelope) { e.Queue = "a" })
		w.stillWaits("for a queue that is paused", first)
		looks := 0
		s.set(func() {
			s.paused = "" // which wakes nobody
			s.available = func([]string) error {
				if looks++; looks == 1 { // in the transaction of the PUSH
					return job.Errorf(job.Unavailable, "not now")
				}
				return nil
			}
		})
		id := w.push(func(e *job.Envelope) { e.Queue = "b" }).ID
		if got := w.got(first); !slices.Equal(got, []job.ID{old.ID}) {
			t.Errorf("the first got %v", got)
		}
		if got := w.got(next); !slices.Equal(got, []job.ID{id}) {
			t.Errorf("the next one got %v", got)
		}
	})
}

// The same over real time and many processors, for the race detector.
func TestBellUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const jobs, fetchers = 300, 16
	seen := make(chan job.ID, jobs)
	ctx, stop := context.WithCancel(t.Context())
	var fetching, pushing sync.WaitGroup
	for i := range fetchers {
		fetching.Go(func() {
			for ctx.Err() == nil {
				got, _ := w.Fetch(ctx, job.FetchRequest{Queues: []string{bellQueues[i%3], bellQueues[(i+1)%3]}, Wait: 20 * time.Second, Count: 1 + i%2})
				for _, j := range got {
					seen <- j.ID
				}
			}
		})
	}
	for i := range jobs {
		pushing.Go(func() { bellPush(t, w, bellQueues[i%3]) })
	}
	pushing.Wait()
	once := map[job.ID]bool{}
	late := time.NewTimer(15 * time.Second)
	defer late.Stop()
	for len(once) < jobs {
		select {
		case id := <-seen:
			if once[id] {
				t.Errorf("%s was given twice", id)
			}
			once[id] = true
		case <-late.C:
			t.Fatalf("%d of %d jobs were fetched, the rest waits for somebody who was not woken", len(once), jobs)
		}
	}
	stop()
	fetching.Wait()
}

// A job that a later element of its batch has cancelled, or that is stored
// already, is nothing to wake for.
func TestBellOfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	e := job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Unique: json.RawMessage(`{"on_conflict":"replace"}`)}
	late, held := e, e
	late.Delay = time.Hour
	held.Unique, held.Deduplication = nil, json.RawMessage(`{"id":"d","ttl":9,"extend":true}`)
	rings := func(what string, want int, es ...job.Envelope) {
		t.Helper()
		at := job.FetchRequest{Queues: []string{mail}}
		waiters := []*waiter{newWaiter(t.Context(), at), newWaiter(t.Context(), at)}
		for _, a := range waiters {
			w.wakeups.arm(a)
		}
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		rung := 0
		for _, a := range waiters {
			rung += len(a.signal)
			w.wakeups.mu.Lock()
			w.wakeups.remove(a)
			w.wakeups.mu.Unlock()
		}
		if rung != want {
			t.Errorf("%s: %d are woken, want %d", what, rung, want)
		}
	}
	rings("cancelled by the next", 0, e, late)
	rings("the second takes its place", 1, e, e)
	rings("the first holds its key", 1, held)
	rings("and holds it on", 0, held)
	if err := w.store.View(t.Context(), func(tx job.ReadTx) error {
		jobs, err := tx.Jobs(job.Filter{States: []job.State{job.Available}, Limit: 9})
		if len(jobs.Jobs) != 2 {
			t.Errorf("%d are available, want 2", len(jobs.Jobs))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// fetching says when a FETCH looks for jobs, and has no memory for any while it is full.
type fetching struct {
	looked chan struct{}
	full   bool
}

func (f fetching) Take(int) bool { return !f.full }
func (f fetching) Reset()        { f.looked <- struct{}{} }

// A fetcher that is woken and cannot take the job, as its answer has no room or its
// caller has left, wakes the next one.
func TestAWakeUpThatFailsGoesOn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		unable := fetching{make(chan struct{}, 9), true}
		failed := make(chan error, 1)
		go func() {
			_, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: maxWait, Room: unable})
			failed <- err
		}()
		<-unable.looked
		time.Sleep(time.Millisecond) // it waits
		next, began := make(chan time.Duration, 1), time.Now()
		go func() {
			if _, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Wait: maxWait}); err != nil {
				t.Error(err)
			}
			next <- time.Since(began)
		}()
		time.Sleep(time.Millisecond)
		w.push(nil)
		if err := <-failed; job.KindOf(err) != job.Unavailable {
			t.Errorf("without room: %v", err)
		}
		if took := <-next; took > time.Second {
			t.Errorf("the next one got the job after %s", took)
		}
	})
}
