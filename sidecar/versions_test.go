package sidecar

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Behind more jobs of a wrong version than one transaction looks through the right one is
// claimed, and what was looked through is not looked through again.
func TestVersionsBehindManyOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	old := job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Extra: json.RawMessage(`{"version":1}`)}
	push := func(n int, e job.Envelope) job.ID {
		t.Helper()
		es := make([]job.Envelope, n)
		for i := range es {
			es[i] = e
		}
		var last job.ID
		for part := range slices.Chunk(es, 5_000) {
			rs, err := w.Enqueue(t.Context(), part...)
			if err != nil {
				t.Fatal(err)
			}
			last = rs[len(rs)-1].ID
		}
		return last
	}
	push(12_000, old)
	high := old
	high.Priority = 9
	push(3_000, high)
	v, err := job.ParseVersions([]byte(`{"a.b":[2]}`))
	if err != nil {
		t.Fatal(err)
	}
	f := job.FetchRequest{Queues: []string{mail}, Count: 2, Versions: v}
	fetch := func(want ...job.ID) time.Duration {
		t.Helper()
		began := time.Now()
		jobs, err := w.Fetch(t.Context(), f)
		took := time.Since(began)
		var got []job.ID
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		return took
	}
	right := old
	right.Extra = json.RawMessage(`{"version":2}`)
	first := push(1, right)
	cold := fetch(first)
	var warm time.Duration
	for range 20 {
		last := push(1, right)
		high := right
		high.Priority = 5
		front := push(1, high)
		warm += fetch(front, last)
	}
	t.Logf("the first FETCH behind 15,000 jobs took %s, one after it %s", cold, warm/20)
	if cold > 5*time.Second || warm/20 > 100*time.Millisecond {
		t.Errorf("it took %s, and then %s", cold, warm/20)
	}
	if jobs := w.fetch("w", 1, time.Hour); len(jobs) != 1 || jobs[0].Priority != 9 {
		t.Errorf("who takes all got %v", jobs)
	}
}

// A queue of more jobs of the right version than are remembered at once is emptied in its
// order, whatever comes in between.
func TestVersionsOfALongQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	r := rand.New(rand.NewPCG(4, 22))
	v, err := job.ParseVersions([]byte(`{"a.b":[2]}`))
	if err != nil {
		t.Fatal(err)
	}
	var line []*job.Job
	for round := range 60 {
		var es []job.Envelope
		for range 5 + r.IntN(20) + 400/(1+40*round) { // many at first
			es = append(es, job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`), Priority: r.IntN(4), Extra: fmt.Appendf(nil, `{"version":%d}`, 1+r.IntN(2))})
		}
		rs, err := w.Enqueue(t.Context(), es...)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rs {
			if v.Wants(e.Type, e.Extra) {
				line = append(line, e.Job)
			}
		}
		slices.SortStableFunc(line, func(a, b *job.Job) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.Seq, b.Seq)) })
		count := 1 + r.IntN(9)
		if round > 40 {
			count = maxCount
		}
		jobs, err := w.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Count: count, Versions: v})
		if err != nil || len(jobs) != min(count, len(line)) {
			t.Fatalf("round %d: got %d of %d, %v", round, len(jobs), len(line), err)
		}
		for i, j := range jobs {
			if j.ID != line[i].ID {
				t.Fatalf("round %d: job %d is %s of priority %d, want %s of %d", round, i, j.ID, j.Priority, line[i].ID, line[i].Priority)
			}
		}
		line = line[len(jobs):]
	}
}

// Who wants some versions is rung for those alone, and for what nobody knows.
func TestBellOfVersions(t *testing.T) {
	t.Parallel()
	var b wakeups
	wait := func(versions string) *waiter {
		f := job.FetchRequest{Queues: []string{"q"}}
		if versions != "" {
			var err error
			if f.Versions, err = job.ParseVersions([]byte(versions)); err != nil {
				t.Fatal(err)
			}
		}
		w := newWaiter(t.Context(), f)
		b.arm(w)
		return w
	}
	one, two, all, last := wait(`{"a.b":[1]}`), wait(`{"a.b":[2]}`), wait(""), wait("")
	of := func(id job.ID, v int) *job.Job {
		return &job.Job{Envelope: job.Envelope{ID: id, Type: "a.b", Queue: "q", Extra: fmt.Appendf(nil, `{"version":%d}`, v)}}
	}
	rung := func(what string, want ...*waiter) {
		t.Helper()
		for i, w := range []*waiter{one, two, all, last} {
			if (len(w.signal) == 1) != slices.Contains(want, w) {
				t.Errorf("%s: waiter %d has %d signals", what, i, len(w.signal))
			}
			if len(w.signal) == 1 {
				<-w.signal
				b.arm(w)
			}
		}
	}
	b.ringFor("q", of("x", 2))
	rung("version 2", two)
	b.ringFor("q", of("x", 3))
	rung("version 3", all)
	b.ring("q")
	rung("a job that nobody knows", one, two, all)
	b.used(all, ring{"q", "x"}, []*job.Job{of("x", 1)})
	rung("the job it was woken for")
	b.used(all, ring{"q", "x"}, []*job.Job{of("y", 1)})
	rung("another job than it was woken for", one, two)
	b.ringFor("q", of("x", 1))
	b.leave(one) // with its signal
	rung("who was woken left", two, all)
	b.leave(two)
	b.leave(all)
	b.leave(last)
	if b.choosy != 0 || b.present.Load() != 0 || len(b.waiting) != 0 {
		t.Errorf("%d choosy ones are left, %d in all, lines %v", b.choosy, b.present.Load(), b.waiting)
	}
}
