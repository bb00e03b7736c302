package sidecar

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// answers knows who waits for this server: for a beat or a claim to be on disk. A
// reservation is counted from when its worker hears of it, and not from when it
// asked: a worker that waits for an answer sends nothing else. What is stored says
// when it asked, as nobody knows before a commit how long that takes. So what ran
// out is compared with this before it is taken.
//
// Most answers come in a moment. How long the slowest of those took is remembered
// for all of them; only who waited for longer is remembered one by one, as long as
// its job is with it, or the worker is known. It is safe for concurrent use.
type answers struct {
	mu      sync.Mutex
	open    []*question          // that wait, in no order
	askedBy map[string]int       // how many of them are beats, by worker
	brief   time.Duration        // the longest moment that an answer took
	until   map[job.ID]time.Time // when a reservation ends that was answered late, or was spared for the moment
	said    map[string]time.Time // when a worker was last answered, if late
	held    atomic.Int64         // len(until)
}

// moment is the longest that is not remembered one by one.
const moment = 100 * time.Millisecond

// question is one beat or claim from when it came to when it is answered.
type question struct {
	a      *answers
	at     int // in a.open
	began  time.Time
	worker string
	jobs   []job.ID
}

// ask begins a question. Whoever calls it calls over.
func (a *answers) ask(now time.Time, worker string) *question {
	q := &question{a: a, began: now, worker: worker}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.askedBy, a.until, a.said = map[string]int{}, map[job.ID]time.Time{}, map[string]time.Time{}
	}
	q.at = len(a.open)
	a.open = append(a.open, q)
	if worker != "" {
		a.askedBy[worker]++
	}
	return q
}

// about says that a question is about a job too. It may be said again.
func (q *question) about(id job.ID) {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.jobs = append(q.jobs, id)
}

// promise is a reservation as it was stored.
type promise struct {
	id    job.ID
	until time.Time
}

// answer says that a question is on disk, and what it has promised.
func (q *question) answer(now time.Time, promises []promise) {
	a := q.a
	a.mu.Lock()
	defer a.mu.Unlock()
	late := max(0, now.Sub(q.began))
	if late > moment {
		for _, p := range promises {
			a.until[p.id] = p.until.Add(late)
		}
		if q.worker != "" {
			a.said[q.worker] = now
		}
	} else {
		a.brief = max(a.brief, late)
		if len(a.until) > 0 {
			for _, p := range promises {
				delete(a.until, p.id)
			}
		}
		if len(a.said) > 0 {
			delete(a.said, q.worker)
		}
	}
	a.held.Store(int64(len(a.until)))
}

// over ends a question, answered or not.
func (q *question) over() {
	a := q.a
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.open[len(a.open)-1]
	a.open[q.at], last.at = last, q.at
	a.open[len(a.open)-1] = nil
	a.open = a.open[:len(a.open)-1]
	if q.worker == "" {
		return
	}
	if a.askedBy[q.worker]--; a.askedBy[q.worker] <= 0 {
		delete(a.askedBy, q.worker)
	}
}

// forget drops what is known of a job that no worker has any more.
func (a *answers) forget(id job.ID) {
	if a.held.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, id)
	a.held.Store(int64(len(a.until)))
}

// forgetWorker drops what is known of a worker that has gone.
func (a *answers) forgetWorker(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.said, id)
}

// spared is when the reservation of a job that had run out at upto ends for its
// worker, and whether that still waits for an answer about it. Then it is a moment
// from now.
func (s *Sidecar) spared(j *job.Job, upto, now time.Time) (until time.Time, waits bool) {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.pauses.unheard() || slices.ContainsFunc(a.open, func(q *question) bool { return slices.Contains(q.jobs, j.ID) }) {
		return now.Add(hear), true
	}
	until, known := a.until[j.ID]
	if !known {
		if until = j.Lease.Until.Add(a.brief); upto.Before(until) { // it is written down as its own, and not spared again
			a.until[j.ID] = until // brief is set, so there was a question
			a.held.Store(int64(len(a.until)))
		}
	}
	return later(j.Lease.Until, until), false
}

// silentSince is when a worker was last known to listen: now, while it waits for
// an answer.
func (s *Sidecar) silentSince(w job.WorkerInfo, now time.Time) time.Time {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.askedBy[w.ID] > 0 || s.pauses.unheard() {
		return now
	}
	return later(w.BeatAt.Add(a.brief), a.said[w.ID])
}
