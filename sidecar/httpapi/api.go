// Package httpapi serves any job.Service over HTTP, in the binding of Open Job
// Spec 1.0.0-rc.1.
//
// A handler decodes its request, calls one method of the service and encodes
// what comes back. It returns its error; [api.fail] is the only place that
// answers with one. What a body looks like is said in internal/wire.
//
// Timeouts, limits of headers and the listener are affairs of the http.Server.
package httpapi

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Options are the settings of [New]. The zero value works: it answers under
// loopback names only, and logs to slog.Default.
type Options struct {
	Hosts        []string         // host names, without ports, that are allowed beside the loopback ones
	Version      string           // of this program, for the manifest; empty: "devel"
	Backend      string           // of the store, for the manifest; empty: "sqlite"
	Log          *slog.Logger     // nil: slog.Default()
	Now          func() time.Time // nil: time.Now
	NewRequestID func() string    // nil: "req_" and a UUIDv7
	Outboxes     []Outbox         // that are relayed in this process; each has a name of its own
	Memory       *Budget          // that bodies take; nil: one of DefaultBudget

	// Admit is asked about each request before all else: what it returns is the
	// answer, unless it is nil. It may set headers of the answer. Nil admits all.
	Admit func(http.ResponseWriter, *http.Request) error
}

func (o Options) withDefaults() Options {
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Memory == nil {
		o.Memory = NewBudget(0)
	}
	if o.Backend == "" {
		o.Backend = "sqlite"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewRequestID == nil {
		now := o.Now
		o.NewRequestID = func() string {
			r := rand.Uint64()
			b := wire.AppendUUID(append(make([]byte, 0, 40), "req_"...), now(), uint16(rand.Uint64()), r)
			return string(b)
		}
	}
	return o
}

// New makes the handler that serves svc. It starts nothing. The handler may be
// used by many goroutines at once.
//
// A batch over HTTP is refused whole when one of its ids is stored already. A
// service that can refuse that in one transaction says so with a method
// EnqueueNew, which is Enqueue but for answering any stored id with Duplicate.
func New(svc job.Service, opts Options) http.Handler {
	opts = opts.withDefaults()
	return &meter{newEcho(svc, opts), opts.Memory}
}

type api struct {
	Options
	svc       job.Service
	enqueue   func(context.Context, ...job.Checked) ([]job.Receipt, error)
	unhealthy atomic.Bool // the last who asked was told so
}

func newEcho(svc job.Service, opts Options) *echo.Echo {
	a := &api{Options: opts.withDefaults(), svc: svc, enqueue: svc.EnqueueChecked}
	if s, ok := svc.(interface {
		EnqueueNew(context.Context, ...job.Checked) ([]job.Receipt, error)
	}); ok {
		a.enqueue = s.EnqueueNew
	}
	e := echo.New()
	e.HTTPErrorHandler = a.fail
	e.Pre(a.enter)
	v1 := e.Group("/ojs/v1")
	a.jobs(v1)
	a.workers(v1)
	a.directives(v1)
	a.queues(v1)
	a.unique(v1)
	a.crons(v1)
	a.deadLetters(v1)
	a.events(v1)
	a.outboxes(v1)
	a.system(e)
	return e
}

// adder is a router or a group of one.
type adder interface {
	GET(string, echo.HandlerFunc, ...echo.MiddlewareFunc) *echo.Route
	HEAD(string, echo.HandlerFunc, ...echo.MiddlewareFunc) *echo.Route
}

// get registers h for GET, and for HEAD, whose body [api.send] leaves out.
func get(g adder, path string, h echo.HandlerFunc) {
	g.GET(path, h)
	g.HEAD(path, h)
}
