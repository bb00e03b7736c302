package sidecar

import "github.com/outrider-jobs/outrider/job"

// service is a FETCH that a turn has taken out of the line, and what it claims for it.
type service struct {
	w *waiter
	c *claiming
}

// serving is what a turn does for those who wait for its jobs.
type serving struct {
	served  []service // of the run that was last
	all     []change  // of that run: those of the turn, and behind them those of the claims
	refused bool      // it has failed in that run
	spoilt  bool      // it has failed in a run: this turn does without
}

// everything is what the transaction has changed, for those whom it has served, too.
func (t *turn) everything() []change {
	if t.serving != nil && t.serving.all != nil {
		return t.serving.all
	}
	return t.changes
}

// serve claims the jobs that have entered their queues for those who wait for them, in
// the transaction that brings the jobs: so there is one commit from PUSH to FETCH. It comes
// last, may fail without harm, and hands out no more than the largest FETCH could ask
// for, about: whom it leaves in line is woken behind the commit.
func (s *Sidecar) serve(t *turn) error {
	own := len(t.changes)
	if own == 0 && t.gates == nil || s.wakeups.present.Load() == 0 || s.isQuiet() {
		return nil
	}
	if t.serving == nil {
		t.serving = &serving{}
	}
	v := t.serving
	if v.spoilt {
		return nil
	}
	v.refused, v.spoilt = true, true // unless it comes to its end
	err := s.serveAll(t)
	if err == nil {
		err = t.release() // of jobs that had expired
	}
	if err != nil {
		return err
	}
	v.refused, v.spoilt = false, false
	t.changes, v.all = t.changes[:own], t.changes
	return nil
}

// serveAll serves the queues that jobs have come in line in, also those that come in line
// because another was handed out.
func (s *Sidecar) serveAll(t *turn) error {
	handed := map[job.ID]bool{}
	closed := map[string]bool{} // queues whose first in line gets nothing now
	for from := 0; from < len(t.changes); {
		changes := t.changes[from:]
		from = len(t.changes)
		more, err := s.serveSome(t, changes, handed, closed)
		if err != nil || !more {
			return err
		}
	}
	return s.serveOpened(t, len(handed))
}

// serveSome does so for some changes, and reports whether it may go on.
func (s *Sidecar) serveSome(t *turn, changes []change, handed map[job.ID]bool, closed map[string]bool) (more bool, err error) {
	for j := range entered(changes) {
		for !handed[j.ID] && !closed[lineOf(j.Queue, j.Tenant)] { // who is served may take older ones, or have no room
			c, err := s.serveOne(t, lineOf(j.Queue, j.Tenant), wanting(j))
			if err != nil {
				return false, err
			}
			if c == nil || !c.served() {
				closed[lineOf(j.Queue, j.Tenant)] = true
			}
			if c == nil {
				continue
			}
			for _, j := range c.got {
				handed[j.ID] = true
			}
			if len(handed) >= maxCount || c.expired > 0 { // there may be very many of those
				return false, nil
			}
		}
	}
	return true, nil
}

// serveOne claims for the one of those who want it that has waited longest for a queue. It returns nil
// if that one is not to be served; who gets nothing keeps its place in line.
func (s *Sidecar) serveOne(t *turn, queue string, wants func(*waiter) bool) (*claiming, error) {
	w := s.wakeups.take(queue, wants, s.mayServe)
	if w == nil {
		return nil, nil
	}
	v := service{w, s.beginClaim(w.f)}
	t.serving.served = append(t.serving.served, v)
	if err := v.c.do(t); err != nil {
		return nil, err
	}
	if !v.c.served() {
		t.serving.served = t.serving.served[:len(t.serving.served)-1]
		s.undo(v)
	}
	return v.c, nil
}

// served reports whether the FETCH has its answer: jobs, or that it has no room for any.
func (c *claiming) served() bool { return len(c.got) > 0 || c.noRoom }

// mayServe reports whether a FETCH that waits is still to get jobs. What is known of its
// worker here is enough: that it was no other in the store was seen when it came. One with
// versions looks for itself: it may have to read far, which is not for others to wait for.
func (s *Sidecar) mayServe(w *waiter) bool {
	idle, _ := s.roster.idle(w.f.Worker)
	return !idle && w.ctx.Err() == nil && w.f.Versions == nil
}

// unserve undoes what the last run of a turn has claimed for others, in memory: in the
// store it has come to nothing.
func (s *Sidecar) unserve(t *turn) {
	v := t.serving
	if v == nil {
		return
	}
	for i := range v.served {
		s.undo(v.served[i])
		v.served[i] = service{}
	}
	v.served, v.all, v.refused = v.served[:0], nil, false
}

func (s *Sidecar) undo(v service) {
	v.c.asked.over()
	if v.c.f.Room != nil {
		v.c.f.Room.Reset()
	}
	s.wakeups.putBack(v.w)
}

// handOver gives those whom a turn has served what they got. The turn is on disk, and
// nobody else looks at their jobs any more.
func (s *Sidecar) handOver(t *turn) {
	if t.serving == nil {
		return
	}
	for _, v := range t.serving.served {
		s.wakeups.give(v.w, v.c)
	}
}

// receive is end for the FETCH that was served.
func (c *claiming) receive() ([]*job.Job, error) {
	defer c.asked.over()
	got, _, err := c.end()
	return got, err
}
