package outbox

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// MadeByInit reports whether [Init] mends a fault of [Faults].
func MadeByInit(fault string) bool {
	return strings.Contains(fault, "make it with: outrider outbox init")
}

// Addition is the statement with which a fault of [Faults] is mended, if all that it
// does is to add an index, or a column that may be NULL: the rows stay what they are.
// Without one it is empty.
func Addition(fault string) string {
	_, stmt, _ := strings.Cut(fault, "; run: ")
	column := strings.HasPrefix(stmt, "ALTER TABLE ") && (strings.Contains(stmt, " ADD COLUMN ") || strings.Contains(stmt, " ADD KEY "))
	if (column || strings.HasPrefix(stmt, "CREATE INDEX ")) && !strings.Contains(stmt, " NOT NULL ") {
		return stmt
	}
	return ""
}

// A probe is a statement that needs a right, and touches no row.
type probe struct{ verb, table, stmt string }

// probes are for what a relay does.
var probes = []probe{
	{"SELECT", "", "SELECT id FROM {table} WHERE id = 0"},
	{"UPDATE", "", "UPDATE {table} SET status = status WHERE id = 0"},
	{"DELETE", "", "DELETE FROM {table} WHERE id = 0"},
	{"SELECT", "_relays", "SELECT owner FROM {table} WHERE owner = ''"},
	{"INSERT", "_relays", "INSERT INTO {table} (owner, until, seen_at, mode) SELECT owner, until, seen_at, mode FROM {table} WHERE owner = ''"},
	{"UPDATE", "_relays", "UPDATE {table} SET sent = sent WHERE owner = ''"},
	{"SELECT", "_identity", "SELECT value FROM {table} WHERE one = 0"},
}

// tickProbes are for what schedules of several servers do besides.
var tickProbes = []probe{
	{"INSERT", "", "INSERT INTO {table} (job_type, job_args) SELECT job_type, job_args FROM {table} WHERE id = 0"},
	{"SELECT", "_ticks", "SELECT name FROM {table} WHERE name = '' AND at = -1"},
	{"INSERT", "_ticks", "INSERT INTO {table} (name, at) SELECT name, at FROM {table} WHERE name = '' AND at = -1"},
	{"UPDATE", "_ticks", "UPDATE {table} SET job_id = job_id WHERE name = '' AND at = -1"},
	{"DELETE", "_ticks", "DELETE FROM {table} WHERE name = '' AND at = -1"},
}

// Faults says all that is wrong with the outbox and with the rights of the relay,
// each with what mends it. It changes nothing. ticks asks for what [Ticks] needs
// besides. An error is Unavailable, or that of [Check].
func Faults(ctx context.Context, db *sql.DB, d Dialect, ticks bool) ([]string, error) {
	questions, rights := d.sql.Audit, probes
	if ticks {
		questions, rights = slices.Concat(questions, d.sql.TickAudit), slices.Concat(rights, tickProbes)
	}
	var faults []string
	for _, question := range questions {
		more, err := texts(ctx, db, question)
		if err != nil && len(faults) == 0 { // a later one may fail for what was found, which tells nothing more
			return nil, job.Errorf(job.Unavailable, "%w", err)
		}
		faults = append(faults, more...)
	}
	if len(faults) > 0 {
		return faults, nil
	}
	if err := Check(ctx, db, d); err != nil {
		return nil, err
	}
	if d.sql.Refused == nil {
		return nil, nil // its audit asks for the rights
	}
	for _, p := range rights {
		table := d.sql.Table + p.table
		_, err := db.ExecContext(ctx, strings.ReplaceAll(p.stmt, "{table}", table))
		if err == nil {
			continue
		}
		fault := d.sql.Refused(err, p.verb, table)
		switch {
		case fault == "":
			return nil, job.Errorf(job.Unavailable, "%s on %s: %w", p.verb, table, err)
		case !slices.Contains(faults, fault):
			faults = append(faults, fault)
		}
	}
	return faults, nil
}
