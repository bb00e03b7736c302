package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

func (w *world) configure(name, config string) {
	w.t.Helper()
	if _, err := w.SetQueueConfig(w.t.Context(), name, json.RawMessage(config), false); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) condition(name, status string) job.Queue {
	w.t.Helper()
	q, err := w.SetQueueStatus(w.t.Context(), name, status, "ada")
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

// What is set of a queue is there after a restart, and holds.
func TestSettingsOutliveARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	before := w.condition(mail, job.QueuePaused)
	w.condition("drained", job.QueueDraining)
	w.configure(job.TemplateQueue, `{"default_timeout":"PT7S"}`)
	w.push(nil)
	w.restart()
	if got := w.fetch("w", 9, 0); len(got) != 0 {
		t.Errorf("fetched %d jobs of a paused queue", len(got))
	}
	if q, err := w.Queue(t.Context(), mail); err != nil || !q.Paused || !q.Since.Equal(before.Since) || q.By != "ada" {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := w.Enqueue(t.Context(), job.Envelope{Type: "a", Queue: "drained", Args: json.RawMessage(`[]`)}); job.KindOf(err) != job.QueueClosed {
		t.Errorf("a push to a queue that drains: %v", err)
	}
	w.condition(mail, job.QueueActive)
	j := w.take("w", 0)
	w.beat("w", j) // which must not put it off
	w.pass(7 * time.Second)
	if j = w.read(j.ID); j.State == job.Active || j.ErrorType() != "timeout" {
		t.Errorf("behind the limit of its queue it is %s: %s", j.State, j.Error)
	}
}

// The length of a reservation is that of the FETCH, else of the job, else of its queue,
// else of the server; the limit of an execution is that of the job, else of its queue.
func TestLengthsOfAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.configure(mail, `{"visibility_timeout":40,"default_timeout":60}`)
	for i, c := range []struct {
		fetch, own, want time.Duration
	}{{0, 0, 40 * time.Second}, {0, 20 * time.Second, 20 * time.Second}, {10 * time.Second, 20 * time.Second, 10 * time.Second}} {
		w.push(func(e *job.Envelope) { e.Visibility = c.own })
		if j := w.take("w", c.fetch); j.Lease.Length != c.want {
			t.Errorf("%d: reserved for %v, want %v", i, j.Lease.Length, c.want)
		}
	}
	w.push(func(e *job.Envelope) { e.Timeout = 90 * time.Second })
	if j := w.take("w", time.Hour); !j.DueAt.Equal(j.StartedAt.Add(90 * time.Second)) {
		t.Errorf("due %v after its start", j.DueAt.Sub(j.StartedAt))
	}
	w.push(nil)
	if j := w.take("w", time.Hour); !j.DueAt.Equal(j.StartedAt.Add(time.Minute)) {
		t.Errorf("due %v after its start", j.DueAt.Sub(j.StartedAt))
	}
}

// Finished jobs stay as long as their queue says, whether that is shorter or longer than
// the server says, set before they end or afterwards, and a restart changes nothing.
func TestRetentionOfAQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	finish := func(queue string) job.ID {
		j := w.push(func(e *job.Envelope) { e.Queue = queue })
		if _, err := w.Cancel(t.Context(), j.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	w.configure("short", `{"retention":"PT10M"}`)
	w.configure("long", `{"retention":{"cancelled":"30d"}}`)
	w.configure("now", `{"retention":0}`)
	short, long, plain, other := finish("short"), finish("long"), finish("plain"), finish("set.later")
	if now := finish("now"); true {
		w.pass(time.Millisecond)
		if !w.gone(now) {
			t.Error("what is kept for no time is there")
		}
	}
	w.pass(9 * time.Minute)
	if w.gone(short) {
		t.Error("gone before its time")
	}
	w.pass(time.Minute)
	if !w.gone(short) {
		t.Error("there behind its time")
	}
	w.configure("set.later", `{"retention":{"cancelled":"P2D"}}`)
	w.pass(2*24*time.Hour - 12*time.Minute)
	if w.gone(other) {
		t.Error("set later: gone before its time")
	}
	w.restart()
	w.pass(time.Hour + 12*time.Minute)
	if !w.gone(other) {
		t.Error("set later: there behind its time")
	}
	w.pass(6 * 24 * time.Hour)
	if !w.gone(plain) || w.gone(long) {
		t.Errorf("after eight days: plain gone %v, long gone %v", w.gone(plain), w.gone(long))
	}
	w.configure("long", `{}`) // what has no retention of its own is kept as the server says
	w.pass(time.Hour)
	if !w.gone(long) {
		t.Error("without a retention it is there for longer than others")
	}
}

// The claim finds jobs in the order of their priorities as they are after any changes of them.
func TestPrioritiesModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 14))
		w := newWorld(t, Retention{})
		type entry struct {
			id       job.ID
			priority int
			seq      int
		}
		var waiting []entry
		for n := range 200 {
			switch x := r.IntN(10); {
			case x < 4 || len(waiting) == 0:
				p := r.IntN(5)
				j := w.push(func(e *job.Envelope) { e.Priority = p })
				waiting = append(waiting, entry{j.ID, p, n})
			case x < 8:
				k, p := r.IntN(len(waiting)), r.IntN(7)-3
				if _, err := w.Reprioritize(t.Context(), waiting[k].id, p); err != nil {
					t.Fatal(err)
				}
				waiting[k].priority = p
			default:
				slices.SortFunc(waiting, func(a, b entry) int {
					if a.priority != b.priority {
						return b.priority - a.priority
					}
					return a.seq - b.seq
				})
				count := 1 + r.IntN(3)
				got := w.fetch("w", count, 0)
				want := waiting[:min(count, len(waiting))]
				for i := range want {
					if len(got) != len(want) || got[i].ID != want[i].id {
						t.Fatalf("seed %d, step %d: got %d jobs, the %dth is not the one", seed, n, len(got), i)
					}
				}
				waiting = waiting[len(want):]
			}
		}
	}
}

// The tallies of the queues are those of a plain model, at every instant, over turns of the
// minute, clocks that are set back, and restarts.
func TestStatisticsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			statistics(t, rand.New(rand.NewPCG(seed, 313)))
		})
	}
}

func statistics(t *testing.T, r *rand.Rand) {
	w := newWorld(t, Retention{})
	queues := []string{mail, "other", "third"}
	type minute struct {
		queue string
		at    time.Time
	}
	model := map[minute]*job.Tally{}
	add := func(queue string, n job.Tally) {
		k := minute{queue, w.time().Truncate(time.Minute)}
		if model[k] == nil {
			model[k] = &job.Tally{}
		}
		model[k].Add(n)
	}
	var active []*job.Job
	for range 300 {
		queue := queues[r.IntN(3)]
		switch r.IntN(12) {
		case 0, 1, 2:
			var es []job.Envelope
			for range 1 + r.IntN(3) {
				es = append(es, job.Envelope{Type: "a.b", Queue: queue, Args: json.RawMessage(`[]`), Hold: r.IntN(4) == 0})
			}
			if _, err := w.Enqueue(t.Context(), es...); err != nil {
				t.Fatal(err)
			}
			add(queue, job.Tally{Enqueued: int64(len(es))})
		case 3, 4, 5:
			jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{queue}, Count: 1 + r.IntN(3), Visibility: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				add(queue, job.Tally{Started: 1, Waited: max(0, j.StartedAt.Sub(j.EnqueuedAt))})
			}
			active = append(active, jobs...)
		case 6, 7, 8:
			if len(active) == 0 {
				continue
			}
			j := active[0]
			active = active[1:]
			if w.read(j.ID).State != job.Active { // its limit has passed
				continue
			}
			switch r.IntN(4) {
			case 0:
				w.fail(j, job.Failure{Type: "x", Retryable: new(bool)})
				add(j.Queue, job.Tally{Failed: 1})
			case 1:
				w.fail(j, job.Failure{Requeue: true}) // which is no failure
			default:
				w.ack(j)
				add(j.Queue, job.Tally{Completed: 1, Timed: 1, Took: max(0, w.time().Sub(j.StartedAt))})
			}
		case 9:
			w.set(w.time().Add(time.Duration(r.IntN(100_000)) * time.Millisecond))
		case 10:
			if r.IntN(4) == 0 {
				w.set(w.time().Add(-time.Duration(r.IntN(90_000)) * time.Millisecond))
			}
		case 11:
			if r.IntN(5) == 0 {
				w.restart()
			}
		}
		if r.IntN(10) > 0 {
			continue
		}
		now := w.time()
		for _, queue := range append(queues, "") {
			var want job.QueueStats
			recent := job.Tally{}
			for k, n := range model {
				if (queue == "" || k.queue == queue) && k.at.After(now.Add(-time.Hour)) && !k.at.After(now) {
					want.Add(*n)
					if k.at.After(now.Add(-2 * time.Minute).Truncate(time.Minute)) {
						recent.Add(*n)
					}
				}
			}
			got, err := w.QueueStats(t.Context(), queue)
			if err != nil || got.Stats.Tally != want.Tally {
				t.Fatalf("%q at %v: %+v, %v\nwant %+v", queue, now, got.Stats.Tally, err, want.Tally)
			}
			per := now.Sub(now.Truncate(time.Minute).Add(-time.Minute)).Seconds()
			if rate := got.Stats.PerSecond; rate.Completed != float64(recent.Completed)/per || rate.Enqueued != float64(recent.Enqueued)/per {
				t.Fatalf("%q: rates %+v, want of %+v in %v s", queue, rate, recent, per)
			}
		}
	}
	total := job.Tally{}
	slots, err := w.Slots(t.Context(), "", time.UnixMilli(0))
	for _, s := range slots {
		total.Add(s.Tally)
	}
	want := job.Tally{}
	for _, n := range model {
		want.Add(*n)
	}
	if err != nil || total != want {
		t.Errorf("all in all %+v, want %+v: %v", total, want, err)
	}
}

// Slots are kept for a week, of each queue.
func TestSlotsArePruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	w.pass(2 * time.Minute)
	w.push(nil)
	w.pass(job.KeepSlots - time.Hour)
	w.push(nil)
	slots := func() int {
		all, err := w.Slots(t.Context(), mail, time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := slots(); n != 3 {
		t.Errorf("%d slots, want 3", n)
	}
	w.pass(2 * time.Hour)
	if n := slots(); n != 1 {
		t.Errorf("behind a week %d slots, want 1", n)
	}
}

// A request with an idempotency key has its effect once, and is answered as the first time
// for a day, also after a restart; another one under the same key is refused.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	one := func(typ string) job.BulkJob {
		c, err := job.Envelope{Type: typ, Queue: mail, Args: json.RawMessage(`[]`)}.Check()
		return job.BulkJob{Checked: c, Err: err}
	}
	p := job.BulkPush{Jobs: []job.BulkJob{one("a"), {Err: job.Errorf(job.Invalid, "no type").With(map[string]any{"field": "type"})}}, Idempotency: job.Idempotency{Key: "k", Digest: "d"}}
	r, err := w.PushEach(t.Context(), p)
	if err != nil || r.Succeeded != 1 || r.Failed != 1 || r.Replayed {
		t.Fatalf("%+v, %v", r, err)
	}
	first := text(r)
	for _, restart := range []bool{false, true} {
		if restart {
			w.restart()
		}
		again, err := w.PushEach(t.Context(), p)
		if err != nil || !again.Replayed || text(again) != first {
			t.Errorf("again: %v\n got %s\nwant %s", err, text(again), first)
		}
	}
	other := p
	other.Digest = "e"
	if _, err := w.PushEach(t.Context(), other); job.KindOf(err) != job.Conflict {
		t.Errorf("another request under the key: %v", err)
	}
	act := job.BulkAct{Action: job.BulkCancel, IDs: []job.ID{r.Items[0].ID}, Idempotency: job.Idempotency{Key: "c", Digest: "d"}}
	for _, replayed := range []bool{false, true} {
		if got, err := w.Bulk(t.Context(), act); err != nil || got.Succeeded != 1 || got.Replayed != replayed {
			t.Errorf("cancel: %+v, %v", got, err)
		}
	}
	act = job.BulkAct{Action: job.BulkDelete, Filter: &job.BulkFilter{Filter: job.Filter{Queue: mail}}, Idempotency: job.Idempotency{Key: "f", Digest: "d"}}
	for _, replayed := range []bool{false, true} {
		if got, err := w.Bulk(t.Context(), act); err != nil || got.Succeeded != 1 || got.Replayed != replayed {
			t.Errorf("delete by filter: %+v, %v", got, err)
		}
	}
	if q, err := w.Queue(t.Context(), mail); err != nil || q.Counts[job.Available]+q.Counts[job.Cancelled] != 0 {
		t.Errorf("%+v, %v", q, err)
	}
	w.set(w.time().Add(24*time.Hour + time.Millisecond))
	if again, err := w.PushEach(t.Context(), other); err != nil || again.Replayed {
		t.Errorf("after a day: %+v, %v", again, err)
	}
}

// text is a result without whether it was replayed.
func text(r job.BulkResult) string {
	raw, err := r.Encode()
	return fmt.Sprint(string(raw), err)
}

// A large purge, a large deletion and a large bulk request are many transactions, so that
// callers get their turn.
func TestLargeRequestsWorkInSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const jobs = 3*slice + 7
	fill := func() {
		var es []job.Envelope
		for range jobs {
			es = append(es, job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)})
		}
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
	}
	s := &staged{Store: w.store}
	w.Sidecar.store = s
	began := func(name string, do func(context.Context) (int64, error)) {
		s.set(func() { s.began = 0 })
		n, err := do(t.Context())
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil || n != jobs || s.began < jobs/slice {
			t.Errorf("%s: %d jobs in %d transactions, %v", name, n, s.began, err)
		}
	}
	fill()
	began("cancel", func(ctx context.Context) (int64, error) {
		r, err := w.Bulk(ctx, job.BulkAct{Action: job.BulkCancel, Filter: &job.BulkFilter{Filter: job.Filter{Queue: mail}}})
		if len(r.Items) != job.MaxBulkItems {
			t.Errorf("%d items", len(r.Items))
		}
		return r.Succeeded, err
	})
	began("purge", func(ctx context.Context) (int64, error) {
		return w.PurgeQueue(ctx, mail, job.Purge{States: []job.State{job.Cancelled}})
	})
	fill()
	began("delete", func(ctx context.Context) (int64, error) {
		return w.DeleteQueue(ctx, mail, job.QueueDeletion{Strategy: job.DeleteDiscard})
	})
	w.Sidecar.store = w.store
	storetest.Audit(t, w.store)
}

// The numbers of jobs and events go on behind a queue that was deleted, also after a
// restart: none is given twice.
func TestNumbersGoOnBehindADeletedQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(func(e *job.Envelope) { e.Queue = "gone" })
	if _, err := w.DeleteQueue(t.Context(), "gone", job.QueueDeletion{Strategy: job.DeleteDiscard}); err != nil {
		t.Fatal(err)
	}
	last := w.lastEvent()
	w.restart()
	next := w.push(nil)
	if next.Seq <= j.Seq {
		t.Errorf("the next job has the number %d, the one before had %d", next.Seq, j.Seq)
	}
	if now := w.lastEvent(); now <= last {
		t.Errorf("the next event has the number %d, the one before had %d", now, last)
	}
}

func (w *world) lastEvent() int64 {
	w.t.Helper()
	es, err := w.Events(w.t.Context(), job.EventFilter{Limit: 1000})
	if err != nil || len(es) == 0 {
		w.t.Fatal(err)
	}
	return es[len(es)-1].Seq
}

// A move keeps what has begun, and refuses where two jobs would have one custom id.
func TestAQueueIsMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	running := w.push(nil)
	claim := w.take("w", 0)
	later := w.push(func(e *job.Envelope) { e.ScheduledAt = w.time().Add(time.Minute) })
	named := w.push(func(e *job.Envelope) { e.CustomID = "n" })
	twin := w.push(func(e *job.Envelope) { e.Queue, e.CustomID = "to", "n" })
	move := job.QueueDeletion{Strategy: job.DeleteMove, Target: "to"}
	if _, err := w.DeleteQueue(t.Context(), mail, move); job.KindOf(err) != job.Conflict {
		t.Fatalf("with a twin there: %v", err)
	}
	if q, err := w.Queue(t.Context(), mail); err != nil || !q.Draining {
		t.Errorf("it takes jobs, and is to be deleted: %+v, %v", q, err)
	}
	for _, id := range []job.ID{twin.ID} {
		if _, err := w.Cancel(t.Context(), id, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.PurgeQueue(t.Context(), "to", job.Purge{States: []job.State{job.Cancelled}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.DeleteQueue(t.Context(), mail, move); err != nil {
		t.Fatal(err)
	}
	w.ack(claim)
	w.is("what ran", running.ID, job.Completed)
	w.pass(time.Minute)
	w.is("what was scheduled", later.ID, job.Available)
	jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{"to"}, Count: 9})
	if err != nil || len(jobs) != 2 || jobs[0].ID != named.ID || jobs[1].ID != later.ID {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}
