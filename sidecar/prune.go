package sidecar

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// kept is how long jobs stay that have ended in a state and are no dead letters.
func (r Retention) kept(st job.State) time.Duration {
	switch st {
	case job.Completed:
		return max(0, r.Completed)
	case job.Cancelled:
		return max(0, r.Cancelled)
	}
	return max(0, r.Discarded)
}

// pruneAt is when a job that has ended may be removed. ok is false when the
// hourly round will see it in time.
func (r Retention) pruneAt(j *job.Job) (at time.Time, ok bool) {
	keep := r.kept(j.State)
	if j.Dead {
		keep = max(0, r.Dead)
	}
	if !j.Dead && j.DueAt.Before(j.FinishedAt) { // its queue has a shorter one
		at = j.DueAt.Add(keep)
		return at, at.Sub(j.FinishedAt) < hourly
	}
	return later(j.FinishedAt, j.DueAt).Add(keep), keep < hourly // a window may have put it off
}

// hasty reports whether a queue keeps finished jobs of a state for less than an hour.
func hasty(t *turn, st job.State) bool {
	all, _ := t.AllQueueSettings() // from memory
	for _, set := range all {
		if own := set.Config.Retention.Of(st); own != nil && *own < hourly {
			return true
		}
	}
	return false
}

// prune removes jobs that their retention no longer covers (contract §4.21), a
// slice of them. It comes back in an hour, or earlier for jobs that stay
// for less than that.
func (s *Sidecar) prune(ctx context.Context, now time.Time) (next time.Time, err error) {
	r := s.o.Retention
	err = s.update(ctx, func(t *turn) error {
		work := newWorkShare()
		at, err := s.pruneDead(t, &work, now) // first: what stays for a window is a dead letter no more
		if err != nil {
			return err
		}
		next = sooner(now.Add(hourly), at)
		for _, st := range []job.State{job.Completed, job.Cancelled, job.Discarded} {
			keep := r.kept(st)
			old, err := t.Due(st, now.Add(-keep), slice)
			if err != nil {
				return err
			}
			if err := remove(t, &work, now, keep, old); err != nil {
				return err
			}
			oldest, err := t.NextDue(st)
			if err != nil {
				return err
			}
			if at := oldest.Add(keep); !oldest.IsZero() && (keep < hourly || !at.After(now) || hasty(t, st)) {
				next = sooner(next, at)
			}
		}
		return nil
	})
	return next, err
}

// pruneDead removes a slice of the dead letters that are too old, the oldest
// first, and returns when there is more to do before the hour is over, zero for never.
func (s *Sidecar) pruneDead(t *turn, r *workShare, now time.Time) (next time.Time, err error) {
	keep := max(0, s.o.Retention.Dead)
	old, err := t.Dead(job.Filter{Until: now.Add(time.Millisecond - keep)}, fewLarge) // Until itself is not meant
	if err != nil {
		return next, err
	}
	if err := remove(t, r, now, s.o.Retention.kept(job.Discarded), old); err != nil || len(old) == fewLarge || keep >= hourly {
		if len(old) == fewLarge || r.full {
			next = now
		}
		return next, err
	}
	oldest, err := t.Dead(job.Filter{}, 1)
	if len(oldest) > 0 {
		next = oldest[0].FinishedAt.Add(keep)
	}
	return next, err
}

// trim removes what is too much, a slice of it, once an hour: old events, and the
// dead letters behind the newest that are kept.
func (s *Sidecar) trim(ctx context.Context, now time.Time) (next time.Time, err error) {
	s.answers.prune(now)
	if !now.Before(s.forgot.Add(hourly)) {
		if err := s.forgetLimits(ctx, now); err != nil {
			return next, err
		}
		s.forgot = now
	}
	err = s.update(ctx, func(t *turn) error {
		next = now.Add(hourly)
		r := newWorkShare()
		flows, err := s.pruneFlows(t, now)
		if err != nil {
			return err
		}
		events, err := s.trimEvents(t, now)
		if err != nil {
			return err
		}
		dead, err := s.trimDead(t, &r, now)
		if flows || events || dead {
			next = now
		}
		if err != nil {
			return err
		}
		return trimQueues(t, now)
	})
	return next, err
}

// trimQueues removes the statistics and the answers that are too old.
func trimQueues(t *turn, now time.Time) error {
	qs, err := t.Queues()
	if err != nil {
		return err
	}
	for _, q := range qs {
		if err := t.PruneSlots(q.Name, now.Add(-job.KeepSlots)); err != nil {
			return err
		}
	}
	return t.PruneAnswers(now.Add(-job.KeepIdempotent))
}

// trimEvents removes the oldest events, and looks at the time after some groups of
// them: one holds up to a thousand.
func (s *Sidecar) trimEvents(t *turn, now time.Time) (more bool, err error) {
	const some = 25
	began := time.Now()
	for n := 0; n < slice; n += some {
		more, err = t.PruneEvents(now.Add(-max(0, s.o.Retention.Events)), some)
		if err != nil || !more || time.Since(began) > share {
			break
		}
	}
	return more, err
}

// trimDead removes a slice of the dead letters beyond the number that is kept,
// the oldest first.
func (s *Sidecar) trimDead(t *turn, r *workShare, now time.Time) (more bool, err error) {
	keep := int64(s.o.Retention.DeadCount)
	if keep < 0 {
		return false, nil
	}
	page, err := t.Jobs(job.Filter{Dead: true, Limit: 1})
	if err != nil || page.Total <= keep {
		return false, err
	}
	excess := page.Total - keep
	old, err := t.Dead(job.Filter{}, int(min(excess, fewLarge)))
	if err != nil {
		return false, err
	}
	err = remove(t, r, now, s.o.Retention.kept(job.Discarded), old)
	return excess > fewLarge || r.full, err
}

// remove deletes jobs whose retention is over, but for those that an open window
// still needs: they stay until it is over, too (contract §4.21). Of jobs with one
// key and one end only the newest decides, so that a key which is pushed for ever
// keeps a few jobs and not all. It ends with the share.
func remove(t *turn, r *workShare, now time.Time, retention time.Duration, jobs []*job.Job) error {
	for _, j := range jobs {
		if r.over() {
			return nil
		}
		needed, err := stays(t, now, j)
		own := t.configOf(j.Queue).Retention.Of(j.State)
		switch {
		case err != nil:
		case !j.Dead && own != nil && now.Before(j.FinishedAt.Add(*own)): // its queue keeps it for longer
			if t.s.retain(t, j) {
				err = t.save(j)
			}
		case needed:
			j.Stay(now, retention)
			err = t.save(j)
		default:
			err = t.remove(j.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func stays(t *turn, now time.Time, j *job.Job) (bool, error) {
	if needed, err := inRunningFlow(t, j); needed || err != nil {
		return needed, err
	}
	if !j.Keep.After(now) {
		return false, nil
	}
	twins, err := t.Twins(j.Fingerprint, j.ID)
	return !j.Outlived(now, twins), err
}
