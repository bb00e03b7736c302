package sidecar

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// genesis is when the tests with a clock of their own begin.
var genesis = time.UnixMilli(1_800_000_000_000).UTC()

const mail = "mail"

// world is a sidecar whose clock moves only when the test says so, and whose
// duties are done by the test instead of by Run.
type world struct {
	t    *testing.T
	path string
	*Sidecar
	store *sqlitestore.Store

	mu  sync.Mutex
	now time.Time

	skew atomic.Int64 // of the clock in a bubble
}

func newWorld(t *testing.T, r Retention) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "o.db"), now: genesis}
	w.start(r)
	t.Cleanup(func() {
		if !t.Failed() {
			storetest.Audit(t, w.store)
		}
		_ = w.store.Close() // a test that failed may have closed it
	})
	return w
}

func (w *world) start(r Retention) {
	w.t.Helper()
	store, err := sqlitestore.Open(context.Background(), w.path, sqlitestore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
	w.Sidecar = New(store, Options{Now: w.time, Rand: func() float64 { return 0.5 }, Retention: r})
	w.settle()
}

// restart ends the sidecar and its store and begins again with the same file.
func (w *world) restart() {
	w.t.Helper()
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.start(Retention{})
}

// crash begins again with the files as they lie there while the sidecar runs.
func (w *world) crash() {
	w.t.Helper()
	old, dir := w.path, w.t.TempDir()
	w.path = filepath.Join(dir, filepath.Base(old))
	for _, behind := range []string{"", "-wal"} {
		raw, err := os.ReadFile(old + behind)
		if err == nil {
			err = os.WriteFile(w.path+behind, raw, 0o600)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.start(Retention{})
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) set(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = t
}

// settle does the duties until none is due.
func (w *world) settle() {
	w.t.Helper()
	for range 1000 {
		w.Recover(w.t.Context())
		if w.clock.soonest().After(w.time()) {
			return
		}
	}
	w.t.Fatal("the duties do not come to an end")
}

// pass lets time pass and does what is due then.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.set(w.time().Add(d))
	w.settle()
}

func (w *world) push(change func(*job.Envelope)) *job.Job {
	w.t.Helper()
	e := job.Envelope{Type: "email.send", Queue: mail, Args: json.RawMessage(`[]`)}
	if change != nil {
		change(&e)
	}
	rs, err := w.Enqueue(w.t.Context(), e)
	if err != nil {
		w.t.Fatal(err)
	}
	return rs[0].Job
}

func (w *world) fetch(worker string, n int, visibility time.Duration) []*job.Job {
	w.t.Helper()
	jobs, err := w.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{mail}, Worker: worker, Count: n, Visibility: visibility})
	if err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

func (w *world) take(worker string, visibility time.Duration) *job.Job {
	w.t.Helper()
	jobs := w.fetch(worker, 1, visibility)
	if len(jobs) != 1 {
		w.t.Fatalf("fetched %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

func (w *world) read(id job.ID) *job.Job {
	w.t.Helper()
	j, err := w.Job(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// is compares the state of a stored job.
func (w *world) is(when string, id job.ID, want job.State) {
	w.t.Helper()
	if j := w.read(id); j.State != want {
		w.t.Errorf("%s: the job is %s, want %s", when, j.State, want)
	}
}

func (w *world) beat(worker string, jobs ...*job.Job) {
	w.t.Helper()
	b := job.Beat{Worker: job.WorkerInfo{ID: worker}}
	for _, j := range jobs {
		b.Jobs = append(b.Jobs, job.Claim{ID: j.ID, Token: j.Lease.Token})
	}
	if _, err := w.Beat(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fail(j *job.Job, f job.Failure) *job.Job {
	w.t.Helper()
	failed, err := w.Fail(w.t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, f)
	if err != nil {
		w.t.Fatal(err)
	}
	return failed
}

func (w *world) ack(j *job.Job) {
	w.t.Helper()
	if _, err := w.Ack(w.t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, nil); err != nil {
		w.t.Fatal(err)
	}
}
