package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Handler runs one attempt of a job. What it returns as result is stored with
// the job: nil is none, a [json.RawMessage] is taken as it is, anything else is
// marshalled. An error fails the attempt, and the job's retry policy decides
// what follows, unless [Discard], [DeadLetter], [NonRetryable] or [RetryAfter]
// say so. A panic fails the attempt like an error.
//
// ctx ends when the job should stop: its timeout has passed, or
// [context.Cause](ctx) is [ErrCancelled], [ErrLeaseLost] or [ErrStopped]. A
// handler is run by many goroutines at once. It must not change j. With ctx it can tell of
// its [Progress] and keep a [Checkpoint], from which the next attempt can [Resume].
type Handler func(ctx context.Context, j *job.Job) (result any, err error)

// Why the context of a handler ended; see [context.Cause].
var (
	// ErrCancelled: somebody cancelled the job. What the handler returns is dropped.
	ErrCancelled = errors.New("the job was cancelled")
	// ErrLeaseLost: the server has given the job to another worker, or is about
	// to. An error that the handler returns is dropped; success is still reported.
	ErrLeaseLost = errors.New("the reservation of the job was lost")
	// ErrStopped: the worker stops and its grace is over. A job whose handler now
	// returns an error is given back untouched, and costs no attempt.
	ErrStopped = errors.New("the worker is stopping")
)

// WorkerOptions change how a Worker works. The zero value is a worker of the
// default queue.
type WorkerOptions struct {
	// Queues to fetch from; those in front come first. None is "default".
	Queues []string
	// Versions says of which types only jobs of some versions are fetched; see
	// [job.NewVersions]. nil is all jobs.
	Versions *job.Versions
	// Concurrency is how many handlers run at once. 0 is 10.
	Concurrency int
	// ID names this worker to the server and to people. It must differ between
	// processes. Empty is host, process id and a random number.
	ID string
	// Heartbeat is the time between two heartbeats. 0 is 5 s.
	Heartbeat time.Duration
	// Visibility is how long a job stays reserved after a fetch or a heartbeat:
	// after that long without one it runs elsewhere. It should be several
	// heartbeats. 0 is 30 s.
	Visibility time.Duration
	// Wait is how long a fetch waits at the server for a job to come. 0 is 20 s,
	// which is the most.
	Wait time.Duration
	// Grace is how long handlers may go on after the worker was told to stop.
	// 0 is 25 s; with the 3 s for giving jobs back that fits into the 30 s
	// that most supervisors allow.
	Grace time.Duration
	// Logger logs what happens, but never args, meta or results. nil is
	// slog.Default().
	Logger *slog.Logger
	// Middleware runs around every handler; nil is none. It may be changed while the
	// worker runs; that takes effect with the next attempt.
	Middleware *Chain
	// Settled is told what came of each attempt, when the server has been told or cannot
	// be. Nil is nobody. It is called by many goroutines at once, each of which holds a
	// place of Concurrency until it returns.
	Settled func(Settled)
	// Labels and Version are shown to people who look at the workers.
	Labels  map[string]string
	Version string
}

func (o *WorkerOptions) fill() {
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), 10)
	o.Heartbeat = cmp.Or(max(o.Heartbeat, 0), 5*time.Second)
	o.Visibility = cmp.Or(max(o.Visibility, 0), 30*time.Second)
	o.Wait = cmp.Or(min(max(o.Wait, 0), maxWait), maxWait)
	o.Grace = cmp.Or(max(o.Grace, 0), 25*time.Second)
	if len(o.Queues) == 0 {
		o.Queues = []string{job.DefaultQueue}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.ID == "" {
		o.ID = newID()
	}
}

// maxWait is the longest wait that a server takes.
const maxWait = 20 * time.Second

// newID is host-pid-random: readable in a list of workers, and new for each process.
func newID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%.200s-%d-%s", strings.ToValidUTF8(host, ""), os.Getpid(), hex.EncodeToString(b[:]))
}

// Worker fetches jobs and runs their handlers. Make one with [NewWorker], give
// it handlers, and call Run.
type Worker struct {
	svc  job.Worker
	opts WorkerOptions

	mu       sync.Mutex // guards the rest
	handlers map[string]Handler
	rest     func(jobType string) Handler
	running  bool
}

// NewWorker makes a Worker of the service: a [Client], or the sidecar in this
// process. Nothing is asked of svc before Run.
func NewWorker(svc job.Worker, opts WorkerOptions) *Worker {
	opts.fill()
	return &Worker{svc: svc, opts: opts, handlers: map[string]Handler{}}
}

// ID is the name under which the worker fetches and beats.
func (w *Worker) ID() string { return w.opts.ID }

// Handle sets the handler of a job type. It panics when the type has one
// already, when h is nil, and while the worker runs: these are mistakes in the
// program.
func (w *Worker) Handle(jobType string, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case jobType == "" || h == nil:
		panic("client: Handle needs a job type and a handler")
	case w.running:
		panic("client: Handle of " + jobType + " while the worker runs")
	case w.handlers[jobType] != nil:
		panic("client: two handlers for " + jobType)
	}
	w.handlers[jobType] = h
}

// HandleRest sets who finds the handler of a job type that has none of its own. Where it
// finds none, which is nil, the job is given back untouched: that costs it no attempt,
// and it may be another worker's. From then on jobs of that type are not fetched any
// more, for as long as Run lasts. Without HandleRest such jobs are failed, as
// handler_not_found.
//
// find is called for each job of such a type, by several goroutines at once. HandleRest
// panics as [Worker.Handle] does.
func (w *Worker) HandleRest(find func(jobType string) Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case find == nil:
		panic("client: HandleRest needs a function")
	case w.running:
		panic("client: HandleRest while the worker runs")
	case w.rest != nil:
		panic("client: HandleRest twice")
	}
	w.rest = find
}

// HandleFunc is Handle for a function that has no result.
func (w *Worker) HandleFunc(jobType string, fn func(ctx context.Context, j *job.Job) error) {
	if fn == nil {
		panic("client: HandleFunc needs a function")
	}
	w.Handle(jobType, func(ctx context.Context, j *job.Job) (any, error) { return nil, fn(ctx, j) })
}

// Run works until ctx ends or the server says "terminate". Then it fetches no
// more, lets the handlers finish for Grace while it goes on beating, cancels
// those that are left with ErrStopped, gives their jobs back untouched, and
// returns nil. On "quiet" it stops fetching and goes on when the server says
// "running" again.
//
// A server that cannot be reached is no error: the worker waits for it. Run
// returns an error at once when the server refuses what the worker asks, such
// as a queue whose name cannot be one, and an error when a handler did not heed
// its context and was left behind. Run may be called again after it has
// returned, but not by two goroutines at once.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.start(); err != nil {
		return err
	}
	defer w.stopped()
	r := newRun(ctx, w)
	defer r.close()
	return r.work(ctx)
}

func (w *Worker) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return job.Errorf(job.Conflict, "worker %s is running already", w.opts.ID)
	}
	w.running = true
	return nil
}

func (w *Worker) stopped() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
}
