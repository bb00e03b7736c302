package client

import (
	"context"
	"os"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// about is what the worker tells of itself.
func about(o WorkerOptions) job.WorkerInfo {
	host, _ := os.Hostname() // only shown to people; it may be empty
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

// beat sends one heartbeat for every attempt under way and does what the answer says.
// It ends the attempts that it told of, never others with the same job id: the job may
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
	case <-r.directives: // the previous one was never read
	default:
	}
	r.directives <- reply.Directive // there is room: only one goroutine at a time beats
	return nil
}
