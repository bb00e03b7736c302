package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// keptOptions are options of rows, and what the next of the list is changed to.
var keptOptions = []string{``, `{}`, `{"queue":"mail"}`, `{"priority":7}`, `{"timeout_ms":5000}`, `{"visibility_timeout_ms":60000}`, `{"visibility_timeout":"PT2M"}`,
	`{"retry":{"max_attempts":5}}`, `{"retry":{"max_attempts":5,"initial_interval":"PT3S"}}`, `{"max_attempts":4}`, `{"meta":{"a":1}}`, `{"meta":{"a":2,"b":[1]}}`,
	`{"unique":{"keys":["type"],"on_conflict":"ignore"}}`, `{"deduplication":{"id":"one","ttl":5}}`, `{"deduplication":{"id":"two"}}`, `{"job_id":"own"}`,
	`{"tags":["x","y"]}`, `{"specversion":"1.0","x_more":{"b":1,"a":"€"}}`, `{"specversion":"1.0","tags":["x"],"expires_at":"2099-01-02T03:04:05Z"}`, `{"scheduled_at":"2098-01-02T03:04:05Z"}`,
	`{"delay_ms":3600000}`, `{"ttl_ms":3600000}`, `{"pending":true}`, `{"schema":"https://example.com/s"}`, `{"x_anything":true}`}

// TestAKeptRowThatIsSetBack: it is sent once more and adds nothing; with other
// options than its job has it is parked with its reason, as with other args.
func TestAKeptRowThatIsSetBack(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		db.init(t)
		for _, way := range []string{"in process", "over HTTP"} {
			t.Run(way, func(t *testing.T) {
				var to job.Enqueuer
				if way == "in process" {
					store, err := sqlitestore.Open(t.Context(), tempDB(t), sqlitestore.Options{})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = store.Close() })
					to = sidecar.New(store, sidecar.Options{})
				} else {
					url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
					var err error
					if to, err = client.New(url, client.Options{}); err != nil {
						t.Fatal(err)
					}
				}
				d, err := appdb.DialectOf(db.scheme, "")
				if err != nil {
					t.Fatal(err)
				}
				r := outbox.NewRelay(db.DB, d, to, outbox.RelayOptions{Owner: way, Keep: time.Hour, Log: slog.New(slog.DiscardHandler)})
				db.exec(t, "DELETE FROM ojs_outbox", "DELETE FROM ojs_outbox_relays")
				step := func() {
					t.Helper()
					if _, err := r.Step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for i, o := range keptOptions {
					if o == "" {
						db.exec(t, fmt.Sprintf(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('kept.row%d', '[1]')`, i))
					} else {
						db.exec(t, fmt.Sprintf(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('kept.row%d', '[1]', '%s')`, i, o))
					}
				}
				step()
				if n := db.rows(t, "sent"); n != len(keptOptions) {
					t.Fatalf("%d rows are sent, want %d", n, len(keptOptions))
				}
				db.exec(t, "UPDATE ojs_outbox SET status = 'pending'")
				step()
				if n := db.rows(t, "sent"); n != len(keptOptions) {
					t.Errorf("of %d rows as they were %d are sent: %s", len(keptOptions), n, reasons(t, db))
				}
				db.exec(t, "UPDATE ojs_outbox SET status = 'pending', error = NULL")
				for i := range keptOptions {
					to := keptOptions[(i+2)%len(keptOptions)]
					if to == "" {
						to = `{"priority":-3}`
					}
					db.exec(t, fmt.Sprintf(`UPDATE ojs_outbox SET job_options = '%s' WHERE job_type = 'kept.row%d'`, to, i))
				}
				step()
				if n := db.rows(t, "parked"); n != len(keptOptions) {
					t.Errorf("of %d rows that were changed %d are parked: %s", len(keptOptions), n, reasons(t, db))
				}
				if why := reasons(t, db); strings.Count(why, "other options") != len(keptOptions) {
					t.Errorf("the reasons are %s", why)
				}
			})
		}
	})
}

// reasons are the errors of all rows, and their types and statuses.
func reasons(t *testing.T, db *appDB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT job_type, status, coalesce(error, '') FROM ojs_outbox ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() // Err tells of what matters
	var b strings.Builder
	for rows.Next() {
		var typ, status, why string
		if err := rows.Scan(&typ, &status, &why); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n%s %s %s", typ, status, why)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
