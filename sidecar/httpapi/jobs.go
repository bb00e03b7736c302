package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// push is PUSH (contract §3.1). When a stored job answers for the new one the status
// is 200, and a conflict if the sender named its id.
func (a *api) push(c echo.Context) error {
	e, err := decoded(c, job.MaxJobBytes, wire.DecodePush)
	if err != nil {
		return err
	}
	ctx, err := blocking(c)
	if err != nil {
		return err
	}
	rs, err := a.enqueue(ctx, e)
	if err != nil {
		return err
	}
	pressed(c, rs)
	if wire.SameID(rs[0]) {
		return duplicate(rs[0].Job)
	}
	status := http.StatusCreated
	if rs[0].Existing {
		status = http.StatusOK
	}
	located(c, rs[0].ID)
	if rs[0].Permits != nil {
		wire.SetPermits(c.Response().Header(), *rs[0].Permits)
	}
	return reply(c, status, func(dst []byte) []byte { return wire.AppendReceipt(dst, rs[0]) })
}

// located sets the header that says where a new job is.
func located(c echo.Context, id job.ID) {
	c.Response().Header()["Location"] = []string{"/ojs/v1/jobs/" + string(id)}
}

// duplicate is the error for an id that is stored already (contract §2.2, C-32).
func duplicate(j *job.Job) error {
	return job.Errorf(job.Duplicate, "the id %s is taken by a job that is %s", j.ID, j.State).
		With(map[string]any{"existing_job_id": string(j.ID), "existing_job_state": string(j.State)})
}

// batch is PUSH of many jobs, all or none (contract §3.2).
func (a *api) batch(c echo.Context) error {
	es, err := decoded(c, wire.MaxBatchBytes, wire.DecodeBatch)
	if err != nil {
		return err
	}
	if err := exchange(c).charge.await(c.Request().Context(), int64(len(es))*perJob); err != nil {
		return err
	}
	ctx, err := blocking(c)
	if err != nil {
		return err
	}
	rs, err := a.enqueue(ctx, es...)
	if err != nil {
		return inBatch(err)
	}
	pressed(c, rs)
	for i, r := range rs {
		if wire.SameID(r) {
			return wire.AtIndex(duplicate(r.Job), i)
		}
	}
	return reply(c, http.StatusCreated, func(dst []byte) []byte { return wire.AppendBatch(dst, rs) })
}

// inBatch puts the index of the element into the message of a service's error, where
// its Details have it.
func inBatch(err error) error {
	var e *job.Error
	if errors.As(err, &e) && e.Kind != job.Internal {
		if i, ok := e.Details["index"].(int); ok {
			return wire.AtIndex(e, i)
		}
	}
	return err
}

// appendJobs writes out a page of jobs.
type appendJobs = func(dst []byte, page job.Page, p wire.Paging) []byte

func plainJobs(dst []byte, page job.Page, p wire.Paging) []byte {
	return wire.AppendJobs(dst, page, p, false)
}

func deadJobs(dst []byte, page job.Page, p wire.Paging) []byte {
	return wire.AppendJobs(dst, page, p, true)
}

// page makes the handler of a list of jobs.
func (a *api) page(decode func(url.Values) (job.Filter, wire.Paging, error), write appendJobs) echo.HandlerFunc {
	return func(c echo.Context) error {
		f, p, err := listed(c, decode)
		if err != nil {
			return err
		}
		if name := param(c, "name"); name != "" {
			f.Queue = name // of the path
		}
		b, err := a.readPage(c, f, p, write)
		if err != nil {
			return err
		}
		return send(c, http.StatusOK, b)
	}
}

// readPage reads and writes out a page, when its turn has come.
func (a *api) readPage(c echo.Context, f job.Filter, p wire.Paging, write appendJobs) (*[]byte, error) {
	done, err := a.Memory.turn(c.Request().Context())
	if err != nil {
		return nil, err
	}
	defer done()
	f.Room = exchange(c)
	page, err := a.svc.Jobs(c.Request().Context(), f)
	if err != nil {
		return nil, err
	}
	size := exchange(c).page // about what the answer takes, so that it need not be copied while it grows
	if p.Items {
		size *= 2 // the list is in it twice
	}
	b := buffer()
	*b = write(slices.Grow(*b, size), page, p)
	return b, nil
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
	ch, err := a.svc.Cancel(c.Request().Context(), id, by, reason)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return appendChange(dst, ch) })
}

// appendWhole appends the answer to a caller who asks for one job.
func appendWhole(dst []byte, j *job.Job) []byte {
	return wire.AppendJob(dst, j, wire.Extras{Error: true})
}

// appendChange appends the answer about a job that an operator has changed.
func appendChange(dst []byte, ch job.Change) []byte {
	return wire.AppendJob(dst, ch.Job, wire.Extras{Previous: ch.Previous})
}
