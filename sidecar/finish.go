package sidecar

import (
	"context"
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// Ack ends an attempt well; see [job.Worker].
func (s *Sidecar) Ack(ctx context.Context, c job.Claim, result json.RawMessage) (*job.Job, error) {
	if result != nil {
		if err := job.CheckJSON(result); err != nil {
			return nil, err
		}
	}
	now := s.now()
	done, err := s.change(ctx, c.ID, func(j *job.Job) error { return j.Complete(now, c, result) })
	return done.Job, err
}

// Fail ends an attempt badly, or gives the job back; see [job.Worker].
func (s *Sidecar) Fail(ctx context.Context, c job.Claim, f job.Failure) (*job.Job, error) {
	if f.Details != nil {
		if err := job.CheckJSON(f.Details); err != nil {
			return nil, err
		}
	}
	now, r := s.now(), s.o.Rand()
	done, err := s.change(ctx, c.ID, func(j *job.Job) error { return j.Fail(now, c, f, r) })
	return done.Job, err
}

// Beat keeps a worker's reservations alive and tells it what to do; see [job.Worker].
func (s *Sidecar) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	if b.Worker.ID == "" {
		return job.BeatReply{}, nameless()
	}
	now := s.now()
	var reply job.BeatReply
	var w job.WorkerInfo
	err := s.store.Update(ctx, func(tx job.Tx) error {
		reply = job.BeatReply{Time: now}
		wish := ""
		for _, c := range b.Jobs {
			c.Worker = b.Worker.ID
			said, err := s.extend(tx, c, b, &reply)
			if err != nil {
				return err
			}
			if wish == "" {
				wish = said
			}
		}
		known, err := tx.Worker(b.Worker.ID)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		w = known.Merge(b.Worker, now)
		w.Active = max(w.Active, len(b.Jobs))
		reply.Directive = directive(w, wish)
		return s.meet(tx, known, w, now)
	})
	if err != nil {
		return job.BeatReply{}, err
	}
	s.met(w, now)
	if b.Visibility > 0 && len(reply.Extended) > 0 {
		s.clock.wake(dutyRescue, now.Add(b.Visibility)) // it may be shorter than before
	}
	return reply, nil
}

// extend looks at one job that a worker says it is running, and returns the
// directive that the job's own meta asks for (contract §4.9).
func (s *Sidecar) extend(tx job.Tx, c job.Claim, b job.Beat, reply *job.BeatReply) (string, error) {
	j, err := tx.Job(c.ID)
	switch {
	case job.KindOf(err) == job.NotFound && err != nil:
		reply.Lost = append(reply.Lost, c.ID)
		return "", nil
	case err != nil:
		return "", err
	case j.State == job.Cancelled:
		reply.Cancelled = append(reply.Cancelled, c.ID)
		return "", nil
	}
	if err := j.Extend(reply.Time, c, b.Visibility); err != nil {
		reply.Lost = append(reply.Lost, c.ID)
		return "", nil
	}
	reply.Extended = append(reply.Extended, c.ID)
	var meta struct {
		Directive string `json:"test_directive"`
	}
	if j.Meta != nil {
		_ = json.Unmarshal(j.Meta, &meta) // meta of another shape asks for nothing
	}
	if d := meta.Directive; d != "quiet" && d != "terminate" {
		meta.Directive = ""
	}
	return meta.Directive, tx.UpdateJob(j)
}

// directive is what the server wants of a worker: an operator's wish, a job's,
// or what the worker itself is about to do.
func directive(w job.WorkerInfo, wish string) string {
	if w.Directive != "" {
		return w.Directive
	}
	if wish != "" {
		return wish
	}
	return leaving(w.State)
}

// leaving is the directive that a worker's own state amounts to.
func leaving(state string) string {
	switch state {
	case "drain", "draining", "terminate", "shutting_down":
		return "terminate"
	case "quiet":
		return "quiet"
	}
	return "running"
}
