package sidecar

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A duty is what must be done when its time comes. do does a slice of it and
// says when it must be done again; zero is "when something changes".
type duty struct {
	name string
	do   func(ctx context.Context, now time.Time) (next time.Time, err error)
}

// The places of the duties in their table.
const (
	dutyPromote = iota
	dutyRescue
	dutyExpire
	dutyWorkers
	dutyPrune
)

func (s *Sidecar) duties() []duty {
	return []duty{
		dutyPromote: {"promote", s.promote},
		dutyRescue:  {"rescue", s.rescue},
		dutyExpire:  {"expire", s.expire},
		dutyWorkers: {"workers", s.workers},
		dutyPrune:   {"prune", s.prune},
	}
}

// dutyOf is the duty that looks after jobs in a state, -1 for none that is in a hurry.
func dutyOf(st job.State) int {
	switch st {
	case job.Scheduled, job.Retryable:
		return dutyPromote
	case job.Active:
		return dutyRescue
	case job.Available, job.Pending:
		return dutyExpire
	}
	return -1
}

const (
	slice   = 500                  // jobs changed in one transaction, so that callers get their turn
	longest = time.Second          // sleep, so that a clock set forward is noticed
	pause   = time.Second          // after a duty failed
	idle    = 365 * 24 * time.Hour // "when something changes"
	hourly  = time.Hour            // pruning
)

// grace is how long nobody loses a job after this process was stopped for a
// while, or its clock jumped: the workers were not silent, we did not listen.
const grace = silence / 3

// listen notices that more time has passed since the last look than can have
// passed, and begins a grace then.
func (s *Sidecar) listen(now time.Time) {
	if away := now.Sub(s.looked); !s.looked.IsZero() && away > longest+5*time.Second {
		s.spare = now.Add(grace)
		s.log.Warn("this server was stopped for a while, or its clock was set forward; workers keep their jobs for a grace", "away", away, "grace", grace)
	}
	s.looked = now
}

// Run does the duties until ctx ends and the last has stopped. It returns nil then.
func (s *Sidecar) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.poke:
		case <-timer.C:
		}
		s.listen(s.now())
		s.round(ctx)
		timer.Reset(max(0, min(s.clock.soonest().Sub(s.now()), longest)))
	}
}

// round does every duty whose time has come, once.
func (s *Sidecar) round(ctx context.Context) {
	for i, d := range s.duties() {
		now := s.now()
		if ctx.Err() != nil || !s.clock.take(i, now, now.Add(idle)) {
			continue
		}
		next, err := d.do(ctx, now)
		if err != nil && ctx.Err() == nil {
			s.log.Error("a background duty failed and will be tried again", "duty", d.name, "error", err)
			next = now.Add(pause)
		}
		if !next.IsZero() {
			s.clock.plan(i, next)
		}
	}
}

// sweep changes what is due in the given states, a slice of it, in one
// transaction, and says when there is more to do.
func (s *Sidecar) sweep(ctx context.Context, now time.Time, verb func(*job.Job) error, states ...job.State) (next time.Time, err error) {
	var changed []*job.Job
	err = s.store.Update(ctx, func(tx job.Tx) error {
		changed, next = nil, time.Time{}
		for _, st := range states {
			due, err := tx.Due(st, now, slice)
			if err != nil {
				return err
			}
			for _, j := range due {
				if err := verb(j); err != nil {
					return err
				}
				if err := tx.UpdateJob(j); err != nil {
					return err
				}
			}
			changed = append(changed, due...)
			at, err := tx.NextDue(st)
			if err != nil {
				return err
			}
			next = sooner(next, at)
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	for _, j := range changed {
		s.announce(j)
	}
	return next, nil
}

// promote lets scheduled and retryable jobs into their queues.
func (s *Sidecar) promote(ctx context.Context, now time.Time) (time.Time, error) {
	return s.sweep(ctx, now, func(j *job.Job) error {
		if expired(j, now) {
			return j.Expire(now)
		}
		return j.Ready(now)
	}, job.Scheduled, job.Retryable)
}

// rescue takes jobs back whose execution ran over or whose worker fell silent.
func (s *Sidecar) rescue(ctx context.Context, now time.Time) (time.Time, error) {
	if now.Before(s.spare) {
		return s.spare, nil
	}
	return s.sweep(ctx, now, func(j *job.Job) error {
		if j.Timeout > 0 && !now.Before(j.StartedAt.Add(j.Timeout)) {
			return j.Overrun(now, s.o.Rand())
		}
		return j.Lose(now, "visibility_timeout", s.o.Rand())
	}, job.Active)
}

// expire discards what waited too long.
func (s *Sidecar) expire(ctx context.Context, now time.Time) (time.Time, error) {
	return s.sweep(ctx, now, func(j *job.Job) error { return j.Expire(now) }, job.Available, job.Pending)
}

func expired(j *job.Job, now time.Time) bool {
	return !j.ExpiresAt.IsZero() && !now.Before(j.ExpiresAt)
}

// workers takes the jobs of workers that beat once and then fell silent, and
// forgets them after a day (contract §4.9).
func (s *Sidecar) workers(ctx context.Context, now time.Time) (next time.Time, err error) {
	if now.Before(s.spare) {
		return s.spare, nil
	}
	var lost []*job.Job
	var gone []string
	err = s.store.Update(ctx, func(tx job.Tx) error {
		lost, gone, next = nil, nil, time.Time{}
		ws, err := tx.Workers()
		if err != nil {
			return err
		}
		for _, w := range ws {
			if quietSince := now.Sub(w.BeatAt); quietSince < silence {
				next = sooner(next, w.BeatAt.Add(silence))
				continue
			} else if quietSince > day {
				gone = append(gone, w.ID)
				if err := tx.DeleteWorker(w.ID); err != nil {
					return err
				}
			}
			held, err := tx.Held(w.ID)
			if err != nil {
				return err
			}
			for _, h := range held {
				// A job claimed after the last beat shows that the worker lived then.
				if until := h.StartedAt.Add(silence); now.Before(until) {
					next = sooner(next, until)
					continue
				}
				j, err := s.bereave(tx, h.ID, w, now)
				if err != nil {
					return err
				}
				lost = append(lost, j)
			}
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	for _, id := range gone {
		s.roster.drop(id)
	}
	for _, j := range lost {
		s.announce(j)
	}
	if next.IsZero() {
		next = now.Add(hourly)
	}
	return next, nil
}

// bereave takes one job from a dead worker.
func (s *Sidecar) bereave(tx job.Tx, id job.ID, w job.WorkerInfo, now time.Time) (*job.Job, error) {
	j, err := tx.Job(id)
	if err != nil {
		return nil, err
	}
	if err := j.Lose(now, "worker_death", s.o.Rand()); err != nil {
		return nil, err
	}
	s.log.Warn("a worker fell silent, its job goes to another", "worker", w.ID, "job", j.ID, "silent", now.Sub(w.BeatAt))
	return j, tx.UpdateJob(j)
}

// sooner is the earlier of two instants, where zero is not set.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// prune removes what its retention no longer covers (contract §4.21).
func (s *Sidecar) prune(ctx context.Context, now time.Time) (time.Time, error) {
	more := false
	err := s.store.Update(ctx, func(tx job.Tx) error {
		more = false
		r := s.o.Retention
		for _, k := range []struct {
			state job.State
			keep  time.Duration
		}{{job.Completed, r.Completed}, {job.Cancelled, r.Cancelled}, {job.Discarded, r.Discarded}} {
			old, err := tx.Due(k.state, now.Add(-max(0, k.keep)), slice)
			if err != nil {
				return err
			}
			if err := remove(tx, old); err != nil {
				return err
			}
			more = more || len(old) == slice
		}
		dead, err := tx.Jobs(job.Filter{Dead: true, Until: now.Add(-max(0, r.Dead)), Limit: slice})
		if err != nil {
			return err
		}
		if err := remove(tx, dead.Jobs); err != nil {
			return err
		}
		events, err := tx.PruneEvents(now.Add(-max(0, r.Events)), slice)
		more = more || events || dead.Next != ""
		return err
	})
	if more {
		return now, err
	}
	return now.Add(hourly), err
}

func remove(tx job.Tx, jobs []*job.Job) error {
	for _, j := range jobs {
		if err := tx.DeleteJob(j.ID); err != nil {
			return err
		}
	}
	return nil
}
