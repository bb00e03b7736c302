package sidecar

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// roster remembers the workers, so that a FETCH need not read them.
type roster struct {
	loaded  atomic.Bool // the workers that were stored before this server started are in it
	mu      sync.Mutex
	version uint64
	workers map[string]listed
}

// listed is a worker as one version knows it.
type listed struct {
	job.WorkerInfo
	version uint64
	fetches []string // the queues of its latest FETCH
}

// next is the version of a transaction that changes workers, and is asked for
// inside it: of two versions of a worker the higher one was stored later, in
// whatever order they are set.
func (r *roster) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	return r.version
}

func (r *roster) set(version uint64, ws ...job.WorkerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers == nil {
		r.workers = map[string]listed{}
	}
	for _, w := range ws {
		if r.workers[w.ID].version <= version {
			r.workers[w.ID] = listed{w, version, r.workers[w.ID].fetches}
		}
	}
}

// drop forgets a worker, unless it has come again since that version.
func (r *roster) drop(version uint64, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[id].version <= version {
		delete(r.workers, id)
	}
}

// complete adds to what a worker tells of itself the queues that it fetches from, where it
// does not tell them.
func (r *roster) complete(w *job.WorkerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Queues == nil {
		w.Queues = slices.Clone(r.workers[w.ID].fetches)
	}
}

// all yields the workers. The roster is locked meanwhile.
func (r *roster) all(yield func(job.WorkerInfo) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if !yield(w.WorkerInfo) {
			return
		}
	}
}

// countWorkers counts the workers, and those of them that are stale.
func (s *Sidecar) countWorkers(ctx context.Context, now time.Time) (all, stale int, err error) {
	if err := s.loadRoster(ctx); err != nil {
		return 0, 0, err
	}
	for w := range s.roster.all {
		if all++; s.stale(w, now) {
			stale++
		}
	}
	return all, stale, nil
}

// takesNoJobs reports whether a worker must take no more jobs, by an operator's directive or its own
// word. Until the stored workers are in memory, that one is read alone:
// a FETCH waits for no list.
func (s *Sidecar) takesNoJobs(ctx context.Context, id string, queues []string) (bool, error) {
	if id == "" {
		return false, nil
	}
	loaded := s.roster.loaded.Load() // before the look: what is loaded behind it is not missed
	idle, known := s.roster.asks(id, queues)
	if known || loaded {
		return idle, nil
	}
	w, err := view(ctx, s, func(tx job.ReadTx) (job.WorkerInfo, error) { return tx.Worker(id) })
	if err != nil && job.KindOf(err) != job.NotFound {
		return false, err
	}
	return err == nil && !w.Takes(), nil
}

// asks notes from which queues a worker fetches, as most name them nowhere else, and
// answers as idle does.
func (r *roster) asks(id string, queues []string) (idle, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, known := r.workers[id]
	if known && w.Queues == nil && !slices.Equal(w.fetches, queues) {
		w.fetches = slices.Clone(queues)
		r.workers[id] = w
	}
	return known && !w.Takes(), known
}

// idle reports whether a worker is known here to take no more jobs, and whether it is
// known here at all.
func (r *roster) idle(id string) (idle, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, known := r.workers[id]
	return known && !w.Takes(), known
}

// loadRoster reads the workers that were stored before this server started, once.
func (s *Sidecar) loadRoster(ctx context.Context) error {
	if s.roster.loaded.Load() {
		return nil
	}
	ws, err := view(ctx, s, job.ReadTx.Workers)
	if err == nil {
		s.roster.set(0, ws...) // older than all that is known
		s.roster.loaded.Store(true)
	}
	return err
}
