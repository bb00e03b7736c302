package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// BesideStates are what the jobs can be that a workload is measured beside.
func BesideStates() []string { return []string{"waiting", "scheduled", "completed", "keys"} }

const (
	besideQueue = "bench-beside"
	besideFar   = 30 * 24 * time.Hour // when scheduled ones are due
)

// beside is what a store holds before a workload begins. Of private servers it is
// a database that no server uses: each gets a copy.
type beside struct {
	jobs     int
	database string
}

// putBeside sees to it that the jobs of the point are there.
func (b *bench) putBeside(ctx context.Context) error {
	if b.point.beside <= b.beside.jobs {
		return nil
	}
	more := b.point.beside - b.beside.jobs
	b.beside.jobs = b.point.beside
	if b.cfg.URL != "" {
		svc, err := client.New(b.target.String(), client.Options{Token: b.cfg.Token})
		if err != nil {
			return err
		}
		return b.fillBeside(ctx, svc, more)
	}
	b.beside.database = filepath.Join(b.dir, "beside.db")
	return withSidecar(ctx, b.beside.database, func(svc job.Service) error { return b.fillBeside(ctx, svc, more) })
}

// database makes one for a server: empty, or with what is to be beside its jobs.
func (b *bench) database() (path string, err error) {
	path = filepath.Join(b.dir, "bench.db")
	if b.point.beside == 0 {
		return path, nil
	}
	return path, copyFile(path, b.beside.database)
}

func copyFile(to, from string) (err error) {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Sync(), w.Close()) // so that nothing is left to be flushed while it is measured
}

// withSidecar has do use a store in this process.
func withSidecar(ctx context.Context, db string, do func(job.Service) error) (err error) {
	store, err := sqlitestore.Open(ctx, db, sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	side := sidecar.New(store, sidecar.Options{Log: slog.New(slog.DiscardHandler)})
	duties, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = side.Run(duties) // what is measured does not rest on the duties
	}()
	defer func() { stop(); <-stopped }()
	return do(side)
}

// fillBeside puts n more jobs into a store.
func (b *bench) fillBeside(ctx context.Context, svc job.Service, n int) error {
	body := b.jobJSON(besideQueue)
	next := func([]byte) []byte { return body }
	switch b.cfg.BesideState {
	case "scheduled":
		body = fmt.Appendf(body[:len(body)-1], `,"scheduled_at":%q}`, time.Now().Add(besideFar).UTC().Format(time.RFC3339))
	case "keys":
		next = b.uniqueJobs(besideQueue)
	}
	for done := 0; done < n; {
		batch := make([]job.Checked, min(b.fillBatch(), n-done))
		for i := range batch {
			var err error
			if batch[i], err = job.ParseEnvelope(next(nil)); err != nil {
				return err
			}
		}
		if _, err := svc.EnqueueChecked(ctx, batch...); err != nil {
			return fmt.Errorf("fill the store: %w", err)
		}
		done += len(batch)
	}
	if b.cfg.BesideState == "completed" {
		return b.completeBeside(ctx, svc)
	}
	return nil
}

// completeBeside fetches and acknowledges what waits, with many callers, whose
// work the store joins.
func (b *bench) completeBeside(ctx context.Context, svc job.Service) error {
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = completeAll(ctx, svc) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

func completeAll(ctx context.Context, svc job.Service) error {
	f := job.FetchRequest{Queues: []string{besideQueue}, Count: 20, Worker: "bench"}
	for {
		jobs, err := svc.Fetch(ctx, f)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for _, j := range jobs {
			if err := ackJob(ctx, svc, j); err != nil {
				return err
			}
		}
	}
}

func ackJob(ctx context.Context, svc job.Service, j *job.Job) error {
	if _, err := svc.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: j.Lease.Worker}, nil); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	return nil
}

// countJobs is how many jobs a server has.
func countJobs(ctx context.Context, svc job.Operator) (n int64, err error) {
	queues, err := svc.Queues(ctx)
	for _, q := range queues {
		for _, c := range q.Counts {
			n += c
		}
	}
	return n, err
}
