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
	workers map[string]job.WorkerInfo
}

func (r *roster) set(w job.WorkerInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers == nil {
		r.workers = map[string]job.WorkerInfo{}
	}
	r.workers[w.ID] = w
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
	return ok && directive(w, "") != "running", nil
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
		r.workers = map[string]job.WorkerInfo{}
	}
	for _, w := range ws {
		if _, newer := r.workers[w.ID]; !newer {
			r.workers[w.ID] = w
		}
	}
	r.loaded = true
	return nil
}
