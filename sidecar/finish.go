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
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if s.omits() {
		f = f.WithoutBacktraces()
	}
	now, r := s.now(), s.o.Rand()
	done, err := s.change(ctx, c.ID, func(j *job.Job) error {
		s.show(j) // its history is written again
		return j.Fail(now, c, f, r)
	})
	return done.Job, err
}

// Beat keeps a worker's reservations alive and tells it what to do; see [job.Worker].
func (s *Sidecar) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	if b.Worker.ID == "" {
		return job.BeatReply{}, nameless()
	}
	now := s.now()
	asked := s.answers.ask(now, b.Worker.ID)
	defer asked.over()
	for _, c := range b.Jobs {
		asked.about(c.ID)
	}
	var reply job.BeatReply
	var promised []*job.Job
	var w job.WorkerInfo
	var version uint64
	err := s.update(ctx, func(t *turn) error {
		reply, promised = job.BeatReply{Time: now}, promised[:0]
		wish := ""
		for _, c := range b.Jobs {
			c.Worker = b.Worker.ID
			said, held, err := s.extend(t, c, b, &reply)
			if err != nil {
				return err
			}
			if held != nil {
				promised = append(promised, held)
			}
			if wish == "" {
				wish = said
			}
		}
		known, err := t.Worker(b.Worker.ID)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		w, reply.Directive = known.Beaten(b.Worker, wish, now)
		w.Active = max(w.Active, len(b.Jobs))
		version = s.roster.next()
		return s.saveWorker(t, known, w, now)
	})
	if err != nil {
		s.pauses.missed(now)
		return job.BeatReply{}, err
	}
	answered := s.now()
	asked.answer(answered, promised)
	s.workerSaved(w, version, now)
	for _, j := range promised { // it may end sooner than before
		s.clock.wake(dutyRescue, later(j.DueAt, answered)) // what is due already was not slept through
	}
	return reply, nil
}

// extend looks at one job that a worker says it is running, and returns the
// directive that the job's own meta asks for, where that is heeded (contract §4.9),
// and the job if its reservation was moved.
func (s *Sidecar) extend(t *turn, c job.Claim, b job.Beat, reply *job.BeatReply) (wish string, held *job.Job, err error) {
	j, err := t.Job(c.ID)
	switch {
	case job.KindOf(err) == job.NotFound && err != nil:
		reply.Lost = append(reply.Lost, c.ID)
		return "", nil, nil
	case err != nil:
		return "", nil, err
	case j.State == job.Cancelled:
		reply.Cancelled = append(reply.Cancelled, c.ID)
		return "", nil, nil
	}
	if err := j.Extend(reply.Time, c, b.Visibility); err != nil {
		reply.Lost = append(reply.Lost, c.ID)
		return "", nil, nil
	}
	j.Limit(s.timeout(t, j.Queue), 0)
	reply.Extended = append(reply.Extended, c.ID)
	if s.o.TestDirectives {
		wish = testDirective(j)
	}
	return wish, j, t.save(j)
}

// testDirective is the directive that a job's own meta asks for, empty if none.
func testDirective(j *job.Job) string {
	var meta struct {
		Directive string `json:"test_directive"`
	}
	if j.Meta != nil {
		_ = json.Unmarshal(j.Meta, &meta) // meta of another shape asks for nothing
	}
	if d := meta.Directive; d != job.Quiet && d != job.Terminate {
		return ""
	}
	return meta.Directive
}
