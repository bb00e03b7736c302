package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// fakeProgress is a job.ProgressService made of functions, as fake is.
type fakeProgress struct {
	progress func(context.Context, job.Claim, job.Report) (job.Reported, error)
	save     func(context.Context, job.Claim, json.RawMessage, json.RawMessage) (job.Checkpoint, error)
	drop     func(context.Context, job.ID) (bool, error)
	outcome  func(context.Context, job.ID, time.Duration) (job.Outcome, error)
	outcomes func(context.Context, []job.ID) (map[job.ID]job.Outcome, error)
}

func (f *fakeProgress) Progress(ctx context.Context, c job.Claim, r job.Report) (job.Reported, error) {
	if f.progress == nil {
		return job.Reported{}, nil
	}
	return f.progress(ctx, c, r)
}

func (f *fakeProgress) SaveCheckpoint(ctx context.Context, c job.Claim, state, metadata json.RawMessage) (job.Checkpoint, error) {
	if f.save == nil {
		return job.Checkpoint{State: state}, nil
	}
	return f.save(ctx, c, state, metadata)
}

func (f *fakeProgress) DeleteCheckpoint(ctx context.Context, id job.ID) (bool, error) {
	if f.drop == nil {
		return false, nil
	}
	return f.drop(ctx, id)
}

func (f *fakeProgress) Outcome(ctx context.Context, id job.ID, wait time.Duration) (job.Outcome, error) {
	if f.outcome == nil {
		return job.Outcome{ID: id}, nil
	}
	return f.outcome(ctx, id, wait)
}

func (f *fakeProgress) Outcomes(ctx context.Context, ids []job.ID) (map[job.ID]job.Outcome, error) {
	if f.outcomes == nil {
		return nil, nil
	}
	return f.outcomes(ctx, ids)
}
