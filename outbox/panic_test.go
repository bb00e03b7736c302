package outbox_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// A middleware of the job server that panics at one row's job costs that row its
// relaying and nobody else's: it is parked with its reason, and the rows beside
// and behind it flow.
func TestARowAtWhichAMiddlewarePanicsIsParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var chain sidecar.Chain
	_ = chain.Add("audit", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		if e.Type == "order.odd" {
			panic("no such customer")
		}
		return next(ctx, e)
	})
	s := sidecar.New(store, sidecar.Options{Middleware: &chain})
	for _, typ := range []string{"order.placed", "order.odd", "order.placed", "order.placed"} {
		w.exec(`INSERT INTO ojs_outbox (job_type, job_args, created_at) VALUES (?, '[]', 1)`, typ)
	}
	w.drain(outbox.NewRelay(w.relayDB, w.d, s, outbox.RelayOptions{Log: slog.New(slog.DiscardHandler)}))
	page, err := s.Jobs(t.Context(), job.Filter{})
	if err != nil || page.Total != 3 {
		t.Errorf("%d jobs, %v", page.Total, err)
	}
	var status, reason string
	if err := w.app.QueryRow(`SELECT status, error FROM ojs_outbox`).Scan(&status, &reason); err != nil || status != "parked" ||
		!strings.Contains(reason, "audit") || !strings.Contains(reason, "no such customer") {
		t.Errorf("the row that is left is %s: %s, %v", status, reason, err)
	}
}

// What panics in a job server or in an observer ends no relay: the batch is
// tried again, and what was sent is not sent twice.
func TestAPanicOutsideEndsNoRelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mail(5)
	w.server.refuse = func(calls int, _ []job.Envelope) error {
		if calls == 1 {
			panic("out of order")
		}
		return nil
	}
	log, observed := new(journal), 0
	r := w.relay(outbox.RelayOptions{Batch: 2, Log: log.log(), OnRelay: func(rs []outbox.Relayed) {
		observed += len(rs)
		panic("an observer")
	}})
	if _, err := r.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("the first step: %v", err)
	}
	w.drain(r)
	if w.count("sent") != 5 || len(w.server.jobs) != 5 || w.server.resends != 0 || observed != 5 {
		t.Errorf("%d rows sent, %d jobs, %d sent again, %d observed", w.count("sent"), len(w.server.jobs), w.server.resends, observed)
	}
	if said := strings.Join(log.all(), "\n"); !strings.Contains(said, "an observer") {
		t.Errorf("the log says %s", said)
	}
}
