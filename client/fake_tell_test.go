package client_test

import (
	"context"
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// told is what a handler told of its attempt.
type told struct {
	claim  job.Claim
	report job.Report
	state  json.RawMessage
}

func (f *fake) Progress(_ context.Context, c job.Claim, r job.Report) (job.Reported, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, told{claim: c, report: r})
	return job.Reported{State: job.Active, Accepted: true}, nil
}

func (f *fake) SaveCheckpoint(_ context.Context, c job.Claim, state, _ json.RawMessage) (job.Checkpoint, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, told{claim: c, state: state})
	return job.Checkpoint{State: state, Sequence: 1}, nil
}
