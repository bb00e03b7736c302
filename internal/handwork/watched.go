package handwork

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// emptyTime is how long no job must come before a queue counts as empty.
const emptyTime = 500 * time.Millisecond

// watched is the job server, seen by somebody who tells when it goes and comes back, and
// when there is nothing left to do.
type watched struct {
	job.Worker
	o     Options
	print *printer
	stop  context.CancelCauseFunc

	mu    sync.Mutex      // guards the rest
	busy  map[string]bool // leases of jobs under way
	since time.Time       // when the server was first found to be away; zero: it is there
	gone  error           // why work that was to end when there is none has ended early
}

// Fetch takes jobs, and ends the work when there are none and there is nothing under way.
func (s *watched) Fetch(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	jobs, err := s.Worker.Fetch(ctx, f)
	s.heard(ctx, err)
	if idle := s.took(jobs); idle && err == nil && len(jobs) == 0 && s.o.UntilEmpty && ctx.Err() == nil {
		s.stop(nil)
	}
	return jobs, err
}

// Next is an ACK and a FETCH in one.
func (s *watched) Next(ctx context.Context, acks []job.AckRequest, f job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	acked, jobs, err := s.Worker.Next(ctx, acks, f)
	s.heard(ctx, err)
	s.took(jobs)
	return acked, jobs, err
}

// AckAll ends attempts well.
func (s *watched) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	acked, err := s.Worker.AckAll(ctx, acks)
	s.heard(ctx, err)
	return acked, err
}

// Fail ends an attempt badly.
func (s *watched) Fail(ctx context.Context, c job.Claim, f job.Failure) (*job.Job, error) {
	j, err := s.Worker.Fail(ctx, c, f)
	s.heard(ctx, err)
	return j, err
}

// Beat says that the worker lives.
func (s *watched) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	r, err := s.Worker.Beat(ctx, b)
	s.heard(ctx, err)
	return r, err
}

// took notes the jobs that will be worked on, and reports whether there are none.
func (s *watched) took(jobs []*job.Job) (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		if s.o.Mappings.Find(j.Type) != nil {
			s.busy[j.Lease.Token] = true
		}
	}
	return len(s.busy) == 0
}

func (s *watched) settled(j *job.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, j.Lease.Token)
}

// heard tells once that the server is away, and once that it is back.
func (s *watched) heard(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var e *job.Error
	switch {
	case job.KindOf(err) != job.Unavailable || !errors.As(err, &e) || e.Err == nil: // it has answered
		if !s.since.IsZero() {
			s.print.back(time.Since(s.since))
		}
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
		if s.o.UntilEmpty && s.gone == nil {
			s.gone = err
			s.stop(nil)
			return
		}
		s.print.away(err)
	}
}

func (s *watched) unreachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}
