package outbox

import (
	"bytes"
	"context"
	"runtime/debug"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// A row is a workflow where its job_options have the member workflow: what a POST to
// /ojs/v1/workflows has. The id of the row's job is the workflow's, so that sending it
// again starts nothing twice, and job_type is its name if it has none. job_args are [].

// starter is what a job server can do that runs workflows.
type starter interface {
	StartWorkflow(ctx context.Context, spec job.WorkflowSpec) (w *job.Workflow, existing bool, err error)
}

// workflow is what a row says of a workflow, nil for a row that is a job.
func (r row) workflow() []byte {
	if !bytes.Contains(r.options, []byte(`"workflow"`)) {
		return nil
	}
	return rawjson.Member(bytes.TrimSpace(r.options), "workflow")
}

// spec reads the row as a workflow; of is the identity of its outbox. The error is why it
// can never be one.
func (r row) spec(of string) (job.WorkflowSpec, error) {
	if err := r.check(); err != nil {
		return job.WorkflowSpec{}, err
	}
	if args := bytes.TrimSpace(r.args); len(args) < 2 || len(bytes.TrimSpace(args[1:len(args)-1])) > 0 {
		return job.WorkflowSpec{}, job.Errorf(job.Invalid, "job_args must be [] for a workflow: each of its steps has args of its own")
	}
	s, err := job.ParseWorkflow(r.workflow())
	if err != nil {
		return s, err
	}
	id := r.job(of)
	if s.ID != "" && s.ID != id {
		return s, job.Errorf(job.Invalid, "the id of the workflow must be left out: it is job_id, or made of the row")
	}
	if s.ID = id; s.Name == "" {
		s.Name = r.typ
	}
	_, err = s.Compile()
	return s, err
}

// startAll starts those of a batch's rows that are workflows, and returns the others. After
// an error those that have no outcome are as they were.
func (r *Relay) startAll(ctx context.Context, rows []row) (others []row, err error) {
	for _, row := range rows {
		if row.workflow() == nil || err != nil {
			others = append(others, row)
			continue
		}
		err = r.startOne(ctx, row)
	}
	return others, err
}

// startOne starts a workflow. Nothing keeps its row: the server has it from then on.
func (r *Relay) startOne(ctx context.Context, row row) error {
	if err := r.live(ctx); err != nil {
		return err
	}
	spec, err := row.spec(r.of)
	if err != nil {
		r.park(row, err)
		return nil
	}
	switch err := r.begin(ctx, spec); {
	case err == nil:
		r.settle(row, outcome{verb: done, tries: r.trouble.refused + 1})
		r.count++
		return nil
	case permanent[job.KindOf(err)]:
		r.park(row, err)
		return nil
	case job.KindOf(err) == job.Unavailable:
		return r.halted(ctx, row, err)
	default:
		r.putOff(row, err)
		return nil
	}
}

// begin hands a workflow over, as enqueue does jobs.
func (r *Relay) begin(ctx context.Context, spec job.WorkflowSpec) (err error) {
	to, ok := r.to.(starter)
	if !ok {
		return job.Errorf(job.Unsupported, "this job server runs no workflows")
	}
	defer r.stayAlive(ctx)()
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("outbox: the job server panicked", "outbox", r.o.Name, "panic", p, "stack", string(debug.Stack()))
			err = job.Errorf(job.Internal, "the job server panicked: %v", p)
		}
	}()
	_, _, err = to.StartWorkflow(job.WithBlock(ctx, 0), spec) // rows for other queues must not wait for room in one
	return err
}
