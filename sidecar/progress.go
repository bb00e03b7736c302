package sidecar

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Progress takes what a worker tells of an attempt; see [job.Progresser].
func (s *Sidecar) Progress(ctx context.Context, c job.Claim, r job.Report) (job.Reported, error) {
	if err := r.Validate(); err != nil {
		return job.Reported{}, err
	}
	now := s.now()
	asked := s.answers.ask(now, "")
	defer asked.over()
	asked.about(c.ID)
	var j *job.Job
	var accepted bool
	err := s.update(ctx, func(t *turn) (err error) {
		if j, err = t.Job(c.ID); err != nil {
			return err
		}
		if accepted, err = j.Report(now, c, r); err != nil || !accepted {
			return err
		}
		j.Limit(s.o.Timeout, 0)
		return t.save(j)
	})
	if err != nil {
		return job.Reported{}, err
	}
	if accepted {
		answered := s.now()
		asked.answer(answered, []*job.Job{j})
		s.clock.wake(dutyRescue, later(j.DueAt, answered)) // it may end sooner than before
	}
	return job.Reported{State: j.State, Progress: j.Progress, Accepted: accepted}, nil
}

// SaveCheckpoint keeps where the next attempt may go on; see [job.Progresser].
func (s *Sidecar) SaveCheckpoint(ctx context.Context, c job.Claim, state, metadata json.RawMessage) (job.Checkpoint, error) {
	if err := job.ValidateCheckpoint(state, metadata); err != nil {
		return job.Checkpoint{}, err
	}
	now := s.now()
	saved, err := s.change(ctx, c.ID, func(j *job.Job) error { return j.SaveCheckpoint(now, c, state, metadata) })
	if err != nil {
		return job.Checkpoint{}, err
	}
	return *saved.Checkpoint, nil
}

// DeleteCheckpoint forgets it; see [job.ProgressService].
func (s *Sidecar) DeleteCheckpoint(ctx context.Context, id job.ID) (bool, error) {
	had := false
	_, err := s.change(ctx, id, func(j *job.Job) error {
		had = j.DropCheckpoint()
		return nil
	})
	return had, err
}

// maxOutcomeWait bounds how long Outcome waits.
const maxOutcomeWait = time.Minute

// Outcome says what came of a job once it has ended; see [job.ProgressService].
func (s *Sidecar) Outcome(ctx context.Context, id job.ID, wait time.Duration) (job.Outcome, error) {
	if wait <= 0 {
		return s.outcome(ctx, id)
	}
	w := s.ends.await(id)
	defer s.ends.leave(id, w)
	now, err := s.outcome(ctx, id) // it may have ended before anybody waited
	if err != nil || now.State.Terminal() {
		return now, err
	}
	timeout := time.NewTimer(min(wait, maxOutcomeWait))
	defer timeout.Stop()
	select {
	case <-w.told:
		return w.outcome, nil
	case <-timeout.C:
	case <-s.quiet:
	case <-ctx.Done():
		return now, job.Errorf(job.Unavailable, "the caller left while it waited for the end of job %s: %w", id, ctx.Err())
	}
	return s.outcome(ctx, id)
}

func (s *Sidecar) outcome(ctx context.Context, id job.ID) (job.Outcome, error) {
	j, err := s.Job(ctx, id)
	if err != nil {
		return job.Outcome{}, err
	}
	return j.Outcome(), nil
}

// Outcomes says what came of many jobs; see [job.ProgressService].
func (s *Sidecar) Outcomes(ctx context.Context, ids []job.ID) (map[job.ID]job.Outcome, error) {
	if err := job.CheckOutcomes(ids); err != nil {
		return nil, err
	}
	return view(ctx, s, func(tx job.ReadTx) (map[job.ID]job.Outcome, error) {
		found, size := make(map[job.ID]job.Outcome, len(ids)), 0
		for _, id := range ids {
			if _, twice := found[id]; twice {
				continue
			}
			j, err := tx.Job(id)
			if err != nil {
				if job.KindOf(err) == job.NotFound {
					continue
				}
				return nil, err
			}
			s.show(j)
			o := j.Outcome()
			if size += len(o.Result) + len(o.Error); size > job.MaxOutcomesBytes {
				return nil, job.Errorf(job.TooLarge, "the results of these %d jobs take more than %d MiB: ask for fewer at once", len(ids), job.MaxOutcomesBytes>>20).
					With(map[string]any{"limit": job.MaxOutcomesBytes})
			}
			found[id] = o
		}
		return found, nil
	})
}
