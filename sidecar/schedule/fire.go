package schedule

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// errStale is why a tick is not claimed: another server of the store has stepped
// the schedule, changed it or removed it.
var errStale = errors.New("it is not as it was when its tick was decided")

// claimed saves a schedule as it is now, which claims its tick: no other server can.
func claimed(tx Tx, c *job.Cron, was time.Time) error {
	ok, err := tx.StepCron(c, was)
	if err == nil && !ok {
		return job.Errorf(job.Internal, "the schedule %s: %w", c.Name, errStale)
	}
	return err
}

// firing is what one schedule has to do.
type firing struct {
	e *entry
	cronsched.Decision
	run    *run      // nil when nothing fires
	stored *job.Cron // the schedule as it is after the commit
	failed error     // why it could not be stored
}

const (
	atOnce  = 1000 // schedules that are decided together
	atFault = 8    // firings that fail as Unavailable in a row, and it is the store's fault
)

// fire does what is due. There may be ten thousand schedules of one instant: they
// are decided and stored some at a time.
func (s *Schedules) fire(ctx context.Context, now time.Time) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.verbs.Unlock()
	s.table.spread(now)
	for due := s.table.due(now, atOnce); len(due) > 0; due = s.table.due(now, atOnce) {
		err := s.fireSome(ctx, due, now)
		for _, e := range due {
			s.table.back(e)
		}
		if err != nil {
			return err
		}
		now = s.host.Now()
	}
	return nil
}

// fireSome does what schedules that are due have to do.
func (s *Schedules) fireSome(ctx context.Context, due []*entry, now time.Time) error {
	firings := make([]firing, 0, len(due))
	for _, e := range due {
		f, err := s.prepare(ctx, e, now)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // it cannot be decided now, and the others need not wait for it
			s.host.Log.Error("a middleware could not decide about the job of a schedule, and will be asked again", "cron", e.cron.Name, "error", err)
			e.wake = now.Add(pause)
			continue
		}
		firings = append(firings, f)
	}
	if err := s.agree(ctx, firings); err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.verbs.Unlock()
	firings = slices.DeleteFunc(firings, func(f firing) bool { return !s.table.has(f.e) }) // it was changed meanwhile
	return s.settle(ctx, firings, now)
}

// prepare decides what an entry has to do, outside of any transaction.
func (s *Schedules) prepare(ctx context.Context, e *entry, now time.Time) (firing, error) {
	upto := now
	if ago := now.Sub(e.until); ago >= 0 && ago <= spreadOver+late { // later it would be no catch-up of this outage
		upto = e.until
	}
	f := firing{e: e, Decision: cronsched.Decide(e.cron, e.spec, e.anchor, upto)}
	if f.Fire.IsZero() {
		return f, nil
	}
	if e.id == "" || !e.at.Equal(f.Fire) {
		e.id, e.at = s.host.NewID(), f.Fire
	}
	f.run = newRun(e.cron, e.makes, e.id, f.Fire, now)
	return f, s.allow(ctx, f.run)
}

// agree asks the other servers of the app whose tick it is, where there are any.
func (s *Schedules) agree(ctx context.Context, firings []firing) error {
	if s.ticks == nil {
		return nil
	}
	var ticks []job.Tick
	var runs []*run
	for _, f := range firings {
		if f.run != nil && f.run.refused == nil {
			ticks = append(ticks, job.Tick{Name: f.e.cron.Name, At: f.Fire, Overlap: f.e.cron.Overlap, Envelope: f.run.env, Flow: f.run.flow})
			runs = append(runs, f.run)
		}
	}
	if len(ticks) == 0 {
		return nil
	}
	skipped, err := s.ticks.Fire(ctx, ticks, func(id job.ID) (bool, error) {
		return view(ctx, s, func(tx job.ReadTx) (bool, error) {
			for _, c := range []job.Cron{{LastJob: id}, {LastFlow: id}} {
				if j, f, err := previous(tx, &c); err != nil || j != nil || f != nil {
					return err == nil, err
				}
			}
			return false, nil
		})
	})
	if err != nil {
		return err
	}
	for i, r := range runs {
		r.skipped = skipped[i]
	}
	return nil
}

// settle stores the firings, as many in one transaction as its time allows. One
// that cannot be stored must not hold up the others, though its error may be the
// Unavailable of a single damaged row. After several of these in a row
// the store itself must have failed, and the rest waits for the next look.
func (s *Schedules) settle(ctx context.Context, firings []firing, now time.Time) (err error) {
	works := false      // the store: it has taken a firing, or refused one for a reason
	var failed []firing // Unavailable, each by itself, since it worked
	for len(firings) > 0 {
		some := firings
		if len(failed) > 0 {
			some = firings[:1]
		}
		var n int
		n, err = s.storeFirst(ctx, some, now)
		switch {
		case ctx.Err() != nil:
			return err
		case job.KindOf(err) == job.Unavailable:
			firings[0].failed = err
			if failed = append(failed, firings[0]); n == 0 || len(failed) == atFault {
				for _, f := range failed {
					f.e.wake = now.Add(pause) // behind those that have not been tried
				}
				return err
			}
		default:
			s.putOff(failed, now)
			works, failed = true, nil
			if err != nil {
				s.refused(ctx, firings[0], err, now)
			}
		}
		firings = firings[max(n, 1):]
	}
	if works {
		s.putOff(failed, now)
		return nil
	}
	return err
}

// storeFirst stores the first of the firings and returns how many they are. After an
// error that is one, or none where no transaction has begun.
func (s *Schedules) storeFirst(ctx context.Context, firings []firing, now time.Time) (n int, err error) {
	n, err = s.storeSome(ctx, firings, now)
	// Mostly the last one failed and those before it are fine. But jobs are stored
	// together, so that any of them may have: then half as many are tried each time.
	for some := n - 1; err != nil && n > 1; some = n / 2 {
		n, err = s.storeSome(ctx, firings[:some], now)
	}
	return n, err
}

// refused deals with a firing that failed although the store works.
func (s *Schedules) refused(ctx context.Context, f firing, err error, now time.Time) {
	if errors.Is(err, errStale) {
		err = s.reread(ctx, f.e.cron.Name, now)
	}
	if f.failed = err; err != nil {
		s.putOff([]firing{f}, now)
	}
}

// putOff has firings tried again that could not be stored while others could.
func (s *Schedules) putOff(failed []firing, now time.Time) {
	for _, f := range failed {
		s.host.Log.Error("the tick of a schedule could not be stored; trying again", "cron", f.e.cron.Name, "error", f.failed)
		f.e.wake = now.Add(time.Minute)
	}
}

// reread plans a schedule as it is stored now.
func (s *Schedules) reread(ctx context.Context, name string, now time.Time) error {
	c, err := s.Cron(ctx, name)
	if job.KindOf(err) == job.NotFound {
		s.table.put(name, nil)
		return nil
	}
	if err != nil {
		return err
	}
	spec, makes, err := s.readCron(&c.CronSpec, now)
	if err == nil {
		s.table.put(name, entryOf(c, spec, makes, s.anchorOf(c)))
	}
	return err
}

// storeSome stores the first of the firings in one transaction and returns how many
// they are, or would have been.
func (s *Schedules) storeSome(ctx context.Context, firings []firing, now time.Time) (n int, err error) {
	err = s.host.Update(ctx, func(tx Tx) error {
		began := time.Now()
		b := batch{Tx: tx}
		for n = 0; n < len(firings) && (n == 0 || time.Since(began) < share); {
			n++
			if err := s.take(&b, &firings[n-1], now); err != nil {
				return err
			}
		}
		return b.flush()
	})
	if n > 0 && firings[n-1].run.noteTurnedDown(err) {
		return s.storeSome(ctx, firings[:n], now)
	}
	if err != nil {
		return n, err
	}
	for _, f := range firings[:n] {
		f.e.became(f.stored)
	}
	return n, nil
}

// batch is a transaction whose new jobs are stored together.
type batch struct {
	Tx
	jobs []*job.Job
}

func (b *batch) add(j *job.Job) error {
	if b.jobs = append(b.jobs, j); len(b.jobs) < 128 {
		return nil
	}
	return b.flush()
}

func (b *batch) flush() error {
	err := b.Insert(b.jobs...)
	b.jobs = b.jobs[:0]
	return err
}

// take stores what one schedule has to do: the job or the workflow, its events, and the claim of its tick.
func (s *Schedules) take(b *batch, f *firing, now time.Time) error {
	c := f.After.Clone() // as this may run more than once
	if f.run != nil {
		if err := s.result(b, c, f, now); err != nil {
			return err
		}
	}
	for _, e := range f.Events {
		if err := b.AddEvent(e); err != nil {
			return err
		}
	}
	f.stored = c
	return claimed(b, c, f.Was)
}

// result makes the job, or the workflow, of a tick, or notes why there is none.
func (s *Schedules) result(b *batch, c *job.Cron, f *firing, now time.Time) error {
	kind, r := job.CronTriggered, f.run.made(f.Fire)
	if s.ticks == nil || f.run.refused != nil {
		if err := s.launch(b.Tx, c, f.run, f.Fire, now, b.add); err != nil {
			return err
		}
	} else if f.run.skipped == "" { // it is in the outbox
		c.Made(r)
	}
	if f.run.skipped != "" {
		kind, r = job.CronSkipped, job.CronRun{At: f.Fire, Skipped: f.run.skipped}
	}
	c.Note(r)
	if r.Skipped == job.SkippedElsewhere {
		return nil // that server stores the event
	}
	return b.AddEvent(job.CronEvent(kind, c.Name, now, r))
}
