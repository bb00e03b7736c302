package sidecar

import (
	"sync"
	"sync/atomic"

	"github.com/outrider-jobs/outrider/job"
)

// ends are those who wait for the end of a job. It is safe for concurrent use.
type ends struct {
	present atomic.Int64 // of them
	mu      sync.Mutex
	waiting map[job.ID]*ending
}

// ending is one job whose end somebody waits for.
type ending struct {
	told    chan struct{} // closed once the end is on disk
	outcome job.Outcome   // then
	waiters int
}

// await begins to wait for the end of a job. What ended before it is not told: whoever
// waits reads the job behind this. leave must follow.
func (e *ends) await(id job.ID) *ending {
	e.present.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.waiting[id]
	if w == nil {
		w = &ending{told: make(chan struct{})}
		if e.waiting == nil {
			e.waiting = map[job.ID]*ending{}
		}
		e.waiting[id] = w
	}
	w.waiters++
	return w
}

func (e *ends) leave(id job.ID, w *ending) {
	e.present.Add(-1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.waiters--; w.waiters == 0 && e.waiting[id] == w {
		delete(e.waiting, id)
	}
}

// tell wakes those who wait for jobs that have ended.
func (e *ends) tell(s *Sidecar, changes []change) {
	if e.present.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		if w := e.waiting[c.job.ID]; w != nil && c.ends() {
			shown := c.job.Clone()
			s.show(shown)
			w.outcome = shown.Outcome()
			close(w.told)
			delete(e.waiting, c.job.ID)
		}
	}
}
