package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// telling is a job whose worker has told of it.
func telling(j *job.Job) *job.Job {
	j.Progress = &job.Progress{Fraction: 0.25, Measured: true, Message: "a quarter", Data: json.RawMessage(`{"rows": 1e2}`), At: noon}
	j.Checkpoint = &job.Checkpoint{State: json.RawMessage(`{"row":7}`), Metadata: json.RawMessage(`{"step_index":2,"by":"w"}`), Sequence: 3, CreatedAt: noon, UpdatedAt: noon.Add(time.Second)}
	return j
}

// progressing fills in what is told of a job while it runs, and what came of it.
func progressing(f *fake) {
	f.progress = func(_ context.Context, c job.Claim, r job.Report) (job.Reported, error) {
		j := started(c.ID)
		if err := failing(c.ID); err != nil {
			return job.Reported{}, err
		}
		if c.ID == idTwo {
			return job.Reported{State: job.Completed}, nil
		}
		accepted, err := j.Report(noon, c, r)
		return job.Reported{State: j.State, Progress: j.Progress, Accepted: accepted}, err
	}
	f.save = func(_ context.Context, c job.Claim, state, metadata json.RawMessage) (job.Checkpoint, error) {
		if err := failing(c.ID); err != nil {
			return job.Checkpoint{}, err
		}
		j := started(c.ID)
		if c.ID == idTwo {
			j.State = job.Completed
		}
		if err := j.SaveCheckpoint(noon, c, state, metadata); err != nil {
			return job.Checkpoint{}, err
		}
		return *j.Checkpoint, nil
	}
	f.drop = func(_ context.Context, id job.ID) (bool, error) { return id == idOne, failing(id) }
	f.outcome = func(_ context.Context, id job.ID, _ time.Duration) (job.Outcome, error) {
		if id == idTwo {
			return job.Outcome{ID: id, State: job.Active}, nil
		}
		return job.Outcome{ID: id, State: job.Completed, Result: json.RawMessage(`{"ok": 1e2}`), FinishedAt: noon}, failing(id)
	}
	f.outcomes = func(_ context.Context, ids []job.ID) (map[job.ID]job.Outcome, error) {
		return map[job.ID]job.Outcome{
			idOne: {ID: idOne, State: job.Discarded, Error: json.RawMessage(`{"type":"E"}`), FinishedAt: noon},
			idTwo: {ID: idTwo, State: job.Available},
		}, job.CheckOutcomes(ids)
	}
}
