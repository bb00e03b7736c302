package sidecar_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// TestTheJobOfARowSaysFromWhichRowItCame: by a relay in this process and by one that
// speaks HTTP, also after the store was opened anew; whatever the app wrote there, and
// sent twice.
func TestTheJobOfARowSaysFromWhichRowItCame(t *testing.T) {
	t.Parallel()
	for name, reach := range map[string]func(*testing.T, *sidecar.Sidecar) job.Enqueuer{
		"in this process": func(_ *testing.T, s *sidecar.Sidecar) job.Enqueuer { return s },
		"over HTTP":       func(t *testing.T, s *sidecar.Sidecar) job.Enqueuer { return over(t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := sqlite.Dialect("")
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "shop.db"))+"&_pragma=journal_mode(WAL)")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := outbox.Init(t.Context(), db, d); err != nil {
				t.Fatal(err)
			}
			const written = 1_800_000_000_123
			for i, options := range []string{`'{}'`, `'{"outbox":"mine","queue":"mail"}'`, `'{"specversion":"1.0.0-rc.1","tags":["a"],"outbox":{"name":"other","row":99}}'`} {
				insert := fmt.Sprintf(`INSERT INTO ojs_outbox (id, job_id, job_type, job_args, job_options, created_at) VALUES (%d, '%s', 'a', '[]', %s, %d)`,
					i+7, originID(i), options, written)
				if _, err := db.Exec(insert); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(t.TempDir(), "o.db")
			store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			to := reach(t, sidecar.New(store, sidecar.Options{Now: func() time.Time { return storetest.Now }}))
			relay := func() *outbox.Relay {
				return outbox.NewRelay(db, d, to, outbox.RelayOptions{Name: "shop", Log: slog.New(slog.DiscardHandler), Owner: "the job server", Keep: time.Hour})
			}
			if n, err := relay().Step(t.Context()); n != 3 || err != nil {
				t.Fatalf("relayed %d: %v", n, err)
			}
			// Set back by a person, and relayed under another name: nothing was changed.
			if _, err := db.Exec(`UPDATE ojs_outbox SET status = 'pending'`); err != nil {
				t.Fatal(err)
			}
			renamed := outbox.NewRelay(db, d, to, outbox.RelayOptions{Name: "renamed", Log: slog.New(slog.DiscardHandler), Owner: "the job server", Keep: time.Hour})
			if n, err := renamed.Step(t.Context()); n != 3 || err != nil {
				t.Fatalf("relayed %d again: %v", n, err)
			}
			var parked int
			if err := db.QueryRow(`SELECT count(*) FROM ojs_outbox WHERE status = 'parked'`).Scan(&parked); err != nil || parked != 0 {
				t.Errorf("%d rows are parked: %v", parked, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			originsAre(t, path, job.Origin{Outbox: "shop", Written: time.UnixMilli(written).UTC()})
		})
	}
}

func originID(i int) job.ID { return job.ID(fmt.Sprintf("01900000-0000-7000-8000-%012d", i)) }

// originsAre opens a store and looks for the origins of its three jobs.
func originsAre(t *testing.T, path string, want job.Origin) {
	t.Helper()
	store, err := sqlitestore.Open(context.Background(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := sidecar.New(store, sidecar.Options{})
	for i := range 3 {
		j, err := s.Job(t.Context(), originID(i))
		if err != nil {
			t.Fatal(err)
		}
		want.Row = int64(i + 7)
		if got, ok := j.Origin(); !ok || got != want {
			t.Errorf("job %d: got %+v, %v, want %+v", i, got, ok, want)
		}
	}
}
