package client

import (
	"context"
	"net/http"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// StartWorkflow stores a workflow; see [job.WorkflowService]. Sending one without an ID
// again makes another one: give it an ID where the answer may be lost.
func (c *Client) StartWorkflow(ctx context.Context, spec job.WorkflowSpec) (w *job.Workflow, existing bool, err error) {
	// The server checks this too, but only a valid workflow can be encoded.
	if _, err := spec.Compile(); err != nil {
		return nil, false, err
	}
	status, body, err := c.send(ctx, post("/workflows", wire.WorkflowBody(spec)).blocking(ctx))
	if err != nil {
		return nil, false, err
	}
	if status != http.StatusOK && status != http.StatusCreated {
		return nil, false, wire.DecodeError(status, body)
	}
	if w, err = wire.ReadWorkflow(body); err != nil {
		return nil, false, err
	}
	return w, status == http.StatusOK, nil
}

// Workflow reads a workflow with its steps; see [job.WorkflowService].
func (c *Client) Workflow(ctx context.Context, id job.ID) (*job.Workflow, error) {
	return ask(ctx, c, get("/workflows/"+string(id)).unless(noWorkflow(id)), wire.ReadWorkflow)
}

// Workflows lists workflows; see [job.WorkflowService]. A server gives at most 200 at once.
func (c *Client) Workflows(ctx context.Context, f job.WorkflowFilter) (job.WorkflowPage, error) {
	return ask(ctx, c, get("/workflows?"+wire.WorkflowsQuery(f).Encode()), wire.ReadWorkflows)
}

// CancelWorkflow stops a workflow; see [job.WorkflowService].
func (c *Client) CancelWorkflow(ctx context.Context, id job.ID) (*job.Workflow, error) {
	return ask(ctx, c, remove("/workflows/"+string(id)).unless(noWorkflow(id)), wire.ReadWorkflow)
}

// noWorkflow is the NotFound for what cannot be the id of a workflow.
func noWorkflow(id job.ID) error {
	if job.ValidID(string(id)) {
		return nil
	}
	return job.NoWorkflow(id)
}
