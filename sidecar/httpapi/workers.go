package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

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
	f.Room = room(c)
	began := time.Now()
	jobs, err := a.svc.Fetch(c.Request().Context(), f)
	if err != nil {
		return err
	}
	if len(jobs) > 0 {
		return a.handOver(c, jobs, time.Since(began) > brief)
	}
	b := buffer()
	*b = wire.AppendFetched(*b, nil, profile(c))
	return send(c, http.StatusOK, b)
}

// brief is how long a caller may wait before it is looked at whether it is still
// there. One that leaves sooner is noticed by what becomes of its answer.
const brief = 50 * time.Millisecond

// handOver answers with jobs, and takes back what its caller surely does not read.
func (a *api) handOver(c echo.Context, jobs []*job.Job, waited bool) error {
	r := c.Request()
	ctx, p := r.Context(), peerOf(r)
	if ctx.Err() != nil || waited && p.gone() {
		a.giveBack(ctx, jobs)
		return job.Errorf(job.Unavailable, "the caller has gone: %w", context.Canceled)
	}
	var h *handover
	if p != nil {
		held := make([]reservation, len(jobs)) // the connection may be idle for long: the jobs are not kept for that
		for i, j := range jobs {
			held[i] = reservationOf(j)
		}
		h = p.hand(func() { a.takeBack(ctx, held) }, r.Close)
	}
	b := buffer()
	*b = wire.AppendFetched(*b, jobs, profile(c))
	err := send(c, http.StatusOK, b)
	if err == nil {
		err = flush(c)
	}
	if err != nil {
		p.drop(h)
		a.giveBack(ctx, jobs)
		return err
	}
	p.written(h)
	return nil
}

// flush hands the answer to the network now: only then does a broken connection show.
func flush(c echo.Context) error {
	if f, ok := c.Response().Writer.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	return nil
}

// takeBack is giveBack for an answer that was written, and lies unread in a
// connection that has ended. A job whose holder was heard of since, over another
// connection, is left with it.
func (a *api) takeBack(ctx context.Context, held []reservation) {
	ctx = context.WithoutCancel(ctx)
	for _, r := range held {
		now, err := a.svc.Job(ctx, r.claim.ID)
		if err == nil && now.State == job.Active && now.Lease.Until.Equal(r.until) {
			a.release(ctx, r.claim)
		}
	}
}

// reservation is what is known of a job that was handed out.
type reservation struct {
	claim job.Claim
	until time.Time
}

func reservationOf(j *job.Job) reservation {
	return reservation{job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: j.Lease.Worker}, j.Lease.Until}
}

// giveBack ends the reservations of jobs that did not reach their worker.
func (a *api) giveBack(ctx context.Context, jobs []*job.Job) {
	ctx = context.WithoutCancel(ctx)
	for _, j := range jobs {
		a.release(ctx, reservationOf(j).claim)
	}
}

func (a *api) release(ctx context.Context, claim job.Claim) {
	_, err := a.svc.Fail(ctx, claim, job.Failure{Requeue: true, Undelivered: true})
	if kind := job.KindOf(err); err != nil && kind != job.Conflict && kind != job.NotFound { // else it is not theirs any more
		a.Log.LogAttrs(ctx, slog.LevelWarn, "fetched job could not be given back; its reservation has to run out",
			slog.String("job_id", string(claim.ID)), slog.String("error", err.Error()))
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
