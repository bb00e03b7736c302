package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/outrider-jobs/outrider/job"
)

// inProcess measures the sidecar on its store, without HTTP between; each part on
// a store of its own.
func (b *bench) inProcess(ctx context.Context) (results []Result, err error) {
	for _, part := range []struct {
		name, what string
		step       func(context.Context, job.Service) (func(*caller) (int, error), error)
	}{
		{"inprocess-push", "call", b.enqueueStep},
		{"inprocess-unique", "call", b.uniqueStep},
		{"inprocess-cycle", "cycle of 1 job", b.wholeCycleStep},
	} {
		db, err := b.database()
		if err != nil {
			return nil, err
		}
		var r Result
		var jobs int64
		err = withSidecar(ctx, db, func(svc job.Service) error {
			step, err := part.step(ctx, svc)
			if err != nil {
				return err
			}
			if r, err = b.load(part.name, part.what, b.callers(), step); err != nil {
				return err
			}
			jobs, err = countJobs(ctx, svc)
			return err
		})
		r.weigh(db, jobs)
		if err := errors.Join(err, removeDatabase(db)); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (b *bench) enqueueStep(ctx context.Context, svc job.Service) (func(*caller) (int, error), error) {
	one, err := job.ParseEnvelope(b.jobJSON("bench-push"))
	return func(*caller) (int, error) {
		_, err := svc.EnqueueChecked(ctx, one)
		return 1, err
	}, err
}

// uniqueStep checks each envelope, as every one is another.
func (b *bench) uniqueStep(ctx context.Context, svc job.Service) (func(*caller) (int, error), error) {
	next := b.uniqueJobs("bench-unique")
	return func(*caller) (int, error) {
		one, err := job.ParseEnvelope(next(nil))
		if err == nil {
			_, err = svc.EnqueueChecked(ctx, one)
		}
		return 1, err
	}, nil
}

func (b *bench) wholeCycleStep(ctx context.Context, svc job.Service) (func(*caller) (int, error), error) {
	one, err := job.ParseEnvelope(b.jobJSON("bench-cycle"))
	return func(*caller) (int, error) { return cycleOnce(ctx, svc, one) }, err
}

var fetchOne = job.FetchRequest{Queues: []string{"bench-cycle"}, Count: 1, Worker: "bench"}

// cycleOnce enqueues a job, fetches one and acknowledges it.
func cycleOnce(ctx context.Context, svc job.Service, e job.Checked) (int, error) {
	if _, err := svc.EnqueueChecked(ctx, e); err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	jobs, err := svc.Fetch(ctx, fetchOne)
	if err != nil {
		return 0, fmt.Errorf("fetch: %w", err)
	}
	for _, j := range jobs {
		if err := ackJob(ctx, svc, j); err != nil {
			return 0, err
		}
	}
	return len(jobs), nil
}

// callers are goroutines without a connection.
func (b *bench) callers() []*caller {
	cs := make([]*caller, b.point.concurrency)
	for i := range cs {
		cs[i] = newCaller(nil)
	}
	return cs
}
