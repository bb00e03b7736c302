package sidecar

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// graveyard makes n dead letters, one in each millisecond from now on.
func (w *world) graveyard(n int) {
	w.t.Helper()
	for from := 0; from < n; from += 100 {
		es := make([]job.Envelope, min(100, n-from))
		for i := range es {
			es[i] = job.Envelope{Type: fmt.Sprint("n.n", from+i), Queue: mail, Args: []byte(`[]`)}
		}
		if _, err := w.Enqueue(w.t.Context(), es...); err != nil {
			w.t.Fatal(err)
		}
		for _, j := range w.fetch("", 100, 0) {
			w.set(w.time().Add(tick))
			w.fail(j, job.Failure{Code: "DEAD_LETTER"})
		}
	}
}

func (w *world) deadTotal() int64 {
	w.t.Helper()
	st, err := w.DeadStats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return st.Total
}

// counting is a store that knows how many jobs and workers each of its transactions changed.
type counting struct {
	job.Store
	sizes *[]int
}

func (c counting) Update(ctx context.Context, fn func(job.Tx) error) error {
	n := 0
	err := c.Store.Update(ctx, func(tx job.Tx) error {
		n = 0
		return fn(countingTx{tx, &n})
	})
	*c.sizes = append(*c.sizes, n)
	return err
}

type countingTx struct {
	job.Tx
	n *int
}

func (c countingTx) UpdateJob(j *job.Job) error { *c.n++; return c.Tx.UpdateJob(j) }
func (c countingTx) DeleteJob(id job.ID) error  { *c.n++; return c.Tx.DeleteJob(id) }

func (c countingTx) PutWorker(w job.WorkerInfo) error { *c.n++; return c.Tx.PutWorker(w) }
func (c countingTx) DeleteWorker(id string) error     { *c.n++; return c.Tx.DeleteWorker(id) }

// Many dead letters are retried and purged in slices of 500, when the first few have
// shown that they are small, and all are counted.
func TestDeadLettersInSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = 2*slice + 50
	w.graveyard(n)
	var sizes []int
	w.Sidecar.store = counting{w.store, &sizes}
	if got, err := w.ReviveDead(t.Context(), job.Filter{Limit: slice + 10}); got != slice+10 || err != nil {
		t.Errorf("retried %d in %v, %v", got, sizes, err)
	}
	inSlices(t, "retry", sizes, slice+10)
	if first := w.take("", 0); first.Type != "n.n0" {
		t.Errorf("the first is %s", first.Type)
	}
	sizes = nil
	if got, err := w.PurgeDead(t.Context(), w.time().Add(tick)); got != n-slice-10 || err != nil {
		t.Errorf("purged %d in %v, %v", got, sizes, err)
	}
	inSlices(t, "purge", sizes, n-slice-10)
	if left := w.deadTotal(); left != 0 {
		t.Errorf("%d are left", left)
	}
}

// What dies again while it is retried does not keep the retry busy.
func TestReviveDeadLeavesTheNewlyDeadAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.graveyard(1)
	late := w.time().Add(time.Hour)
	w.push(nil)
	j := w.take("", 0)
	w.set(late)
	w.fail(j, job.Failure{Code: "DEAD_LETTER"})
	w.set(late.Add(-tick)) // what is dead at late has not died yet
	if n, err := w.ReviveDead(t.Context(), job.Filter{Until: late.Add(time.Hour)}); n != 1 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
}

// contract §4.21: of dead letters the newest are kept, as many as asked.
func TestPruneByCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		keep int
		want int64
	}{{3, 3}, {0, slice + 20}, {-1, slice + 20}, {10_000, slice + 20}} {
		w := newWorld(t, Retention{DeadCount: tt.keep})
		w.graveyard(slice + 20)
		w.pass(hourly + tick)
		if got := w.deadTotal(); got != tt.want {
			t.Errorf("%d of %d stay, want %d", got, tt.keep, tt.want)
		}
		page, err := w.Jobs(t.Context(), job.Filter{Dead: true, Limit: 1})
		if want := fmt.Sprint("n.n", slice+19); err != nil || page.Jobs[0].Type != want {
			t.Errorf("the newest is %s, want %s, %v", page.Jobs[0].Type, want, err)
		}
	}
	if got := New(nil, Options{}).o.Retention.DeadCount; got != 10_000 {
		t.Errorf("by default %d stay", got)
	}
}

// Large dead letters are taken a few at a time: those of one transaction are in memory together.
func TestFewLargeDeadLettersAtOnce(t *testing.T) {
	t.Parallel()
	small, large := &job.Job{}, &job.Job{Envelope: job.Envelope{Args: make([]byte, 1<<20)}}
	for _, tt := range []struct {
		last []*job.Job
		want int
	}{{nil, slice}, {[]*job.Job{small}, slice}, {[]*job.Job{large}, fewLarge}, {[]*job.Job{small, small, large}, fewLarge}} {
		if got := paced(tt.last); got != tt.want {
			t.Errorf("after %d jobs %d, want %d", len(tt.last), got, tt.want)
		}
	}
}
