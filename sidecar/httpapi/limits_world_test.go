package httpapi

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// addLimits gives the fake a limit and a tenant.
func addLimits(f *fake) {
	one := job.LimitInfo{Key: aKey, Active: 2, Waiting: 7,
		Pace:    job.Pace{Concurrency: 5, Rate: job.Quota{Limit: 100, Period: 1500 * time.Millisecond}, Throttle: job.Quota{Limit: 3, Period: time.Minute}},
		Permits: job.Permits{Limit: 100, Left: 0, After: 1234 * time.Microsecond}}
	find := func(key string) (job.LimitInfo, error) {
		if key != aKey {
			return job.LimitInfo{}, job.Errorf(job.NotFound, "there is no limit %q", key).With(map[string]any{"resource_type": "rate_limit", "resource_id": key})
		}
		return one, nil
	}
	f.limits = func(_ context.Context, q job.LimitFilter) (job.LimitPage, error) {
		page := job.LimitPage{Limits: []job.LimitInfo{one, {Key: "@mail", Pace: job.Pace{Concurrency: 1}, Permits: job.Permits{Limit: 1, Left: 1}}}[:min(q.Limit, 2)], Total: 2}
		if q.Limit == 1 {
			page.Next = one.Key
		}
		return page, nil
	}
	f.limit = func(_ context.Context, key string) (job.LimitInfo, error) { return find(key) }
	f.override = func(_ context.Context, key string, p job.Pace) (job.LimitInfo, error) {
		l, err := find(key)
		l.Pace, l.Override = p, &p
		return l, err
	}
	f.dropLimit = f.limit
	f.tenant = func(_ context.Context, tenant string) (job.TenantStats, error) {
		return job.TenantStats{Tenant: tenant, Total: 3, Counts: map[job.State]int64{job.Active: 1, job.Completed: 2}, Queues: map[string]int64{"mail": 3}}, job.CheckTenant(tenant)
	}
}
