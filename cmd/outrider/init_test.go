package main

import (
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/appdb"
)

// TestInitOnOlderTables: what they lack is said with the statements, and only those
// that leave the rows as they are can be run by init itself.
func TestInitOnOlderTables(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		db.init(t)
		db.insert(t, "kept.row")
		db.exec(t, "ALTER TABLE ojs_outbox DROP COLUMN answered_by", "ALTER TABLE ojs_outbox_relays DROP COLUMN epoch",
			"ALTER TABLE ojs_outbox_relays DROP COLUMN upto", "ALTER TABLE ojs_outbox_relays DROP COLUMN host", "DROP TABLE ojs_outbox_ticks")
		if db.scheme == appdb.MySQL {
			db.exec(t, "ALTER TABLE ojs_outbox DROP KEY ojs_outbox_owner")
		}
		said := func(code int, args []string, want ...string) {
			t.Helper()
			o := try(t, nil, append([]string{"outbox"}, args...)...)
			for _, w := range want {
				if o.code != code || !strings.Contains(o.stdout+o.stderr, w) {
					t.Errorf("%q: exit %d, it does not say %q:\n%s%s", args, o.code, w, o.stdout, o.stderr)
				}
			}
		}
		again := "outrider outbox init --alter DSN"
		if db.scheme == appdb.SQLite {
			again = strings.Replace(again, "DSN", db.dsn, 1)
		}
		said(exitFailed, []string{"init", db.dsn}, "ALTER TABLE ojs_outbox ADD COLUMN answered_by ", "ALTER TABLE ojs_outbox_relays ADD COLUMN host ",
			"ALTER TABLE ojs_outbox_relays ADD COLUMN upto ", again)
		said(exitOK, []string{"init", "--alter", db.dsn}, "ran: ALTER TABLE ojs_outbox ADD COLUMN answered_by ", "has the outbox table")
		said(exitOK, []string{"check", "--ticks", db.dsn}, "is ready")
		said(exitOK, []string{"init", "--alter", db.dsn}, "has the outbox table")

		db.exec(t, "ALTER TABLE ojs_outbox_relays RENAME COLUMN sent TO once", "ALTER TABLE ojs_outbox_relays RENAME COLUMN host TO other")
		said(exitFailed, []string{"init", "--alter", db.dsn}, "ADD COLUMN sent ", "ADD COLUMN host ", "nothing was changed")
		said(exitFailed, []string{"check", db.dsn}, "ADD COLUMN sent ", "ADD COLUMN host ")
		if db.rows(t, "pending") != 1 {
			t.Error("the row is gone")
		}

		db.exec(t, "DROP TABLE ojs_outbox", "CREATE TABLE ojs_outbox (id BIGINT PRIMARY KEY, job_type VARCHAR(99) NOT NULL)")
		said(exitFailed, []string{"init", db.dsn}, "ojs_outbox.job_args: the column is missing", "ADD COLUMN status ", "NOT NULL DEFAULT 'pending'", "mend this, then run: outrider outbox init")
	})
}
