// Package httpapi serves any job.Service over HTTP, in the binding of Open Job
// Spec 1.0.0-rc.1.
//
// A handler decodes its request, calls one method of the service and encodes
// what comes back. It returns its error; [api.fail] is the only place that
// answers with one. What bodies look like is up to internal/wire.
//
// Timeouts, limits of headers and the listener are up to the http.Server.
package httpapi

import (
	"cmp"
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
	Hosts        []string         // further host names that are allowed, without ports; loopback names always are
	Version      string           // of this program, for the manifest; empty: "devel"
	Backend      string           // of the store, for the manifest; empty: "sqlite"
	Log          *slog.Logger     // nil: slog.Default()
	Now          func() time.Time // nil: time.Now
	NewRequestID func() string    // nil: "req_" and a UUIDv7
	Outboxes     []Outbox         // that this process relays; their names must differ
	Memory       *Budget          // that bodies take; nil: one of DefaultBudget
	Streams      *Streams         // the live streams; nil: NewStreams(0)

	// Admit is asked about each request before anything else. If it returns an error,
	// that is the answer. It may set headers of the answer. Nil admits all.
	Admit func(http.ResponseWriter, *http.Request) error
}

func (o Options) withDefaults() Options {
	o.Version, o.Backend = cmp.Or(o.Version, "devel"), cmp.Or(o.Backend, "sqlite")
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Memory == nil {
		o.Memory = NewBudget(0)
	}
	if o.Streams == nil {
		o.Streams = NewStreams(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewRequestID == nil {
		now := o.Now
		o.NewRequestID = func() string {
			return string(wire.AppendUUID(append(make([]byte, 0, 40), "req_"...), now(), uint16(rand.Uint64()), rand.Uint64()))
		}
	}
	return o
}

// New makes the handler that serves svc. It starts nothing. The handler may be
// used by many goroutines at once.
//
// A batch over HTTP is refused whole when one of its ids is stored already. A
// service that can refuse it in one transaction has a method EnqueueNew, which is
// EnqueueChecked but answers any stored id with Duplicate.
func New(svc job.Service, opts Options) http.Handler {
	opts = opts.withDefaults()
	return &meter{newEcho(svc, opts), opts.Memory}
}

type api struct {
	Options
	svc       job.Service
	enqueue   func(context.Context, ...job.Checked) ([]job.Receipt, error)
	started   time.Time
	unhealthy atomic.Bool // as the latest health check was told
	feeds     feeds
	times     times
}

func newEcho(svc job.Service, opts Options) *echo.Echo {
	a := &api{Options: opts.withDefaults(), svc: svc, enqueue: svc.EnqueueChecked, times: usual}
	a.started = a.Now()
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
	a.progress(v1)
	a.schemas(v1)
	a.workers(v1)
	a.roster(v1)
	a.directives(v1)
	a.queues(v1)
	a.bulk(v1)
	a.unique(v1)
	a.crons(v1)
	a.workflows(v1)
	a.limits(v1)
	a.tenants(v1)
	a.pools(v1)
	a.deadLetters(v1)
	a.events(v1)
	a.streams(v1)
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
