package sidecar

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// run is a job on its way from a schedule into the store.
type run struct {
	env     job.Checked
	refused error // by a middleware, or a rule of jobs

	job     *job.Job
	waits   job.ID // the job whose end it waits for
	met     error  // why there is no job
	skipped string // the same as a reason of CronSkipped
}

// newRun is a run of a schedule, of which template is checked; see [job.Cron.Instance].
func newRun(c *job.Cron, template job.Checked, id job.ID, at, now time.Time) *run {
	env, err := c.Instance(template, id, at, now)
	return &run{env: env, refused: err}
}

// allow asks the middleware about a run. Only what says that
// nobody can tell now is an error; a refusal is noted.
func (s *Sidecar) allow(ctx context.Context, r *run) error {
	if r.refused == nil {
		cs := []job.Checked{r.env}
		_, r.refused = s.admit(ctx, cs)
		r.env = cs[0]
	}
	if job.KindOf(r.refused) == job.Unavailable {
		return r.refused
	}
	return nil
}

// launch makes the job of a run in a transaction, if the overlap policy and the
// keys let it, and notes it in c. insert stores a job without a key.
func (s *Sidecar) launch(tx *turn, c *job.Cron, r *run, now time.Time, insert func(*job.Job) error) error {
	r.job, r.met, r.skipped, r.waits = nil, r.refused, "", ""
	if r.met != nil {
		r.skipped = job.SkippedRejected
		return nil
	}
	env := r.env
	if c.LastJob != "" && c.Overlap != job.OverlapAllow {
		previous, err := tx.Job(c.LastJob)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		if err == nil && !previous.State.Terminal() {
			if err := s.overlap(tx, c, r, &env, previous, now); err != nil || r.met != nil {
				return err
			}
		}
	}
	j, err := env.Push(now)
	if err != nil {
		return err
	}
	var receipt job.Receipt
	if j.Keyed() {
		receipt, err = s.insertKeyed(tx, j, now, taken)
	} else {
		receipt.Job, err = j, insert(j)
	}
	switch {
	case err != nil && (job.KindOf(err) == job.Internal || job.KindOf(err) == job.Unavailable):
		return err
	case err != nil:
		r.met, r.skipped = err, job.SkippedDuplicate
	case receipt.Existing:
		r.met = job.Errorf(job.Conflict, "job %s stands for this run already: %s", receipt.ID, receipt.Verdict)
		r.skipped = job.SkippedDuplicate
	default:
		r.job = receipt.Job
		c.LastJob = r.job.ID
		c.RunCount++
	}
	return nil
}

// taken is known for ids that were made a moment ago.
func taken(_ job.JobReader, e job.Envelope) (*job.Job, error) { return nil, doubled(e.ID) }

func doubled(id job.ID) error {
	return job.Errorf(job.Internal, "job %s exists already, and its id was made a moment ago", id)
}

// overlap is what the policy says while the job before has not ended.
func (s *Sidecar) overlap(tx *turn, c *job.Cron, r *run, env *job.Checked, previous *job.Job, now time.Time) error {
	switch c.Overlap {
	case job.OverlapCancel:
		if err := previous.Cancel(now, "cron", "the next run of "+c.Name+" is due"); err != nil {
			return err
		}
		return tx.save(previous)
	case job.OverlapEnqueue:
		env.After(previous.ID, now)
		r.waits = previous.ID
		return nil
	}
	e := job.Errorf(job.Conflict, "the job of the run before, %s, is %s, and the overlap policy of %s is skip", previous.ID, previous.State, c.Name)
	e.Details = map[string]any{"job_id": string(previous.ID), "current_state": string(previous.State),
		"hint": "Let the job named in details end, or cancel it; or choose another overlap_policy."}
	r.met, r.skipped = e, job.SkippedOverlap
	return nil
}

// launched tells who waits, after the commit.
func (s *Sidecar) launched(r *run) {
	if r.waits != "" && r.job != nil {
		s.crons.wait(r.job.ID, r.waits)
		s.crons.end(r.waits) // it may have ended since; the next round looks
		s.ticker.wake(0, s.now())
	}
}

// release lets the runs go whose turn has come because a job has ended.
func (s *Sidecar) release(ctx context.Context, now time.Time) error {
	runs := s.crons.freed()
	if len(runs) == 0 {
		return nil
	}
	var still map[job.ID]job.ID
	err := s.update(ctx, func(tx *turn) error {
		still = map[job.ID]job.ID{}
		for _, id := range runs {
			j, err := tx.Job(id)
			if job.KindOf(err) == job.NotFound || err == nil && j.WaitsFor() == "" {
				continue
			}
			if err != nil {
				return err
			}
			other, err := blocker(tx, j)
			if err != nil {
				return err
			}
			if other != "" {
				if still[id] = other; other != j.WaitsFor() { // the one in between may be removed before it ends
					j.After(other, j.CreatedAt)
					if err := tx.rewrite(j); err != nil {
						return err
					}
				}
				continue
			}
			if err := j.Activate(now); err != nil {
				return err
			}
			if err := tx.save(j); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.crons.again(runs)
		return err
	}
	for run, other := range still {
		s.crons.wait(run, other)
	}
	return s.ended(ctx, still)
}

// ended notes which of the jobs that runs wait for have ended between the look
// at them and the wait.
func (s *Sidecar) ended(ctx context.Context, still map[job.ID]job.ID) error {
	if len(still) == 0 {
		return nil
	}
	return s.store.View(ctx, func(tx job.ReadTx) error {
		for _, other := range still {
			j, err := tx.Job(other)
			if err != nil && job.KindOf(err) != job.NotFound {
				return err
			}
			if err != nil || j.State.Terminal() {
				s.crons.end(other)
			}
		}
		return nil
	})
}

// blocker is the job that a run still has to wait for, empty for none: the one
// before it, or if that was stopped before it ever began, the one before that.
func blocker(tx job.JobReader, run *job.Job) (job.ID, error) {
	for id := run.WaitsFor(); id != ""; {
		j, err := tx.Job(id)
		if job.KindOf(err) == job.NotFound {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if !j.State.Terminal() {
			return id, nil
		}
		id = j.Passed()
	}
	return "", nil
}
