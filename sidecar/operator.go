package sidecar

import (
	"cmp"
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
	if err == nil {
		err = j.Foreign(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.show(j)
	return j, nil
}

// Jobs lists jobs; see [job.Operator].
func (s *Sidecar) Jobs(ctx context.Context, f job.Filter) (job.Page, error) {
	f.Limit = min(max(cmp.Or(f.Limit, 50), 1), 1000)
	f.Tenant = cmp.Or(f.Tenant, job.TenantOf(ctx))
	page, err := view(ctx, s, func(tx job.ReadTx) (job.Page, error) { return tx.Jobs(f) })
	s.show(page.Jobs...)
	return page, err
}

// Cancel stops a job; see [job.Operator].
func (s *Sidecar) Cancel(ctx context.Context, id job.ID, by, reason string) (job.Change, error) {
	now := s.now()
	return s.changeOwn(ctx, id, func(j *job.Job) error { return j.Cancel(now, by, reason) })
}

// Activate releases a pending job; see [job.Operator].
func (s *Sidecar) Activate(ctx context.Context, id job.ID) (job.Change, error) {
	now := s.now()
	return s.changeOwn(ctx, id, func(j *job.Job) error { return j.Activate(now) })
}

// changeOwn is change for verbs that a tenant may use on its own jobs alone.
func (s *Sidecar) changeOwn(ctx context.Context, id job.ID, verb func(*job.Job) error) (job.Change, error) {
	return s.change(ctx, id, func(j *job.Job) error {
		if err := j.Foreign(ctx); err != nil {
			return err
		}
		return verb(j)
	})
}

// TenantStats counts the jobs of a tenant; see [job.TenantService].
func (s *Sidecar) TenantStats(ctx context.Context, tenant string) (job.TenantStats, error) {
	if err := job.CheckTenant(tenant); err != nil {
		return job.TenantStats{}, err
	}
	return view(ctx, s, func(tx job.ReadTx) (job.TenantStats, error) {
		counts, err := tx.TenantCounts(tenant)
		st := job.TenantStats{Tenant: tenant, Counts: map[job.State]int64{}, Queues: map[string]int64{}}
		for queue, states := range counts {
			for state, n := range states {
				st.Counts[state] += n
				st.Queues[queue] += n
				st.Total += n
			}
		}
		return st, err
	})
}

// Queue reads a queue; see [job.Operator].
func (s *Sidecar) Queue(ctx context.Context, name string) (job.Queue, error) {
	q, err := view(ctx, s, func(tx job.ReadTx) (job.Queue, error) { return tx.Queue(name) })
	if name == job.DefaultQueue && err != nil && job.KindOf(err) == job.NotFound {
		return s.freshDefault(), nil
	}
	return q, err
}

// freshDefault is the default queue before its first job. It is always there.
func (s *Sidecar) freshDefault() job.Queue {
	return job.Queue{Name: job.DefaultQueue, CreatedAt: s.started, Counts: map[job.State]int64{}}
}

// Queues reads all queues; see [job.Operator].
func (s *Sidecar) Queues(ctx context.Context) ([]job.Queue, error) {
	qs, err := view(ctx, s, job.ReadTx.Queues)
	if err != nil {
		return nil, err
	}
	at, found := slices.BinarySearchFunc(qs, job.DefaultQueue, func(q job.Queue, name string) int { return strings.Compare(q.Name, name) })
	if !found {
		qs = slices.Insert(qs, at, s.freshDefault())
	}
	return qs, nil
}

// Events reads the event log; see [job.Operator].
func (s *Sidecar) Events(ctx context.Context, f job.EventFilter) ([]job.Event, error) {
	f.Limit = min(max(cmp.Or(f.Limit, 100), 1), 1000)
	f.Tenant = cmp.Or(f.Tenant, job.TenantOf(ctx))
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
		if h.Queues = len(qs); !slices.ContainsFunc(qs, func(q job.Queue) bool { return q.Name == job.DefaultQueue }) {
			h.Queues++ // it is always there
		}
		h.Maintenance, err = maintenanceIn(tx, now)
		return err
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

// Backtraces says what becomes of the backtraces that workers report. They may
// hold paths, names and addresses of the inside (ojs-core.md §14.2).
type Backtraces string

// What becomes of backtraces. Any other value than these is as OmitBacktraces.
const (
	KeepBacktraces Backtraces = "keep" // they are stored and shown; so is the zero value
	OmitBacktraces Backtraces = "omit" // they are neither stored nor shown, also not those stored before
)

// omits reports whether backtraces are neither stored nor shown.
func (s *Sidecar) omits() bool { return s.o.Backtraces != "" && s.o.Backtraces != KeepBacktraces }

// show takes out of jobs what is not to be shown. Every answer that holds jobs
// passes here on its way out; nil stands for no job.
func (s *Sidecar) show(jobs ...*job.Job) {
	if !s.omits() {
		return
	}
	for _, j := range jobs {
		if j != nil {
			j.OmitBacktraces()
		}
	}
}
