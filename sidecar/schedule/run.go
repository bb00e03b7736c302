package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// run is a job, or a workflow, on its way from a schedule into the store.
type run struct {
	id      job.ID
	env     job.Checked       // of a job
	flow    *job.WorkflowSpec // of a workflow
	nodes   *job.Flow         // the workflow as it is to be stored
	refused error             // by a middleware, or a rule of jobs
	because string            // the reason of CronSkipped that goes with refused

	job     *job.Job
	began   *job.Workflow
	refusal error  // why there is nothing of it
	skipped string // the same as a reason of CronSkipped
}

// newRun is a run of a schedule, which makes what template says.
func newRun(c *job.Cron, template job.CronTemplate, id job.ID, at, now time.Time) *run {
	r := &run{id: id}
	if template.Flow == nil {
		r.env, r.refused = c.Instance(template.Job, id, at, now)
	} else if r.flow, r.refused = c.FlowInstance(template.Flow, id, at, now); r.refused == nil {
		r.nodes, r.refused = r.flow.Compile()
	}
	r.because = job.SkippedRejected
	return r
}

// made is what a history says of a run that has made something.
func (r *run) made(at time.Time) job.CronRun {
	if r.nodes != nil {
		return job.CronRun{At: at, FlowID: r.id}
	}
	return job.CronRun{At: at, JobID: r.id}
}

// allow asks the middleware about a run. Only if it cannot be decided now is there
// an error; a refusal is noted.
func (s *Schedules) allow(ctx context.Context, r *run) error {
	switch {
	case r.refused != nil:
	case r.nodes != nil:
		r.refused = s.host.AdmitFlow(ctx, r.nodes)
	default:
		r.refused = s.host.Admit(ctx, &r.env)
	}
	if job.KindOf(r.refused) == job.Unavailable {
		return r.refused
	}
	return nil
}

// turnedDown is why the store did not take the workflow of a run, of which a part may be
// in the transaction already. It is told once that is undone.
type turnedDown struct{ error }

func (e turnedDown) Unwrap() error { return e.error }

// noteTurnedDown notes in a run that the store did not take it, so that the next
// transaction makes nothing of it, and reports whether err says so.
func (r *run) noteTurnedDown(err error) bool {
	var e turnedDown
	if r == nil || !errors.As(err, &e) {
		return false
	}
	r.refused, r.because = e.error, job.SkippedDuplicate
	return true
}

// launch makes the job or the workflow of a run in a transaction, if the overlap policy
// and the keys let it, and notes it in c. insert stores a job without a key. at is the
// tick.
func (s *Schedules) launch(tx Tx, c *job.Cron, r *run, at, now time.Time, insert func(*job.Job) error) error {
	r.job, r.began, r.refusal, r.skipped = nil, nil, r.refused, ""
	if r.refusal != nil {
		r.skipped = r.because
		return nil
	}
	behind, err := overlap(tx, c, r, now)
	if err != nil || r.refusal != nil {
		return err
	}
	if r.nodes != nil {
		err = beginFlow(tx, r, behind, now)
	} else {
		err = pushRun(tx, r, behind, now, insert)
	}
	if err == nil && r.refusal == nil {
		c.Made(r.made(at))
	}
	return err
}

// beginFlow stores the workflow of a run.
func beginFlow(tx Tx, r *run, behind job.ID, now time.Time) (err error) {
	f := r.nodes.Copy()
	f.State, f.CreatedAt = job.WorkflowRunning, now
	if r.began, err = tx.BeginFlow(f, behind, now); err != nil && !fails(err) {
		return turnedDown{err}
	}
	return err
}

// fails reports whether an error is the store's, and not about what was to be stored.
func fails(err error) bool {
	return job.KindOf(err) == job.Internal || job.KindOf(err) == job.Unavailable
}

// pushRun stores the job of a run, or says in r why not.
func pushRun(tx Tx, r *run, behind job.ID, now time.Time, insert func(*job.Job) error) error {
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
	case err != nil && fails(err):
		return err
	case err != nil:
		r.refusal, r.skipped = err, job.SkippedDuplicate
	case receipt.Existing:
		r.refusal = job.Errorf(job.Conflict, "job %s stands for this run already: %s", receipt.ID, receipt.Verdict)
		r.skipped = job.SkippedDuplicate
	default:
		r.job = receipt.Job
	}
	return nil
}

// previous is what the run before has made, while that has not ended: one of both, or
// neither.
func previous(tx job.ReadTx, c *job.Cron) (j *job.Job, f *job.Flow, err error) {
	switch {
	case c.LastJob != "":
		j, err = tx.Job(c.LastJob)
	case c.LastFlow != "":
		f, err = tx.Flow(c.LastFlow)
	}
	switch {
	case job.KindOf(err) == job.NotFound && err != nil:
		return nil, nil, nil // it was removed after its retention
	case err != nil:
		return nil, nil, err
	case j != nil && j.State.Terminal() || f != nil && f.State.Terminal():
		return nil, nil, nil
	}
	return j, f, nil
}

// overlap applies the policy while the run before has not ended: whom the new
// one waits for, if for anybody, or in r why there is none.
func overlap(tx Tx, c *job.Cron, r *run, now time.Time) (behind job.ID, err error) {
	if c.Overlap == job.OverlapAllow {
		return "", nil
	}
	j, f, err := previous(tx, c)
	if err != nil || j == nil && f == nil {
		return "", err
	}
	what, id, state := "job", c.LastJob, ""
	if f != nil {
		what, id, state = "workflow", c.LastFlow, string(f.State)
	} else {
		state = string(j.State)
	}
	switch c.Overlap {
	case job.OverlapCancel:
		const by, reason = "cron", "the next run of %s is due"
		if f != nil {
			return "", tx.CancelFlow(f, by, fmt.Sprintf(reason, c.Name), now)
		}
		if err := j.Cancel(now, by, fmt.Sprintf(reason, c.Name)); err != nil {
			return "", err
		}
		return "", tx.Save(j)
	case job.OverlapEnqueue:
		return id, nil
	}
	e := job.Errorf(job.Conflict, "the %s of the run before, %s, is %s, and the overlap policy of %s is skip", what, id, state, c.Name)
	e.Details = map[string]any{what + "_id": string(id), "current_state": state,
		"hint": "Let the " + what + " named in details end, or cancel it; or choose another overlap_policy."}
	r.refusal, r.skipped = e, job.SkippedOverlap
	return "", nil
}

// line is one line of a history.
func (s *Schedules) line(tx job.ReadTx, r job.CronRun) (h job.CronJob, err error) {
	h.CronRun = r
	switch {
	case r.JobID != "":
		h.Job, err = tx.Job(r.JobID)
		if err == nil {
			s.host.Show(h.Job)
		}
	case r.FlowID != "":
		var f *job.Flow
		if f, err = tx.Flow(r.FlowID); err == nil {
			f.Nodes, err = tx.FlowNodes(f.ID, 0, 1)
		}
		if err == nil {
			h.Flow, err = f.View(nil)
		}
	}
	if job.KindOf(err) == job.NotFound {
		return job.CronJob{CronRun: r}, nil
	}
	return h, err
}
