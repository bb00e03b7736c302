package httpapi

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// fakeAdmin is job.AdminService of a fake.
type fakeAdmin struct {
	detail         func(context.Context, job.ID) (job.Detail, error)
	forgetWorker   func(context.Context, string) ([]job.ID, error)
	maintenance    func(context.Context) (job.Maintenance, error)
	setMaintenance func(context.Context, job.MaintenanceAsk) (job.Maintenance, error)
	tenants        func(context.Context, string, int) ([]string, error)
	middlewares    func(context.Context) ([]job.MiddlewareInfo, error)
	metrics        func(context.Context) (job.Metrics, error)
}

func (f *fake) Detail(ctx context.Context, id job.ID) (job.Detail, error) {
	f.calls.Add(1)
	return f.detail(ctx, id)
}

func (f *fake) ForgetWorker(ctx context.Context, id string) ([]job.ID, error) {
	f.calls.Add(1)
	return f.forgetWorker(ctx, id)
}

func (f *fake) Maintenance(ctx context.Context) (job.Maintenance, error) {
	f.calls.Add(1)
	return f.fakeAdmin.maintenance(ctx)
}

func (f *fake) SetMaintenance(ctx context.Context, ask job.MaintenanceAsk) (job.Maintenance, error) {
	f.calls.Add(1)
	return f.setMaintenance(ctx, ask)
}

func (f *fake) Tenants(ctx context.Context, after string, n int) ([]string, error) {
	f.calls.Add(1)
	return f.tenants(ctx, after, n)
}

func (f *fake) Middlewares(ctx context.Context) ([]job.MiddlewareInfo, error) {
	f.calls.Add(1)
	return f.middlewares(ctx)
}

func (f *fake) Metrics(ctx context.Context) (job.Metrics, error) {
	f.calls.Add(1)
	return f.fakeAdmin.metrics(ctx)
}

// administering fills in what an administrator is shown: one job has failed twice.
func administering(f *fake) {
	f.detail = func(ctx context.Context, id job.ID) (job.Detail, error) {
		j, err := f.job(ctx, id)
		if err != nil {
			return job.Detail{}, err
		}
		if j.State == job.Active {
			if err := j.Fail(noon, job.Claim{ID: id}, job.Failure{Type: "SmtpError", Message: "refused"}, 0.5); err != nil {
				return job.Detail{}, err
			}
		}
		return job.Detail{Job: j, Policy: j.EffectivePolicy()}, nil
	}
	f.forgetWorker = func(ctx context.Context, id string) ([]job.ID, error) {
		if id == "busy" {
			return nil, job.Errorf(job.Conflict, "worker busy was heard of in the last 45s")
		}
		return f.deregister(ctx, id)
	}
	f.fakeAdmin.maintenance = func(context.Context) (job.Maintenance, error) {
		return job.Maintenance{On: true, Reason: "a new disk", Started: noon, Ends: noon.Add(time.Hour)}, nil
	}
	f.setMaintenance = func(_ context.Context, ask job.MaintenanceAsk) (job.Maintenance, error) {
		var none *job.QueueSettings
		set, err := none.WithMaintenance(ask, noon)
		return set.Maintenance(noon), err
	}
	f.tenants = func(context.Context, string, int) ([]string, error) { return []string{"acme", "globex"}, nil }
	f.middlewares = func(context.Context) ([]job.MiddlewareInfo, error) {
		return []job.MiddlewareInfo{{Name: "trace", Order: 1}, {Name: "limit", Order: 2}}, nil
	}
	f.fakeAdmin.metrics = func(context.Context) (job.Metrics, error) {
		return job.Metrics{At: noon, Uptime: time.Hour, Workers: job.WorkerCounts{Running: 3, Quiet: 1, Stale: 2}, AvgWaited: 1500 * time.Microsecond,
			PerSecond: job.Rates{Enqueued: 2, Completed: 1.5, Failed: 0.25}, Queues: []job.QueueMetrics{
				{Name: "mail", Counts: map[job.State]int64{job.Available: 4, job.Active: 1, job.Completed: 9}, Dead: 2,
					Totals: job.Totals{Enqueued: 20, Completed: 12, Failed: 5, Discarded: 3, Rejected: 1}},
				{Name: "quiet", Counts: map[job.State]int64{}}}}, nil
	}
}
