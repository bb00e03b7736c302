package sidecar

import (
	"context"
	"slices"
	"sync"

	"github.com/outrider-jobs/outrider/job"
)

// shares are how far the queues of the pools have come (contract §4.22). They are start
// times of a fair queue: a job of a queue takes 1/weight of its time, and the next start
// is of the queue whose time is least. A queue that had nothing to start goes on from the
// present, and saves up nothing. They are in memory alone: after a restart all queues
// begin alike.
type shares struct {
	mu    sync.Mutex
	pools map[string]*rota
}

type rota struct {
	now  float64            // the start time of the last start
	ends map[string]float64 // of the last start of each queue
}

// next is the index, in a pool, of the queue among some whose turn it is, -1 for none; of
// equal ones the first.
func (s *shares) next(p *job.Pool, open func(i int) bool) (best int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.pools[p.Name]
	best = -1
	for i := range p.Queues {
		if open(i) && (best < 0 || at.start(p.Queues[i].Name) < at.start(p.Queues[best].Name)) {
			best = i
		}
	}
	return best
}

// start is the start time of the next job of a queue. A nil has seen no start.
func (s *rota) start(queue string) float64 {
	if s == nil {
		return 0
	}
	return max(s.now, s.ends[queue])
}

// started notes that a job of the queue with an index was started.
func (s *shares) started(p *job.Pool, i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.pools[p.Name]
	if at == nil {
		if s.pools == nil {
			s.pools = map[string]*rota{}
		}
		at = &rota{ends: map[string]float64{}}
		s.pools[p.Name] = at
	}
	queue := p.Queues[i].Name
	at.now = at.start(queue)
	at.ends[queue] = at.now + 1/p.Weight(i)
}

// forget lets the queues of a pool begin alike.
func (s *shares) forget(pool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pools, pool)
}

// pools are all pools, from memory.
func (t *turn) pools() []job.Pool {
	set, _ := t.QueueSettings(job.PoolsQueue)
	return set.Pools()
}

// poolOf is the pool that a queue is in, nil for none.
func (t *turn) poolOf(queue string) *job.Pool {
	pools := t.pools()
	for i := range pools {
		if pools[i].In(queue) {
			return &pools[i]
		}
	}
	return nil
}

// poolRoom is how many jobs of a pool may start, up to most.
func (t *turn) poolRoom(p *job.Pool, most int) (int, error) {
	if p.Concurrency == 0 {
		return most, nil
	}
	room := int64(p.Concurrency)
	for _, q := range p.Queues {
		found, err := t.Queue(q.Name)
		if err != nil && job.KindOf(err) != job.NotFound {
			return 0, err
		}
		room -= found.Counts[job.Active]
	}
	return int(min(max(room, 0), int64(most))), nil
}

// inPool claims from one queue of a pool; see [claiming.take].
func (c *claiming) inPool(t *turn, p *job.Pool, queue []string) (all bool, err error) {
	room, err := t.poolRoom(p, c.f.Count-len(c.got))
	if err != nil {
		return false, err
	}
	return c.limited(t, queue, len(c.got)+room)
}

// fromPool claims from the queues of a pool in turn, job by job, in the place of the first
// of them. all is as of [claiming.take].
func (c *claiming) fromPool(t *turn, p *job.Pool) (all bool, err error) {
	room, err := t.poolRoom(p, c.f.Count-len(c.got))
	if err != nil {
		return false, err
	}
	most := len(c.got) + room
	dry := make([]bool, len(p.Queues)) // there is no more in it that may start
	for len(c.got) < most {
		i := c.s.shares.next(p, func(i int) bool { return !dry[i] })
		if i < 0 {
			break
		}
		before := len(c.got)
		if all, err := c.limited(t, []string{p.Queues[i].Name}, before+1); err != nil || !all {
			return all, err
		}
		if dry[i] = len(c.got) == before; !dry[i] {
			c.s.shares.started(p, i) // a turn that runs again charges twice; that evens out
		}
	}
	return true, nil
}

// poolOpens notes that a job of a queue has stopped running: where its pool is bounded,
// one of any of the queues of that may start.
func (t *turn) poolOpens(queue string) {
	p := t.poolOf(queue)
	if p == nil || p.Concurrency == 0 {
		return
	}
	for _, q := range p.Queues {
		if found, err := t.Queue(q.Name); err == nil && found.Counts[job.Available] > 0 {
			t.opens(q.Name, 1)
		}
	}
}

// Pools reads all pools; see [job.PoolService].
func (s *Sidecar) Pools(ctx context.Context) ([]job.Pool, error) { return view(ctx, s, poolsIn) }

// poolsIn are all pools, as the caller's own.
func poolsIn(tx job.ReadTx) ([]job.Pool, error) {
	set, err := tx.QueueSettings(job.PoolsQueue)
	pools := slices.Clone(set.Pools())
	for i := range pools {
		pools[i].Queues = slices.Clone(pools[i].Queues)
	}
	return pools, err
}

// PutPool stores a pool; see [job.PoolService].
func (s *Sidecar) PutPool(ctx context.Context, p job.Pool) (fresh bool, err error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	p.Queues = slices.Clone(p.Queues)
	err = s.changePools(ctx, p.Name, func(all *job.QueueSettings) (next *job.QueueSettings, err error) {
		next, fresh, err = all.WithPool(p)
		return next, err
	})
	return fresh, err
}

// DeletePool removes a pool; see [job.PoolService].
func (s *Sidecar) DeletePool(ctx context.Context, name string) error {
	return s.changePools(ctx, name, func(all *job.QueueSettings) (*job.QueueSettings, error) { return all.WithoutPool(name) })
}

// changePools stores what change makes of the pools, and wakes all who wait: they may get
// jobs that a bound has kept back.
func (s *Sidecar) changePools(ctx context.Context, name string, change func(*job.QueueSettings) (*job.QueueSettings, error)) error {
	err := s.update(ctx, func(t *turn) error {
		all, err := ownSettings(t, job.PoolsQueue)
		if err != nil {
			return err
		}
		next, err := change(all)
		if err != nil {
			return err
		}
		return t.PutQueueSettings(next)
	})
	if err == nil {
		s.shares.forget(name)
		s.wakeups.ringAll("")
	}
	return err
}

// Dispatch reads how the starts were shared; see [job.PoolService].
func (s *Sidecar) Dispatch(ctx context.Context) (job.DispatchReport, error) {
	now := s.now()
	return view(ctx, s, func(tx job.ReadTx) (r job.DispatchReport, err error) {
		r.At = now
		if r.Pools, err = poolsIn(tx); err != nil {
			return r, err
		}
		queues, err := tx.Queues()
		if err != nil {
			return r, err
		}
		for _, q := range queues {
			d := job.Dispatched{Queue: q.Name, Waiting: q.Counts[job.Available]}
			for _, p := range r.Pools {
				if i := slices.IndexFunc(p.Queues, func(of job.PoolQueue) bool { return of.Name == q.Name }); i >= 0 {
					d.Pool, d.Weight = p.Name, p.Weight(i)
				}
			}
			slots, err := tx.Slots(q.Name, job.HourBefore(now))
			if err != nil {
				return r, err
			}
			d.Count(slots, now)
			r.Queues = append(r.Queues, d)
		}
		return r, nil
	})
}
