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

// ticking is the duty of the loop that fires schedules.
func (s *Sidecar) ticking() []duty { return []duty{{"cron", s.fire}} }

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
	slice   = 500                   // jobs changed in one transaction, so that callers get their turn
	share   = 40 * time.Millisecond // of the writer's time for one, at most
	longest = time.Second           // sleep, so that a clock set forward is noticed
	pause   = time.Second           // after a duty failed
	idle    = 365 * 24 * time.Hour  // "when something changes"
	hourly  = time.Hour             // pruning
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

// Run does the duties until ctx ends and the last has stopped. It returns nil
// then. Schedules have a loop of their own: they are late for nobody.
func (s *Sidecar) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.repeat(ctx, &s.ticker, s.ticking(), s.rewound, s.crons.none)
	}()
	s.repeat(ctx, &s.clock, s.duties(), s.listen, func() bool { return false })
	<-done
	return nil
}

// repeat does duties whenever one is due, until ctx ends. look is called before,
// at least every second: the clock may have been set. Who is asleep needs no look.
func (s *Sidecar) repeat(ctx context.Context, c *clock, duties []duty, look func(now time.Time), asleep func() bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.poke:
		case <-timer.C:
		}
		look(s.now())
		s.round(ctx, c, duties)
		wait := max(0, c.soonest().Sub(s.now()))
		if !asleep() {
			wait = min(wait, longest)
		}
		timer.Reset(wait)
	}
}

// rewound notices that the clock was set back, which may change what schedules wait for.
func (s *Sidecar) rewound(now time.Time) {
	if back := s.ticked.Sub(now); back > 0 {
		if s.crons.rewound(now) {
			s.log.Warn("the clock was set back; schedules do not fire again for what they have fired for", "back", back)
		}
		s.ticker.wake(0, now) // what was planned was planned by another time
	}
	s.ticked = now
}

// round does every duty whose time has come, once.
func (s *Sidecar) round(ctx context.Context, c *clock, duties []duty) {
	for i, d := range duties {
		now := s.now()
		if ctx.Err() != nil || !c.take(i, now, now.Add(idle)) {
			continue
		}
		next, err := d.do(ctx, now)
		if err != nil && ctx.Err() == nil {
			s.log.Error("a background duty failed and will be tried again", "duty", d.name, "error", err)
			next = now.Add(pause)
		}
		if !next.IsZero() {
			c.plan(i, next)
		}
	}
}

// sweep changes what is due in the given states, a slice of it, in one
// transaction, and says when there is more to do.
func (s *Sidecar) sweep(ctx context.Context, now time.Time, verb func(*job.Job) error, states ...job.State) (next time.Time, err error) {
	var changed []*job.Job
	err = s.store.Update(ctx, func(tx job.Tx) error {
		changed, next = nil, time.Time{}
		began := time.Now()
		for _, st := range states {
			due, err := tx.Due(st, now, slice)
			if err != nil {
				return err
			}
			for i, j := range due {
				if i%32 == 31 && time.Since(began) > share {
					due = due[:i] // the others are due still
					break
				}
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
