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
	dutyTrim
)

func (s *Sidecar) duties() []duty {
	return []duty{
		dutyPromote: {"promote", s.promote},
		dutyRescue:  {"rescue", s.rescue},
		dutyExpire:  {"expire", s.expire},
		dutyWorkers: {"workers", s.watch},
		dutyPrune:   {"prune", s.prune},
		dutyTrim:    {"trim", s.trim},
	}
}

// dutyOf is the duty that looks after jobs in a state that is not final, else -1.
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
	if latest := now.Add(grace); s.spare.After(latest) {
		s.spare = latest // the clock has come back from where it jumped
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
	s.announce(changed...)
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

// sooner is the earlier of two instants, where zero is not set.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
