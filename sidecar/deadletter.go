package sidecar

import (
	"context"
	"log/slog"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Revive takes a dead letter back into its queue; see [job.Operator].
func (s *Sidecar) Revive(ctx context.Context, id job.ID) (job.Change, error) {
	now := s.now()
	return s.change(ctx, id, func(j *job.Job) error {
		if err := j.CheckDead(); err != nil {
			return err
		}
		return j.Revive(now)
	})
}

// Retry takes any discarded job back into its queue; see [job.Operator].
func (s *Sidecar) Retry(ctx context.Context, id job.ID) (job.Change, error) {
	now := s.now()
	return s.change(ctx, id, func(j *job.Job) error { return j.Revive(now) })
}

// ReviveDead takes many dead letters back; see [job.Operator]. It does so in
// slices, so that other callers get their turn. What dies while it is at work is
// left alone: a job that fails again at once would keep it busy for ever.
func (s *Sidecar) ReviveDead(ctx context.Context, f job.Filter) (int64, error) {
	end := s.now().Add(time.Millisecond)
	if f.Until.IsZero() || end.Before(f.Until) {
		f.Until = end
	}
	return s.eachDead(ctx, f, func(t *turn, j *job.Job) (bool, error) {
		now := s.now()
		if j.Expired(now) {
			return false, nil
		}
		if err := j.Revive(now); err != nil {
			return false, err
		}
		return true, t.save(j)
	})
}

// PurgeDead removes the dead letters from before an instant; see [job.Operator].
func (s *Sidecar) PurgeDead(ctx context.Context, before time.Time) (int64, error) {
	if err := job.CheckPurge(before); err != nil {
		return 0, err
	}
	return s.eachDead(ctx, job.Filter{Until: before}, func(t *turn, j *job.Job) (bool, error) {
		if needed, err := inRunningFlow(t, j); needed || err != nil {
			return false, err
		}
		return true, t.remove(j.ID)
	})
}

// fewLarge is how many jobs are taken in one transaction where each may be as large
// as a job can be: they are all in memory together.
const fewLarge = 32

// paced is how many jobs are taken next after these: a whole slice where they are small.
func paced(last []*job.Job) int {
	size := 0
	for _, j := range last {
		size += j.Size()
	}
	if size > len(last)*(16<<10) {
		return fewLarge
	}
	return slice
}

// eachDead does something to every dead letter that f lets through, the oldest
// first, which takes it out of the dead letters, unless do returns false. A
// Limit of 0 is none.
func (s *Sidecar) eachDead(ctx context.Context, f job.Filter, do func(*turn, *job.Job) (bool, error)) (done int64, err error) {
	pace := fewLarge
	for stayed := 0; ; {
		n := pace
		if f.Limit > 0 {
			n = int(min(int64(n), int64(f.Limit)-done))
		}
		var r workShare
		found, taken, stay := 0, 0, 0
		err := s.update(ctx, func(t *turn) error {
			taken, stay = 0, 0
			dead, err := t.Dead(f, n+stayed) // those that stay are read again
			found, r = len(dead), newWorkShare()
			pace = paced(dead)
			for i := 0; i < found && taken < n && err == nil && (i < stayed || !r.over()); i++ {
				var gone bool
				if gone, err = do(t, dead[i]); gone {
					taken++
				} else {
					stay++
				}
			}
			return err
		})
		if err != nil {
			return done, err
		}
		if done += int64(taken); !r.full && found < n+stayed || f.Limit > 0 && done == int64(f.Limit) {
			return done, nil
		}
		stayed = stay
	}
}

// DeleteDead removes a dead letter; see [job.Operator].
func (s *Sidecar) DeleteDead(ctx context.Context, id job.ID) error {
	return s.update(ctx, func(t *turn) error {
		j, err := t.Job(id)
		if err != nil {
			return err
		}
		if err := j.CheckDead(); err != nil {
			return err
		}
		needed, err := inRunningFlow(t, j)
		if err != nil {
			return err
		}
		if needed {
			return neededByFlow(j)
		}
		return t.remove(id)
	})
}

// DeadStats counts the dead letters; see [job.Operator].
func (s *Sidecar) DeadStats(ctx context.Context) (job.DeadStats, error) {
	return view(ctx, s, job.ReadTx.DeadStats)
}

// logFailed logs the jobs that have failed for good: by default they are in no
// list of dead letters, and nobody would know of it. What its worker discarded on
// purpose is logged at a lower level.
func (s *Sidecar) logFailed(changes []change) {
	for _, c := range changes {
		j := c.job
		if j.State != job.Discarded || c.from == job.Discarded || j.Error == nil {
			continue
		}
		kind, code := j.ErrorType(), j.ErrorCode()
		level := slog.LevelWarn
		switch {
		case code == "expired" && j.Expired(j.FinishedAt):
			continue // nothing has failed
		case job.DiscardCode(code):
			level = slog.LevelInfo
		}
		s.log.Log(context.Background(), level, "a job has failed for good; to run it again, POST to its retry path", "job", j.ID, "type", j.Type,
			"queue", j.Queue, "attempts", j.Attempt, "error_type", kind, "dead_letter", j.Dead, "retry", "/ojs/v1/admin/jobs/"+string(j.ID)+"/retry")
	}
}
