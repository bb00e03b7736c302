package netguard

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// NewServer is an HTTP/1.1 server with a bound on everything a client may
// hold on to. A FETCH may wait 20 s, so the limits of bodies and answers leave
// room for that; handlers that stream move their own deadlines.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           h,
		ConnContext:       connContext,
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      90 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	srv.DisableGeneralOptionsHandler = true // so that OPTIONS * is checked like all other requests
	return srv
}

// Guard returns ln for srv, bounded: there are never more than most connections, an
// idle one gives way to a new one, and the heads of requests are kept for [Clear].
// setting is what an operator raises to have more, as the log and a caller who is
// refused are told.
func Guard(srv *http.Server, ln net.Listener, most int, setting string, log *slog.Logger) net.Listener {
	l := limit(framed{late{&fileLimit{Listener: ln, log: log}, new(lookout)}}, most, FilesAllowed(), setting, log)
	srv.ConnState = l.state
	return l
}

// Traffic is what a shutdown must know about the requests.
type Traffic struct {
	busy   atomic.Int64 // requests that are being answered
	worker atomic.Int64 // when a worker last spoke, in nanoseconds since 1970
}

// Watch keeps the Traffic up to date.
func (t *Traffic) Watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.busy.Add(1)
		defer t.busy.Add(-1)
		if strings.HasPrefix(r.URL.Path, "/ojs/v1/workers/") {
			t.WorkerSpoke()
		}
		h.ServeHTTP(w, r)
	})
}

// WorkerSpoke notes that a worker has said something now.
func (t *Traffic) WorkerSpoke() { t.worker.Store(time.Now().UnixNano()) }

// SilentFor is how long no worker has spoken, counted from from at the earliest.
func (t *Traffic) SilentFor(from time.Time) time.Duration {
	last := time.Unix(0, t.worker.Load())
	if last.Before(from) {
		last = from
	}
	return time.Since(last)
}

// Shutdown lets the requests that are being answered finish. It does not wait for
// connections that have not sent a request yet, for which [http.Server.Shutdown] waits
// 5 s.
func (t *Traffic) Shutdown(srv *http.Server) {
	err := shutdownWithin(srv, 300*time.Millisecond)
	if err != nil && t.busy.Load() > 0 {
		err = shutdownWithin(srv, 10*time.Second)
	}
	if err != nil {
		_ = srv.Close() // what is left has no request, or has had its time
	}
}

func shutdownWithin(srv *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return srv.Shutdown(ctx)
}
