package sidecar

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// Ticks is where the servers of one app agree on which of them makes the job of
// a tick. See [Options].
type Ticks interface {
	// Fire makes the jobs of the ticks that no other server has made, each once
	// whatever happens, and says of each of the others, with a reason of
	// [job.CronSkipped], why it made none. live reports whether a job has not ended
	// on this server. After an error nothing is known; the same ticks with the same
	// ids may be tried again.
	Fire(ctx context.Context, ticks []job.Tick, live func(job.ID) (bool, error)) (skipped []string, err error)
}

// errStale is why a tick is not claimed: another server of the store has stepped
// the schedule, changed it or removed it.
var errStale = errors.New("it is not as it was when its tick was decided")

// claimed saves what has become of a schedule, which claims its tick.
func claimed(tx job.WorkTx, c *job.Cron, was time.Time) error {
	ok, err := tx.StepCron(c, was)
	if err == nil && !ok {
		return job.Errorf(job.Internal, "the schedule %s: %w", c.Name, errStale)
	}
	return err
}

// firing is the work of one schedule in a round.
type firing struct {
	e *entry
	cronsched.Decision
	run    *run      // nil when nothing fires
	stored *job.Cron // the schedule as it is after the commit
}

// withCrons runs fn while no other verb changes a schedule, with all of them loaded.
func (s *Sidecar) withCrons(ctx context.Context, fn func() error) error {
	s.cronVerbs.Lock()
	defer s.cronVerbs.Unlock()
	if err := s.loadCrons(ctx); err != nil {
		return err
	}
	return fn()
}

// prepare decides what an entry has to do, outside of any transaction.
func (s *Sidecar) prepare(ctx context.Context, e *entry, now time.Time) (firing, error) {
	upto := now
	if ago := now.Sub(e.until); ago >= 0 && ago <= sheer+late { // later it would be no catch-up of this outage
		upto = e.until
	}
	t := firing{e: e, Decision: cronsched.Decide(e.cron, e.spec, e.anchor, upto)}
	if t.Fire.IsZero() {
		return t, nil
	}
	if e.id == "" || !e.at.Equal(t.Fire) {
		e.id, e.at = s.o.NewID(), t.Fire
	}
	t.run = newRun(e.cron, e.env, e.id, t.Fire, now)
	return t, s.allow(ctx, t.run)
}

// agree asks the other servers of the app whose tick it is, where there are any.
func (s *Sidecar) agree(ctx context.Context, turns []firing) error {
	if s.o.Ticks == nil {
		return nil
	}
	var ticks []job.Tick
	var runs []*run
	for _, t := range turns {
		if t.run != nil && t.run.refused == nil {
			ticks = append(ticks, job.Tick{Name: t.e.cron.Name, At: t.Fire, Overlap: t.e.cron.Overlap, Envelope: t.run.env})
			runs = append(runs, t.run)
		}
	}
	if len(ticks) == 0 {
		return nil
	}
	skipped, err := s.o.Ticks.Fire(ctx, ticks, func(id job.ID) (bool, error) {
		j, err := s.Job(ctx, id)
		if job.KindOf(err) == job.NotFound {
			return false, nil
		}
		return err == nil && !j.State.Terminal(), err
	})
	if err != nil {
		return err
	}
	for i, r := range runs {
		r.skipped = skipped[i]
	}
	return nil
}

// settle stores the turns, as many in one transaction as its time allows. One
// that cannot be stored must not hold up the others.
func (s *Sidecar) settle(ctx context.Context, turns []firing, now time.Time) error {
	for len(turns) > 0 {
		n, err := s.storeTurns(ctx, turns, now)
		for some := n - 1; err != nil && job.KindOf(err) != job.Unavailable && n > 1; some = n / 2 {
			n, err = s.storeTurns(ctx, turns[:some], now) // the last is to blame, or one whose job was stored with its
		}
		if job.KindOf(err) == job.Unavailable || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errStale) {
			err = s.reread(ctx, turns[0].e.cron.Name, now)
		}
		if err != nil {
			s.log.Error("the tick of a schedule could not be stored and will be tried again", "cron", turns[0].e.cron.Name, "error", err)
			turns[0].e.wake = now.Add(time.Minute)
		}
		turns = turns[max(n, 1):]
	}
	return nil
}

// reread plans a schedule as it is stored now.
func (s *Sidecar) reread(ctx context.Context, name string, now time.Time) error {
	c, err := s.storedCron(ctx, name)
	if job.KindOf(err) == job.NotFound {
		s.crons.put(name, nil)
		return nil
	}
	if err != nil {
		return err
	}
	spec, env, err := s.readCron(&c.CronSpec, now)
	if err == nil {
		s.crons.put(name, planned(c, spec, env, s.anchorOf(c)))
	}
	return err
}

// storeTurns stores the first of the turns in one transaction and says how many
// they are, or would have been.
func (s *Sidecar) storeTurns(ctx context.Context, turns []firing, now time.Time) (n int, err error) {
	err = s.update(ctx, func(tx *turn) error {
		began := time.Now()
		b := batch{turn: tx}
		for n = 0; n < len(turns) && (n == 0 || time.Since(began) < share); {
			n++
			if err := s.take(&b, &turns[n-1], now); err != nil {
				return err
			}
		}
		return b.flush()
	})
	if err != nil {
		return n, err
	}
	s.took(turns[:n])
	return n, nil
}

// took takes over what has been stored.
func (s *Sidecar) took(turns []firing) {
	for _, t := range turns {
		t.e.became(t.stored)
		if t.run != nil {
			s.launched(t.run)
		}
	}
}

// batch is a transaction whose new jobs are stored together.
type batch struct {
	*turn
	jobs []*job.Job
}

func (b *batch) add(j *job.Job) error {
	if b.jobs = append(b.jobs, j); len(b.jobs) < 128 {
		return nil
	}
	return b.flush()
}

func (b *batch) flush() error {
	stored, err := b.insertAll(b.jobs)
	if i := slices.Index(stored, false); i >= 0 {
		err = doubled(b.jobs[i].ID)
	}
	b.jobs = b.jobs[:0]
	return err
}

// take stores one turn: the job, what it tells, and the claim of its tick.
func (s *Sidecar) take(b *batch, t *firing, now time.Time) error {
	c := t.After.Clone() // as this may run more than once
	if t.run != nil {
		if err := s.result(b, c, t, now); err != nil {
			return err
		}
	}
	for _, e := range t.Told {
		if err := b.Tell(e); err != nil {
			return err
		}
	}
	t.stored = c
	return claimed(b, c, t.Was)
}

// result makes the job of a tick, or notes why there is none.
func (s *Sidecar) result(b *batch, c *job.Cron, t *firing, now time.Time) error {
	made := t.run.env.ID()
	if s.o.Ticks == nil || t.run.refused != nil {
		if err := s.launch(b.turn, c, t.run, now, b.add); err != nil {
			return err
		}
	} else if t.run.skipped == "" { // its job is in the outbox
		c.LastJob = made
		c.RunCount++
	}
	kind, r := job.CronTriggered, job.CronRun{At: t.Fire, JobID: made}
	if t.run.skipped != "" {
		kind, r = job.CronSkipped, job.CronRun{At: t.Fire, Skipped: t.run.skipped}
	} else {
		c.LastRunAt = t.Fire
	}
	c.Note(r)
	if r.Skipped == job.SkippedElsewhere {
		return nil // that server tells
	}
	return b.Tell(job.CronEvent(kind, c.Name, now, r))
}
