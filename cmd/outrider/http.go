package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// httpServer is an HTTP/1.1 server with a bound on everything a client may
// hold on to. A FETCH may wait 20 s, so the limits of bodies and answers leave
// room for that; handlers that stream move their own deadlines.
func httpServer(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           h,
		ConnContext:       frameContext,
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      90 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	srv.DisableGeneralOptionsHandler = true // OPTIONS * goes the way of all requests, so that it is looked at
	return srv
}

// traffic is what a stop must know of the requests.
type traffic struct {
	busy   atomic.Int64 // requests that are being answered
	worker atomic.Int64 // when a worker last spoke, in nanoseconds since 1970
}

// watched keeps the traffic up to date.
func (t *traffic) watched(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.busy.Add(1)
		defer t.busy.Add(-1)
		if strings.HasPrefix(r.URL.Path, "/ojs/v1/workers/") {
			t.worker.Store(time.Now().UnixNano())
		}
		h.ServeHTTP(w, r)
	})
}

// silentFor is how long no worker has spoken, counted from a time on.
func (t *traffic) silentFor(from time.Time) time.Duration {
	last := time.Unix(0, t.worker.Load())
	if last.Before(from) {
		last = from
	}
	return time.Since(last)
}

// shutdown lets the requests that are being answered finish. [http.Server.Shutdown]
// also waits 5 s for connections that have not sent a request yet; nobody
// waits for those here.
func (t *traffic) shutdown(srv *http.Server) {
	err := shutdownWithin(srv, 300*time.Millisecond)
	if err != nil && t.busy.Load() > 0 {
		err = shutdownWithin(srv, 10*time.Second)
	}
	if err != nil {
		_ = srv.Close() // what is left holds no request, or has had its time
	}
}

func shutdownWithin(srv *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return srv.Shutdown(ctx)
}
