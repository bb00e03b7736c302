package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/internal/testdb"
	"github.com/outrider-jobs/outrider/outbox"
)

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	return testdb.Open(t, "sqlite", sqlite.DSN(path))
}

func TestDSN(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a shop? 100%#1.db")
	db := open(t, path)
	for pragma, want := range map[string]string{"busy_timeout": "5000", "synchronous": "1", "wal_autocheckpoint": "0"} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %s and %v, want %s", pragma, got, err, want)
		}
	}
	if _, err := db.Exec("CREATE TABLE t (x)"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestThePlan: what the relay asks all the time reads pending rows only, in order,
// what it writes goes by the primary key, and what schedules ask reads few ticks,
// however many there are.
func TestThePlan(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "shop.db"))
	d, err := sqlite.Dialect("")
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.Init(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	const byID = "SEARCH ojs_outbox USING INTEGER PRIMARY KEY (rowid=?)"
	const byOwner = "SEARCH ojs_outbox_relays USING INDEX sqlite_autoindex_ojs_outbox_relays_1 (owner=?)"
	const byTick = "INDEX sqlite_autoindex_ojs_outbox_ticks_1 "
	fill := strings.NewReplacer("{skip}", " AND NOT (id BETWEEN 3 AND 9)", "{ids}", "1,2", "{by}", "CASE id WHEN 1 THEN 'a' END").Replace
	s := d.Statements()
	for stmt, want := range map[string][]string{
		s.Pending:  {"SCAN ojs_outbox USING INDEX ojs_outbox_pending"},
		s.Sent:     {byID, byOwner},
		s.Relayed:  {byID, byOwner},
		s.Again:    {byID},
		s.Parked:   {byID, byOwner},
		s.Later:    {byID, byOwner},
		s.Delete:   {byID},
		s.Kept:     {"SEARCH ojs_outbox USING INTEGER PRIMARY KEY (rowid>?)"},
		s.TickOf:   {"SEARCH ojs_outbox_ticks USING " + byTick + "(name=? AND at=?)"},
		s.TickSet:  {"SEARCH ojs_outbox_ticks USING " + byTick + "(name=? AND at=?)"},
		s.TickLast: {"SEARCH t USING " + byTick + "(name=?)", "SEARCH o USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"},
		s.TickTrim: {"SEARCH ojs_outbox_ticks USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH a USING INDEX ojs_outbox_ticks_at (at<?)", "SEARCH b EXISTS USING COVERING " + byTick + "(name=? AND at>?)"},
	} {
		if got := plan(t, db, fill(stmt)); !slices.Equal(got, want) {
			t.Errorf("%s\n got %q\nwant %q", stmt, got, want)
		}
	}
}

// plan is how SQLite means to read a statement's tables, and what it sorts.
func plan(t *testing.T, db *sql.DB, stmt string) (steps []string) {
	t.Helper()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+stmt, make([]any, strings.Count(stmt, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
	defer rows.Close()
	for rows.Next() {
		var a, b, c int
		var step string
		if err := rows.Scan(&a, &b, &c, &step); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(step, "SEARCH") || strings.HasPrefix(step, "SCAN") || strings.Contains(step, "B-TREE") {
			steps = append(steps, step)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
