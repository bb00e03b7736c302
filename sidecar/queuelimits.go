package sidecar

import (
	"slices"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A queue may be limited as a whole (contract §3.13). Its jobs stay in line: a FETCH takes as
// many of them as may start, and goes on with its other queues. How many are active the
// queue counts anyway; what a rate and a throttle remember is the limit under its
// [job.QueueLimitKey], which the claim stores. So whoever waits for such a queue must be
// told when a job of it ends, and when the clock opens it.

// gates are what a turn has seen of the limits of queues.
type gates struct {
	opened []opening
	full   []string             // queues of which no more may start, as a claim has left them
	shut   map[string]time.Time // queues that a claim has left shut, until when
}

// opening is a queue of which some more may start than before.
type opening struct {
	queue string
	left  int // how many of them the turn has served nobody with
}

// opens notes that n more of a queue may start than before, as far as this turn knows.
func (t *turn) opens(queue string, n int) {
	if t.gates == nil {
		t.gates = &gates{}
	}
	t.gates.full = slices.DeleteFunc(t.gates.full, func(q string) bool { return q == queue })
	for i := range t.gates.opened {
		if o := &t.gates.opened[i]; o.queue == queue {
			o.left += n
			return
		}
	}
	t.gates.opened = append(t.gates.opened, opening{queue, n})
}

// isFull reports whether no more of a queue may start. It may be called on nil.
func (g *gates) isFull(queue string) bool { return g != nil && slices.Contains(g.full, queue) }

// shuts notes that no more of a queue may start, if that is so, and that its jobs wait until
// the clock opens it, if they do.
func (t *turn) shuts(queue string, l *job.Limit, now time.Time, waiting int64) {
	open, until := l.Open(now)
	if open {
		return
	}
	if t.gates == nil {
		t.gates = &gates{}
	}
	if !t.gates.isFull(queue) {
		t.gates.full = append(t.gates.full, queue)
	}
	if until.IsZero() || waiting <= 0 {
		return
	}
	if t.gates.shut == nil {
		t.gates.shut = map[string]time.Time{}
	}
	t.gates.shut[queue] = until
}

// queueLimit is the limit of a queue as a whole, nil where there is none, and how many of
// its jobs are available.
func (t *turn) queueLimit(queue string, now time.Time) (l *job.Limit, waiting int64, err error) {
	config := t.configOf(queue)
	if !config.Limits() {
		return nil, 0, nil
	}
	key, pace := job.QueueLimitKey(queue), config.Pace()
	l = job.NewLimit(key, now)
	if pace.Remembers() {
		stored, err := t.Limit(key)
		switch {
		case err == nil:
			l = stored
		case job.KindOf(err) != job.NotFound:
			return nil, 0, err
		}
	}
	l.Define(pace, now)
	q, err := t.Queue(queue)
	if err != nil && job.KindOf(err) != job.NotFound {
		return nil, 0, err
	}
	l.Active = int(q.Counts[job.Active])
	return l, q.Counts[job.Available], nil
}

// byQueue claims queue by queue, of each as many as its limit lets start, and of the queues
// of a pool together.
func (c *claiming) byQueue(t *turn) error {
	for i, q := range c.f.Queues {
		before := c.f.Queues[:i]
		if slices.Contains(before, q) {
			continue
		}
		all, err := true, error(nil)
		switch p := t.poolOf(q); {
		case p == nil:
			all, err = c.limited(t, c.f.Queues[i:i+1], c.f.Count)
		case !p.Shares() || !p.Within(c.f.Queues):
			all, err = c.inPool(t, p, c.f.Queues[i:i+1])
		case !slices.ContainsFunc(before, p.In):
			all, err = c.fromPool(t, p)
		}
		if err != nil || !all {
			return err
		}
	}
	return nil
}

// limited claims from one queue until there are most jobs; see [claiming.take].
func (c *claiming) limited(t *turn, queue []string, most int) (all bool, err error) {
	l, waiting, err := t.queueLimit(queue[0], c.now)
	if err != nil {
		return false, err
	}
	if l == nil {
		return c.take(t, queue, most)
	}
	before := len(c.got)
	all, err = c.take(t, queue, before+l.Room(c.now, most-before))
	if err != nil {
		return false, err
	}
	started := len(c.got) - before
	for range started {
		l.Started(c.now)
	}
	t.shuts(queue[0], l, c.now, waiting-int64(started))
	if started > 0 && l.Holds().Remembers() {
		l.Active = 0 // which the queue counts
		err = t.PutLimit(l)
	}
	return all, err
}

// openQueue lets the jobs of a queue go on whose limit opens at now.
func (t *turn) openQueue(queue string, now time.Time) error {
	l, waiting, err := t.queueLimit(queue, now)
	if err != nil || l == nil { // whoever has taken the limit away has woken all
		return err
	}
	if n := l.Room(now, int(min(waiting, maxCount))); n > 0 {
		t.opens(queue, n)
	}
	t.shuts(queue, l, now, waiting)
	return nil
}

// serveOpened serves those who wait for the queues that have opened. Whom it leaves in
// line is woken behind the commit, but for those whom such a queue has nothing for.
func (s *Sidecar) serveOpened(t *turn, handed int) error {
	if t.gates == nil {
		return nil
	}
	for i := range t.gates.opened {
		for o := &t.gates.opened[i]; o.left > 0 && handed < maxCount; {
			c, err := s.serveOne(t, o.queue, easy)
			if err != nil {
				return err
			}
			if c == nil {
				break
			}
			if c.expired > 0 { // there may be very many of those
				return nil
			}
			if handed += len(c.got); !c.served() {
				o.left = 0
			}
			for _, j := range c.got {
				if j.Queue == o.queue {
					o.left--
				}
			}
		}
	}
	return nil
}

// passed tells those who wait of what a turn has seen of the limits of queues, once it
// is on disk.
func (s *Sidecar) passed(g *gates) {
	if g == nil || s.wakeups.present.Load() == 0 {
		return // who comes now looks for itself
	}
	for _, o := range g.opened {
		for range min(o.left, maxCount) {
			s.wakeups.ring(o.queue)
			s.wakeups.ringTenants(o.queue)
		}
	}
	now := s.now()
	for queue, until := range g.shut {
		s.shut.until(queue, until)
		s.clock.wake(dutyOpen, later(until, now))
	}
}

// shut are the queues whose jobs may go on once the clock opens them, by when. It is of
// those who wait, and so in memory alone.
type shut struct {
	mu     sync.Mutex
	queues map[string]time.Time
}

// until notes that a queue opens at an instant, if not before.
func (s *shut) until(queue string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[string]time.Time{}
	}
	s.queues[queue] = sooner(s.queues[queue], at)
}

// due takes out the queues that open at now. Where nobody waits it forgets them.
func (s *shut) due(now time.Time, waited bool) (queues []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for queue, at := range s.queues {
		if at.After(now) {
			continue
		}
		if delete(s.queues, queue); waited {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	return queues
}

// next is when the next queue opens, or the zero time.
func (s *shut) next() (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queues {
		at = sooner(at, t)
	}
	return at
}
