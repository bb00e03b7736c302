package sidecar

import (
	"bytes"
	"context"
	"errors"

	"github.com/outrider-jobs/outrider/job"
)

// Enqueue stores all envelopes or none; see [job.Enqueuer]. At most 10,000 at once.
func (s *Sidecar) Enqueue(ctx context.Context, es ...job.Envelope) ([]job.Receipt, error) {
	return s.enqueue(ctx, es, func(tx job.Tx, e job.Envelope, taken error) (*job.Job, error) {
		old, err := tx.Job(e.ID)
		if err != nil {
			return nil, err
		}
		if old.Type == e.Type && bytes.Equal(old.Args, e.Args) {
			return old, nil
		}
		return nil, describe(taken, old, "job %s exists already with another type or other args; choose another id", e.ID)
	})
}

// EnqueueNew is Enqueue for callers to whom an ID that is stored already is a
// Duplicate whatever its content, as on the wire (contract §2.2). Nothing is stored then.
func (s *Sidecar) EnqueueNew(ctx context.Context, es ...job.Envelope) ([]job.Receipt, error) {
	return s.enqueue(ctx, es, func(tx job.Tx, e job.Envelope, taken error) (*job.Job, error) {
		old, err := tx.Job(e.ID)
		if err != nil {
			return nil, err
		}
		return nil, describe(taken, old, "job %s exists already", e.ID)
	})
}

// describe says which job a Duplicate met.
func describe(taken error, old *job.Job, format string, args ...any) error {
	e := job.Errorf(job.KindOf(taken), format, args...)
	e.Details = map[string]any{"existing_job_id": string(old.ID), "existing_job_state": string(old.State)}
	return e
}

// enqueue validates, asks the middleware, stores and announces. exists decides about an ID that is taken.
func (s *Sidecar) enqueue(ctx context.Context, es []job.Envelope, exists func(job.Tx, job.Envelope, error) (*job.Job, error)) ([]job.Receipt, error) {
	if len(es) > job.MaxBatch {
		e := job.Errorf(job.TooLarge, "%d jobs in one call, at most %d are taken", len(es), job.MaxBatch)
		e.Details = map[string]any{"size": len(es), "max_batch_size": job.MaxBatch}
		return nil, e
	}
	es = append([]job.Envelope(nil), es...)
	for i := range es {
		if err := es[i].Validate(); err != nil {
			return nil, at(err, i, len(es))
		}
		if es[i].ID == "" {
			es[i].ID = s.o.NewID()
		}
	}
	if err := s.admit(ctx, es); err != nil {
		return nil, err
	}
	now := s.now()
	receipts := make([]job.Receipt, len(es))
	err := s.store.Update(ctx, func(tx job.Tx) error {
		for i, e := range es {
			j := &job.Job{Envelope: e}
			if err := j.Push(now); err != nil {
				return at(err, i, len(es))
			}
			err := tx.InsertJob(j)
			receipts[i] = job.Receipt{Job: j}
			if job.KindOf(err) == job.Duplicate {
				j, err = exists(tx, e, err)
				receipts[i] = job.Receipt{Job: j, Existing: true}
			}
			if err != nil {
				return at(err, i, len(es))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range receipts {
		if !r.Existing {
			s.announce(r.Job)
		}
	}
	return receipts, nil
}

// at adds to an error about one envelope of several which one it is.
func at(err error, i, of int) error {
	if of == 1 || job.KindOf(err) == job.Internal || job.KindOf(err) == job.Unavailable {
		return err
	}
	e := job.Errorf(job.KindOf(err), "jobs[%d]: %w", i, err)
	e.Details = map[string]any{"index": i}
	var inner *job.Error
	if errors.As(err, &inner) {
		for k, v := range inner.Details {
			e.Details[k] = v
		}
	}
	return e
}
