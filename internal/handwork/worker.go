package handwork

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

// Options say what a worker does, for whom, and how it tells of it. Mappings is all that
// is needed.
type Options struct {
	Mappings    Mappings
	Queues      []string      // to take jobs from, the first comes first; none is "default"
	Concurrency int           // jobs at once; 0 is 10
	ID          string        // of the worker; empty is a new one
	Grace       time.Duration // how long a stop waits for commands; 0 is 25 s
	UntilEmpty  bool          // end when no job is available and none is under way

	WholeJob bool // commands read the job as it is in place of its args

	Access  Access     // what commands are told of the server
	Environ []string   // what commands inherit; see docs/work.md for what they do not
	Secret  job.Secret // signs requests; empty: they are not signed
	Guard   []string   // words that make this program call [Guard]; none: no guard

	Lines   io.Writer    // a line for each job; nil: none
	Screen  term.Screen  // they are printed on
	News    io.Writer    // what a person should know beside them
	Stderr  io.Writer    // what commands print on standard error; nil: not shown
	Log     *slog.Logger // nil is slog.Default()
	Version string
}

// Tally counts what came of the jobs of a worker.
type Tally struct {
	Completed, Retried, Discarded, Dropped, GivenBack int
}

// worker is a worker that runs.
type worker struct {
	o      Options
	http   *http.Client
	groups *groups
	print  *printer
}

// Run takes jobs from the server until ctx ends, or the server tells it to end, or, with
// UntilEmpty, there are none. Then it waits for Grace for what is under way, stops that
// and gives its jobs back; no process is left of any command when it returns. A server
// that cannot be reached is waited for, but with UntilEmpty is an error. The other errors
// are those of [client.Worker.Run].
func Run(ctx context.Context, svc job.Worker, o Options) (Tally, error) {
	g, err := startGuard(o.Guard)
	if err != nil {
		return Tally{}, err
	}
	defer g.close()
	w := &worker{o: o, http: newHTTP(max(o.Concurrency, 10)), groups: newGroups(g), print: newPrinter(o)}
	defer w.groups.close()
	defer w.http.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &watched{Worker: svc, o: o, print: w.print, stop: stop, busy: map[string]bool{}}
	options := client.WorkerOptions{Queues: o.Queues, Concurrency: o.Concurrency, ID: o.ID, Grace: o.Grace, Logger: o.Log, Version: o.Version,
		Labels: map[string]string{"program": "outrider work"}, Settled: func(did client.Settled) {
			w.print.settled(did)
			s.settled(did.Job)
		}}
	if o.UntilEmpty {
		options.Wait = emptyTime
	}
	worker := client.NewWorker(s, options)
	worker.HandleRest(w.find)
	w.print.started(worker.ID())
	err = worker.Run(ctx)
	if err == nil {
		err = s.unreachable()
	}
	return w.print.tally(), err
}

// find is what does the jobs of a type, or nil.
func (w *worker) find(jobType string) client.Handler {
	m := w.o.Mappings.Find(jobType)
	switch {
	case m == nil:
		w.print.unmapped(jobType)
		return nil
	case m.URL != "":
		return func(ctx context.Context, j *job.Job) (any, error) { return w.post(ctx, m, j) }
	}
	return func(ctx context.Context, j *job.Job) (any, error) { return w.command(ctx, m, j) }
}
