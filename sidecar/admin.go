package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// Detail reads a job and the policy that holds for it; see [job.AdminService].
func (s *Sidecar) Detail(ctx context.Context, id job.ID) (job.Detail, error) {
	d, err := view(ctx, s, func(tx job.ReadTx) (d job.Detail, err error) {
		if d.Job, err = tx.Job(id); err != nil {
			return d, err
		}
		set, err := tx.QueueSettings(d.Queue)
		d.Policy = d.Under(&s.o.Rules).In(set.Effective()).EffectivePolicy()
		return d, err
	})
	if err == nil {
		err = d.Foreign(ctx)
	}
	if err != nil {
		return job.Detail{}, err
	}
	s.show(d.Job)
	return d, nil
}

// ForgetWorker removes a stale worker; see [job.AdminService].
func (s *Sidecar) ForgetWorker(ctx context.Context, id string) ([]job.ID, error) {
	return s.dismiss(ctx, id, func(w job.WorkerInfo) error {
		if s.stale(w, s.now()) {
			return nil
		}
		return job.Errorf(job.Conflict, "worker %.140q was heard of in the last %s: tell it to terminate, and it goes by itself", id, s.o.Silence).
			With(map[string]any{"worker_id": id, "current_state": w.Wanted(), "expected_state": "stale"})
	})
}

// Tenants lists the tenants that have jobs; see [job.AdminService].
func (s *Sidecar) Tenants(ctx context.Context, after string, n int) ([]string, error) {
	return view(ctx, s, func(tx job.ReadTx) ([]string, error) { return tx.Tenants(after, max(n, 0)) })
}

// Middlewares lists the middleware around PUSH; see [job.AdminService].
func (s *Sidecar) Middlewares(context.Context) ([]job.MiddlewareInfo, error) {
	var all []job.MiddlewareInfo
	for i, name := range s.o.Middleware.Names() {
		all = append(all, job.MiddlewareInfo{Name: name, Order: i + 1})
	}
	return all, nil
}
