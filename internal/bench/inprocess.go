package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// inProcess measures the sidecar on its store, without HTTP between.
func (b *bench) inProcess(ctx context.Context) (results []Result, err error) {
	store, err := sqlitestore.Open(ctx, filepath.Join(b.dir, "inprocess.db"), sqlitestore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	side := sidecar.New(store, sidecar.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	duties, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = side.Run(duties) // the workloads do not rest on the duties
	}()
	defer func() { stop(); <-stopped }()

	enqueue, err := b.enqueueInProcess(ctx, side)
	if err != nil {
		return nil, err
	}
	cycle, err := b.cycleInProcess(ctx, side)
	return []Result{enqueue, cycle}, err
}

func (b *bench) enqueueInProcess(ctx context.Context, svc job.Service) (Result, error) {
	e, err := job.ParseEnvelope(b.jobJSON("bench-push"))
	if err != nil {
		return Result{}, err
	}
	r, err := b.load(b.callers(), func(*caller) (int, error) {
		_, err := svc.EnqueueChecked(ctx, e)
		return 1, err
	})
	r.Workload, r.What = "inprocess-push", "call"
	return r, err
}

func (b *bench) cycleInProcess(ctx context.Context, svc job.Service) (Result, error) {
	e, err := job.ParseEnvelope(b.jobJSON("bench-cycle"))
	if err != nil {
		return Result{}, err
	}
	fetch := job.FetchRequest{Queues: []string{"bench-cycle"}, Count: 1, Worker: "bench"}
	r, err := b.load(b.callers(), func(*caller) (int, error) {
		if _, err := svc.EnqueueChecked(ctx, e); err != nil {
			return 0, fmt.Errorf("enqueue: %w", err)
		}
		jobs, err := svc.Fetch(ctx, fetch)
		if err != nil {
			return 0, fmt.Errorf("fetch: %w", err)
		}
		for _, j := range jobs {
			c := job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: j.Lease.Worker}
			if _, err := svc.Ack(ctx, c, nil); err != nil {
				return 0, fmt.Errorf("ack: %w", err)
			}
		}
		return len(jobs), nil
	})
	r.Workload, r.What = "inprocess-cycle", "cycle of 1 job"
	return r, err
}

// callers are goroutines without a connection.
func (b *bench) callers() []*caller {
	cs := make([]*caller, b.cfg.Concurrency)
	for i := range cs {
		cs[i] = &caller{samples: make([]time.Duration, 0, 1<<12)}
	}
	return cs
}
