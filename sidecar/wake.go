package sidecar

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// wakeups wakes fetchers that wait for a queue. One job wakes one of them: the
// one that has waited longest.
type wakeups struct {
	mu      sync.Mutex
	waiting map[string]*list.List // of *waiter, by queue
}

// waiter is one fetcher. signal has room for one signal, so that ringing never blocks.
type waiter struct {
	signal chan struct{}
	queues []string
	places []*list.Element // in the lists of its queues; nil while it is not waiting
}

// arm puts w at the end of its queues' lines. It must be called before the
// queues are looked at, so that no job can come between the look and the wait.
func (b *wakeups) arm(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.places != nil {
		return
	}
	if b.waiting == nil {
		b.waiting = map[string]*list.List{}
	}
	for _, q := range w.queues {
		l := b.waiting[q]
		if l == nil {
			l = list.New()
			b.waiting[q] = l
		}
		w.places = append(w.places, l.PushBack(w))
	}
}

// ring wakes a fetcher of a queue, if one waits.
func (b *wakeups) ring(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.waiting[queue]; l != nil {
		w := l.Front().Value.(*waiter)
		b.remove(w)
		w.signal <- struct{}{}
	}
}

// remove takes w out of all lines. The caller holds mu.
func (b *wakeups) remove(w *waiter) {
	for i, e := range w.places {
		q := w.queues[i]
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
	b.mu.Unlock()
	select {
	case <-w.signal:
		b.pass(w)
	default:
	}
}

// pass gives a signal that w has taken and cannot use to the next in line.
func (b *wakeups) pass(w *waiter) {
	for _, q := range w.queues {
		b.ring(q)
	}
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
