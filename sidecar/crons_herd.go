package sidecar

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	herd    = 1000                  // schedules that are decided together
	worth   = 200                   // schedules of one instant that are stored before it
	perTurn = 80 * time.Microsecond // what one of them takes, generously

	maxTries = 4                     // of a herd before its time
	again    = 25 * time.Millisecond // between two of them
)

// fire does what the schedules have to do at now, and says when there is more
// (contract §4.16). It is called by one goroutine at a time.
func (s *Sidecar) fire(ctx context.Context, now time.Time) (next time.Time, err error) {
	if err := s.withCrons(ctx, func() error { return s.release(ctx, now) }); err != nil {
		return next, err
	}
	s.crons.spread(now)
	if at := s.crons.coming(now); !at.IsZero() && s.o.Ticks == nil {
		s.early(ctx, at)
	}
	for h := s.prepareHerd(ctx, now, herd); len(h.due) > 0; {
		ahead := make(chan prepared, 1) // the next are prepared while these are stored
		go func() { ahead <- s.prepareHerd(ctx, s.now(), herd) }()
		if h.err == nil {
			h.err = s.decided(ctx, h)
		}
		for _, e := range h.due {
			s.crons.back(e)
		}
		err = h.err
		if h = <-ahead; err != nil {
			for _, e := range h.due {
				s.crons.back(e)
			}
			return next, err
		}
	}
	return s.crons.soonest(now), nil
}

// prepared are schedules that are due, and what they have to do.
type prepared struct {
	due   []*entry
	turns []firing
	now   time.Time
	err   error
}

// prepareHerd takes up to n schedules that are due and decides what they have to do.
func (s *Sidecar) prepareHerd(ctx context.Context, now time.Time, n int) prepared {
	h := prepared{due: s.crons.due(now, n), now: now}
	h.turns = make([]firing, 0, len(h.due))
	for _, e := range h.due {
		t, err := s.prepare(ctx, e, now)
		if h.err = ctx.Err(); h.err != nil {
			return h
		}
		if err != nil { // nobody can tell now, and the others need not wait for it
			s.log.Error("a middleware cannot tell now whether a schedule may make its job, and will be asked again", "cron", e.cron.Name, "error", err)
			e.wake = now.Add(pause)
			continue
		}
		h.turns = append(h.turns, t)
	}
	return h
}

// decided makes what was decided true.
func (s *Sidecar) decided(ctx context.Context, h prepared) error {
	if err := s.agree(ctx, h.turns); err != nil {
		return err
	}
	return s.withCrons(ctx, func() error {
		turns := slices.DeleteFunc(h.turns, func(t firing) bool { return !s.crons.has(t.e) }) // it was changed meanwhile
		return s.settle(ctx, turns, h.now)
	})
}

// lead is how long before its time a herd of n schedules is begun; zero if it
// is too small to be.
func lead(n int) time.Duration {
	if n < worth {
		return 0
	}
	return min(longest, 20*time.Millisecond+time.Duration(n)*perTurn)
}

// errBusy ends a transaction of a herd because somebody else wants to write.
var errBusy = errors.New("somebody else waits for the store")

// early stores what a herd does at an instant in a transaction that is begun
// before it, and committed when it has come: ten thousand jobs are there at once,
// and not one after the other. Nobody sees them before. As nobody else writes
// meanwhile, what is decided is what would be decided then; as soon as anybody
// wants to, all of it is undone, and done in its time instead. What is not ready
// by then follows as it would have without this.
func (s *Sidecar) early(ctx context.Context, at time.Time) {
	h := s.prepareHerd(ctx, at, 1<<20)
	defer func() {
		for _, e := range h.due {
			s.crons.back(e)
		}
	}()
	if h.err != nil {
		return // it will be told in its time
	}
	busy, patience := false, time.Now().Add(2*longest)
	n := 0
	alone := func(tx *turn) bool {
		busy = busy || !tx.Alone() || ctx.Err() != nil || time.Now().After(patience)
		return !busy
	}
	err := s.withCrons(ctx, func() error {
		h.turns = slices.DeleteFunc(h.turns, func(t firing) bool { return !s.crons.has(t.e) })
		err := s.update(ctx, func(tx *turn) error {
			b := batch{turn: tx}
			for n = 0; n < len(h.turns) && (n%16 != 0 || s.now().Before(at)); n++ {
				if n%16 == 0 && !alone(tx) {
					return errBusy
				}
				if err := s.take(&b, &h.turns[n], at); err != nil {
					return err
				}
			}
			if err := b.flush(); err != nil {
				return err
			}
			for s.now().Before(at) {
				if !alone(tx) {
					return errBusy
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		if err == nil {
			s.took(h.turns[:n])
		}
		return err
	})
	if err != nil {
		s.log.Debug("a herd of schedules could not be stored before its time", "schedules", len(h.due), "error", err)
	}
}
