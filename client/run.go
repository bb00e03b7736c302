package client

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Times of a worker that are not options.
const (
	// leaveTime is how long handlers have to return, and jobs to be given back,
	// after ErrStopped.
	leaveTime = 3 * time.Second
	// pollTime is the pause after a fetch that found nothing and did not wait:
	// the queues are paused, or the server does not know how to wait.
	pollTime = time.Second
	// lateTime is how long after the end of a reservation its ACK may still be
	// taken (ojs-delivery-guarantees.md §8).
	lateTime = time.Minute
	// maxFetch is the most that one FETCH gives.
	maxFetch = 100

	// byeTime is how long the farewell to the server may take.
	byeTime = time.Second

	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// run is one Run of a worker. Its goroutines are one that fetches, one that
// beats, one for each attempt, and those of requests with ACKs; work starts and joins
// the first two, and has joined an attempt, and the requests that it waits for, when it
// holds the attempt's slot.
type run struct {
	svc      job.Worker
	o        WorkerOptions
	log      *slog.Logger
	handlers map[string]Handler // nobody writes to it while the worker runs
	rest     func(jobType string) Handler
	info     job.WorkerInfo
	leaving  atomic.Bool

	slots      chan struct{} // one token for each free slot
	held       int           // tokens that idle has taken, when nothing is fetched any more
	directives chan string   // the latest from the server
	refused    chan error    // a fetch that will never work

	// ctx is not Run's: it ends with the handlers' grace, and reports ends after it.
	ctx         context.Context
	cancel      context.CancelCauseFunc
	reports     context.Context
	stopReports context.CancelFunc

	out outgoing

	mu       sync.Mutex // guards the rest
	active   map[*attempt]bool
	shunned  map[string]bool // types that nobody handles here
	versions *job.Versions   // to fetch: those of the options, without these types
}

func newRun(ctx context.Context, w *Worker) *run {
	o := w.opts
	r := &run{svc: w.svc, o: o, log: o.Logger.With("worker_id", o.ID), handlers: w.handlers, rest: w.rest, versions: o.Versions, shunned: map[string]bool{}, info: about(o),
		slots: make(chan struct{}, o.Concurrency), directives: make(chan string, 1), refused: make(chan error, 1),
		out: outgoing{poke: make(chan struct{}, 1)}, active: map[*attempt]bool{}}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.reports, r.stopReports = context.WithCancel(context.WithoutCancel(ctx))
	r.release(o.Concurrency)
	return r
}

func (r *run) close() {
	r.cancel(ErrStopped)
	r.stopReports()
}

// work runs the worker until it is to stop, and stops it.
func (r *run) work(ctx context.Context) error {
	// The first beat comes before the first fetch: the server may still have a
	// directive to stop for a worker of this name.
	r.beat(ctx)
	beats, stopBeats := context.WithCancel(r.reports)
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		r.beatAll(beats)
	}()
	r.log.Info("worker started", "queues", r.o.Queues, "concurrency", r.o.Concurrency)
	err := r.supervise(ctx)
	r.leaving.Store(true)
	if left := r.drain(); left > 0 && err == nil {
		err = job.Errorf(job.Internal, "%d handlers did not heed their context and were left behind", left)
	}
	stopBeats()
	<-joined
	r.deregister(ctx)
	r.log.Info("worker stopped")
	return err
}

// deregister tells the server that this worker has stopped, so that it is not taken
// for dead later. A server that is gone, or does not know the worker, does no harm.
func (r *run) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), byeTime)
	defer cancel()
	if _, err := r.svc.Deregister(ctx, r.o.ID); err != nil {
		r.log.Debug("not deregistered", "error", err)
	}
}

// supervise starts and stops the fetching as ctx and the server say, and
// returns when nothing more is to be fetched.
func (r *run) supervise(ctx context.Context) error {
	var stop func()
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	directive := "running"
	select {
	case directive = <-r.directives:
	default: // the first beat failed; the server will say later
	}
	for {
		switch {
		case directive == "terminate":
			r.log.Info("told to terminate")
			return nil
		case directive == "quiet" && stop != nil:
			r.log.Info("told to be quiet")
			stop()
			stop = nil
		case directive != "quiet" && stop == nil:
			stop = r.startFetching(ctx)
		}
		select {
		case directive = <-r.directives:
		case err := <-r.refused:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// startFetching fetches in a goroutine until ctx ends or stop is called, which
// joins it.
func (r *run) startFetching(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		r.fetchAll(ctx)
	}()
	return func() {
		cancel()
		<-joined
	}
}

// drain waits for the handlers, then for those that have to be cancelled, and
// returns how many were left behind. Nothing is fetched any more.
func (r *run) drain() (left int) {
	if r.idle(r.o.Grace, 0) {
		return 0
	}
	r.log.Warn("grace period is over, handlers are cancelled", "jobs", len(r.running()))
	r.cancel(ErrStopped)
	if r.idle(leaveTime, 0) {
		return 0
	}
	var stuck []*job.Job
	for _, a := range r.running() {
		if !a.returned.Load() {
			stuck = append(stuck, a.job)
			r.log.Error("handler left behind, its job is given back", a.attrs()...)
		}
	}
	r.giveBack(stuck)
	r.stopReports()
	r.idle(leaveTime, len(stuck))
	return len(stuck)
}

// idle waits up to d until no more than left attempts are under way.
func (r *run) idle(d time.Duration, left int) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for r.held < cap(r.slots)-left {
		select {
		case <-r.slots:
			r.held++
		case <-timeout.C:
			return false
		}
	}
	return true
}

// handler is that of a job type, or nil.
func (r *run) handler(jobType string) Handler {
	if h := r.handlers[jobType]; h != nil || r.rest == nil {
		return h
	}
	return r.rest(jobType)
}

// running lists the attempts under way.
func (r *run) running() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.active))
}

// takeSlots waits for a free slot, or for ACKs that wait to be sent and whose slots will be
// free. It takes them all, slots up to the most that a fetch gives. None means that ctx
// has ended.
func (r *run) takeSlots(ctx context.Context) (n int, acks []*ack) {
	r.out.park()
	for n+len(acks) == 0 {
		select {
		case <-r.slots:
			n++
		case <-r.out.poke:
		case <-ctx.Done():
			return 0, nil
		}
		for more := n > 0; more && n < maxFetch; {
			select {
			case <-r.slots:
				n++
			default:
				more = false
			}
		}
		acks = r.out.forFetcher(n)
	}
	return n, acks
}

func (r *run) release(n int) {
	for range n {
		r.slots <- struct{}{}
	}
}

// pauses is a backoff with jitter: 50 to 100 ms, then twice as long each time,
// up to 5 s.
type pauses struct{ n int }

func (p *pauses) next() time.Duration {
	d := min(firstPause<<min(p.n, 10), longPause)
	p.n++
	return d/2 + rand.N(d/2)
}

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
