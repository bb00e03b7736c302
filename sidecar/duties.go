package sidecar

import (
	"context"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A duty is what must be done when its time comes. do does a slice of it and
// returns when it must be done again; zero is "when something changes".
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
	dutyOpen
	dutyReopen
)

func (s *Sidecar) duties() []duty {
	return []duty{
		dutyPromote: {"promote", s.promote},
		dutyRescue:  {"rescue", s.rescue},
		dutyExpire:  {"expire", s.expire},
		dutyWorkers: {"workers", s.watch},
		dutyPrune:   {"prune", s.prune},
		dutyTrim:    {"trim", s.trim},
		dutyOpen:    {"open", s.open},
		dutyReopen:  {"reopen", s.endMaintenance},
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
	slice   = 500                   // jobs changed in one transaction, so that callers get their turn
	share   = 40 * time.Millisecond // of the writer's time for one, at most
	longest = time.Second           // sleep, so that a clock set forward is noticed
	pause   = time.Second           // after a duty failed
	idle    = 365 * 24 * time.Hour  // "when something changes"
	hourly  = time.Hour             // pruning
)

// listen looks at the clock, and warns when this server stood still for long.
func (s *Sidecar) listen(now, meant time.Time) {
	s.pauses.jumped(now, time.Now())
	if away := s.pauses.look(now, meant); away > longest {
		s.log.Warn("this server was stopped or held up for a while, or its clock was set forward; reservations that ran out meanwhile get a grace period, so that their workers are heard first",
			"away", away, "grace", min(away, s.pauses.most)+readTime)
	}
}

// planned is when the loop of the duties looks again: when one is due, and often
// in the last moments before something runs out, so that a pause in them shows.
func (s *Sidecar) planned(now time.Time) time.Time {
	at := now.Add(longest)
	for _, i := range [...]int{dutyRescue, dutyWorkers} {
		if near := s.clock.planned(i).Add(-readTime); near.After(now) {
			at = sooner(at, near)
		} else {
			at = sooner(at, now.Add(lookEvery))
		}
	}
	return sooner(at, s.clock.soonest())
}

// Run does the duties until ctx ends and the last has stopped. It returns nil
// then. Schedules have a loop of their own, so that no duty makes them late.
func (s *Sidecar) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.crons.Run(ctx) })
	s.runDuties(ctx)
	running.Wait()
	return nil
}

// runDuties does the duties, and goes on to look at the clock while they wait for the
// store: a slow one is no pause.
func (s *Sidecar) runDuties(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var working chan struct{} // closed when the duties are done; nil while none is due
	for meant := s.now(); ; {
		busy := working != nil
		select {
		case <-ctx.Done():
			if busy {
				<-working
			}
			return
		case <-s.clock.poke:
		case <-timer.C:
		case <-working:
			working = nil
		}
		if !busy { // else what is due waits for the duties, and was not slept through
			meant = sooner(meant, s.clock.soonest())
		}
		s.listen(s.now(), meant)
		now := s.now()
		if working == nil && !s.clock.soonest().After(now) {
			done := make(chan struct{})
			working = done
			go func() {
				defer close(done)
				s.round(ctx)
			}()
		}
		if meant = s.planned(now); working != nil {
			meant = now.Add(lookEvery)
		}
		timer.Reset(max(0, meant.Sub(s.now())))
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
			s.log.Error("a background task failed and will be retried", "duty", d.name, "error", err)
			next = now.Add(pause)
		}
		if !next.IsZero() {
			s.clock.plan(i, later(next, now)) // what is left over is due now, and was not forgotten
		}
	}
}

// sweep changes what is due in the given states, a slice of it, in one
// transaction, and returns when there is more to do. In a maintenance scheduled and
// retryable jobs are left alone.
func (s *Sidecar) sweep(ctx context.Context, upto time.Time, verb func(*turn, *job.Job) error, states ...job.State) (next time.Time, err error) {
	err = s.update(ctx, func(t *turn) error {
		next = time.Time{}
		if m := t.maintenance(upto); m.On && states[0] == job.Scheduled {
			next = m.Ends
			return nil
		}
		r := newWorkShare()
		for _, st := range states {
			due, err := t.Due(st, upto, slice)
			if err != nil {
				return err
			}
			for _, j := range due {
				if r.over() {
					break // the others are due still
				}
				if err := verb(t, j); err != nil {
					return err
				}
				if err := t.save(j); err != nil {
					return err
				}
			}
			at, err := t.NextDue(st)
			if err != nil {
				return err
			}
			next = sooner(next, at)
		}
		return nil
	})
	return next, err
}

// promote lets scheduled and retryable jobs into their queues.
func (s *Sidecar) promote(ctx context.Context, now time.Time) (time.Time, error) {
	return s.sweep(ctx, now, func(_ *turn, j *job.Job) error {
		if j.Expired(now) {
			return j.Expire(now)
		}
		return j.Ready(now)
	}, job.Scheduled, job.Retryable)
}

// rescue takes jobs back whose execution ran over or whose worker fell silent.
func (s *Sidecar) rescue(ctx context.Context, now time.Time) (time.Time, error) {
	if !s.limited {
		if err := s.limitAll(ctx); err != nil {
			s.pauses.setUnavailable(true)
			return time.Time{}, err
		}
		s.limited = true
	}
	upto, over := s.pauses.limit(now)
	next, err := s.sweep(ctx, upto, func(t *turn, j *job.Job) error {
		s.ruled(t, j)
		limit := s.timeout(t, j.Queue)
		stood := s.pauses.stood(j.StartedAt)
		switch {
		case j.Overran(upto, limit, stood):
			return j.Overrun(now, limit, s.o.Rand())
		case !upto.Before(j.Lease.Until):
			until, waits := s.spared(j, upto, now)
			if !upto.Before(until) && !waits {
				return j.Lose(now, "visibility_timeout", s.o.Rand())
			}
			j.Lease.Until = until
			j.Limit(limit, stood)
			return nil
		default:
			j.Limit(limit, stood) // the limit was a shorter one when it was claimed, or the clock jumped
			return nil
		}
	}, job.Active)
	s.pauses.setUnavailable(err != nil)
	if next.After(upto) {
		next = later(next, over) // until then it is covered
	}
	return next, err
}

// expire discards what waited too long.
func (s *Sidecar) expire(ctx context.Context, now time.Time) (time.Time, error) {
	return s.sweep(ctx, now, func(_ *turn, j *job.Job) error { return j.Expire(now) }, job.Available, job.Pending)
}

// sooner is the earlier of two instants, where zero is not set.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// limitAll gives the limit of this server to the jobs that were started under one
// with a longer limit, or with none.
func (s *Sidecar) limitAll(ctx context.Context) error {
	for f := (job.Filter{States: []job.State{job.Active}, Limit: slice}); ; {
		page, err := view(ctx, s, func(tx job.ReadTx) (job.Page, error) { return tx.Jobs(f) })
		if err != nil {
			return err
		}
		if err := s.update(ctx, func(t *turn) error { return s.limitSome(t, page.Jobs) }); err != nil {
			return err
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}

// limitSome does limitAll's work for jobs that were active a moment ago.
func (s *Sidecar) limitSome(t *turn, jobs []*job.Job) error {
	for _, seen := range jobs {
		was, limit := seen.DueAt, s.timeout(t, seen.Queue)
		if seen.Limit(limit, 0); seen.DueAt.Equal(was) {
			continue
		}
		j, err := t.Job(seen.ID)
		switch {
		case job.KindOf(err) == job.NotFound:
			continue
		case err != nil:
			return err
		}
		if j.Limit(limit, 0); j.State != job.Active {
			continue
		}
		if err := t.save(j); err != nil {
			return err
		}
	}
	return nil
}
