package httpapi

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// fakePools is job.PoolService of a fake.
type fakePools struct {
	pools      func(context.Context) ([]job.Pool, error)
	putPool    func(context.Context, job.Pool) (bool, error)
	deletePool func(context.Context, string) error
	dispatch   func(context.Context) (job.DispatchReport, error)
}

func (f *fake) Pools(ctx context.Context) ([]job.Pool, error) {
	f.calls.Add(1)
	return f.pools(ctx)
}

func (f *fake) PutPool(ctx context.Context, p job.Pool) (bool, error) {
	f.calls.Add(1)
	return f.putPool(ctx, p)
}

func (f *fake) DeletePool(ctx context.Context, name string) error {
	f.calls.Add(1)
	return f.deletePool(ctx, name)
}

func (f *fake) Dispatch(ctx context.Context) (job.DispatchReport, error) {
	f.calls.Add(1)
	return f.dispatch(ctx)
}

// addPools gives the fake two pools, one of which is bounded.
func addPools(f *fake) {
	all := []job.Pool{
		{Name: "mail", Strategy: job.PoolWeighted, Queues: []job.PoolQueue{{Name: "mail", Weight: 3}, {Name: "bulk", Weight: 0.5}}, Concurrency: 8},
		{Name: "spare", Strategy: job.PoolRoundRobin},
	}
	f.pools = func(context.Context) ([]job.Pool, error) { return all, nil }
	f.putPool = func(_ context.Context, p job.Pool) (bool, error) {
		_, err := job.PoolOf(all, p.Name)
		return err != nil, nil
	}
	f.deletePool = func(_ context.Context, name string) error {
		_, err := job.PoolOf(all, name)
		return err
	}
	f.dispatch = func(context.Context) (job.DispatchReport, error) {
		return job.DispatchReport{At: noon, Pools: all, Queues: []job.Dispatched{
			{Queue: "bulk", Pool: "mail", Weight: 0.5, Started: 10, Waiting: 7},
			{Queue: "default", Waiting: 0, Started: 1, Minute: 1},
			{Queue: "mail", Pool: "mail", Weight: 3, Started: 60, Minute: 6, Waiting: 40},
		}}, nil
	}
}
