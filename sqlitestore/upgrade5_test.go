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

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

//go:embed testdata/schema5.sql
var schema5 string

// ofAge5 makes a file of schema 5 with all that is in a store.
func ofAge5(t *testing.T, from *Store) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "old.db")
	conn := connected(t, path)
	defer conn.Close()
	run(t, conn, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
	run(t, conn, fmt.Sprintf("BEGIN; %s; PRAGMA application_id = %d; PRAGMA user_version = 5; COMMIT", schema5, applicationID))
	run(t, conn, "ATTACH '"+from.path+"' AS new")
	for _, table := range strings1(t, conn, "SELECT name FROM main.sqlite_schema WHERE type = 'table'") {
		columns := strings.Join(strings1(t, conn, "SELECT name FROM pragma_table_info('"+table+"', 'main')"), ", ")
		run(t, conn, "INSERT INTO main."+table+" ("+columns+") SELECT "+columns+" FROM new."+table)
	}
	run(t, conn, "DELETE FROM marks WHERE name = 'identity'; DETACH new; PRAGMA wal_checkpoint(TRUNCATE)")
	return path
}

// A file of schema 5 gets the webhooks beside what it has, and keeps all of that.
func TestTakeOverOfSchema5(t *testing.T) {
	s := opened(t)
	household(t, s)
	path := ofAge5(t, s)
	var told bytes.Buffer
	old, err := Open(t.Context(), path, Options{alone: true, Log: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	if !strings.Contains(told.String(), "from=5 to=6") {
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
		if len(same[0]) != len(same[1]) || len(same[0]) == 0 {
			t.Errorf("%s: %d, want %d", what, len(same[0]), len(same[1]))
		}
	}
	if err := old.Update(t.Context(), func(tx job.Tx) error { return tx.PutWebhook(job.Webhook{ID: "sub_a", Secret: "s"}) }); err != nil {
		t.Error(err)
	}
	storetest.Audit(t, old)
}
