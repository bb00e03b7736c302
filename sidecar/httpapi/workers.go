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

// direct makes what tells a worker what an operator wants of it (contract §3.23).
func (a *api) direct(wish string) func(context.Context, string) (job.WorkerInfo, error) {
	return func(ctx context.Context, id string) (job.WorkerInfo, error) { return a.svc.Direct(ctx, id, wish) }
}

// fetch is FETCH (contract §3.8). Jobs that cannot be handed over go back to their
// queue at once, untouched: their caller would never finish them.
func (a *api) fetch(c echo.Context) error {
	f, err := decoded(c, job.MaxJobBytes, wire.DecodeFetch)
	if err != nil {
		return err
	}
	f.Room = exchange(c)
	began := time.Now()
	jobs, err := a.svc.Fetch(c.Request().Context(), f)
	if err != nil {
		return err
	}
	write := func(dst []byte) []byte { return wire.AppendFetched(dst, jobs, profile(c)) }
	if len(jobs) > 0 {
		return a.handOver(c, jobs, time.Since(began) > brief, write)
	}
	return reply(c, http.StatusOK, write)
}

// next is ACK and FETCH in one (contract §3.27). Once the ACKs are on disk the answer
// says so, whatever becomes of the FETCH: a caller that is told of an error would take
// it that nothing was done.
func (a *api) next(c echo.Context) error {
	raw, err := body(c, wire.MaxAcksBytes)
	if err != nil {
		return err
	}
	acks, f, err := wire.DecodeNext(raw)
	if err != nil {
		return err
	}
	if err := exchange(c).charge.await(c.Request().Context(), int64(acks.Len())*perJob); err != nil {
		return err
	}
	f.Room = exchange(c)
	began := time.Now()
	acked, jobs, err := a.svc.Next(c.Request().Context(), acks.Good, f)
	if err != nil && (len(acked) == 0 || c.Request().Context().Err() != nil) {
		return err
	}
	a.logVerdicts(c, acked)
	a.log(c, err)
	write := func(dst []byte) []byte {
		return wire.AppendNext(dst, acks, acked, jobs, err, requestID(c), profile(c))
	}
	if len(jobs) > 0 {
		return a.handOver(c, jobs, time.Since(began) > brief, write)
	}
	return reply(c, http.StatusOK, write)
}

// brief is how long a FETCH may wait before the server checks that the caller is still
// there. One that leaves sooner is noticed when its answer is not read.
const brief = 50 * time.Millisecond

// handOver answers with jobs, as write does, and takes back those that the caller surely
// did not read.
func (a *api) handOver(c echo.Context, jobs []*job.Job, waited bool, write func(dst []byte) []byte) error {
	r := c.Request()
	ctx, p := r.Context(), peerOf(r)
	if ctx.Err() != nil || waited && p.gone() {
		a.giveBack(ctx, jobs)
		return job.Errorf(job.Unavailable, "the caller has gone: %w", context.Canceled)
	}
	var h *handover
	if p != nil {
		held := make([]reservation, len(jobs)) // the jobs themselves are not kept: the connection may stay idle for long
		for i, j := range jobs {
			held[i] = reservationOf(j)
		}
		last := r.Close || c.Response().Header().Get("Connection") == "close"
		h = p.hand(func() { a.takeBack(ctx, held) }, last)
	}
	b := buffer()
	*b = write(*b)
	err := send(c, http.StatusOK, b)
	if err == nil {
		err = exchange(c).FlushError() // only now does a broken connection show
	}
	if err != nil {
		p.drop(h)
		a.giveBack(ctx, jobs)
		return err
	}
	p.written(h)
	return nil
}

// takeBack is giveBack for an answer that was written but never read. A job whose
// holder has been heard of since, over another connection, stays with it.
func (a *api) takeBack(ctx context.Context, held []reservation) {
	ctx = context.WithoutCancel(ctx)
	for _, r := range held {
		now, err := a.svc.Job(ctx, r.claim.ID)
		if err == nil && now.State == job.Active && now.Lease.Until.Equal(r.until) {
			a.release(ctx, r.claim)
		}
	}
}

// reservation is what is kept of a job that was handed out.
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
	if kind := job.KindOf(err); err != nil && kind != job.Conflict && kind != job.NotFound { // else it is no longer theirs
		a.Log.LogAttrs(ctx, slog.LevelWarn, "fetched job could not be given back; its reservation has to run out",
			slog.String("job_id", string(claim.ID)), slog.String("error", err.Error()))
	}
}

// ack is ACK, of one job or of many (contract §3.9). Only one of many may be so long.
func (a *api) ack(c echo.Context) error {
	raw, err := body(c, wire.MaxAcksBytes)
	if err != nil {
		return err
	}
	acks, err := wire.DecodeAcks(raw)
	if !acks.Many && len(raw) > wire.MaxEndBytes {
		return tooLarge(c, c.Request().ContentLength, wire.MaxEndBytes)
	}
	if err != nil {
		return err
	}
	if !acks.Many {
		return a.acknowledge(c, acks.One)
	}
	if err := exchange(c).charge.await(c.Request().Context(), int64(acks.Len())*perJob); err != nil {
		return err
	}
	acked, err := a.svc.AckAll(c.Request().Context(), acks.Good)
	if err != nil {
		return err
	}
	a.logVerdicts(c, acked)
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendAcked(dst, acks, acked, requestID(c)) })
}

// logVerdicts logs those that an ACK alone would have logged.
func (a *api) logVerdicts(c echo.Context, acked []job.Acked) {
	for _, v := range acked {
		a.log(c, v.Err)
	}
}

// ackByPath is ACK with the job's id in the path; the body may be empty.
func (a *api) ackByPath(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	raw, err := body(c, wire.MaxEndBytes)
	if err != nil {
		return err
	}
	claim, result, err := wire.DecodeAck(raw, id)
	if err != nil {
		return err
	}
	return a.acknowledge(c, job.AckRequest{Claim: claim, Result: result})
}

func (a *api) acknowledge(c echo.Context, ack job.AckRequest) error {
	j, err := a.svc.Ack(c.Request().Context(), ack.Claim, ack.Result)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendAck(dst, j) })
}

// ended is the job of a FAIL that came too late, for a client of a version, and nil for any
// other (contract §4.8): such a client repeats an ACK whose answer was lost, is told that
// the job is not active any more, reports that as a failure, and dies of a second refusal.
// It is told how the job has ended, and nothing changes. A claim with a token is none of
// such a client, and its token is not the last one any more.
func (a *api) ended(c echo.Context, claim job.Claim, err error) *job.Job {
	if profile(c) == wire.Bare || claim.Token != "" || job.KindOf(err) != job.Conflict {
		return nil
	}
	j, err := a.svc.Job(c.Request().Context(), claim.ID)
	if err != nil || !j.State.Terminal() {
		return nil
	}
	return j
}

// nack is FAIL (contract §3.10).
func (a *api) nack(c echo.Context) error {
	raw, err := body(c, wire.MaxEndBytes)
	if err != nil {
		return err
	}
	claim, f, err := wire.DecodeNack(raw)
	if err != nil {
		return err
	}
	j, err := a.svc.Fail(c.Request().Context(), claim, f)
	if err != nil {
		if j = a.ended(c, claim, err); j == nil {
			return err
		}
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendNack(dst, j) })
}
