package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// workflowID is the path parameter "id". Text that is no id is NotFound, as an unknown id is.
func workflowID(c echo.Context) (job.ID, error) {
	id := param(c, "id")
	if !job.ValidID(id) {
		return "", job.NoWorkflow(job.ID(id))
	}
	return job.ID(id), nil
}

// startWorkflow stores a workflow. One that is there with the same id and the same content
// is answered with 200.
func (a *api) startWorkflow(c echo.Context) error {
	spec, err := decoded(c, job.MaxWorkflowBytes, wire.DecodeWorkflow)
	if err != nil {
		return err
	}
	ctx, err := blocking(c)
	if err != nil {
		return err
	}
	w, existing, err := a.svc.StartWorkflow(ctx, spec)
	if err != nil {
		return err
	}
	locatedFlow(c, w.ID)
	status := http.StatusCreated
	if existing {
		status = http.StatusOK
	}
	return reply(c, status, func(dst []byte) []byte { return wire.AppendWorkflow(dst, w) })
}

// locatedFlow says where a new workflow is.
func locatedFlow(c echo.Context, id job.ID) {
	c.Response().Header()["Location"] = []string{"/ojs/v1/workflows/" + string(id)}
}
