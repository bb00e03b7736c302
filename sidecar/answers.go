package sidecar

import (
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
// It holds what is of use for jobs that are with workers, and for workers that are
// known. It is safe for concurrent use.
type answers struct {
	mu      sync.Mutex
	asked   map[job.ID]int       // beats and claims that wait, by job
	askedBy map[string]int       // the same, by worker
	until   map[job.ID]time.Time // when a reservation ends that was answered late
	said    map[string]time.Time // when a worker was last answered, if late
	held    atomic.Int64         // len(until)
}

// question is one beat or claim from when it came to when it is answered.
type question struct {
	a      *answers
	began  time.Time
	worker string
	jobs   []job.ID
}

// ask begins a question. Whoever calls it calls over.
func (a *answers) ask(now time.Time, worker string) *question {
	q := &question{a: a, began: now, worker: worker}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked, a.askedBy = map[job.ID]int{}, map[string]int{}
		a.until, a.said = map[job.ID]time.Time{}, map[string]time.Time{}
	}
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
	q.a.asked[id]++
}

// promise is a reservation as it was stored.
type promise struct {
	id    job.ID
	until time.Time
}

// answer says that a question is on disk, and what it has promised.
func (q *question) answer(now time.Time, promises []promise) {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	late := max(0, now.Sub(q.began))
	for _, p := range promises {
		if late > 0 {
			q.a.until[p.id] = p.until.Add(late)
		} else {
			delete(q.a.until, p.id)
		}
	}
	q.a.held.Store(int64(len(q.a.until)))
	if q.worker != "" && late > 0 {
		q.a.said[q.worker] = now
	} else if q.worker != "" {
		delete(q.a.said, q.worker)
	}
}

// over ends a question, answered or not.
func (q *question) over() {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	for _, id := range q.jobs {
		if q.a.asked[id]--; q.a.asked[id] <= 0 {
			delete(q.a.asked, id)
		}
	}
	if q.worker == "" {
		return
	}
	if q.a.askedBy[q.worker]--; q.a.askedBy[q.worker] <= 0 {
		delete(q.a.askedBy, q.worker)
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

// spared is when the reservation of a job ends for its worker, and whether that
// still waits for an answer about it. Then it is a moment from now.
func (s *Sidecar) spared(j *job.Job, now time.Time) (until time.Time, waits bool) {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked[j.ID] > 0 || s.pauses.unheard() {
		return now.Add(hear), true
	}
	return later(j.Lease.Until, a.until[j.ID]), false
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
	return later(w.BeatAt, a.said[w.ID])
}
