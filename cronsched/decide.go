package cronsched

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Missed is how old a tick may be that is still made up for (contract §4.16).
const Missed = 24 * time.Hour

// maxSkipEvents is how many skipped ticks of one schedule become events at once.
const maxSkipEvents = 10

// Decision is what a schedule has to do at one instant.
type Decision struct {
	After  *job.Cron   // the schedule as it is then, but for the job
	Was    time.Time   // its SeenAt before
	Fire   time.Time   // the tick that makes a job; zero for none
	Events []job.Event // what was missed, and what is skipped
}

// Decide is what a schedule has to do at now: all ticks up to now are decided,
// the newest of them may fire, and the others were missed (contract §4.16). An
// @every counts from anchor. It is pure: c stays as it is, and memory that it
// shares with the decision is raw JSON, which nobody writes to.
func Decide(c *job.Cron, spec Spec, anchor, now time.Time) Decision {
	t := Decision{After: c.Clone(), Was: c.SeenAt}
	c = t.After
	if now.Before(c.SeenAt) {
		rewind(c, now)
		c.NextRunAt = Following(c, spec, anchor, c.SeenAt)
		return t
	}
	first, due := spec.EveryNext(anchor, c.SeenAt)
	if due && !first.At.After(now) {
		last, _ := spec.Latest(anchor, c.SeenAt, now)
		t.settle(first.At.UTC(), last.At.UTC(), now, spec, anchor)
	}
	n := 0
	for o := range spec.Skips(c.SeenAt, now) {
		if n++; n > maxSkipEvents {
			break
		}
		r := job.CronRun{At: o.At.UTC(), Skipped: job.SkippedDST}
		c.Note(r)
		t.Events = append(t.Events, job.CronEvent(job.CronSkipped, c.Name, now, r))
	}
	seen(c, now)
	c.NextRunAt = Following(c, spec, anchor, now)
	return t
}

// settle decides the ticks from first to last, which have all passed.
func (t *Decision) settle(first, last, now time.Time, spec Spec, anchor time.Time) {
	c := t.After
	if !c.AheadAt.IsZero() && !last.Before(c.HoleTo) && !last.After(c.AheadAt) {
		return // the last has fired already, before the clock was set back
	}
	if now.Sub(last) <= Missed {
		t.Fire = last
	} else {
		last = now
	}
	if !first.Before(last) {
		return
	}
	to, _ := spec.Latest(anchor, c.SeenAt, last.Add(-1))
	t.missed(first, to.At, now, spec, anchor)
}

// missed adds the events of the ticks from first to last, but for those that were decided
// before the clock was set back.
func (t *Decision) missed(first, last, now time.Time, spec Spec, anchor time.Time) {
	c := t.After
	add := func(from, to time.Time) {
		if !to.Before(from) {
			t.Events = append(t.Events, job.CronMissedEvent(c.Name, now, from, to))
		}
	}
	if c.AheadAt.IsZero() || last.Before(c.HoleTo) || first.After(c.AheadAt) {
		add(first, last)
		return
	}
	if before, ok := spec.Latest(anchor, c.SeenAt, c.HoleTo.Add(-1)); ok {
		add(first, before.At)
	}
	if after, ok := spec.EveryNext(anchor, c.AheadAt); ok {
		add(after.At.UTC(), last)
	}
}

// seen notes that all ticks up to now are decided.
func seen(c *job.Cron, now time.Time) {
	c.SeenAt = now
	if !c.AheadAt.After(now) {
		c.HoleTo, c.AheadAt = time.Time{}, time.Time{}
	}
}

// Skip decides all ticks up to now without firing any: nothing of what passed is
// made up for. A clock that was set back is taken as Decide takes it.
func Skip(c *job.Cron, now time.Time) {
	if now.Before(c.SeenAt) {
		rewind(c, now)
	} else {
		seen(c, now)
	}
}

// Rewound reports whether a clock that was set back to now changes what is decided.
func Rewound(c *job.Cron, now time.Time) bool {
	if !now.Before(c.SeenAt) {
		return false
	}
	d := *c
	rewind(&d, now)
	return !d.SeenAt.Equal(c.SeenAt)
}

// rewind is what a clock that was set back does: nothing, as what was decided stays
// decided, whether it fired or was missed. But a schedule that would have to wait for
// more than a day does not wait: then only the ticks of the day before the newest
// decided one do not fire again.
func rewind(c *job.Cron, now time.Time) {
	if c.SeenAt.Sub(now) <= Missed {
		return
	}
	if c.SeenAt.After(c.AheadAt) {
		c.AheadAt = c.SeenAt
	}
	c.SeenAt = now
	c.HoleTo = c.AheadAt.Add(-Missed)
}

// Following is the next tick after t that is not decided already, zero for none.
func Following(c *job.Cron, spec Spec, anchor, t time.Time) time.Time {
	o, ok := spec.EveryNext(anchor, t)
	if ok && !c.AheadAt.IsZero() && !o.At.Before(c.HoleTo) && !o.At.After(c.AheadAt) {
		o, ok = spec.EveryNext(anchor, c.AheadAt)
	}
	if !ok {
		return time.Time{}
	}
	return o.At.UTC()
}
