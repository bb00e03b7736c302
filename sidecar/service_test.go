package sidecar_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/servicetest"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// openStore opens a store in a new folder. It is audited and closed behind the test.
func openStore(t *testing.T) *sqlitestore.Store {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			storetest.Audit(t, store)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

// runDuties runs a sidecar until the test is over.
func runDuties(t *testing.T, s *sidecar.Sidecar) {
	t.Helper()
	t.Cleanup(startDuties(t, s))
}

// startDuties runs a sidecar until end is called.
func startDuties(t *testing.T, s *sidecar.Sidecar) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestService(t *testing.T) {
	servicetest.Run(t, func(t *testing.T) job.Service {
		s := sidecar.New(openStore(t), sidecar.Options{})
		runDuties(t, s)
		return s
	})
}

func TestServiceInTime(t *testing.T) {
	servicetest.RunTimed(t, func(t *testing.T) servicetest.Start {
		store := openStore(t)
		return func(now func() time.Time) (job.Service, func()) {
			s := sidecar.New(store, sidecar.Options{Now: now})
			return s, startDuties(t, s)
		}
	})
}
