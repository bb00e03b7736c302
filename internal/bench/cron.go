package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

const (
	benchSchedules = 10_000          // where -n says nothing
	benchTick      = 5 * time.Second // at which all of them are due
	benchCalm      = 1500 * time.Millisecond
)

// cron is how late the jobs of many schedules are that are due at one instant:
// from that instant until anybody can see the job. It has a server of its own,
// which is idle otherwise.
func (b *bench) cron(ctx context.Context) (results []Result, err error) {
	n := cmp.Or(b.cfg.Jobs, benchSchedules)
	server, err := b.startChild(ctx, "--db", filepath.Join(b.dir, "cron.db"))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	c, err := server.client()
	if err != nil {
		return nil, err
	}
	if err := b.schedule(ctx, c, n); err != nil {
		return nil, err
	}
	at := time.Now().Truncate(benchTick).Add(benchTick)
	if time.Until(at) < benchCalm {
		at = at.Add(benchTick)
	}
	select {
	case <-time.After(time.Until(at) - benchCalm/3):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	other := *b
	other.child, other.server = server, server.process
	s, err := other.span("cron")
	if err != nil {
		return nil, err
	}
	r, err := lateness(ctx, c, at, n)
	r.Memory = other.server.memory()
	return []Result{r}, cmp.Or(err, s.end(&r))
}

// schedule registers n schedules that are due together.
func (b *bench) schedule(ctx context.Context, c *client.Client, n int) error {
	template := json.RawMessage(b.jobJSON("bench-cron"))
	errs := make([]error, b.point.concurrency)
	var wg sync.WaitGroup
	for k := range errs {
		wg.Go(func() {
			for i := k; i < n && errs[k] == nil; i += len(errs) {
				_, _, errs[k] = c.PutCron(ctx, job.CronSpec{Name: fmt.Sprint("bench-", i), Overlap: job.OverlapAllow, Template: template,
					Expression: fmt.Sprintf("*/%d * * * * *", benchTick/time.Second)})
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// lateness looks again and again at how many of the jobs are there.
func lateness(ctx context.Context, c *client.Client, at time.Time, n int) (Result, error) {
	first, err := benchJobs(ctx, c)
	if err != nil {
		return Result{}, err
	}
	var seen caller
	for end := at.Add(MaxTime); seen.jobs < n; {
		total, err := benchJobs(ctx, c)
		now := time.Now()
		if err != nil {
			return Result{}, err
		}
		for ; seen.jobs < int(total-first) && seen.jobs < n; seen.jobs++ {
			seen.samples = append(seen.samples, now.Sub(at))
		}
		if now.After(end) {
			return Result{}, fmt.Errorf("%d of %d schedules have fired", seen.jobs, n)
		}
		time.Sleep(time.Millisecond)
	}
	r := sum("cron", "due to visible", []*caller{&seen}, time.Since(at))
	r.PerSecond = 0 // they are due at one instant, so a rate would say nothing
	return r, nil
}

func benchJobs(ctx context.Context, c *client.Client) (int64, error) {
	q, err := c.Queue(ctx, "bench-cron")
	if job.KindOf(err) == job.NotFound {
		return 0, nil
	}
	return q.Counts[job.Available], err
}
