package sidecar

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// view runs fn on a snapshot and returns what it read.
func view[T any](ctx context.Context, s *Sidecar, fn func(job.ReadTx) (T, error)) (T, error) {
	var out T
	err := s.store.View(ctx, func(tx job.ReadTx) (err error) {
		out, err = fn(tx)
		return err
	})
	return out, err
}

// Job reads a job; see [job.Operator].
func (s *Sidecar) Job(ctx context.Context, id job.ID) (*job.Job, error) {
	j, err := view(ctx, s, func(tx job.ReadTx) (*job.Job, error) { return tx.Job(id) })
	s.show(j)
	return j, err
}

// Jobs lists jobs; see [job.Operator].
func (s *Sidecar) Jobs(ctx context.Context, f job.Filter) (job.Page, error) {
	f.Limit = min(max(orElse(f.Limit, 50), 1), 1000)
	page, err := view(ctx, s, func(tx job.ReadTx) (job.Page, error) { return tx.Jobs(f) })
	s.show(page.Jobs...)
	return page, err
}

// Cancel stops a job; see [job.Operator].
func (s *Sidecar) Cancel(ctx context.Context, id job.ID, by, reason string) (job.Change, error) {
	now := s.now()
	return s.change(ctx, id, func(j *job.Job) error { return j.Cancel(now, by, reason) })
}

// Activate releases a pending job; see [job.Operator].
func (s *Sidecar) Activate(ctx context.Context, id job.ID) (job.Change, error) {
	now := s.now()
	return s.change(ctx, id, func(j *job.Job) error { return j.Activate(now) })
}

// Queue reads a queue; see [job.Operator].
func (s *Sidecar) Queue(ctx context.Context, name string) (job.Queue, error) {
	return view(ctx, s, func(tx job.ReadTx) (job.Queue, error) { return tx.Queue(name) })
}

// Queues reads all queues; see [job.Operator].
func (s *Sidecar) Queues(ctx context.Context) ([]job.Queue, error) {
	qs, err := view(ctx, s, job.ReadTx.Queues)
	if err != nil {
		return nil, err
	}
	at := len(qs)
	for i, q := range qs {
		if q.Name == job.DefaultQueue {
			return qs, nil
		}
		if q.Name > job.DefaultQueue && at == len(qs) {
			at = i
		}
	}
	fresh := job.Queue{Name: job.DefaultQueue, CreatedAt: s.started, Counts: map[job.State]int64{}}
	return append(qs[:at:at], append([]job.Queue{fresh}, qs[at:]...)...), nil
}

// Events reads the event log; see [job.Operator].
func (s *Sidecar) Events(ctx context.Context, f job.EventFilter) ([]job.Event, error) {
	f.Limit = min(max(orElse(f.Limit, 100), 1), 1000)
	f.Types = slices.Clone(f.Types)
	for i, t := range f.Types {
		f.Types[i] = strings.Replace(t, ":", ".", 1) // as asyncmq-deduplication.md spells them
	}
	return view(ctx, s, func(tx job.ReadTx) ([]job.Event, error) { return tx.Events(f) })
}

// History reads the events of one job; see [job.Operator].
func (s *Sidecar) History(ctx context.Context, id job.ID) ([]job.Event, error) {
	return view(ctx, s, func(tx job.ReadTx) ([]job.Event, error) { return tx.History(id) })
}

// Health reads through the store, measures how long that takes, and asks whether
// it can be written; see [job.Operator]. A store that cannot be read or written
// is not an error but a Health that is not OK.
func (s *Sidecar) Health(ctx context.Context) (job.Health, error) {
	now := s.now()
	h := job.Health{OK: true, Backend: "sqlite", Uptime: now.Sub(s.started), Time: now, StaleAfter: s.o.Silence}
	if c, ok := s.store.(interface{ Checked() string }); ok {
		h.Check = c.Checked()
	}
	begin := time.Now()
	err := s.store.View(ctx, func(tx job.ReadTx) error {
		qs, err := tx.Queues()
		if err != nil {
			return err
		}
		for _, q := range qs {
			if q.Paused {
				h.Paused++
			}
		}
		h.Queues = len(qs)
		return nil
	})
	if err == nil {
		h.Workers, h.StaleNow, err = s.countWorkers(ctx, now)
	}
	h.Latency = time.Since(begin)
	if err == nil {
		err = s.store.Probe(ctx)
	}
	if err != nil {
		h.OK, h.Problem = errors.Is(err, job.ErrDegraded), err.Error()
		h.Degraded, h.Logged = h.OK, s.store.Trouble() != nil
	}
	return h, nil
}
