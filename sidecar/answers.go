package sidecar

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// answers knows who waits for this server: for a beat or a FETCH to be on disk. A
// reservation runs from when its worker gets the answer, and not from when it asked: a
// worker that waits for an answer sends nothing else. What is stored holds when it
// asked, as nobody knows before a commit how long that takes. So a reservation that ran
// out is compared with this before its job is taken back.
//
// Most answers come in a moment. For those, only the longest wait is remembered;
// longer waits are remembered one by one, until the job has ended or its next answer
// came in a moment, and as long as the worker is known. Calls that were committed
// together come here in any order: what is remembered belongs to one attempt, and an
// earlier attempt never replaces a later one. It is safe for concurrent use.
type answers struct {
	mu      sync.Mutex
	open    []*question          // that wait, in no order
	askedBy map[string]int       // how many of them are beats, by worker
	brief   time.Duration        // the longest moment that an answer took
	until   map[named]promise    // reservations that were answered late, or were spared for the moment
	most    int                  // of them, since there were none
	said    map[string]time.Time // when a worker was last answered, if late
}

// moment is the longest that is not remembered one by one.
const moment = 100 * time.Millisecond

// question is one beat or FETCH from when it came to when it is answered.
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
		a.askedBy, a.until, a.said = map[string]int{}, map[named]promise{}, map[string]time.Time{}
	}
	q.at = len(a.open)
	a.open = append(a.open, q)
	if worker != "" {
		a.askedBy[worker]++
	}
	return q
}

// about notes that a question is about a job too. The job may be known already.
func (q *question) about(id job.ID) {
	q.a.mu.Lock()
	defer q.a.mu.Unlock()
	q.jobs = append(q.jobs, id)
}

// named is the ID of a job. A server under load answers late about every job that it
// hands out, so what is remembered of each is small, and nothing that a collection of
// garbage has to follow.
type named [16]byte

func nameOf(id job.ID) named {
	b, _ := id.Bytes() // every job has one
	return b
}

// promise is the reservation of one attempt, and when it ends, in milliseconds as
// they are stored.
type promise struct {
	token uint64 // a hash of it
	began int64  // the attempt
	until int64
}

var tokens = maphash.MakeSeed()

func promiseOf(j *job.Job) promise {
	return promise{maphash.String(tokens, j.Lease.Token), j.StartedAt.UnixMilli(), j.Lease.Until.UnixMilli()}
}

func (p promise) end() time.Time { return time.UnixMilli(p.until).UTC() }

// answer notes that a question is on disk, and which jobs it has reserved.
func (q *question) answer(now time.Time, reserved []*job.Job) {
	a := q.a
	a.mu.Lock()
	defer a.mu.Unlock()
	late := max(0, now.Sub(q.began))
	if late <= moment {
		a.brief = max(a.brief, late)
		delete(a.said, q.worker)
	} else if q.worker != "" {
		a.said[q.worker] = now
	}
	if late <= moment && len(a.until) == 0 {
		return
	}
	for _, j := range reserved {
		id, p := nameOf(j.ID), promiseOf(j)
		switch known, ok := a.until[id]; {
		case ok && p.began < known.began: // of an attempt that is over
		case late <= moment:
			a.settle(id)
		default:
			p.until += late.Milliseconds()
			a.remember(id, p)
		}
	}
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

// forget drops what is known of a job that has ended.
func (a *answers) forget(id job.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(nameOf(id))
}

func (a *answers) remember(id named, p promise) {
	a.until[id] = p
	a.most = max(a.most, len(a.until))
}

// settle drops what is known of a job.
func (a *answers) settle(id named) {
	delete(a.until, id)
	a.shrink()
}

// shrink replaces a map that was large and is empty: it would stay as large as it was.
func (a *answers) shrink() {
	if len(a.until) == 0 && a.most > fewPromises {
		a.until, a.most = map[named]promise{}, 0
	}
}

const fewPromises = 1000

// prune drops what was left behind by answers that came after the end of their job,
// or of their worker.
func (a *answers) prune(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.until, func(_ named, p promise) bool { return now.Sub(p.end()) > hourly })
	a.shrink()
	maps.DeleteFunc(a.said, func(_ string, at time.Time) bool { return now.Sub(at) > day })
}

// forgetWorker drops what is known of a worker that has gone.
func (a *answers) forgetWorker(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.said, id)
}

// spared is when the reservation of a job, which had run out at upto, ends as its
// worker sees it, and whether the worker still waits for an answer about it. Then it
// is a moment from now.
func (s *Sidecar) spared(j *job.Job, upto, now time.Time) (until time.Time, waits bool) {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.pauses.missedBeat() || slices.ContainsFunc(a.open, func(q *question) bool { return slices.Contains(q.jobs, j.ID) }) {
		return now.Add(readTime), true
	}
	id, own := nameOf(j.ID), promiseOf(j)
	p := a.until[id]
	if p.token != own.token {
		p = own
		if p.until += a.brief.Milliseconds(); upto.Before(p.end()) { // it is written down as its own, and not spared again
			a.remember(id, p) // brief is set, so there was a question
		}
	}
	return later(j.Lease.Until, p.end()), false
}

// silentSince is when a worker was last known to listen: now, while it waits for
// an answer.
func (s *Sidecar) silentSince(w job.WorkerInfo, now time.Time) time.Time {
	a := &s.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.askedBy[w.ID] > 0 || s.pauses.missedBeat() {
		return now
	}
	return later(w.BeatAt.Add(a.brief), a.said[w.ID])
}
