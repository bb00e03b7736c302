package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Progress takes a report of an attempt; see [job.Progresser].
func (c *Client) Progress(ctx context.Context, claim job.Claim, r job.Report) (job.Reported, error) {
	if err := r.Validate(); err != nil {
		return job.Reported{}, err
	}
	return ask(ctx, c, post(jobPath("/jobs", claim.ID)+"/progress", wire.ProgressBody(claim, r)).unless(noJob(claim.ID)), wire.ReadReported)
}

// SaveCheckpoint keeps where the next attempt may go on; see [job.Progresser].
func (c *Client) SaveCheckpoint(ctx context.Context, claim job.Claim, state, metadata json.RawMessage) (job.Checkpoint, error) {
	if err := job.ValidateCheckpoint(state, metadata); err != nil {
		return job.Checkpoint{}, err
	}
	return ask(ctx, c, post(jobPath("/jobs", claim.ID)+"/checkpoint", wire.CheckpointBody(claim, state, metadata)).unless(noJob(claim.ID)), wire.ReadCheckpoint)
}

// DeleteCheckpoint forgets it; see [job.ProgressService].
func (c *Client) DeleteCheckpoint(ctx context.Context, id job.ID) (bool, error) {
	return ask(ctx, c, remove(jobPath("/jobs", id)+"/checkpoint").unless(noJob(id)), wire.ReadDeleted)
}

// Outcome says what came of a job once it has ended; see [job.ProgressService].
func (c *Client) Outcome(ctx context.Context, id job.ID, wait time.Duration) (job.Outcome, error) {
	r := get(jobPath("/jobs", id) + "/result" + wire.OutcomeQuery(wait)).unless(noJob(id))
	r.wait = min(max(0, wait), wire.MaxOutcomeWait)
	status, body, err := c.send(ctx, r)
	switch {
	case err != nil:
		return job.Outcome{}, err
	case wire.IsNotEnded(status, body):
		return ask(ctx, c, get(jobPath("/jobs", id)+"/result"), wire.ReadOutcome)
	case status < 200 || status > 299:
		return job.Outcome{}, wire.DecodeError(status, body)
	}
	return wire.ReadOutcome(body)
}

// Outcomes says what came of many jobs; see [job.ProgressService].
func (c *Client) Outcomes(ctx context.Context, ids []job.ID) (map[job.ID]job.Outcome, error) {
	if err := job.CheckOutcomes(ids); err != nil {
		return nil, err
	}
	return ask(ctx, c, post("/jobs/results", wire.IDsBody(ids)), wire.ReadOutcomes)
}
