package sidecar

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// admission is what a PUSH has to do with the bound of one queue (contract §4.13).
type admission struct {
	queue  string
	config job.Backpressure
	jobs   int   // of the PUSH
	before int64 // depth, before any of them was stored
	first  int   // the index of the first of them
}

// admitted are the admissions of one PUSH. There are none where no queue has a bound.
type admitted []admission

// admitTo refuses a PUSH to a queue that is draining, and one to a queue without room
// where it is sure that the jobs are new. It looks at memory alone, where no queue of
// the PUSH has a bound.
func admitTo(t *turn, es []job.Checked, now time.Time) (admitted, error) {
	var all admitted
	last := ""
	var set *job.QueueSettings
	for i := range es {
		queue := es[i].Queue()
		if queue != last {
			last = queue
			var err error
			if set, err = t.QueueSettings(queue); err != nil {
				return nil, err
			}
		}
		if set == nil {
			continue
		}
		if set.Draining() {
			return nil, atIndex(job.RefuseDraining(queue), i, len(es))
		}
		if set.Config.Backpressure.MaxDepth > 0 {
			if err := all.add(t, queue, set.Config.Backpressure, i); err != nil {
				return nil, err
			}
		}
	}
	for _, a := range all {
		p := a.config.PressureOf(a.queue, a.before)
		if a.before+int64(a.jobs) <= a.config.MaxDepth || p.Strategy == job.OverflowDropOldest {
			continue
		}
		if sure, err := allNew(t, es, a.queue); err != nil || sure {
			if err == nil {
				err = atIndex(p.Refusal(a.jobs), a.first, len(es))
			}
			return nil, err
		}
	}
	return all, nil
}

func (all *admitted) add(t *turn, queue string, c job.Backpressure, i int) error {
	for k := range *all {
		if (*all)[k].queue == queue {
			(*all)[k].jobs++
			return nil
		}
	}
	depth, err := t.depth(queue)
	*all = append(*all, admission{queue: queue, config: c, jobs: 1, before: depth, first: i})
	return err
}

// depth is how many jobs of a queue have not ended, with what this turn has done.
func (t *turn) depth(queue string) (int64, error) {
	q, err := t.Queue(queue)
	if err != nil && job.KindOf(err) == job.NotFound {
		return 0, nil
	}
	return q.Depth(), err
}

// allNew reports whether every job of a PUSH to a queue will be one more: none has a
// key, and no id is stored.
func allNew(t *turn, es []job.Checked, queue string) (bool, error) {
	for i := range es {
		if es[i].Queue() != queue {
			continue
		}
		if es[i].Keyed() {
			return false, nil
		}
		if _, err := t.Job(es[i].ID()); err == nil || job.KindOf(err) != job.NotFound {
			return false, err
		}
	}
	return true, nil
}

// hold holds the queues to their bounds once the jobs are stored, and notes on the
// receipts how full they are.
func (all admitted) hold(t *turn, receipts []job.Receipt, now time.Time) error {
	for _, a := range all {
		depth, err := t.depth(a.queue)
		if err != nil {
			return err
		}
		p := a.config.PressureOf(a.queue, depth)
		if over := depth - a.config.MaxDepth; over > 0 && depth > a.before {
			p.Depth = a.before // as it is without them
			if p.Strategy != job.OverflowDropOldest {
				return atIndex(p.Refusal(a.jobs), a.first, len(receipts))
			}
			p.Depth = depth - over
			if err := t.makeSpace(*p, int(over), a, len(receipts), now); err != nil {
				return err
			}
		}
		for i := range receipts {
			if receipts[i].Queue == a.queue && !receipts[i].Existing {
				receipts[i].Pressure = p
			}
		}
	}
	return nil
}

// makeSpace discards the oldest available jobs of a queue, of those that were there before.
func (t *turn) makeSpace(p job.Pressure, n int, a admission, of int, now time.Time) error {
	old, err := t.Oldest(a.queue, n)
	if err != nil {
		return err
	}
	fresh := t.fresh()
	for i := range n {
		if i == len(old) || fresh[old[i].ID] {
			p.Depth = a.before
			e := p.Refusal(a.jobs)
			e.Message += "; too few of them are available to be dropped"
			return atIndex(e, a.first, of)
		}
		if err := old[i].Displace(now, p); err != nil {
			return err
		}
		if err := t.save(old[i]); err != nil {
			return err
		}
	}
	return nil
}

// fresh are the jobs that this turn has stored.
func (t *turn) fresh() map[job.ID]bool {
	ids := map[job.ID]bool{}
	for _, c := range t.changes {
		if c.from == job.None {
			ids[c.job.ID] = true
		}
	}
	return ids
}

// mayDrop reports whether the strategy of a full queue makes room for one more job.
func (t *turn) mayDrop(p job.Pressure) (bool, error) {
	if p.Strategy != job.OverflowDropOldest {
		return false, nil
	}
	old, err := t.Oldest(p.Queue, 1)
	return len(old) > 0 && !t.fresh()[old[0].ID], err
}

// blocks is how long a PUSH that was refused with err may wait for room, and in which queue.
func blocks(ctx context.Context, err error) (queue string, wait time.Duration) {
	if err == nil || job.KindOf(err) != job.QueueFull {
		return "", 0
	}
	d := job.DetailsOf(err)
	if d["strategy"] != job.OverflowBlock {
		return "", 0
	}
	queue, _ = d["queue"].(string)
	wait, _ = job.BlockOf(ctx)
	return queue, wait
}

// spaces are the PUSHes that wait for room in a queue. What leaves one wakes as many as
// there are places, those that have waited longest first.
type spaces struct {
	present atomic.Int64
	mu      sync.Mutex
	waiting map[string]*list.List // of chan struct{}, by queue
}

// arm puts a PUSH into the line of a queue, before it looks at it again.
func (s *spaces) arm(queue string) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present.Add(1)
	if s.waiting == nil {
		s.waiting = map[string]*list.List{}
	}
	if s.waiting[queue] == nil {
		s.waiting[queue] = list.New()
	}
	return s.waiting[queue].PushBack(make(chan struct{}, 1))
}

// leave takes a PUSH out of the line. Room that it was told of and has not heard of yet
// is for the next.
func (s *spaces) leave(queue string, e *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present.Add(-1)
	select {
	case <-e.Value.(chan struct{}): // it is out of the line
		s.wakeOne(queue)
	default:
		if l := s.waiting[queue]; l != nil {
			if l.Remove(e); l.Len() == 0 {
				delete(s.waiting, queue)
			}
		}
	}
}

// wake tells who has waited longest for a queue that there is room.
func (s *spaces) wake(queue string) {
	if s.present.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeOne(queue)
}

// wakeOne is wake for a caller that holds mu.
func (s *spaces) wakeOne(queue string) {
	l := s.waiting[queue]
	if l == nil {
		return
	}
	first := l.Front()
	if l.Remove(first); l.Len() == 0 {
		delete(s.waiting, queue)
	}
	first.Value.(chan struct{}) <- struct{}{}
}

// wakeAll tells all who wait for a queue, for any if it has no name.
func (s *spaces) wakeAll(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.waiting {
		for (queue == "" || name == queue) && s.waiting[name] != nil {
			s.wakeOne(name)
		}
	}
}

// roomFor wakes a PUSH for each job that has left its queue.
func (s *Sidecar) roomFor(changes []change) {
	if s.spaces.present.Load() == 0 {
		return
	}
	for _, c := range changes {
		if c.from != job.None && c.ends() {
			s.spaces.wake(c.job.Queue)
		}
	}
}

// enqueueBlocking is push, which is tried again when there is room where a queue whose
// strategy is block has none, as long as the caller waits.
func (s *Sidecar) enqueueBlocking(ctx context.Context, push func() ([]job.Receipt, error)) ([]job.Receipt, error) {
	rs, err := push()
	queue, wait := blocks(ctx, err)
	if wait <= 0 {
		return rs, err
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for woken := false; ; {
		place := s.spaces.arm(queue)
		rs, err := push()
		again, wait := blocks(ctx, err)
		if wait <= 0 || again != queue {
			s.spaces.leave(queue, place)
			if woken && err != nil {
				s.spaces.wake(queue) // there is room still
			}
			if wait <= 0 {
				return rs, err
			}
			queue, woken = again, false
			continue
		}
		select {
		case <-place.Value.(chan struct{}):
			s.spaces.present.Add(-1)
			woken = true
			continue
		case <-timeout.C:
		case <-s.quiet:
		case <-ctx.Done():
		}
		s.spaces.leave(queue, place)
		return rs, err
	}
}
