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

// Setting is one setting of a server, as an operator may see it.
type Setting = wire.Setting

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
	Settings     []Setting        // of this server, without secrets, as an operator may see them
	Webhooks     Webhooks         // that this process keeps; nil: it keeps none
	Memory       *Budget          // that bodies take; nil: one of DefaultBudget
	Streams      *Streams         // the live streams; nil: NewStreams(0)

	// Access knows who may ask what. With nil whoever can reach the server may use it.
	Access *Access
	// QueryToken lets the token of a stream stand in the query, as ?token=…, for browsers,
	// which can set no header there. It may be seen in the history of one, and in the log of a proxy.
	QueryToken bool
	// PeerUser is the number of the user at the other end of a unix socket. Nil knows none.
	PeerUser func(*http.Request) (user int, ok bool)
	// Origins are those of web pages that may use the server, as a browser writes them:
	// https://dashboard.example.
	Origins []string
	// TLS says that the server is asked by https.
	TLS bool
	// AnyAddress lets each IP address be the Host of a request, for a server that is reached from other
	// machines. A name must be one of Hosts.
	AnyAddress bool

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
	named     [][2]string // the endpoints of the manifest
	feeds     feeds
	times     times
}

func newEcho(svc job.Service, opts Options) *echo.Echo { return newAPI(svc, opts).router() }

func newAPI(svc job.Service, opts Options) *api {
	a := &api{Options: opts.withDefaults(), svc: svc, enqueue: svc.EnqueueChecked, times: usual}
	a.started = a.Now()
	if s, ok := svc.(interface {
		EnqueueNew(context.Context, ...job.Checked) ([]job.Receipt, error)
	}); ok {
		a.enqueue = s.EnqueueNew
	}
	return a
}
