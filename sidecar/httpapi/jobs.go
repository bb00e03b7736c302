package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) jobs(g *echo.Group) {
	g.POST("/jobs", a.push)
	g.POST("/jobs/batch", a.batch)
	get(g, "/jobs", a.list)
	get(g, "/jobs/:id", a.info)
	g.DELETE("/jobs/:id", a.cancel)
	g.POST("/jobs/:id/cancel", a.cancel)
	g.POST("/jobs/:id/activate", a.activate)
}

// push is PUSH (contract §3.1). A stored job that answers for the new one is a
// 200, except where the sender named its id.
func (a *api) push(c echo.Context) error {
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	e, err := wire.DecodePush(raw)
	if err != nil {
		return err
	}
	rs, err := a.enqueue(c.Request().Context(), e)
	if err != nil {
		return err
	}
	if wire.SameID(rs[0]) {
		return duplicate(rs[0].Job)
	}
	status := http.StatusCreated
	if rs[0].Existing {
		status = http.StatusOK
	}
	c.Response().Header()["Location"] = []string{"/ojs/v1/jobs/" + string(rs[0].ID)}
	b := buffer()
	*b = wire.AppendReceipt(*b, rs[0])
	return send(c, status, b)
}

// duplicate is the error for an id that is stored already (contract §2.2, C-32).
func duplicate(j *job.Job) error {
	e := job.Errorf(job.Duplicate, "the id %s is taken by a job that is %s", j.ID, j.State)
	e.Details = map[string]any{"existing_job_id": string(j.ID), "existing_job_state": string(j.State)}
	return e
}

// batch is PUSH of many jobs, all or none (contract §3.2).
func (a *api) batch(c echo.Context) error {
	raw, err := body(c, wire.MaxBatchBytes)
	if err != nil {
		return err
	}
	es, err := wire.DecodeBatch(raw)
	if err != nil {
		return err
	}
	if err := exchange(c).charge.await(c.Request().Context(), int64(len(es))*perJob); err != nil {
		return err
	}
	rs, err := a.enqueue(c.Request().Context(), es...)
	if err != nil {
		return inBatch(err)
	}
	for i, r := range rs {
		if wire.SameID(r) {
			return wire.AtIndex(duplicate(r.Job), i)
		}
	}
	b := buffer()
	*b = wire.AppendBatch(*b, rs)
	return send(c, http.StatusCreated, b)
}

// inBatch makes the message of a service's error name the element that its Details point to.
func inBatch(err error) error {
	var e *job.Error
	if errors.As(err, &e) && e.Kind != job.Internal {
		if i, ok := e.Details["index"].(int); ok {
			return wire.AtIndex(e, i)
		}
	}
	return err
}

// list shows a page of jobs (contract §3.3).
func (a *api) list(c echo.Context) error { return a.page(c, wire.DecodeFilter, false) }

// page shows the jobs that a query asks for; dead says that they are dead letters.
func (a *api) page(c echo.Context, decode func(url.Values) (job.Filter, wire.Paging, error), dead bool) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	f, p, err := decode(q)
	if err != nil {
		return err
	}
	b, err := a.readPage(c, f, p, dead)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, b)
}

// readPage reads and writes out a page, when its turn has come.
func (a *api) readPage(c echo.Context, f job.Filter, p wire.Paging, dead bool) (*[]byte, error) {
	done, err := a.Memory.turn(c.Request().Context())
	if err != nil {
		return nil, err
	}
	defer done()
	f.Room = room(c)
	page, err := a.svc.Jobs(c.Request().Context(), f)
	if err != nil {
		return nil, err
	}
	b := buffer()
	*b = slices.Grow(*b, exchange(c).expected(p.Items))
	*b = wire.AppendJobs(*b, page, p, dead)
	return b, nil
}

// info is INFO (contract §3.4).
func (a *api) info(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	j, err := a.svc.Job(c.Request().Context(), id)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendJob(*b, j, wire.Extras{Error: true})
	return send(c, http.StatusOK, b)
}

// maxReason bounds the body of a CANCEL, in bytes.
const maxReason = 64 << 10

// cancel is CANCEL (contract §3.5).
func (a *api) cancel(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	raw, err := body(c, maxReason)
	if err != nil {
		return err
	}
	by, reason := wire.DecodeCancel(raw)
	return a.changed(c, wire.Extras{}, func(ctx context.Context) (job.Change, error) {
		return a.svc.Cancel(ctx, id, by, reason)
	})
}

// activate releases a pending job (contract §3.6). A body is not looked at.
func (a *api) activate(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	return a.changed(c, wire.Extras{}, func(ctx context.Context) (job.Change, error) {
		return a.svc.Activate(ctx, id)
	})
}

// changed answers with the job that an operator's verb has changed.
func (a *api) changed(c echo.Context, x wire.Extras, do func(context.Context) (job.Change, error)) error {
	ch, err := do(c.Request().Context())
	if err != nil {
		return err
	}
	x.Previous = ch.Previous
	b := buffer()
	*b = wire.AppendJob(*b, ch.Job, x)
	return send(c, http.StatusOK, b)
}
