package wire

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// appendWorkflow appends the members of a workflow (contract §3.16).
func appendWorkflow(b *rawjson.Writer, w *job.Workflow) {
	workflowHead(b, w)
	b.Int("jobs_total", int64(w.Total)).Int("jobs_completed", int64(w.Completed)).Int("jobs_failed", int64(w.Failed))
	b.Int("steps_already_completed", int64(w.Completed))
	appendSteps(b, w.Kind, w.Steps, w.Callbacks)
	b.Object("metadata").Time("created_at", w.CreatedAt).Time("started_at", w.CreatedAt)
	ended(b, w)
	b.Int("job_count", int64(w.Total)).Int("completed_count", int64(w.Completed)).Int("failed_count", int64(w.Failed)).End()
	failedSteps(b, w)
}

// appendSteps appends the steps of a workflow, or of one that is a step itself.
func appendSteps(b *rawjson.Writer, kind job.WorkflowKind, steps, calls []job.WorkflowStep) {
	objects(b, "steps", steps, appendStep)
	if kind != job.KindBatch {
		return
	}
	b.Object("callbacks")
	for _, s := range calls {
		b.Object(s.Callback)
		appendStep(b, s)
		b.End()
	}
	b.End()
}

// workflowHead appends what a line of a list says, too.
func workflowHead(b *rawjson.Writer, w *job.Workflow) {
	b.Str("id", string(w.ID)).Str("type", string(w.Kind)).Str("name", w.Name).Str("state", string(w.State))
	b.Int("step_count", int64(w.Total)).Int("steps_total", int64(w.Total)).Int("steps_completed", int64(w.Completed))
	b.Int("steps_failed", int64(w.Failed)).Int("steps_cancelled", int64(w.Cancelled))
	b.Time("created_at", w.CreatedAt)
	ended(b, w)
}

func ended(b *rawjson.Writer, w *job.Workflow) {
	if w.State == job.WorkflowCancelled {
		b.Time("cancelled_at", w.FinishedAt)
	} else {
		b.Time("completed_at", w.FinishedAt)
	}
}

// failedSteps says which steps failed: of a chain the place, of others their jobs.
func failedSteps(b *rawjson.Writer, w *job.Workflow) {
	var ids []job.ID
	for _, s := range w.Steps {
		if s.State != job.StepFailed {
			continue
		}
		if w.Kind == job.KindChain {
			b.Int("failed_step_index", int64(s.Index))
		}
		if s.Kind == job.KindJob {
			ids = append(ids, s.JobIDs...)
		}
	}
	if len(ids) > 0 {
		rawjson.Strings(b, "failed_job_ids", ids)
	}
}

func appendStep(b *rawjson.Writer, s job.WorkflowStep) {
	b.Str("id", s.ID).Int("index", int64(s.Index)).Str("type", s.Type).Str("kind", string(s.Kind)).Str("state", string(s.State))
	if len(s.JobIDs) > 0 {
		b.Str("job_id", string(s.JobIDs[0]))
	} else {
		b.Null("job_id")
	}
	rawjson.Strings(b, "job_ids", s.JobIDs)
	rawjson.Strings(b, "depends_on", s.DependsOn)
	b.Optional("callback", s.Callback)
	b.Time("started_at", s.StartedAt).Time("completed_at", s.FinishedAt)
	if len(s.Result) > 0 && s.Result[0] == '{' { // one client reads no other
		b.Raw("result", s.Result)
	}
	if s.Kind != job.KindJob {
		appendSteps(b, s.Kind, s.Steps, s.Callbacks)
	}
}

// wholeWorkflow appends a workflow under its name, and its members beside it (contract C-41).
func wholeWorkflow(b *rawjson.Writer, w *job.Workflow) {
	b.Object("workflow")
	from := len(*b) - 1
	appendWorkflow(b, w)
	b.End()
	b.Splice((*b)[from:])
}

// AppendWorkflow appends the answer about one workflow.
func AppendWorkflow(dst []byte, w *job.Workflow) []byte {
	b := rawjson.Object(dst)
	wholeWorkflow(&b, w)
	return b.Close()
}

// AppendWorkflowCancelled appends the answer to the end of one by hand.
func AppendWorkflowCancelled(dst []byte, w *job.Workflow) []byte {
	b := rawjson.Object(dst)
	wholeWorkflow(&b, w)
	return b.Int("cancelled_steps", int64(w.Cancelled)).Close()
}

// AppendWorkflows appends a page of workflows.
func AppendWorkflows(dst []byte, page job.WorkflowPage, p Paging) []byte {
	b := rawjson.Object(dst)
	from := objects(&b, "workflows", page.Workflows, workflowHead)
	l := p.listed(len(page.Workflows), page.Total, page.Total > maxCounted, page.Next)
	return endList(&b, p, from, l)
}

// maxCounted is where the count of workflows stops.
const maxCounted = 10_000

// AppendWorkflowProgress appends how far a workflow has come.
func AppendWorkflowProgress(dst []byte, w *job.Workflow) []byte {
	b := rawjson.Object(dst)
	b.Str("workflow_id", string(w.ID)).Str("state", string(w.State))
	part(&b, w.Progress())
	updated := w.CreatedAt
	for _, s := range w.Steps {
		for _, at := range []time.Time{s.StartedAt, s.FinishedAt} {
			if at.After(updated) {
				updated = at
			}
		}
	}
	if w.FinishedAt.After(updated) {
		updated = w.FinishedAt
	}
	objects(&b, "steps", w.Steps, func(b *rawjson.Writer, s job.WorkflowStep) {
		b.Str("id", s.ID)
		done := 0.0
		if s.State == job.StepCompleted {
			done = 1
		}
		part(b, done)
		b.Str("state", string(s.State))
	})
	return b.Time("updated_at", updated).Close()
}

// part writes a number from 0 to 1.
func part(b *rawjson.Writer, f float64) {
	b.Raw("progress", strconv.AppendFloat(nil, f, 'f', -1, 64))
}

// workflowObject is a workflow in an answer.
type workflowObject struct {
	ID        job.ID            `json:"id"`
	Kind      job.WorkflowKind  `json:"type"`
	Name      string            `json:"name"`
	State     job.WorkflowState `json:"state"`
	Total     int               `json:"steps_total"`
	Completed int               `json:"steps_completed"`
	Failed    int               `json:"steps_failed"`
	Cancelled int               `json:"steps_cancelled"`
	CreatedAt time.Time         `json:"created_at"`
	EndedAt   time.Time         `json:"completed_at"`
	StoppedAt time.Time         `json:"cancelled_at"`
	Steps     []stepObject      `json:"steps"`

	Callbacks map[string]stepObject `json:"callbacks"`
}

type stepObject struct {
	ID        string           `json:"id"`
	Index     int              `json:"index"`
	Kind      job.WorkflowKind `json:"kind"`
	Type      string           `json:"type"`
	State     job.StepState    `json:"state"`
	JobIDs    []job.ID         `json:"job_ids"`
	DependsOn []string         `json:"depends_on"`
	Callback  string           `json:"callback"`
	StartedAt time.Time        `json:"started_at"`
	EndedAt   time.Time        `json:"completed_at"`
	Result    json.RawMessage  `json:"result"`
	Steps     []stepObject     `json:"steps"`

	Callbacks map[string]stepObject `json:"callbacks"`
}

func (o *workflowObject) workflow() (*job.Workflow, error) {
	if o == nil || o.ID == "" {
		return nil, unread(job.Errorf(job.Malformed, "there is no workflow in it"))
	}
	w := &job.Workflow{ID: o.ID, Kind: o.Kind, Name: o.Name, State: o.State, Total: o.Total, Completed: o.Completed, Failed: o.Failed,
		Cancelled: o.Cancelled, CreatedAt: o.CreatedAt, FinishedAt: o.EndedAt}
	if o.State == job.WorkflowCancelled {
		w.FinishedAt = o.StoppedAt
	}
	w.Steps, w.Callbacks = stepsOf(o.Steps, o.Callbacks)
	return w, nil
}

func stepsOf(list []stepObject, named map[string]stepObject) (steps, calls []job.WorkflowStep) {
	for _, s := range list {
		steps = append(steps, s.step())
	}
	for _, name := range callbackNames {
		if s, ok := named[name]; ok {
			calls = append(calls, s.step())
		}
	}
	return steps, calls
}

func (o stepObject) step() job.WorkflowStep {
	s := job.WorkflowStep{ID: o.ID, Index: o.Index, Kind: o.Kind, Type: o.Type, State: o.State, Callback: o.Callback, StartedAt: o.StartedAt, FinishedAt: o.EndedAt, Result: o.Result}
	if len(o.JobIDs) > 0 {
		s.JobIDs = o.JobIDs
	}
	if len(o.DependsOn) > 0 {
		s.DependsOn = o.DependsOn
	}
	s.Steps, s.Callbacks = stepsOf(o.Steps, o.Callbacks)
	return s
}

// ReadWorkflow reads an answer about one workflow. Of results those that are no objects
// are not sent.
func ReadWorkflow(body []byte) (*job.Workflow, error) {
	var r struct {
		Workflow *workflowObject `json:"workflow"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	return r.Workflow.workflow()
}

// ReadWorkflows reads a page of workflows.
func ReadWorkflows(body []byte) (p job.WorkflowPage, err error) {
	var r struct {
		Workflows []*workflowObject `json:"workflows"`
		Pages     *pagination       `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return p, err
	}
	if r.Pages == nil {
		return p, unread(job.Errorf(job.Malformed, "there are no workflows in it"))
	}
	p = job.WorkflowPage{Workflows: make([]*job.Workflow, len(r.Workflows)), Total: r.Pages.Total, Next: r.Pages.Next}
	for i, o := range r.Workflows {
		if p.Workflows[i], err = o.workflow(); err != nil {
			return job.WorkflowPage{}, err
		}
	}
	return p, nil
}

// WorkflowsQuery is the query of a list of workflows.
func WorkflowsQuery(f job.WorkflowFilter) url.Values {
	return query(map[string]string{"state": string(f.State), "limit": countText(f.Limit), "offset": countText(f.Offset), "cursor": f.Cursor})
}

// DecodeWorkflowFilter reads the query of a list of workflows.
func DecodeWorkflowFilter(q url.Values) (f job.WorkflowFilter, p Paging, err error) {
	if p, err = pagingOf(q, PageDefault, PageMax, "state"); err != nil {
		return f, p, err
	}
	f = job.WorkflowFilter{State: job.WorkflowState(q.Get("state")), Limit: p.Limit, Offset: p.Offset, Cursor: p.Cursor}
	switch f.State {
	case "", job.WorkflowRunning, job.WorkflowCompleted, job.WorkflowFailed, job.WorkflowCancelled:
		return f, p, nil
	}
	return f, p, refuse("state", "must be running, completed, failed or cancelled")
}
