package sidecar

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// crowd makes n workers beat now.
func (w *world) crowd(n int) {
	w.t.Helper()
	err := w.store.Update(w.t.Context(), func(tx job.Tx) error {
		for i := range n {
			if err := tx.PutWorker(job.WorkerInfo{ID: fmt.Sprintf("w%05d", i), StartedAt: w.time(), BeatAt: w.time()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.restart() // which learns of them as a server does
}

// holder makes a worker that beats and holds n jobs.
func (w *world) holder(worker string, n int) {
	w.t.Helper()
	w.beat(worker)
	for range n {
		w.push(nil)
	}
	for held := 0; held < n; {
		held += len(w.fetch(worker, maxCount, time.Hour))
	}
}

// inSlices fails unless no transaction changed more than a slice, and all together n.
func inSlices(t *testing.T, what string, sizes []int, n int) {
	t.Helper()
	sum := 0
	for _, size := range sizes {
		sum += size
	}
	if len(sizes) == 0 || slices.Max(sizes) > slice || sum != n {
		t.Errorf("%s: transactions of %v, want none above %d, and %d in all", what, sizes, slice, n)
	}
}

// Workers that fall silent at once are dealt with some at a time: a push that comes
// in the middle is stored long before the last of them is.
func TestManyWorkersFallSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = 3*slice + 7
	w.crowd(n)
	var sizes []int
	w.Sidecar.store = counting{w.store, &sizes}
	w.set(w.time().Add(silence))
	if _, err := w.Sidecar.watch(t.Context(), w.time()); err != nil {
		t.Fatal(err)
	}
	w.push(nil)
	if len(w.heard()) == 0 {
		t.Error("nobody was dealt with before the push")
	}
	rounds := 1
	for next := w.time(); !next.After(w.time()); rounds++ {
		var err error
		if next, err = w.Sidecar.watch(t.Context(), w.time()); err != nil || rounds > n {
			t.Fatal(rounds, err)
		}
	}
	inSlices(t, "silence", sizes, n)
	if rounds < 4 {
		t.Errorf("all were dealt with in %d rounds", rounds)
	}
	if h, err := w.Health(t.Context()); err != nil || h.Workers != n || h.StaleNow != n {
		t.Errorf("health: %d workers, %d stale, %v", h.Workers, h.StaleNow, err)
	}
	sizes = nil
	w.pass(day)
	inSlices(t, "forgetting", sizes, n)
	if h, err := w.Health(t.Context()); err != nil || h.Workers != 0 {
		t.Errorf("after a day: %d workers, %v", h.Workers, err)
	}
}

// The jobs of one worker that held very many are taken some at a time; each goes
// back once, and its silence is told once, also when it is heard in the middle.
func TestWorkerOfManyJobsFallsSilent(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("heard in the middle: ", back), func(t *testing.T) {
			w := newWorld(t, Retention{})
			const n = 2*slice + 100
			w.holder("w", n)
			var sizes []int
			w.Sidecar.store = counting{w.store, &sizes}
			w.set(w.time().Add(silence))
			if _, err := w.Sidecar.watch(t.Context(), w.time()); err != nil {
				t.Fatal(err)
			}
			first := sizes[0]
			if back {
				w.beat("w")
				sizes = sizes[:1]
			}
			w.settle()
			if back {
				inSlices(t, "heard", sizes, first)
				if left := len(w.heldBy("w")); left != n-first {
					t.Errorf("%d jobs are left of %d, %d were taken", left, n, first)
				}
				return
			}
			inSlices(t, "silent", sizes, n+1)
			if left := len(w.heldBy("w")); left != 0 {
				t.Errorf("%d jobs are left", left)
			}
			if got := w.heard(); len(got) != 2 {
				t.Errorf("told %v", got)
			}
		})
	}
}

func (w *world) heldBy(worker string) []job.ID {
	w.t.Helper()
	held, err := view(w.t.Context(), w.Sidecar, func(tx job.ReadTx) (map[string][]job.ID, error) { return tx.Holders(worker) })
	if err != nil {
		w.t.Fatal(err)
	}
	return held[worker]
}

// A worker that holds very many jobs gives them back some at a time, and goes with the last.
func TestDeregisterInSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = 2*slice + 30
	w.holder("w", n)
	var sizes []int
	w.Sidecar.store = counting{w.store, &sizes}
	released, err := w.Deregister(t.Context(), "w")
	if err != nil || len(released) != n {
		t.Errorf("released %d, %v", len(released), err)
	}
	inSlices(t, "deregister", sizes, n+1)
	if _, err := w.Worker(t.Context(), "w"); job.KindOf(err) != job.NotFound {
		t.Errorf("the worker is still there: %v", err)
	}
}

// All workers are directed some at a time.
func TestDirectAllInSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = 2*slice + 30
	w.crowd(n)
	var sizes []int
	w.Sidecar.store = counting{w.store, &sizes}
	if told, err := w.DirectAll(t.Context(), job.Quiet); told != n || err != nil {
		t.Errorf("told %d, %v", told, err)
	}
	inSlices(t, "direct", sizes, n)
}

// What is old is pruned in transactions of one slice, whatever its sorts.
func TestPruneInSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = slice + 20
	for left := n; left > 0; left -= min(left, maxCount/3) {
		es := make([]job.Envelope, 3*min(left, maxCount/3))
		for i := range es {
			es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: []byte(`[]`)}
		}
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		for i, j := range w.fetch("", len(es), time.Hour) {
			var err error
			switch i % 3 {
			case 0:
				_, err = w.Cancel(t.Context(), j.ID, "api", "")
			case 1:
				_, err = w.Ack(t.Context(), job.Claim{ID: j.ID}, nil)
			default:
				w.fail(j, job.Failure{Code: "DEAD_LETTER"})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var sizes []int
	w.Sidecar.store = counting{w.store, &sizes}
	w.pass(181 * day)
	inSlices(t, "prune", sizes, 3*n)
}

// A FETCH of a server that has just begun reads its worker and no list of all.
func TestFetchReadsNoListOfWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	for _, id := range []string{"quiet", "busy"} {
		w.beat(id)
	}
	if _, err := w.Direct(t.Context(), "quiet", job.Quiet); err != nil {
		t.Fatal(err)
	}
	fresh := New(listless{w.store}, Options{Now: w.time})
	for _, tt := range []struct {
		worker string
		jobs   int
	}{{"quiet", 0}, {"unknown", 1}} {
		got, err := fresh.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Worker: tt.worker})
		if err != nil || len(got) != tt.jobs {
			t.Errorf("%s fetched %d jobs, %v", tt.worker, len(got), err)
		}
	}
}

// Once the duties have run, at the start, a FETCH reads nothing but what it claims.
func TestFetchReadsNoWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	w.beat("quiet")
	if _, err := w.Direct(t.Context(), "quiet", job.Quiet); err != nil {
		t.Fatal(err)
	}
	fresh := New(w.store, Options{Now: w.time})
	fresh.round(t.Context())
	fresh.store = unread{w.store}
	for worker, jobs := range map[string]int{"quiet": 0, "unknown": 1} {
		got, err := fresh.Fetch(t.Context(), job.FetchRequest{Queues: []string{mail}, Worker: worker})
		if err != nil || len(got) != jobs {
			t.Errorf("%s fetched %d jobs, %v", worker, len(got), err)
		}
	}
}

// unread is a store that nothing is to be read of but in a transaction that writes.
type unread struct{ job.Store }

func (unread) View(context.Context, func(job.ReadTx) error) error {
	return job.Errorf(job.Unavailable, "nothing is to be read here")
}

// listless is a store that lists no workers.
type listless struct{ job.Store }

func (s listless) View(ctx context.Context, fn func(job.ReadTx) error) error {
	return s.Store.View(ctx, func(tx job.ReadTx) error { return fn(listlessTx{tx}) })
}

type listlessTx struct{ job.ReadTx }

func (listlessTx) Workers() ([]job.WorkerInfo, error) {
	return nil, job.Errorf(job.Unavailable, "the list of workers is not to be read here")
}
