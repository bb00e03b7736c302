package outbox_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// loosen makes the columns of SQLite take NULL, as a table of one's own may.
func (w *world) loosen() {
	w.t.Helper()
	w.exec(`DROP TABLE ojs_outbox`)
	w.exec(`CREATE TABLE ojs_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT, job_type TEXT, job_args TEXT, job_options TEXT,
		status TEXT DEFAULT 'pending', owner TEXT, attempts INTEGER DEFAULT 0, next_try_at INTEGER DEFAULT 0, created_at INTEGER, sent_at INTEGER, error TEXT, answered_by TEXT)`)
	w.init()
}

// TestImpossibleNumbers: whatever stands in the columns of one row holds nothing
// up, neither the rows beside it nor, where it can be a job, the row itself.
func TestImpossibleNumbers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const most = "9223372036854775807"
		values := map[string][]string{"attempts": {"-1", "-9223372036854775808", most}, "created_at": {"-1", most, "0"}, "next_try_at": {"-1"}}
		if w.d.Name() == "sqlite" {
			w.loosen()
			for _, column := range []string{"attempts", "created_at", "next_try_at"} {
				values[column] = append(values[column], "NULL", "'many'", "'12x'", "-1e300", "x'00ff'", "''")
			}
			values["attempts"] = append(values["attempts"], "1e300")
			values["created_at"] = append(values["created_at"], "1e300", "1.5")
			values["job_options"] = []string{"NULL", "''"}
		}
		if w.d.Name() == "mysql" {
			w.exec(`ALTER TABLE ojs_outbox MODIFY attempts BIGINT UNSIGNED NOT NULL DEFAULT 0, MODIFY created_at BIGINT UNSIGNED NOT NULL DEFAULT 1`)
			const unsigned = "18446744073709551615"
			values["attempts"], values["created_at"] = []string{most, unsigned}, []string{most, unsigned}
		}
		rows := 0
		fill := func() {
			for _, typ := range []string{"shop.ordered", "No Type", "shop.slow"} {
				for column, all := range values {
					for _, v := range all {
						w.exec(fmt.Sprintf(`INSERT INTO ojs_outbox (job_type, job_args, %s) VALUES ('%s', '[]', %s)`, column, typ, v))
						rows++
					}
				}
			}
			w.commit(w.write(0, 3))
			rows += 3
		}
		slow := true
		w.server.refuse = func(_ int, es []job.Envelope) error {
			for i, e := range es {
				if e.Type == "shop.slow" && slow {
					err := job.Errorf(job.Conflict, "not now")
					err.Details = map[string]any{"index": i}
					return err
				}
			}
			return nil
		}
		for _, o := range []outbox.RelayOptions{{}, {Keep: -1}} {
			rows, slow = 0, true
			fill()
			r := w.relay(o)
			w.drain(r)
			if s := w.status(); s.Pending != int64(rows-3)/3 || s.Parked != int64(rows-3)/3 || s.Taken != 0 {
				t.Fatalf("of %d rows: %+v", rows, s)
			}
			slow = false
			w.exec(`UPDATE ojs_outbox SET next_try_at = 0`)
			w.drain(r)
			if s := w.status(); s.Pending != 0 {
				t.Fatalf("of %d rows: %+v", rows, s)
			}
			if list, err := outbox.ParkedRows(t.Context(), w.app, w.d, 0, 1000); err != nil || len(list) != (rows-3)/3 {
				t.Errorf("%d rows are listed, %v", len(list), err)
			}
			w.exec(`DELETE FROM ojs_outbox`)
		}
		p := w.pod(t, disk(t), onComplete)
		for column, all := range values {
			for _, v := range all {
				w.exec(fmt.Sprintf(`INSERT INTO ojs_outbox (job_type, job_args, %s) VALUES ('email.send', '[]', %s)`, column, v))
			}
		}
		w.exec(`UPDATE ojs_outbox_relays SET until = 1`)
		step(t, p.relay)
		s := w.status()
		if s.Relayed == 0 || s.Relayed != w.rows() {
			t.Errorf("not all are relayed: %+v", s)
		}
		p.work(t, int(s.Relayed))
		step(t, p.relay)
		if n := w.rows(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// TestOneImpossibleTimeHidesNoLag: the oldest row that waits is one with a time.
func TestOneImpossibleTimeHidesNoLag(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.commit(w.write(0, 2))
		w.exec(`UPDATE ojs_outbox SET created_at = -5 WHERE id = 1`)
		w.exec(`UPDATE ojs_outbox SET created_at = created_at - 60000 WHERE id = 2`)
		if s := w.status(); s.Pending != 2 || s.Lag.Seconds() < 59 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestStatusesThatAreNone are counted by themselves.
func TestStatusesThatAreNone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.commit(w.write(0, 6))
		w.exec(`UPDATE ojs_outbox SET status = 'PENDING' WHERE id = 1`)
		w.exec(`UPDATE ojs_outbox SET status = '' WHERE id = 2`)
		w.exec(`UPDATE ojs_outbox SET status = 'relayed', owner = NULL WHERE id = 3`)
		w.exec(`UPDATE ojs_outbox SET status = 'taken', owner = 'x' WHERE id = 4`)
		w.exec(`UPDATE ojs_outbox SET status = 'relayed', owner = 'x' WHERE id = 5`)
		want := map[string]bool{"PENDING": true, "": true, "relayed by nobody": true}
		if w.d.Name() == "sqlite" {
			want["taken"] = true // by relays side by side
		}
		s := w.status()
		for _, stray := range s.Strays {
			if !want[stray.Status] || stray.Rows != 1 {
				t.Errorf("got %+v", stray)
			}
		}
		if len(s.Strays) != len(want) || s.Pending != 1 || s.Relayed != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestOwnersWithoutALease: rows of an owner that is not in the table of relays, or
// was buried there, are freed; those of one that comes back in time are its own.
func TestOwnersWithoutALease(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		dead, alive := w.pod(t, disk(t), onComplete), w.pod(t, disk(t), onComplete)
		w.commit(w.write(0, 5))
		step(t, dead.relay)
		if n := w.status().Relayed; n != 5 {
			t.Fatalf("%d rows are relayed", n)
		}
		if w.d.Statements().Take != "" {
			w.exec(`INSERT INTO ojs_outbox (job_type, job_args, status, owner) VALUES ('email.send', '[]', 'taken', 'a ghost')`)
		}
		for i, how := range []string{`DELETE FROM ojs_outbox_relays WHERE owner = '` + dead.store.Identity() + `'`,
			`UPDATE ojs_outbox_relays SET until = 0 WHERE owner = '` + dead.store.Identity() + `'`} {
			w.exec(how)
			if w.d.Statements().Take != "" {
				step(t, alive.relay)
				if n := w.arrived(alive); n != 0 {
					t.Fatalf("%d rows were taken from a job server that had no time to come back", n)
				}
				if i == 0 {
					dead.ahead += lease / 2
					step(t, dead.relay) // it was alive
					alive.ahead += lease / 2
					step(t, alive.relay)
					if n := w.arrived(alive); n != 0 {
						t.Fatalf("%d rows of a job server that lives were taken", n)
					}
					continue
				}
				alive.watch(t, 1)
				w.exec(`UPDATE ojs_outbox_relays SET until = 2 WHERE owner <> '` + alive.store.Identity() + `'`)
				alive.watch(t, 3)
				if n := w.arrived(alive); n != 0 {
					t.Fatalf("%d rows were taken before a lease was over", n)
				}
			}
			break
		}
		alive.watch(t, 1)
		w.until("the rows are taken over", func() bool { step(t, alive.relay); return w.arrived(alive) >= 5 })
		said := strings.Join(alive.log.all(), "")
		if !strings.Contains(said, "not in the table of relays") || !strings.Contains(said, "has not renewed its lease") {
			t.Errorf("the log says %s", said)
		}
	})
}

// TestThePlanOfOwners: those that have rows are found by their index, however
// many rows there are, and no row is read.
func TestThePlanOfOwners(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		tx, err := w.app.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			if _, err := tx.Exec(fmt.Sprintf(`INSERT INTO ojs_outbox (job_type, job_args, status, owner) VALUES ('a.b', '[]', 'relayed', 'owner-%d'), ('a.b', '[]', 'pending', NULL)`, i%3)); err != nil {
				t.Fatal(err)
			}
		}
		w.commit(tx)
		for _, analyze := range map[string][]string{"postgres": {"SELECT 1", "ANALYZE ojs_outbox"}, "mysql": {"DO 0", "ANALYZE TABLE ojs_outbox"}, "sqlite": {"SELECT 1", "ANALYZE"}}[w.d.Name()] {
			w.exec(analyze)
			explain := map[string]string{"sqlite": "EXPLAIN QUERY PLAN "}[w.d.Name()]
			plan := w.plan(cmp.Or(explain, "EXPLAIN ") + strings.NewReplacer("$1", "'owner-1'", "?", "'owner-1'").Replace(w.d.Statements().Holder))
			want := map[string]string{"postgres": "using ojs_outbox_owned on ojs_outbox ", "mysql": "|ojs_outbox|range|ojs_outbox_owner|ojs_outbox_owner|", "sqlite": "SEARCH ojs_outbox USING INDEX ojs_outbox_owned (owner>?)"}[w.d.Name()]
			if !strings.Contains(plan, want) || strings.Contains(plan, "Sort") || strings.Contains(plan, "filesort") || strings.Contains(plan, "B-TREE") {
				t.Errorf("after %q the plan is\n%s", analyze, plan)
			}
		}
	})
}

// plan is what a database says of a query, a line for each step.
func (w *world) plan(query string) string {
	w.t.Helper()
	rows, err := w.app.Query(query)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close() // Err tells of what matters
	columns, err := rows.Columns()
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			w.t.Fatal(err)
		}
		for _, v := range values {
			switch is := (*v.(*any)).(type) {
			case []byte:
				fmt.Fprintf(&b, "|%s", is)
			default:
				fmt.Fprintf(&b, "|%v", is)
			}
		}
		b.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// TestTheCustomIDOfARow stands in flat options and in nested ones.
func TestTheCustomIDOfARow(t *testing.T) {
	w := newWorld(t)
	for _, options := range []string{`{"job_id":"rebuild"}`, `{"jobId":"rebuild"}`, `{"specversion":"1.0","job_id":"rebuild"}`,
		`{"specversion":"1.0","jobId":"rebuild"}`, `{"specversion":"1.0","options":{"job_id":"rebuild"}}`} {
		w.exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('a.b', '[]', ?)`, options)
	}
	w.drain(w.relay(outbox.RelayOptions{}))
	if n, _, _ := w.server.sizes(); n != 5 || w.count("parked") != 0 {
		t.Fatalf("%d jobs, %d parked", n, w.count("parked"))
	}
	for id, e := range w.server.jobs {
		if e.CustomID != "rebuild" {
			t.Errorf("%s has the custom id %q", id, e.CustomID)
		}
	}
}
