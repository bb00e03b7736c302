package outbox_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	mysqloutbox "github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/internal/testdb"
	"github.com/outrider-jobs/outrider/outbox"
)

// onEach runs a test on an outbox of each database, those that share first.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("postgres", func(t *testing.T) { test(t, postgresWorld(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, mysqlWorld(t)) })
	t.Run("sqlite", func(t *testing.T) { test(t, newWorld(t)) })
}

// onShared is onEach for what only relays side by side do.
func onShared(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("postgres", func(t *testing.T) { test(t, postgresWorld(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, mysqlWorld(t)) })
}

// postgresWorld is an outbox in a schema of its own, which is dropped behind the test.
func postgresWorld(t testing.TB) *world {
	t.Helper()
	return sharedWorld(t, testdb.Postgres(t).String(), postgres.Dialect, openPGX)
}

// mysqlWorld is an outbox in a database of its own, which is dropped behind the test.
func mysqlWorld(t testing.TB) *world {
	t.Helper()
	return sharedWorld(t, testdb.MySQL(t).FormatDSN(), mysqloutbox.Dialect, mysqlOpen)
}

func sharedWorld(t testing.TB, dsn string, dialect func(string) (outbox.Dialect, error), open func(testing.TB, string) *sql.DB) *world {
	t.Helper()
	d, err := dialect("")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, path: dsn, d: d, server: newServer(), app: open(t, dsn), relayDB: open(t, dsn)}
	w.init()
	return w
}

func (w *world) init() {
	w.t.Helper()
	if err := outbox.Init(w.t.Context(), w.app, w.d); err != nil {
		w.t.Fatal(err)
	}
}

// again opens the database once more, as another process does.
func (w *world) again() *sql.DB {
	w.t.Helper()
	switch w.d.Name() {
	case "postgres":
		return openPGX(w.t, w.path)
	case "mysql":
		return mysqlOpen(w.t, w.path)
	}
	return w.relayDB
}

func openPGX(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // as behind a pooler of transactions
	return closed(t, stdlib.OpenDB(*c))
}

func mysqlOpen(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	return closed(t, testdb.Open(t, "mysql", dsn))
}

func closed(t testing.TB, db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(16)
	t.Cleanup(func() { _ = db.Close() }) // the test is over
	return db
}

// insertSQL is the statement of an app without a library.
func (w *world) insertSQL() string {
	if w.d.Name() == "postgres" {
		return `INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', $1)`
	}
	return `INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', ?)`
}

// write inserts rows n to m-1 in one transaction, which the caller ends.
func (w *world) write(n, m int) *sql.Tx {
	w.t.Helper()
	tx, err := w.app.Begin()
	if err != nil {
		w.t.Fatal(err)
	}
	for i := n; i < m; i++ {
		if _, err := tx.Exec(w.insertSQL(), fmt.Sprintf(`["ada@example.com",%d]`, i)); err != nil {
			w.t.Fatal(err)
		}
	}
	return tx
}

func (w *world) commit(tx *sql.Tx) {
	w.t.Helper()
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) status() outbox.Status {
	w.t.Helper()
	s, err := outbox.Inspect(w.t.Context(), w.app, w.d, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// rows is how many rows there are, whatever their status.
func (w *world) rows() int64 {
	s := w.status()
	n := s.Pending + s.Taken + s.Relayed + s.Sent + s.Parked
	for _, stray := range s.Strays {
		n += stray.Rows
	}
	return n
}

// TestRowsBecomeJobs: what commits is a job, once, in the order of the ids, and
// its row goes; what is rolled back is none.
func TestRowsBecomeJobs(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.commit(w.write(0, 300))
		if err := w.write(300, 310).Rollback(); err != nil {
			t.Fatal(err)
		}
		w.commit(w.write(310, 320))
		r := outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Batch: 70})
		w.drain(r)
		args := w.server.args()
		if len(args) != 310 || args[0] != `["ada@example.com",0]` || args[309] != `["ada@example.com",319]` {
			t.Errorf("%d jobs, from %s to %s", len(args), args[0], args[len(args)-1])
		}
		if n := w.rows(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if _, resends, _ := w.server.sizes(); resends != 0 {
			t.Errorf("%d rows were sent twice", resends)
		}
	})
}

// TestASequenceGap: a row with a low id that commits late is not passed over.
func TestASequenceGap(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		late := w.write(0, 1)
		w.commit(w.write(1, 3))
		r := outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{})
		w.drain(r)
		if n, _, _ := w.server.sizes(); n != 2 {
			t.Fatalf("%d jobs before the late commit, want 2", n)
		}
		w.commit(late)
		w.drain(r)
		if n, _, _ := w.server.sizes(); n != 3 {
			t.Errorf("%d jobs after it, want 3", n)
		}
	})
}

// TestTwoRelays: side by side they share the rows, and send none twice.
func TestTwoRelays(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		const rows = 3000
		for i := 0; i < rows; i += 500 {
			w.commit(w.write(i, i+500))
		}
		var stops []func()
		for range 2 {
			r := outbox.NewRelay(w.again(), w.d, w.server, outbox.RelayOptions{Batch: 50, Log: new(journal).log()})
			stops = append(stops, run(t, r))
		}
		w.until("all rows are gone", func() bool { return w.rows() == 0 })
		for _, stop := range stops {
			stop()
		}
		if n, resends, _ := w.server.sizes(); n != rows || resends != 0 {
			t.Errorf("%d jobs and %d resends, want %d and 0", n, resends, rows)
		}
	})
}

// until waits for something that must happen, however slow the machine is.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	end := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(end) {
			w.t.Fatalf("it never came about that %s: %+v", what, w.status())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestPoisonAtTheHead: a thousand rows that can never be jobs are parked, and those behind them flow.
func TestPoisonAtTheHead(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		tx := w.write(0, 0)
		bad := strings.Replace(w.insertSQL(), "email.send", "No Type", 1)
		for range 1000 {
			if _, err := tx.Exec(bad, `[]`); err != nil {
				t.Fatal(err)
			}
		}
		w.commit(tx)
		w.commit(w.write(0, 10))
		r := outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Log: new(journal).log()})
		w.drain(r)
		if n, _, _ := w.server.sizes(); n != 10 {
			t.Errorf("%d jobs, want 10", n)
		}
		if s := w.status(); s.Parked != 1000 || s.Pending != 0 {
			t.Errorf("got %+v", s)
		}
		parked, err := outbox.ParkedRows(t.Context(), w.app, w.d, 0, 2000)
		if err != nil || len(parked) != 1000 || !strings.Contains(parked[0].Reason, "type must") || parked[0].Type != "No Type" {
			t.Errorf("%d parked, %v, %+v", len(parked), err, parked[0])
		}
		w.exec(`UPDATE ojs_outbox SET job_type = 'email.send' WHERE id = ` + fmt.Sprint(parked[3].ID))
		if n, err := outbox.Replay(t.Context(), w.app, w.d, parked[3].ID); n != 1 || err != nil {
			t.Errorf("replayed %d, %v", n, err)
		}
		w.drain(r)
		if n, err := outbox.Discard(t.Context(), w.app, w.d); n != 999 || err != nil {
			t.Errorf("discarded %d, %v", n, err)
		}
		if n, _, _ := w.server.sizes(); n != 11 || w.rows() != 0 {
			t.Errorf("%d jobs, want 11; %d rows, want 0", n, w.rows())
		}
	})
}

// TestABacklogIsNotSorted: PostgreSQL reads the first of many pending rows by
// their index, also while it takes the outbox for an empty table.
func TestABacklogIsNotSorted(t *testing.T) {
	w := postgresWorld(t)
	w.exec(`ALTER TABLE ojs_outbox SET (autovacuum_enabled = off)`)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args) SELECT 'email.send', '[]' FROM generate_series(1, 20000)`)
	plan := func(setting string) (all string) {
		tx, err := w.app.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec(setting); err != nil {
			t.Fatal(err)
		}
		rows, err := tx.Query(`EXPLAIN `+w.d.Statements().Pending, time.Now().UnixMilli(), 500)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			all += line + "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if p := plan(w.d.Statements().Ordered); strings.Contains(p, "Sort") || !strings.Contains(p, "ojs_outbox_pending") {
		t.Errorf("the plan of a batch is\n%s", p)
	}
	if p := plan(`SET LOCAL enable_sort = on`); !strings.Contains(p, "Sort") {
		t.Logf("this PostgreSQL needs no advice:\n%s", p)
	}
}
