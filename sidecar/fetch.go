package sidecar

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	maxCount = 100
	maxWait  = 20 * time.Second
)

// Fetch claims jobs; see [job.Worker]. A fetch that waits is woken by the job
// that comes, not by a poll.
func (s *Sidecar) Fetch(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	if len(f.Queues) == 0 || slices.Contains(f.Queues, "") {
		return nil, job.Errorf(job.Invalid, "queues is required: the name of at least one queue to fetch from, and none empty").
			With(map[string]any{"field": "queues"})
	}
	f.Count = min(max(f.Count, 1), maxCount)
	idle, err := s.takesNoJobs(ctx, f.Worker)
	if err != nil || idle {
		return nil, err
	}
	if f.Wait <= 0 {
		return s.claim(ctx, f)
	}
	return s.await(ctx, f)
}

// await claims, and waits for a job to come if there is none.
func (s *Sidecar) await(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	w := &waiter{signal: make(chan struct{}, 1), queues: f.Queues}
	s.wakeups.arm(w)
	defer s.wakeups.leave(w)
	timeout := time.NewTimer(min(f.Wait, maxWait))
	defer timeout.Stop()
	for {
		jobs, err := s.claim(ctx, f)
		if err != nil {
			s.wakeups.pass(w) // what woke it may be there still
			return nil, err
		}
		if len(jobs) > 0 {
			return jobs, nil
		}
		select {
		case <-w.signal:
			if idle, err := s.takesNoJobs(ctx, f.Worker); err != nil || idle {
				s.wakeups.pass(w)
				return nil, err
			}
			s.wakeups.arm(w)
		case <-timeout.C:
			return nil, nil
		case <-s.quiet:
			return nil, nil
		case <-ctx.Done():
			return nil, job.Errorf(job.Unavailable, "the worker left while it waited: %w", ctx.Err())
		}
	}
}

// claim takes what is there (contract §4.2).
func (s *Sidecar) claim(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	select {
	case <-s.quiet:
		return nil, nil
	default:
	}
	for {
		got, more, err := s.claimSlice(ctx, f)
		if err != nil || len(got) > 0 || !more {
			return got, err
		}
	}
}

// claimSlice claims in one transaction. What has expired is discarded on the
// way; more reports that there was a whole slice of that, and perhaps jobs behind it.
func (s *Sidecar) claimSlice(ctx context.Context, f job.FetchRequest) (got []*job.Job, more bool, err error) {
	now := s.now()
	asked := s.answers.ask(now, "") // a FETCH is no sign of life (contract §4.9)
	defer asked.over()
	expired := 0
	err = s.update(ctx, func(t *turn) error {
		got, expired = nil, 0
		if f.Room != nil {
			f.Room.Reset()
		}
		for ask := f.Count; ask > 0; {
			found, err := t.Available(f.Queues, ask)
			if err != nil {
				return err
			}
			before := expired
			for _, j := range found {
				if j.Expired(now) {
					err = j.Expire(now)
					expired++
				} else if len(got) < f.Count {
					if f.Room != nil && !f.Room.Take(j.Size()) {
						if len(got) == 0 && expired == 0 {
							return job.NoRoom()
						}
						return nil
					}
					err = j.Start(now, s.lease(f, j))
					j.Limit(s.o.Timeout, 0)
					asked.about(j.ID)
					got = append(got, j)
				} else {
					break
				}
				if err != nil {
					return err
				}
				if err := t.save(j); err != nil {
					return err
				}
			}
			// Where some have expired there may be more: look at many at once.
			ask = 0
			if expired > before && expired < slice && len(got) < f.Count {
				ask = maxCount
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	asked.answer(s.now(), got)
	s.show(got...)
	return got, expired >= slice, nil
}

// lease is the reservation of one job for one attempt: as long as the request,
// else the job, else the server says (contract §4.6).
func (s *Sidecar) lease(f job.FetchRequest, j *job.Job) job.Lease {
	length := cmp.Or(max(0, f.Visibility), max(0, j.Visibility), s.o.Visibility)
	return job.Lease{Token: s.o.Token(), Worker: f.Worker, Length: length}
}
