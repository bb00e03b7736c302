package sidecar

import (
	"context"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// roster remembers the workers, so that a FETCH need not read them.
type roster struct {
	mu      sync.Mutex
	loaded  bool
	version uint64
	workers map[string]listed
}

// listed is a worker as one version knows it.
type listed struct {
	job.WorkerInfo
	version uint64
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
			r.workers[w.ID] = listed{w, version}
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

// which are the workers that a condition holds for.
func (r *roster) which(wanted func(job.WorkerInfo) bool) (ws []job.WorkerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if wanted(w.WorkerInfo) {
			ws = append(ws, w.WorkerInfo)
		}
	}
	return ws
}

// nextSilent is the earliest instant of the workers that have one, else zero.
func (r *roster) nextSilent(when func(job.WorkerInfo) (time.Time, bool)) (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if at, ok := when(w.WorkerInfo); ok {
			next = sooner(next, at)
		}
	}
	return next
}

// countWorkers counts the workers, and those of them that are stale.
func (s *Sidecar) countWorkers(ctx context.Context, now time.Time) (all, stale int, err error) {
	if err := s.loadRoster(ctx); err != nil {
		return 0, 0, err
	}
	r := &s.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if s.stale(w.WorkerInfo, now) {
			stale++
		}
	}
	return len(r.workers), stale, nil
}

// takesNoJobs reports whether a worker has been told, or has said, that it takes no more
// jobs. Until the workers of the life before are in memory, that one is read alone:
// a FETCH waits for no list.
func (s *Sidecar) takesNoJobs(ctx context.Context, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	r := &s.roster
	r.mu.Lock()
	w, ok := r.workers[id]
	loaded := r.loaded
	r.mu.Unlock()
	if !ok && !loaded {
		before, err := view(ctx, s, func(tx job.ReadTx) (job.WorkerInfo, error) { return tx.Worker(id) })
		if err != nil && job.KindOf(err) != job.NotFound {
			return false, err
		}
		w, ok = listed{WorkerInfo: before}, err == nil
	}
	return ok && !w.Takes(), nil
}

// loadRoster reads the workers of the life before, once.
func (s *Sidecar) loadRoster(ctx context.Context) error {
	r := &s.roster
	r.mu.Lock()
	loaded := r.loaded
	r.mu.Unlock()
	if loaded {
		return nil
	}
	ws, err := view(ctx, s, job.ReadTx.Workers)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers == nil {
		r.workers = map[string]listed{}
	}
	for _, w := range ws {
		if _, newer := r.workers[w.ID]; !newer {
			r.workers[w.ID] = listed{w, 0}
		}
	}
	r.loaded = true
	return nil
}
