package sidecar

import (
	"context"
	"sync"

	"github.com/outrider-jobs/outrider/job"
)

// roster remembers the workers, so that a FETCH need not read them.
type roster struct {
	mu      sync.Mutex
	loaded  bool
	turns   uint64
	workers map[string]listed
}

// listed is what a worker is known to be since a turn.
type listed struct {
	job.WorkerInfo
	turn uint64
}

// turn is asked for inside a transaction that changes workers. Who changes one
// later gets a higher turn, whoever comes first with it to set.
func (r *roster) turn() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns++
	return r.turns
}

func (r *roster) set(turn uint64, ws ...job.WorkerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers == nil {
		r.workers = map[string]listed{}
	}
	for _, w := range ws {
		if r.workers[w.ID].turn <= turn {
			r.workers[w.ID] = listed{w, turn}
		}
	}
}

func (r *roster) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.workers, id)
}

// told reports whether a worker has been told, or has said, that it takes no more jobs.
func (s *Sidecar) told(ctx context.Context, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	r := &s.roster
	r.mu.Lock()
	loaded := r.loaded
	r.mu.Unlock()
	if !loaded {
		if err := s.loadRoster(ctx); err != nil {
			return false, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.workers[id]
	return ok && !w.Takes(), nil
}

// loadRoster reads the workers of the life before, once.
func (s *Sidecar) loadRoster(ctx context.Context) error {
	var ws []job.WorkerInfo
	err := s.store.View(ctx, func(tx job.ReadTx) (err error) {
		ws, err = tx.Workers()
		return err
	})
	if err != nil {
		return err
	}
	r := &s.roster
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
