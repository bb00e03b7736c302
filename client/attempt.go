package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// attempt is one job that this worker has claimed.
type attempt struct {
	job      *job.Job
	claim    job.Claim
	cancel   context.CancelCauseFunc // ends the handler's context
	ended    atomic.Bool             // by end: the server no longer counts on this attempt
	returned atomic.Bool             // the handler is done, its outcome may be on its way
	slotless bool                    // its slot is the next job's already; its goroutine's alone
}

// end ends the handler's context, because the job is no longer this attempt's.
func (r *run) end(a *attempt, cause error) {
	a.ended.Store(true)
	if !a.returned.Load() {
		r.log.Info("handler is cancelled", a.attrs("cause", cause)...)
		a.cancel(cause)
	}
}

// attrs says in the log which job it is. Args and meta never go there.
func (a *attempt) attrs(more ...any) []any {
	return append([]any{"job_id", a.job.ID, "type", a.job.Type, "queue", a.job.Queue, "attempt", a.job.Attempt}, more...)
}

// outcome is what a handler returned.
type outcome struct {
	result json.RawMessage
	err    error
}

// attempt runs the handler and reports its outcome. The reporting is deferred,
// because a handler may also panic, or end its goroutine.
func (r *run) attempt(ctx context.Context, a *attempt) {
	began := time.Now()
	out := outcome{err: errors.New("the handler ended its goroutine")}
	defer func() {
		if v := recover(); v != nil {
			p := newPanic(v)
			r.log.Error("handler panicked", a.attrs("panic", p.Error(), "stack", p.frames)...)
			out = outcome{err: p}
		}
		a.returned.Store(true)
		r.settle(ctx, a, out, time.Since(began))
		a.cancel(nil)
		r.mu.Lock()
		delete(r.active, a)
		r.mu.Unlock()
		if !a.slotless {
			r.release(1)
		}
	}()
	out = r.call(told(ctx, r.svc, a.claim), a.job)
}

// call runs the handler with the job's timeout, counted from now, as the server's
// clock may differ.
func (r *run) call(ctx context.Context, j *job.Job) outcome {
	h := r.handler(j.Type)
	if h == nil {
		return outcome{err: unhandled(j.Type)}
	}
	limited := ctx
	if j.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, j.Timeout)
		defer cancel()
	}
	v, err := wrap(r.o.Middleware, h)(limited, j)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && limited.Err() != nil && ctx.Err() == nil {
			err = overrun(err)
		}
		return outcome{err: err}
	}
	result, err := encode(v)
	return outcome{result: result, err: err}
}

// encode makes JSON of a handler's result.
func encode(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if v != nil && !json.Valid(v) {
			return nil, badResult(errors.New("it is no JSON"))
		}
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, badResult(err)
	}
	return b, nil
}

// Settled is what came of an attempt; see [WorkerOptions].
type Settled struct {
	Job  *job.Job      // as it was fetched
	Took time.Duration // by the handler
	Err  error         // of the handler; nil where it did well

	Now       *job.Job // as the server has it after a failure that it took; else nil
	GivenBack bool     // the job went back untouched, as the worker stops
	Dropped   error    // why the server was not told: ErrCancelled or ErrLeaseLost; else nil
	Refused   error    // why the server did not take what it was told, or could not be; else nil
}

// settle tells the server what came of an attempt, and then who else wants to know.
func (r *run) settle(ctx context.Context, a *attempt, out outcome, took time.Duration) {
	cause := context.Cause(ctx)
	s := Settled{Job: a.job, Took: took, Err: out.err}
	var steered *steering
	switch {
	case errors.Is(cause, ErrCancelled), errors.Is(cause, ErrLeaseLost) && out.err != nil:
		r.log.Info("attempt dropped", a.attrs("cause", cause)...)
		s.Dropped = cause
	case errors.Is(cause, ErrStopped) && out.err != nil && !errors.As(out.err, &steered):
		_, s.Refused = r.fail(a, job.Failure{Requeue: true})
		s.GivenBack = s.Refused == nil
	case out.err != nil:
		f := failureOf(out.err)
		if s.Now, s.Refused = r.fail(a, f); s.Refused == nil {
			r.log.Warn("attempt failed", a.attrs("duration", took, "error_type", f.Type, "error", f.Message, "state", s.Now.State)...)
		}
	default:
		r.ack(a, out.result, &s)
	}
	if r.o.Settled != nil {
		r.o.Settled(s)
	}
}

func (r *run) ack(a *attempt, result json.RawMessage, s *Settled) {
	req := job.AckRequest{Claim: a.claim, Result: result}
	_, err := r.report(a, func(context.Context) (*job.Job, error) { return nil, r.deliver(a, req) })
	switch {
	case err == nil:
		r.log.Debug("job done", a.attrs("duration", s.Took)...)
	case job.KindOf(err) == job.TooLarge || job.KindOf(err) == job.Malformed:
		s.Err = badResult(err)
		s.Now, s.Refused = r.fail(a, failureOf(s.Err))
	default:
		r.log.Warn("ack not accepted", a.attrs("error", err)...)
		s.Refused = err
	}
}

// fail reports a failure and returns the job as it is now.
func (r *run) fail(a *attempt, f job.Failure) (*job.Job, error) {
	j, err := r.report(a, func(ctx context.Context) (*job.Job, error) { return r.svc.Fail(ctx, a.claim, f) })
	if err != nil {
		r.log.Warn("failure not accepted", a.attrs("requeue", f.Requeue, "error", err)...)
	}
	return j, err
}

// report sends an outcome until the server has it, for as long as the reservation can
// last after the latest heartbeat and a late ACK can still be accepted. The token
// makes repeating it harmless. Its context is not the handler's, which may have ended.
func (r *run) report(a *attempt, send func(context.Context) (*job.Job, error)) (*job.Job, error) {
	limit := time.Now().Add(r.o.Visibility + lateTime)
	var backoff pauses
	for {
		j, err := send(r.reports)
		if err == nil {
			return j, nil
		}
		if k := job.KindOf(err); k != job.Unavailable && k != job.Internal {
			return nil, err
		}
		if backoff.n == 0 {
			r.log.Warn("outcome not delivered, will try again", a.attrs("error", err)...)
		}
		if time.Now().After(limit) || !sleep(r.reports, backoff.next()) {
			return nil, err
		}
	}
}

// typed is an error of the worker's own, with the type under which it is recorded.
type typed struct {
	kind error // what errors.Is finds
	name string
	err  error
}

func (t *typed) Error() string     { return t.err.Error() }
func (t *typed) Unwrap() []error   { return []error{t.kind, t.err} }
func (t *typed) ErrorType() string { return t.name }

var (
	// errUnhandled: the job's type has no handler here. It may have one in
	// another worker, so the job's retry policy decides.
	errUnhandled = errors.New("no handler in this worker")
	// errOverrun: the handler stopped because its timeout passed.
	errOverrun = errors.New("the timeout passed")
	// errResult: the result cannot be stored, and another attempt is unlikely to
	// return a better one.
	errResult = errors.New("bad result")
)

func unhandled(jobType string) error {
	return &typed{errUnhandled, codeNotFound, errors.New("no handler for " + jobType + " in this worker")}
}

func overrun(err error) error { return &typed{errOverrun, codeTimeout, err} }

func badResult(err error) error {
	return NonRetryable(&typed{errResult, "bad_result", fmt.Errorf("the handler's result: %w", err)})
}
