package schedule

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
	refusal error  // why there is no job
	skipped string // the same as a reason of CronSkipped
}

// newRun is a run of a schedule, of which template is checked; see [job.Cron.Instance].
func newRun(c *job.Cron, template job.Checked, id job.ID, at, now time.Time) *run {
	env, err := c.Instance(template, id, at, now)
	return &run{env: env, refused: err}
}

// allow asks the middleware about a run. Only if it cannot be decided now is there
// an error; a refusal is noted.
func (s *Schedules) allow(ctx context.Context, r *run) error {
	if r.refused == nil {
		r.refused = s.host.Admit(ctx, &r.env)
	}
	if job.KindOf(r.refused) == job.Unavailable {
		return r.refused
	}
	return nil
}

// launch makes the job of a run in a transaction, if the overlap policy and the
// keys let it, and notes it in c. insert stores a job without a key.
func (s *Schedules) launch(tx Tx, c *job.Cron, r *run, now time.Time, insert func(*job.Job) error) error {
	r.job, r.refusal, r.skipped = nil, r.refused, ""
	if r.refusal != nil {
		r.skipped = job.SkippedRejected
		return nil
	}
	behind := job.ID("")
	if c.LastJob != "" && c.Overlap != job.OverlapAllow {
		previous, err := tx.Job(c.LastJob)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		if err == nil && !previous.State.Terminal() {
			if behind, err = overlap(tx, c, r, previous, now); err != nil || r.refusal != nil {
				return err
			}
		}
	}
	j, err := r.env.PushBehind(behind, now)
	if err != nil {
		return err
	}
	var receipt job.Receipt
	if j.Keyed() {
		receipt, err = tx.InsertKeyed(j, now)
	} else {
		receipt.Job, err = j, insert(j)
	}
	switch {
	case err != nil && (job.KindOf(err) == job.Internal || job.KindOf(err) == job.Unavailable):
		return err
	case err != nil:
		r.refusal, r.skipped = err, job.SkippedDuplicate
	case receipt.Existing:
		r.refusal = job.Errorf(job.Conflict, "job %s stands for this run already: %s", receipt.ID, receipt.Verdict)
		r.skipped = job.SkippedDuplicate
	default:
		r.job = receipt.Job
		c.LastJob = r.job.ID
		c.RunCount++
	}
	return nil
}

// overlap applies the policy while the job before has not ended: whom the new
// one waits for, if for anybody, or in r why there is none.
func overlap(tx Tx, c *job.Cron, r *run, previous *job.Job, now time.Time) (behind job.ID, err error) {
	switch c.Overlap {
	case job.OverlapCancel:
		if err := previous.Cancel(now, "cron", "the next run of "+c.Name+" is due"); err != nil {
			return "", err
		}
		return "", tx.Save(previous)
	case job.OverlapEnqueue:
		return previous.ID, nil
	}
	e := job.Errorf(job.Conflict, "the job of the run before, %s, is %s, and the overlap policy of %s is skip", previous.ID, previous.State, c.Name)
	e.Details = map[string]any{"job_id": string(previous.ID), "current_state": string(previous.State),
		"hint": "Let the job named in details end, or cancel it; or choose another overlap_policy."}
	r.refusal, r.skipped = e, job.SkippedOverlap
	return "", nil
}
