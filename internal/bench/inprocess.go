package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

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

	push, err := job.ParseEnvelope(b.jobJSON("bench-push"))
	if err != nil {
		return nil, err
	}
	cycle, err := job.ParseEnvelope(b.jobJSON("bench-cycle"))
	if err != nil {
		return nil, err
	}
	pushed, err := b.load("inprocess-push", "call", b.callers(), func(*caller) (int, error) {
		_, err := side.EnqueueChecked(ctx, push)
		return 1, err
	})
	if err != nil {
		return nil, err
	}
	cycled, err := b.load("inprocess-cycle", "cycle of 1 job", b.callers(), func(*caller) (int, error) { return cycleOnce(ctx, side, cycle) })
	return []Result{pushed, cycled}, err
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
		if _, err := svc.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: j.Lease.Worker}, nil); err != nil {
			return 0, fmt.Errorf("ack: %w", err)
		}
	}
	return len(jobs), nil
}

// callers are goroutines without a connection.
func (b *bench) callers() []*caller {
	cs := make([]*caller, b.cfg.Concurrency)
	for i := range cs {
		cs[i] = newCaller(nil)
	}
	return cs
}
