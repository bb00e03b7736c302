package client

import (
	"context"
	"os"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// about is what the worker tells of itself.
func about(o WorkerOptions) job.WorkerInfo {
	host, _ := os.Hostname() // without a name people see none
	return job.WorkerInfo{ID: o.ID, Hostname: host, PID: os.Getpid(), Queues: o.Queues, Concurrency: o.Concurrency,
		Labels: o.Labels, Version: o.Version, StartedAt: time.Now().UTC()}
}

// beatAll beats at each interval until ctx ends.
func (r *run) beatAll(ctx context.Context) {
	t := time.NewTicker(r.o.Heartbeat)
	defer t.Stop()
	ok := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := r.beat(ctx)
		if was := ok; was != (err == nil) && ctx.Err() == nil {
			if ok = err == nil; ok {
				r.log.Info("heartbeats arrive again")
			} else {
				r.log.Warn("heartbeat failed", "error", err)
			}
		}
	}
}

// beat sends one heartbeat for every attempt under way and obeys the answer.
// An attempt is ended by what was said of it, not by its job's id: the job may
// have been fetched again in the meantime.
func (r *run) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*r.o.Heartbeat)
	defer cancel()
	attempts := map[job.ID]*attempt{}
	b := job.Beat{Worker: r.info}
	for _, a := range r.running() {
		if a.ended.Load() {
			continue
		}
		attempts[a.job.ID] = a
		b.Jobs = append(b.Jobs, a.claim)
	}
	b.Worker.Active, b.Worker.State = len(b.Jobs), "running"
	if r.leaving.Load() {
		b.Worker.State = "terminate"
	}
	reply, err := r.svc.Beat(ctx, b)
	if err != nil {
		return err
	}
	for _, id := range reply.Cancelled {
		if a := attempts[id]; a != nil {
			r.end(a, ErrCancelled)
		}
	}
	for _, id := range reply.Lost {
		if a := attempts[id]; a != nil {
			r.end(a, ErrLeaseLost)
		}
	}
	select {
	case <-r.directives: // nobody has read the one before
	default:
	}
	r.directives <- reply.Directive // there is room: only one goroutine at a time beats
	return nil
}
