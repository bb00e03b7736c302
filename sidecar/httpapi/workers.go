package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) workers(g *echo.Group) {
	g.POST("/workers/fetch", a.fetch)
	g.POST("/workers/ack", a.ack)
	g.POST("/workers/nack", a.nack)
	g.POST("/workers/heartbeat", a.beat)
	g.POST("/workers/beat", a.beat)
	g.POST("/workers/register", a.register)
	g.POST("/workers/deregister", a.deregister)
	g.DELETE("/workers/:id", a.removeWorker)
	get(g, "/workers", a.workerList)
	get(g, "/workers/:id", a.workerInfo)
	get(g, "/workers/:id/health", a.workerHealth)
	g.POST("/jobs/fetch", a.fetch)
	g.POST("/jobs/:id/ack", a.ackByPath)
}

// maxEnd bounds the bodies of ACK and FAIL: a result, and what stands beside it.
const maxEnd = job.MaxResultBytes + wire.Slack

// fetch is FETCH (contract §3.8). Jobs that cannot be handed over go back to
// their queue at once, untouched: their caller would never end them.
func (a *api) fetch(c echo.Context) error {
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	f, err := wire.DecodeFetch(raw)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	jobs, err := a.svc.Fetch(ctx, f)
	if err != nil {
		return err
	}
	if len(jobs) > 0 && ctx.Err() != nil {
		a.giveBack(ctx, jobs)
		return job.Errorf(job.Unavailable, "the caller has gone: %w", ctx.Err())
	}
	b := buffer()
	*b = wire.AppendFetched(*b, jobs, profile(c))
	if err = send(c, http.StatusOK, b); err == nil && len(jobs) > 0 {
		err = flush(c)
	}
	if err != nil {
		a.giveBack(ctx, jobs)
	}
	return err
}

// flush hands the answer to the network now: only then does a broken connection show.
func flush(c echo.Context) error {
	if f, ok := c.Response().Writer.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	return nil
}

// giveBack ends the reservations of jobs that did not reach their worker.
func (a *api) giveBack(ctx context.Context, jobs []*job.Job) {
	ctx = context.WithoutCancel(ctx)
	for _, j := range jobs {
		claim := job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: j.Lease.Worker}
		if _, err := a.svc.Fail(ctx, claim, job.Failure{Requeue: true}); err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "fetched job not given back; its reservation must run out",
				slog.String("job_id", string(j.ID)), slog.String("error", err.Error()))
		}
	}
}

// ack is ACK (contract §3.9).
func (a *api) ack(c echo.Context) error {
	raw, err := body(c, maxEnd)
	if err != nil {
		return err
	}
	return a.acknowledge(c, "", raw)
}

// ackByPath is ACK with the job's id in the path; the body may be empty.
func (a *api) ackByPath(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	raw, err := body(c, maxEnd)
	if err != nil {
		return err
	}
	return a.acknowledge(c, id, raw)
}

func (a *api) acknowledge(c echo.Context, id job.ID, raw []byte) error {
	claim, result, err := wire.DecodeAck(raw, id)
	if err != nil {
		return err
	}
	j, err := a.svc.Ack(c.Request().Context(), claim, result)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendAck(*b, j)
	return send(c, http.StatusOK, b)
}

// nack is FAIL (contract §3.10).
func (a *api) nack(c echo.Context) error {
	raw, err := body(c, maxEnd)
	if err != nil {
		return err
	}
	claim, f, err := wire.DecodeNack(raw)
	if err != nil {
		return err
	}
	j, err := a.svc.Fail(c.Request().Context(), claim, f)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendNack(*b, j)
	return send(c, http.StatusOK, b)
}

// beat is BEAT (contract §3.11).
func (a *api) beat(c echo.Context) error {
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	beat, err := wire.DecodeBeat(raw)
	if err != nil {
		return err
	}
	r, err := a.svc.Beat(c.Request().Context(), beat)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendBeat(*b, r)
	return send(c, http.StatusOK, b)
}
