package sidecar_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/servicetest"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// A caller cannot tell whether a service is in its process or behind HTTP.
func TestServiceOverHTTP(t *testing.T) {
	servicetest.Run(t, func(t *testing.T) job.Service {
		s := sidecar.New(openStore(t), sidecar.Options{})
		runDuties(t, s)
		server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
		t.Cleanup(server.Close)
		c, err := client.New(server.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	})
}

func TestServiceOverHTTPInTime(t *testing.T) {
	servicetest.RunTimed(t, func(t *testing.T) servicetest.Start {
		store := openStore(t)
		return func(now func() time.Time) (job.Service, func()) {
			s := sidecar.New(store, sidecar.Options{Now: now})
			end := startDuties(t, s)
			pipes := &pipeListener{conns: make(chan net.Conn), shut: make(chan struct{})}
			handler := httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)})
			server := &httptest.Server{Listener: pipes, Config: &http.Server{Handler: handler}}
			server.Start()
			transport := &http.Transport{DialContext: pipes.dial}
			c, err := client.New(server.URL, client.Options{HTTP: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatal(err)
			}
			return c, func() {
				c.Close()
				transport.CloseIdleConnections()
				server.Close()
				end()
			}
		}
	})
}
