package sidecar_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

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
