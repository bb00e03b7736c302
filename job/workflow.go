package job

import (
	"context"
	"encoding/json"
	"time"
)

// WorkflowKind says how the steps of a workflow follow one another (contract §4.17).
type WorkflowKind string

// The kinds of workflows. KindJob is that of a step which is a job.
const (
	KindChain WorkflowKind = "chain" // one after the other
	KindGroup WorkflowKind = "group" // all at once
	KindBatch WorkflowKind = "batch" // all at once, and callbacks when the last has ended
	KindGraph WorkflowKind = "dag"   // each as soon as those that it depends on have completed
	KindJob   WorkflowKind = "job"
)

// What decides whether a callback runs once all the other steps have ended.
const (
	OnComplete = "on_complete" // always
	OnSuccess  = "on_success"  // none of them failed
	OnFailure  = "on_failure"  // one of them failed
)

// WorkflowState is what has become of a workflow.
type WorkflowState string

// The states of a workflow.
const (
	WorkflowRunning   WorkflowState = "running"
	WorkflowCompleted WorkflowState = "completed"
	WorkflowFailed    WorkflowState = "failed"
	WorkflowCancelled WorkflowState = "cancelled"
)

// StepState is what has become of a step.
type StepState string

// The states of a step.
const (
	StepWaiting   StepState = "waiting" // its turn has not come
	StepPending   StepState = "pending" // its job is stored, and nobody runs it now
	StepActive    StepState = "active"  // a worker runs its job, or its own steps are under way
	StepCompleted StepState = "completed"
	StepFailed    StepState = "failed" // its job was discarded, expired or was cancelled, or was refused by a unique policy
	StepCancelled StepState = "cancelled"
)

// The bounds of a workflow.
const (
	MaxWorkflowSteps = 10_000   // jobs and nested workflows in all
	MaxWorkflowDepth = 8        // of workflows inside one another
	MaxWorkflowEdges = 100_000  // dependencies in all
	MaxWorkflowBytes = 32 << 20 // of the request
	MaxParentBytes   = 1 << 20  // of results that are fed to one step
	MaxFedBytes      = 32 << 20 // of results that one end feeds to all the steps that it releases
	MaxWorkflowName  = 255      // characters, also of the id of a step
	MaxCallbacks     = 10       // of one workflow
)

// WorkflowSpec is a workflow that is asked for. [Chain], [Group], [Batch] and [Graph]
// make one.
type WorkflowSpec struct {
	ID        ID // empty: the server makes one; with one, who sends it again gets the workflow that is there
	Kind      WorkflowKind
	Name      string
	Steps     []Step
	Callbacks []Step // of a batch: at least one
}

// Step is one step of a workflow: a job, or a workflow of its own.
type Step struct {
	ID        string   // empty: "step-" and its place
	DependsOn []string // the ids of the steps that must complete before; of a graph alone
	Callback  string   // OnComplete, OnSuccess or OnFailure, for a step that runs once all others have ended

	Job      Checked       // it has no ID: the server makes one
	Workflow *WorkflowSpec // instead of Job

	broken error // the rule that the job of Do breaks
}

// FlowRef says which step of which workflow a job is.
type FlowRef struct {
	Workflow ID
	Step     string // with the steps that it is inside, "step-1.step-0"
	Node     int    // its place among all elements of the workflow
	Parent   int    // that of the workflow, or the nested one, that it is a step of; 0 is the whole
}

// Workflow is a workflow and what has become of it. Its counters count the steps that
// are listed in Steps.
type Workflow struct {
	ID         ID
	Kind       WorkflowKind
	Name       string
	State      WorkflowState
	CreatedAt  time.Time
	FinishedAt time.Time // zero while it runs

	Total, Completed, Failed, Cancelled int

	Steps     []WorkflowStep // nil in a list
	Callbacks []WorkflowStep // of a batch
}

// WorkflowStep is what has become of one step.
type WorkflowStep struct {
	ID         string
	Index      int
	Kind       WorkflowKind
	Type       string // of its job, or the kind of a workflow
	State      StepState
	JobIDs     []ID // those that are stored, or were
	DependsOn  []string
	Callback   string
	StartedAt  time.Time
	FinishedAt time.Time
	Result     json.RawMessage // of a job that is still stored; left out where an answer would grow beyond 1 MiB

	Steps     []WorkflowStep // of a step that is a workflow; their ids begin with that of the step and a dot
	Callbacks []WorkflowStep // of one that is a batch
}

// WorkflowFilter chooses workflows for a list. Zero members do not restrict.
type WorkflowFilter struct {
	State  WorkflowState
	Limit  int // 1 to 1000; 0 is 50
	Offset int
	Cursor string // WorkflowPage.Next of the page before
}

// WorkflowPage is one page of a list, the newest id first.
type WorkflowPage struct {
	Workflows []*Workflow // without their steps
	Total     int64       // of all pages
	Next      string      // empty on the last page
}

// WorkflowService runs workflows (contract §3.16, §4.17). All that follows from the end
// of a job is stored in the transaction that ends it.
type WorkflowService interface {
	// StartWorkflow stores a workflow with the jobs that may run at once, all or nothing.
	// Invalid lists what is wrong in Details["validation_errors"]; Duplicate where one of
	// those jobs meets another by its unique policy, or where the ID is taken by a workflow
	// with another content. One with the same content is answered as it is, existing is
	// true then. Rejected by a middleware; TooLarge.
	StartWorkflow(ctx context.Context, spec WorkflowSpec) (w *Workflow, existing bool, err error)
	// Workflow reads a workflow with its steps. NotFound.
	Workflow(ctx context.Context, id ID) (*Workflow, error)
	// Workflows lists workflows without their steps.
	Workflows(ctx context.Context, f WorkflowFilter) (WorkflowPage, error)
	// CancelWorkflow stops a workflow: jobs that wait are cancelled, and steps whose turn
	// has not come never run. Jobs that are active may finish; nothing follows from that.
	// Conflict when it has ended; NotFound.
	CancelWorkflow(ctx context.Context, id ID) (*Workflow, error)
}

// Terminal reports whether a workflow has ended.
func (s WorkflowState) Terminal() bool { return s != WorkflowRunning }

// Progress is the part of the steps that have ended, from 0 to 1.
func (w *Workflow) Progress() float64 {
	if w.Total == 0 || w.State == WorkflowCompleted {
		return 1
	}
	return float64(w.Completed+w.Failed+w.Cancelled) / float64(w.Total)
}

// NoWorkflow is the NotFound for a workflow that is not there.
func NoWorkflow(id ID) error {
	return Errorf(NotFound, "there is no workflow %.80s", id).With(map[string]any{"resource_type": "workflow", "resource_id": string(id)})
}
