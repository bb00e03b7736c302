package sidecar

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// wakeups are the fetchers that wait for a queue. One job is for one of them: the one
// that has waited longest. The transaction that brings the job may take it out of the
// line and claim for it, see [Sidecar.serve]; else it is woken, to look for itself.
type wakeups struct {
	present atomic.Int64 // fetchers that have armed and not left
	mu      sync.Mutex
	waiting map[string]*list.List // of *waiter, by queue; in the order of their tickets
	tickets uint64                // given so far
	missed  uint64                // rings that found nobody in line
	choosy  int                   // fetchers with versions that have armed and not left
}

// ring is what a fetcher is woken for: a job in a line. Without a job it may be any of
// that line, without a line any of the fetcher's own.
type ring struct {
	line string
	job  job.ID
}

// waiter is one fetcher. There is room for one signal, so that ringing never blocks: while
// it is in line or held, there is none.
type waiter struct {
	ctx    context.Context // of its caller
	f      job.FetchRequest
	lines  []string // where it waits: see lineOf
	signal chan ring
	ticket uint64          // who has the lowest has waited longest; 0 before it has armed
	places []*list.Element // in the lists of its queues; nil while it is not in line

	resting bool          // it waits and does nothing else, so that others may claim for it
	held    chan struct{} // nil, or a turn has taken it, and closes this when it lets go
	missed  uint64        // as it was when it was taken
	given   *claiming     // on disk; its own once it is not held
}

func newWaiter(ctx context.Context, f job.FetchRequest) *waiter {
	lines := f.Queues
	if f.Tenant != "" {
		lines = make([]string, len(f.Queues))
		for i, q := range f.Queues {
			lines[i] = lineOf(q, f.Tenant)
		}
	}
	return &waiter{ctx: ctx, f: f, lines: lines, signal: make(chan ring, 1)}
}

// lineOf is where those wait who want the jobs of a tenant in a queue alone; who wants all
// of the queue waits where no tenant is named. A job is for one of both.
func lineOf(queue, tenant string) string {
	if tenant == "" {
		return queue
	}
	return queue + "\x00" + tenant
}

// first is who has waited longest of those in a line that wants says yes to, nil if nobody
// waits. The caller holds mu.
func (b *wakeups) first(line string, wants func(*waiter) bool) *waiter {
	w := firstOf(b.waiting[line], wants)
	if queue, _, of := strings.Cut(line, "\x00"); of {
		if all := firstOf(b.waiting[queue], wants); w == nil || all != nil && all.ticket < w.ticket {
			w = all
		}
	}
	return w
}

func firstOf(l *list.List, wants func(*waiter) bool) *waiter {
	if l == nil {
		return nil
	}
	for e := l.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*waiter); wants(w) {
			return w
		}
	}
	return nil
}

// wanting is who may be woken for a job.
func wanting(j *job.Job) func(*waiter) bool {
	return func(w *waiter) bool { return w.f.Versions.Wants(j.Type, j.Extra) }
}

// easy is who takes every job of its queues, and choosy who does not.
func easy(w *waiter) bool   { return w.f.Versions == nil }
func choosy(w *waiter) bool { return w.f.Versions != nil }

// arm puts w into its queues' lines, at the end if it comes for the first time. It must
// be called before the queues are looked at, so that no job can come between the look
// and the wait.
func (b *wakeups) arm(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.places != nil {
		return
	}
	if w.ticket == 0 {
		b.tickets++
		w.ticket = b.tickets
		b.present.Add(1)
		if choosy(w) {
			b.choosy++
		}
	}
	b.enter(w)
}

// enter puts w into its queues' lines, in the place of its ticket. The caller holds mu.
func (b *wakeups) enter(w *waiter) {
	if b.waiting == nil {
		b.waiting = map[string]*list.List{}
	}
	for _, q := range w.lines {
		l := b.waiting[q]
		if l == nil {
			l = list.New()
			b.waiting[q] = l
		}
		var next *list.Element // nil where all others came before
		if last := l.Back(); last != nil && last.Value.(*waiter).ticket > w.ticket {
			for next = l.Front(); next.Value.(*waiter).ticket < w.ticket; {
				next = next.Next()
			}
		}
		if next != nil {
			w.places = append(w.places, l.InsertBefore(w, next))
		} else {
			w.places = append(w.places, l.PushBack(w))
		}
	}
}

// ringFor wakes a fetcher for a job of a line, if one waits that wants it.
func (b *wakeups) ringFor(line string, j *job.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake(b.first(line, wanting(j)), ring{line, j.ID})
}

// ring wakes a fetcher for a job of a line that nobody knows more of, and all who want only
// some of its jobs: they look, and rest again.
func (b *wakeups) ring(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookOut(line)
	b.wake(b.first(line, easy), ring{line: line})
}

// lookOut wakes those in a line who want only some of its jobs. No turn holds one of them.
// The caller holds mu.
func (b *wakeups) lookOut(line string) {
	if b.choosy == 0 {
		return
	}
	for w := b.first(line, choosy); w != nil; w = b.first(line, choosy) {
		b.wake(w, ring{line: line})
	}
}

// wake wakes a fetcher, nil for nobody. The caller holds mu.
func (b *wakeups) wake(w *waiter, r ring) {
	if w == nil {
		b.missed++
		return
	}
	b.remove(w)
	w.signal <- r
}

// ringAll wakes every fetcher of a queue, of any if it has no name.
func (b *wakeups) ringAll(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missed++ // who is held by a turn is not in line
	for line, l := range b.waiting {
		q, _, _ := strings.Cut(line, "\x00")
		for (queue == "" || q == queue) && l.Len() > 0 {
			w := l.Front().Value.(*waiter)
			b.wake(w, ring{line: line})
		}
	}
}

// remove takes w out of all lines. The caller holds mu.
func (b *wakeups) remove(w *waiter) {
	for i, e := range w.places {
		q := w.lines[i]
		l := b.waiting[q]
		if l.Remove(e); l.Len() == 0 {
			delete(b.waiting, q)
		}
	}
	w.places = nil
}

// leave takes w out. A signal that it got and did not use goes to the next in line.
func (b *wakeups) leave(w *waiter) {
	b.mu.Lock()
	b.remove(w)
	if choosy(w) {
		b.choosy--
	}
	b.mu.Unlock()
	b.present.Add(-1)
	select {
	case rung := <-w.signal:
		b.pass(w, rung)
	default:
	}
}

// pass gives a signal that w has taken and cannot use to the next in line.
func (b *wakeups) pass(w *waiter, rung ring) {
	if rung.line != "" {
		b.ring(rung.line)
		return
	}
	for _, line := range w.lines {
		b.ring(line)
		if w.f.Tenant == "" {
			b.ringTenants(line)
		}
	}
}

// ringTenants wakes one for each tenant that somebody waits for in a queue.
func (b *wakeups) ringTenants(queue string) {
	b.mu.Lock()
	var lines []string
	for line := range b.waiting {
		if q, _, of := strings.Cut(line, "\x00"); of && q == queue {
			lines = append(lines, line)
		}
	}
	b.mu.Unlock()
	for _, line := range lines {
		b.ring(line)
	}
}

// used passes a signal on where w has found jobs of other queues only: there is one more
// in its queue then than others were woken for. Where it has found others of its queue than
// the one that it was woken for, that one may be what a fetcher with versions waits for.
func (b *wakeups) used(w *waiter, rung ring, jobs []*job.Job) {
	if !slices.ContainsFunc(jobs, func(j *job.Job) bool {
		return lineOf(j.Queue, j.Tenant) == rung.line || j.Queue == rung.line
	}) {
		b.pass(w, rung)
		return
	}
	if rung.job != "" && !slices.ContainsFunc(jobs, func(j *job.Job) bool { return j.ID == rung.job }) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lookOut(rung.line)
	}
}

// rest lets others claim for w, until it rises.
func (b *wakeups) rest(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.resting = true
}

// rise ends the rest of w, and returns what was claimed for it, nil if nothing was. Where
// a turn holds it, that is known once the turn is on disk.
func (b *wakeups) rise(w *waiter) *claiming {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.resting = false
	if held := w.held; held != nil {
		b.mu.Unlock()
		<-held
		b.mu.Lock()
	}
	given := w.given
	if w.given = nil; given != nil {
		select {
		case <-w.signal: // that told of it
		default:
		}
	}
	return given
}

// take takes the fetcher that has waited longest for a job of a line out of it, and holds
// it, if it rests and may be served. Whoever calls it calls give or putBack.
func (b *wakeups) take(line string, wants, may func(*waiter) bool) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.first(line, wants)
	if w == nil || !w.resting || !may(w) {
		return nil
	}
	b.remove(w)
	w.held, w.missed = make(chan struct{}), b.missed
	return w
}

// give hands over what was claimed for a fetcher, and is on disk.
func (b *wakeups) give(w *waiter, c *claiming) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.given = c
	b.letGo(w)
	w.signal <- ring{}
}

// putBack gives a fetcher for whom nothing was claimed its place in line again. If
// somebody was rung for meanwhile and not found, it may have been this one.
func (b *wakeups) putBack(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.letGo(w); w.missed == b.missed {
		b.enter(w)
	} else {
		w.signal <- ring{}
	}
}

// letGo ends a hold. The caller holds mu.
func (b *wakeups) letGo(w *waiter) {
	close(w.held)
	w.held = nil
}

// clock holds when each duty is next to be done.
type clock struct {
	mu   sync.Mutex
	next []time.Time   // by duty
	poke chan struct{} // room for one: a time became earlier
}

func (c *clock) init(duties int) {
	c.next = make([]time.Time, duties) // zero is now: at start everything is looked at
	c.poke = make(chan struct{}, 1)
}

// wake makes duty i be done at the latest at t.
func (c *clock) wake(i int, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i < 0 || !t.Before(c.next[i]) {
		return
	}
	c.next[i] = t
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// take reports whether duty i is due, and puts it off until it is planned again.
func (c *clock) take(i int, now, otherwise time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next[i].After(now) {
		return false
	}
	c.next[i] = otherwise
	return true
}

// plan sets when duty i is next to be done, unless a wake has asked for earlier.
func (c *clock) plan(i int, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Before(c.next[i]) {
		c.next[i] = t
	}
}

// planned is the time planned for duty i.
func (c *clock) planned(i int) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next[i]
}

// soonest is the earliest time planned.
func (c *clock) soonest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.MinFunc(c.next, time.Time.Compare)
}
