package outbox

import (
	"context"
	"database/sql"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// Dialect is the outbox in the SQL of one database: text, so that a new
// database needs no code here. Placeholders are the database's own, in the
// order that is given with each statement. Times are milliseconds since 1970.
//
// In Sent, Parked, Later and Delete the word {ids} stands for a list of row ids,
// as in "1,2,3". In Pending the word {skip} stands for conditions on id that
// begin with AND, or for nothing.
type Dialect struct {
	Name  string // of the database: "sqlite"
	Table string // "ojs_outbox"

	// Create makes the table, its index and its identity where they are missing.
	// Every statement ends in a semicolon and a line feed.
	Create string
	// Columns returns the names of the table's columns, or no row without a table.
	Columns string
	// Identity returns one text that no other outbox has.
	Identity string

	Insert  string // job_id or NULL, job_type, job_args, job_options
	Pending string // now, limit; returns id, job_id, job_type, job_args, job_options, created_at, attempts by id
	Sent    string // now, tries to add to attempts
	Parked  string // reason, tries
	Later   string // next_try_at, reason, tries
	Kept    string // above this id, limit; returns id, status, sent_at or 0, by id
	Delete  string // no parameter; only rows with status 'sent'

	// Changed returns a number that differs from the one before when another
	// connection has committed. Empty: there is none, and the relay looks for
	// rows instead.
	Changed string
	// Caution is a condition that the relay warns of once.
	Caution Caution
}

// Caution is a query that should answer Good. It is asked once per connection
// at most, and Advice is logged if the answer is another.
type Caution struct {
	Query  string // empty: none
	Good   string
	Advice string // what is wrong, and what to do about it
}

// columns are what the statements of any dialect name.
var columns = []string{"id", "job_id", "job_type", "job_args", "job_options", "status",
	"attempts", "next_try_at", "created_at", "sent_at", "error"}

// Init makes the outbox's table, its index and its identity in one transaction.
// It may be called again, and by several processes: what is there stays. Errors
// are Unavailable, or Unsupported when there is a table of that name that is no
// outbox.
func Init(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := create(ctx, db, d); err != nil {
		return job.Errorf(job.Unavailable, "make the outbox table %s: %w", d.Table, err)
	}
	return Check(ctx, db, d)
}

func create(ctx context.Context, db *sql.DB, d Dialect) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	for _, stmt := range strings.SplitAfter(d.Create, ";\n") {
		if strings.TrimSpace(stmt) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Check says what the outbox lacks, in one sentence with the command that mends
// it. NotFound: there is no table. Unsupported: a column or the identity is
// missing. Unavailable: the database does not answer.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	has, err := columnsOf(ctx, db, d)
	if err != nil {
		return job.Errorf(job.Unavailable, "look at the outbox table %s: %w", d.Table, err)
	}
	if len(has) == 0 {
		return job.Errorf(job.NotFound, "the database has no outbox table %s; make it with: outrider outbox init DSN", d.Table)
	}
	for _, c := range columns {
		if !has[c] {
			return job.Errorf(job.Unsupported, "the outbox table %s has no column %s; rename that table or add the column, then run: outrider outbox init DSN", d.Table, c)
		}
	}
	if _, err := identity(ctx, db, d); err != nil {
		return job.Errorf(job.Unsupported, "the outbox table %s has no identity, from which job ids are made (%w); make it with: outrider outbox init DSN", d.Table, err)
	}
	return nil
}

func columnsOf(ctx context.Context, db querier, d Dialect) (map[string]bool, error) {
	rows, err := db.QueryContext(ctx, d.Columns)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // Err tells of what matters
	has := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		has[name] = true
	}
	return has, rows.Err()
}

// querier is what *sql.DB and *sql.Conn have in common.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// identity reads the text that tells this outbox from all others.
func identity(ctx context.Context, db querier, d Dialect) (string, error) {
	var id string
	if err := db.QueryRowContext(ctx, d.Identity).Scan(&id); err != nil {
		return "", err
	}
	return id, nil
}
