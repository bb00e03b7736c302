package sidecar

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	maxCount = 100
	maxWait  = 20 * time.Second
)

// Fetch claims jobs; see [job.Worker]. A fetch that waits is served by the transaction
// that brings the job, or woken by it, and never polls.
func (s *Sidecar) Fetch(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	f.Tenant = cmp.Or(f.Tenant, job.TenantOf(ctx))
	if may, err := s.mayFetch(ctx, f); err != nil || !may {
		return nil, err
	}
	return s.fetch(ctx, f, s.claim)
}

// mayFetch reports whether there may be jobs for a FETCH: it is valid, and neither
// this server nor the worker is on its way out.
func (s *Sidecar) mayFetch(ctx context.Context, f job.FetchRequest) (bool, error) {
	if len(f.Queues) == 0 || slices.Contains(f.Queues, "") {
		return false, job.Errorf(job.Invalid, "queues is required: the name of at least one queue to fetch from, and none empty").
			With(map[string]any{"field": "queues"})
	}
	if f.Tenant != "" {
		if err := job.CheckTenant(f.Tenant); err != nil {
			return false, err
		}
	}
	idle, err := s.takesNoJobs(ctx, f.Worker, f.Queues)
	return err == nil && !idle && !s.isQuiet(), err
}

// isQuiet reports whether no FETCH gets jobs any more; see [Sidecar.Quiet].
func (s *Sidecar) isQuiet() bool {
	select {
	case <-s.quiet:
		return true
	default:
		return false
	}
}

// claimer takes what is there.
type claimer func(context.Context, job.FetchRequest) ([]*job.Job, error)

// fetch claims, and waits as the FETCH asks.
func (s *Sidecar) fetch(ctx context.Context, f job.FetchRequest, claim claimer) ([]*job.Job, error) {
	f.Count = min(max(f.Count, 1), maxCount)
	if f.Wait <= 0 {
		return claim(ctx, f)
	}
	return s.await(ctx, f, claim)
}

// await claims, and waits for a job to come if there is none. The transaction that brings
// one claims it for the FETCH that has waited longest; where it does not, it wakes that one.
func (s *Sidecar) await(ctx context.Context, f job.FetchRequest, claim claimer) ([]*job.Job, error) {
	w := newWaiter(ctx, f)
	s.wakeups.arm(w)
	defer s.wakeups.leave(w)
	timeout := time.NewTimer(min(f.Wait, maxWait))
	defer timeout.Stop()
	woken, rung := false, ring{}
	for {
		jobs, err := claim(ctx, f)
		if err != nil {
			s.wakeups.pass(w, rung) // what woke it may be there still
			return nil, err
		}
		if len(jobs) > 0 {
			if woken {
				s.wakeups.used(w, rung, jobs)
			}
			return jobs, nil
		}
		s.wakeups.rest(w)
		rung, woken, err = s.doze(w, timeout.C)
		if c := s.wakeups.rise(w); c != nil { // whatever has ended the rest: these jobs are its own
			return c.receive()
		}
		if !woken {
			return nil, err
		}
		if idle, err := s.takesNoJobs(ctx, f.Worker, f.Queues); err != nil || idle {
			s.wakeups.pass(w, rung)
			return nil, err
		}
		s.wakeups.arm(w)
	}
}

// doze waits until w is woken, or there is nothing to wait for any more.
func (s *Sidecar) doze(w *waiter, timeout <-chan time.Time) (rung ring, woken bool, err error) {
	select {
	case rung = <-w.signal:
		return rung, true, nil
	case <-timeout:
	case <-s.quiet:
	case <-w.ctx.Done():
		err = job.Errorf(job.Unavailable, "the worker left while it waited: %w", w.ctx.Err())
	}
	return ring{}, false, err
}

// claim takes what is there (contract §4.2).
func (s *Sidecar) claim(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	for !s.isQuiet() {
		got, more, err := s.claimSlice(ctx, f)
		if err != nil || len(got) > 0 || !more {
			return got, err
		}
	}
	return nil, nil
}

// claimSlice claims in one transaction; see [claiming.end] for what it returns.
func (s *Sidecar) claimSlice(ctx context.Context, f job.FetchRequest) (got []*job.Job, more bool, err error) {
	c := s.beginClaim(f)
	defer c.asked.over()
	if err := s.update(ctx, c.do); err != nil {
		return nil, false, err
	}
	return c.end()
}

// claiming is what one transaction does for a FETCH.
type claiming struct {
	s       *Sidecar
	f       job.FetchRequest
	now     time.Time
	asked   *question
	got     []*job.Job
	expired int32 // found on the way, and put away: expired, or stopped by a limit that they do not wait for
	noRoom  bool  // there is no memory for the first of them
	looked  bool  // it was done at all
	passed  bool  // it has passed over so many jobs of other versions that there may be more behind them
}

// beginClaim makes a claiming. Whoever calls it calls over of what it asked.
func (s *Sidecar) beginClaim(f job.FetchRequest) *claiming {
	now := s.now()
	return &claiming{s: s, f: f, now: now, asked: s.answers.ask(now, "")} // a FETCH is no sign of life (contract §4.9)
}

// do claims in a transaction. It may run more than once.
func (c *claiming) do(t *turn) error {
	c.got, c.expired, c.noRoom, c.looked, c.passed = nil, 0, false, true, false
	if c.f.Room != nil {
		c.f.Room.Reset()
	}
	if t.maintenance(c.now).On {
		return nil
	}
	if err := t.openDue(c.now); err != nil {
		return err
	}
	if len(t.pools()) > 0 || slices.ContainsFunc(c.f.Queues, func(q string) bool { return t.configOf(q).Limits() }) {
		return c.byQueue(t)
	}
	_, err := c.take(t, c.f.Queues, c.f.Count)
	return err
}

// take claims from some queues until there are most jobs. all is false where there may be
// more in them that are not looked at now.
func (c *claiming) take(t *turn, queues []string, most int) (all bool, err error) {
	for ask := most - len(c.got); ask > 0; {
		found, err := c.available(t, queues, ask)
		if err != nil {
			return false, err
		}
		before, again := c.expired, false
		for i := 0; i < len(found); i++ {
			j, known := found[i], len(t.changes)
			if j.Expired(c.now) {
				err = j.Expire(c.now)
				c.expired++
			} else if len(c.got) < most {
				if j.Asks() {
					may, err := t.mayStart(j, c.now)
					if err != nil {
						return false, err
					}
					if !may {
						if again = true; j.State != job.Available {
							c.expired++
						}
						continue
					}
				}
				if c.f.Room != nil && !c.f.Room.Take(j.Size()) {
					c.noRoom = len(c.got) == 0 && c.expired == 0
					return false, nil
				}
				config := t.configOf(j.Queue)
				err = j.Start(c.now, c.s.lease(c.f, j, config))
				j.Limit(cmp.Or(config.DefaultTimeout, c.s.o.Timeout), 0)
				c.asked.about(j.ID)
				c.got = append(c.got, j)
			} else {
				break
			}
			if err != nil {
				return false, err
			}
			if err := t.save(j); err != nil {
				return false, err
			}
			if j.Asks() {
				var all bool
				found, all = c.withNext(found, i+1, j.Queue, t.changes[known:])
				again = again || !all
			}
		}
		// Where some have expired there may be more: look at many at once.
		ask = 0
		if c.expired > before && c.expired < slice && len(c.got) < most {
			ask = maxCount
		} else if again && c.expired < slice {
			ask = most - len(c.got)
		}
	}
	return c.expired < slice && !c.passed, nil
}

// available is what there is in some queues for the FETCH.
func (c *claiming) available(t *turn, queues []string, n int) (found []*job.Job, err error) {
	if c.f.Versions != nil {
		found, c.passed, err = t.AvailableVersions(c.f.Versions, c.f.Tenant, queues, n)
		return found, err
	}
	if c.f.Tenant != "" {
		return t.AvailableOf(c.f.Tenant, queues, n)
	}
	return t.Available(queues, n)
}

// withNext puts the jobs that have come in line, as one of a queue was taken, among those
// that were found, from a place on. all is false where some belong behind all of them or
// to another queue: then it takes another look.
func (c *claiming) withNext(found []*job.Job, from int, queue string, changes []change) (_ []*job.Job, all bool) {
	all = true
	for _, next := range changes {
		if j := next.job; !next.promoted || c.f.Tenant != "" && j.Tenant != c.f.Tenant || !c.f.Versions.Wants(j.Type, j.Extra) {
			continue
		}
		at := from
		for at < len(found) && found[at].Queue == queue && found[at].Before(next.job) {
			at++
		}
		if next.job.Queue != queue || at == len(found) {
			all = false
			continue
		}
		found = slices.Insert(found, at, next.job.Clone())
	}
	return found, all
}

// end is what has come of a transaction that is on disk. more reports that there may be
// jobs behind a whole slice of those that had expired, or of other versions, or that it
// has not looked.
func (c *claiming) end() (got []*job.Job, more bool, err error) {
	if c.noRoom {
		return nil, false, job.NoRoom()
	}
	c.asked.answer(c.s.now(), c.got)
	c.s.show(c.got...)
	return c.got, c.expired >= slice || !c.looked || c.passed, nil
}

// lease is the reservation of one job for one attempt: as long as the request,
// else the job, else its queue, else the server says (contract §4.6).
func (s *Sidecar) lease(f job.FetchRequest, j *job.Job, c *job.QueueConfig) job.Lease {
	length := cmp.Or(max(0, f.Visibility), max(0, j.Visibility), c.Visibility, s.o.Visibility)
	return job.Lease{Token: s.o.Token(), Worker: f.Worker, Length: length}
}
