package sidecar

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// StartWorkflow stores a workflow; see [job.WorkflowService].
func (s *Sidecar) StartWorkflow(ctx context.Context, spec job.WorkflowSpec) (w *job.Workflow, existing bool, err error) {
	f, err := spec.Compile()
	if err != nil {
		return nil, false, err
	}
	if f.ID == "" {
		f.ID = s.o.NewID()
	} else if err := f.Sign(); err != nil {
		return nil, false, err
	}
	if err := s.admitSteps(ctx, f); err != nil {
		return nil, false, err
	}
	now := s.now()
	f.State, f.CreatedAt = job.WorkflowRunning, now
	first := f.AtOnce()
	var last *turn
	start := func(t *turn) error {
		w, existing, last = nil, false, t
		old, err := t.Flow(f.ID)
		if job.KindOf(err) == job.NotFound && err != nil {
			bounds, err := admitTo(t, first, now)
			if err != nil {
				return err
			}
			if w, err = t.beginFlow(f.Copy(), "", now); err != nil {
				return err
			}
			return bounds.hold(t, nil, now)
		}
		if err != nil {
			return err
		}
		if old.Digest != f.Digest || f.Digest == "" {
			return job.Errorf(job.Duplicate, "workflow %s exists already with another content; choose another id", f.ID).With(map[string]any{"workflow_id": string(f.ID)})
		}
		existing = true
		w, err = readFlow(t, old)
		return err
	}
	if _, err := s.enqueueBlocking(ctx, func() ([]job.Receipt, error) { return nil, s.update(ctx, start) }); err != nil {
		return nil, false, err
	}
	if slices.ContainsFunc(last.everything(), func(c change) bool { return c.ends() && c.job.Flow != nil && c.job.Flow.Workflow == f.ID }) {
		// A job of it was ended by another, which it has met by a key, and w was read before.
		if read, err := s.Workflow(ctx, f.ID); err == nil {
			w = read
		}
	}
	return w, existing, nil
}

// admitSteps gives all jobs of a workflow their ids and asks the schemas and the middleware
// for them, also for those that run later.
func (s *Sidecar) admitSteps(ctx context.Context, f *job.Flow) error {
	links := s.o.Middleware.Links()
	return f.Checks(func(n *job.FlowNode, c *job.Checked) error {
		err := c.SetID(s.o.NewID())
		if err == nil {
			err = s.fits(ctx, []job.Checked{*c})
		}
		if err == nil && len(links) > 0 {
			*c, err = s.admitOne(ctx, links, *c)
			e := c.Envelope()
			n.Type = e.Type
		}
		if n.JobID = c.ID(); err != nil {
			return atStep(err, n)
		}
		return nil
	})
}

// atStep adds to an error about one step of a workflow which one it is.
func atStep(err error, n *job.FlowNode) error {
	if job.KindOf(err) == job.Internal || job.KindOf(err) == job.Unavailable {
		return err
	}
	e := job.Errorf(job.KindOf(err), "step %q: %w", n.Step, err)
	e.Details = map[string]any{"step": n.Step}
	var inner *job.Error
	if errors.As(err, &inner) {
		maps.Copy(e.Details, inner.Details)
	}
	return e
}

// beginFlow stores a new workflow, which is the turn's to change. Its first jobs wait for
// the end of behind, a job or a workflow, unless that is empty.
func (t *turn) beginFlow(f *job.Flow, behind job.ID, now time.Time) (*job.Workflow, error) {
	if err := job.Turn(f.ID, newFlow{flowBook{t, f.ID}, f}, now).Begin(f.Nodes[0], behind); err != nil {
		return nil, err
	}
	if err := f.Freeze(); err != nil {
		return nil, err
	}
	if err := t.InsertFlow(f); err != nil {
		return nil, err
	}
	pushed := map[job.ID]*job.Job{}
	for _, c := range t.changes {
		pushed[c.job.ID] = c.job
	}
	return f.View(func(id job.ID) (*job.Job, error) { return pushed[id], nil })
}

// flowBook is the nodes of one workflow in a turn; see [job.FlowBook].
type flowBook struct {
	*turn
	id job.ID
}

func (b flowBook) FlowNode(i int) (*job.FlowNode, error) { return b.turn.FlowNode(b.id, i) }
func (b flowBook) FlowNodes(from, n int) ([]*job.FlowNode, error) {
	return b.turn.FlowNodes(b.id, from, n)
}
func (b flowBook) SaveFlowNode(n *job.FlowNode) error { return b.turn.SaveFlowNode(b.id, n) }
func (b flowBook) SaveJob(j *job.Job) error           { return b.save(j) }
func (b flowBook) AddEvent(e job.Event) error         { return b.addEvent(e) }
func (b flowBook) EndFlow(to job.WorkflowState, at time.Time) error {
	if b.ended == nil {
		b.ended = &endedFlows{}
	}
	b.ended.all = append(b.ended.all, endedFlow{b.id, at})
	return b.turn.EndFlow(b.id, to, at)
}

// PushSteps stores the jobs of steps, and says which of them were not let in.
func (b flowBook) PushSteps(js []*job.Job) (refused []error, err error) {
	refused = make([]error, len(js))
	for i := 0; i < len(js); {
		if js[i].Keyed() {
			if refused[i], err = b.pushKeyed(js[i]); err != nil {
				return nil, err
			}
			i++
			continue
		}
		end := i
		for end < len(js) && !js[end].Keyed() {
			end++
		}
		stored, err := b.insertAll(js[i:end])
		if err != nil {
			return nil, err
		}
		for _, ok := range stored {
			if !ok {
				refused[i] = job.Errorf(job.Duplicate, "job %s exists already", js[i].ID)
			}
			i++
		}
	}
	return refused, nil
}

// pushKeyed stores the job of a step that names a key, or says why it is not let in. A job
// that is there already is none of the step's: the workflow would not hear of its end.
func (b flowBook) pushKeyed(j *job.Job) (refused, err error) {
	now := j.CreatedAt
	met, err := keyHolders(b.turn, j, now)
	if err != nil {
		return nil, err
	}
	a, err := j.Admit(now, met)
	if err == nil && a.Existing {
		err = describe(a.Job, "job %s stands for this one by its keys, and no step of a workflow can be another job", a.Job.ID)
	}
	if job.KindOf(err) == job.Duplicate && err != nil {
		return err, nil
	}
	if err == nil {
		err = b.makeRoom(j, now, &a)
	}
	for i := 0; i < len(a.Events) && err == nil; i++ {
		err = b.addEvent(a.Events[i])
	}
	if err == nil {
		err = b.insert(j)
	}
	return nil, err
}

// newFlow is a workflow that is not stored yet. A step that is not let in refuses it.
type newFlow struct {
	flowBook
	f *job.Flow
}

func (b newFlow) FlowNode(i int) (*job.FlowNode, error) { return b.f.Nodes[i], nil }
func (b newFlow) FlowNodes(from, n int) ([]*job.FlowNode, error) {
	return b.f.Nodes[from : from+n], nil
}
func (b newFlow) SaveFlowNode(*job.FlowNode) error { return nil }
func (b newFlow) PushSteps(js []*job.Job) ([]error, error) {
	refused, err := b.flowBook.PushSteps(js)
	if err != nil {
		return nil, err
	}
	for i, err := range refused {
		if err != nil {
			return nil, atStep(err, b.f.Nodes[js[i].Flow.Node])
		}
	}
	return nil, nil
}

// followFlow does what follows for a workflow from the change of one of its jobs.
func (t *turn) followFlow(c change) error {
	j := c.job
	turn := job.Turn(j.Flow.Workflow, flowBook{t, j.Flow.Workflow}, j.FinishedAt)
	var err error
	switch {
	case c.ends():
		err = turn.Ended(j)
	case c.from == job.Discarded && j.State == job.Available:
		err = turn.Reopened(j)
	}
	if job.KindOf(err) == job.NotFound && err != nil {
		return nil // it was removed after its retention, and runs alone
	}
	return err
}

// Workflow reads a workflow; see [job.WorkflowService].
func (s *Sidecar) Workflow(ctx context.Context, id job.ID) (*job.Workflow, error) {
	return view(ctx, s, func(tx job.ReadTx) (*job.Workflow, error) {
		f, err := tx.Flow(id)
		if err != nil {
			return nil, err
		}
		return readFlow(tx, f)
	})
}

// readFlow reads the steps of a workflow.
func readFlow(tx job.ReadTx, f *job.Flow) (w *job.Workflow, err error) {
	if f.Nodes, err = tx.FlowNodes(f.ID, 0, f.Count); err != nil {
		return nil, err
	}
	return f.View(func(id job.ID) (*job.Job, error) {
		j, err := tx.Job(id)
		if job.KindOf(err) == job.NotFound && err != nil {
			return nil, nil
		}
		return j, err
	})
}

// Workflows lists workflows; see [job.WorkflowService].
func (s *Sidecar) Workflows(ctx context.Context, f job.WorkflowFilter) (job.WorkflowPage, error) {
	f.Limit = min(max(cmp.Or(f.Limit, 50), 1), 1000)
	return view(ctx, s, func(tx job.ReadTx) (p job.WorkflowPage, err error) {
		flows, total, next, err := tx.Flows(f)
		p.Total, p.Next, p.Workflows = total, next, make([]*job.Workflow, len(flows))
		for i := 0; i < len(flows) && err == nil; i++ {
			p.Workflows[i], err = flows[i].View(nil)
		}
		return p, err
	})
}

// CancelWorkflow stops a workflow; see [job.WorkflowService].
func (s *Sidecar) CancelWorkflow(ctx context.Context, id job.ID) (w *job.Workflow, err error) {
	now := s.now()
	err = s.update(ctx, func(t *turn) error {
		f, err := t.Flow(id)
		if err != nil {
			return err
		}
		if f.State.Terminal() {
			return job.Errorf(job.Conflict, "workflow %s is %s and cannot be cancelled", id, f.State).
				With(map[string]any{"workflow_id": string(id), "current_state": string(f.State)})
		}
		if err := job.Turn(id, flowBook{t, id}, now).Cancel("", "workflow_cancelled", f.Count); err != nil {
			return err
		}
		if f, err = t.Flow(id); err != nil {
			return err
		}
		w, err = readFlow(t, f)
		return err
	})
	return w, err
}

// inRunningFlow reports whether a job is a step of a workflow that runs, which may ask for
// its result.
func inRunningFlow(tx job.ReadTx, j *job.Job) (bool, error) {
	if j.Flow == nil {
		return false, nil
	}
	f, err := tx.Flow(j.Flow.Workflow)
	if job.KindOf(err) == job.NotFound && err != nil {
		return false, nil
	}
	return err == nil && !f.State.Terminal(), err
}

// neededByFlow refuses to remove a job whose result its workflow may still ask for.
func neededByFlow(j *job.Job) error {
	return job.Errorf(job.Conflict, "job %s is a step of workflow %s, which has not ended: cancel that first, or wait for its end", j.ID, j.Flow.Workflow).
		With(map[string]any{"job_id": string(j.ID), "current_state": string(j.State), "workflow_id": string(j.Flow.Workflow)})
}

// pruneFlows removes workflows that their retention no longer covers, a slice of them.
func (s *Sidecar) pruneFlows(t *turn, now time.Time) (more bool, err error) {
	r := s.o.Retention
	for _, w := range []struct {
		state job.WorkflowState
		keep  time.Duration
	}{{job.WorkflowCompleted, r.Completed}, {job.WorkflowCancelled, r.Cancelled}, {job.WorkflowFailed, r.Discarded}} {
		left, err := t.PruneFlows(w.state, now.Add(-max(0, w.keep)), slice)
		if err != nil {
			return false, err
		}
		more = more || left
	}
	return more, nil
}
