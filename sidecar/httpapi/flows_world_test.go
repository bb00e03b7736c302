package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// aFlow is the workflow that is there: a batch of two, of which one failed.
func aFlow() *job.Workflow {
	return &job.Workflow{ID: idOne, Kind: job.KindBatch, Name: "import “eve”", State: job.WorkflowRunning, CreatedAt: noon, Total: 2, Completed: 1, Failed: 1,
		Steps: []job.WorkflowStep{
			{ID: "step-0", Kind: job.KindJob, Type: "row.import", State: job.StepCompleted, JobIDs: []job.ID{idTwo}, StartedAt: noon, FinishedAt: noon.Add(time.Second), Result: json.RawMessage(`{"rows": 1e2}`)},
			{ID: "both", Index: 1, Kind: job.KindGroup, Type: "group", State: job.StepFailed, JobIDs: []job.ID{idTwo, idDead}, StartedAt: noon, FinishedAt: noon.Add(time.Second)},
		},
		Callbacks: []job.WorkflowStep{
			{ID: "on_complete", Index: 2, Kind: job.KindJob, Type: "import.done", Callback: job.OnComplete, State: job.StepActive, JobIDs: []job.ID{idDead}, StartedAt: noon},
			{ID: "on_success", Index: 3, Kind: job.KindJob, Type: "import.mail", Callback: job.OnSuccess, State: job.StepCancelled},
		}}
}

// flowing fills in the workflows.
func flowing(f *fake) {
	find := func(id job.ID) (*job.Workflow, error) {
		switch id {
		case idOne:
			return aFlow(), nil
		case idTwo:
			return &job.Workflow{ID: idTwo, Kind: job.KindChain, State: job.WorkflowFailed, CreatedAt: noon, FinishedAt: noon.Add(time.Minute), Total: 3, Completed: 1, Failed: 1, Cancelled: 1,
				Steps: []job.WorkflowStep{
					{ID: "step-0", Kind: job.KindJob, Type: "a.b", State: job.StepCompleted, JobIDs: []job.ID{idDead}, Result: json.RawMessage(`7`)},
					{ID: "step-1", Index: 1, Kind: job.KindJob, Type: "c.d", State: job.StepFailed, JobIDs: []job.ID{idDead}},
					{ID: "step-2", Index: 2, Kind: job.KindJob, Type: "e.f", State: job.StepCancelled},
				}}, nil
		}
		return nil, job.NoWorkflow(id)
	}
	f.workflow = func(_ context.Context, id job.ID) (*job.Workflow, error) { return find(id) }
	f.startWorkflow = func(_ context.Context, s job.WorkflowSpec) (*job.Workflow, bool, error) {
		flow, err := s.Compile()
		if err != nil {
			return nil, false, err
		}
		existing := flow.ID != ""
		if !existing {
			flow.ID = idOne
		}
		n := 0
		_ = flow.Checks(func(n2 *job.FlowNode, _ *job.Checked) error {
			n++
			n2.JobID, n2.Stage = job.ID(fmt.Sprintf("01980000-0000-7000-8000-%012d", n)), job.FlowReleased
			return nil
		})
		flow.State, flow.CreatedAt = job.WorkflowRunning, noon
		w, err := flow.View(func(job.ID) (*job.Job, error) { return nil, nil })
		return w, existing, err
	}
	f.workflows = func(_ context.Context, q job.WorkflowFilter) (job.WorkflowPage, error) {
		p := job.WorkflowPage{Total: 2}
		for _, id := range []job.ID{idTwo, idOne} {
			if w, _ := find(id); (q.State == "" || w.State == q.State) && len(p.Workflows) < q.Limit {
				p.Workflows = append(p.Workflows, w)
			}
		}
		if q.Limit == 1 {
			p.Next = string(idTwo)
		}
		return p, nil
	}
	f.cancelWorkflow = func(_ context.Context, id job.ID) (*job.Workflow, error) {
		w, err := find(id)
		if err != nil {
			return nil, err
		}
		if w.State.Terminal() {
			return nil, job.Errorf(job.Conflict, "workflow %s is %s and cannot be cancelled", id, w.State).With(map[string]any{"workflow_id": string(id), "current_state": string(w.State)})
		}
		w.State, w.FinishedAt, w.Cancelled = job.WorkflowCancelled, noon.Add(time.Minute), 1
		return w, nil
	}
}
