package client

import (
	"context"
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// teller speaks for one attempt.
type teller struct {
	svc   job.Progresser
	claim job.Claim
}

type tellerKey struct{}

// told is the context of a handler, through which it speaks of its attempt.
func told(ctx context.Context, svc job.Progresser, c job.Claim) context.Context {
	return context.WithValue(ctx, tellerKey{}, teller{svc, c})
}

// tellerOf is who speaks for the attempt of a handler's context.
func tellerOf(ctx context.Context) (teller, error) {
	t, ok := ctx.Value(tellerKey{}).(teller)
	if !ok {
		return t, job.Errorf(job.Invalid, "this context is not that of a handler; pass on the one that the handler was given")
	}
	return t, nil
}

// Progress tells the server how far the attempt of a handler is, from 0 to 1, and
// extends its reservation as a heartbeat does. The message, for people, may be empty,
// which leaves the one before. It never goes back within an attempt. ctx is the
// handler's, or made from it.
//
// Each call is a request, and is on disk when it returns: a loop of many short steps
// should tell of some of them. An error does not end the attempt: Conflict means that
// the job is another worker's by now, and of Unavailable the next call may know better.
func Progress(ctx context.Context, fraction float64, message string) error {
	r := job.Report{Fraction: &fraction}
	if message != "" {
		r.Message = &message
	}
	return Report(ctx, r)
}

// Report is Progress with data, or with a checkpoint in the same request.
func Report(ctx context.Context, r job.Report) error {
	t, err := tellerOf(ctx)
	if err == nil {
		_, err = t.svc.Progress(ctx, t.claim, r)
	}
	return err
}

// Checkpoint keeps where the next attempt may go on, in place of what was kept before:
// anything that is marshalled to a JSON object, or a [json.RawMessage] that is one. It
// outlives this attempt, its worker and the server. ctx is the handler's, or made from it.
func Checkpoint(ctx context.Context, state any) error {
	t, err := tellerOf(ctx)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return job.Errorf(job.Invalid, "state of a checkpoint: %w", err)
	}
	_, err = t.svc.SaveCheckpoint(ctx, t.claim, raw, nil)
	return err
}

// Resume reads what an earlier attempt of the job has kept with [Checkpoint] into state,
// and reports whether there was anything. It asks nobody: the job came with it.
func Resume(j *job.Job, state any) (bool, error) {
	if j.Checkpoint == nil {
		return false, nil
	}
	if err := json.Unmarshal(j.Checkpoint.State, state); err != nil {
		return false, job.Errorf(job.Invalid, "the checkpoint of job %s: %w", j.ID, err)
	}
	return true, nil
}
