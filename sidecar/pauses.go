package sidecar

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pauses knows when this process did not listen to its workers: while it was stopped,
// while its clock jumped, while it was too busy to look at its clock, and while
// the store took no beats. A worker that could not be heard is not silent (ojs-retry.md §9.3),
// so what ran out in such a time, or soon after it, gets a grace, however short it
// was. A store that is only slow is no pause: who waits for it is known to [answers].
//
// A grace is as long as the time that was missed, at most a third of the silence
// that ends a worker, and a little more, so that what lies in a socket can be read
// and stored. It is counted in time that we listen, and it covers what had not run
// out when the missed time began. So what runs out is covered by the missed times
// that began before it and by no other: a stream of short pauses puts nothing off
// without end.
//
// It is safe for concurrent use: the loop looks while the duties are at work.
type pauses struct {
	mu          sync.Mutex
	looked      time.Time     // when the loop last looked; zero at first
	listened    time.Duration // how long we have listened in all, until then
	graces      []grace       // that are not over, in the order of their time
	most        time.Duration // of a missed time that counts
	unavailable bool          // the store takes nothing now, so nobody is heard
	jumps       []jump        // of the clock, of the last day
	real        time.Time     // the looked of a clock that nobody sets
	refused     atomic.Int64  // when the first beat since the last look was not stored, in Unix milliseconds; 0 is none
}

// grace covers what runs out at from or later, until we have heard for that long.
type grace struct {
	from  time.Time
	until time.Duration
}

// jump is by how much the clock was set forward, or went on while the machine slept.
type jump struct {
	at time.Time
	by time.Duration
}

const (
	slack     = 10 * time.Millisecond  // of two clocks that are read one after the other; a shorter jump cannot be distinguished from that
	readTime  = 200 * time.Millisecond // to read and store what lies in the sockets
	lookEvery = readTime / 40          // from look to look in the last moments before something runs out
)

// look takes the time of this look, and of when the loop meant to look. away is how
// long it did not listen, as far as that shows.
func (p *pauses) look(now, meant time.Time) (away time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused := p.refused.Swap(0)
	if p.looked.IsZero() {
		p.looked, meant = now, now
	}
	if away = now.Sub(meant); away <= 0 {
		away, meant = 0, now
	}
	g := grace{from: meant, until: min(away, p.most)}
	if refused != 0 { // who was refused comes again with the next beat
		g = grace{from: sooner(meant, time.UnixMilli(refused)), until: p.most}
	}
	if !p.unavailable {
		p.listened += max(0, meant.Sub(p.looked))
	}
	if p.looked = now; g.until > 0 {
		g.until += p.listened + min(readTime, 20*g.until) // little lies there after a moment
		p.graces = append(p.graces, g)
	}
	p.graces = slices.DeleteFunc(p.graces, func(g grace) bool {
		return g.until <= p.listened || g.from.After(now) // the clock has come back from where it jumped
	})
	return away
}

// jumped is called before look, with the clock and with one that nobody sets. The time
// that the clock jumped over does not count as time that a job was running.
func (p *pauses) jumped(now, real time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if by := now.Sub(p.looked) - real.Sub(p.real); !p.looked.IsZero() && by > slack {
		p.jumps = append(p.jumps, jump{now, by})
	}
	p.real = real
	p.jumps = slices.DeleteFunc(p.jumps, func(j jump) bool { return now.Sub(j.at) > day || j.at.After(now) })
}

// stood is how far the clock has jumped since an instant. A job that started between a
// jump and the look that found it was started by the new time.
func (p *pauses) stood(since time.Time) (d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jumps {
		if since.Before(j.at.Add(slack - j.by)) {
			d += j.by
		}
	}
	return d
}

// missed notes that a beat could not be stored. Any goroutine may call it.
func (p *pauses) missed(now time.Time) { p.refused.CompareAndSwap(0, now.UnixMilli()) }

// missedBeat reports whether a beat could not be stored since the last look, of which
// limit knows nothing yet.
func (p *pauses) missedBeat() bool { return p.refused.Load() != 0 }

// setUnavailable says whether the store takes nothing now.
func (p *pauses) setUnavailable(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unavailable = is
}

// limit is the instant up to which what has run out counts, and when that changes
// if nothing else happens; zero where nothing is covered. It is never later than
// the last look: whether this server has listened since then is not known yet.
func (p *pauses) limit(now time.Time) (upto, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.graces) == 0 {
		return sooner(now, p.looked), next
	}
	first := slices.MinFunc(p.graces, func(a, b grace) int { return a.from.Compare(b.from) })
	return first.from.Add(-time.Millisecond), p.looked.Add(first.until - p.listened)
}
