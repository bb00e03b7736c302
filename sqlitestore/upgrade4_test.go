package sqlitestore

import (
	"bytes"
	_ "embed"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job/storetest"
)

//go:embed testdata/schema4.sql
var schema4 string

// tables4 are the tables of schema 4.
var tables4 = []string{"job_bodies", "job_states", "queues", "workers", "crons", "events", "marks"}

// ofAge4 makes a file of schema 4 with all that is in a store.
func ofAge4(t *testing.T, from *Store) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "old.db")
	conn := connected(t, path)
	defer conn.Close()
	run(t, conn, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
	run(t, conn, fmt.Sprintf("BEGIN; %s; PRAGMA application_id = %d; PRAGMA user_version = 4; COMMIT", schema4, applicationID))
	run(t, conn, "ATTACH '"+from.path+"' AS new")
	for _, table := range tables4 {
		columns := strings.Join(strings1(t, conn, "SELECT name FROM pragma_table_info('"+table+"', 'main')"), ", ")
		run(t, conn, "INSERT INTO main."+table+" ("+columns+") SELECT "+columns+" FROM new."+table)
	}
	run(t, conn, "DELETE FROM marks WHERE name = 'identity'; DETACH new; PRAGMA wal_checkpoint(TRUNCATE)")
	return path
}

// A file of schema 4 gets what schema 5 has beside it, and keeps every job, event, list
// and key.
func TestTakeOverOfSchema4(t *testing.T) {
	s := opened(t)
	household(t, s)
	path := ofAge4(t, s)
	defer func(before func(string) (uint64, uint64, error)) { spaceFor = before }(spaceFor)
	spaceFor = func(string) (uint64, uint64, error) { return 0, 0, nil } // no rows are written a second time
	var told bytes.Buffer
	old, err := Open(t.Context(), path, Options{alone: true, Log: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	if !strings.Contains(told.String(), "from=4 to=6") {
		t.Errorf("told %q", told.String())
	}
	if got, want := shape(t, old.w.conn), shape(t, s.w.conn); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for what, same := range map[string][2]map[string]string{"rows": {rowsOf(t, old), rowsOf(t, s)}, "answers": {answers(t, old), answers(t, s)}} {
		for name, want := range same[1] {
			if got := same[0][name]; got != want {
				t.Errorf("%s, %s\ngot  %.600s\nwant %.600s", what, name, got, want)
			}
		}
		if len(same[0]) != len(same[1]) {
			t.Errorf("%s: %d, want %d", what, len(same[0]), len(same[1]))
		}
	}
	storetest.Audit(t, old)
}
