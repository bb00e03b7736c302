package outbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/outrider-jobs/outrider/internal/outboxsql"
	"github.com/outrider-jobs/outrider/job"
)

// Dialect is the outbox in the SQL of one database. The adapters make them: see
// adapters/sqlite, adapters/postgres and adapters/mysql. What it consists of is no
// promise. The zero Dialect is of no database, and Invalid wherever one is used.
type Dialect struct {
	sql  outboxsql.Statements
	file string // what the program calls the file, which may be a link; empty is what sql.Path returns
}

// NewDialect is for the adapters of this module.
func NewDialect(s outboxsql.Statements) Dialect { return Dialect{sql: s} }

// Statements are the texts, for the adapters of this module and their tests.
func (d Dialect) Statements() outboxsql.Statements { return d.sql }

// Name is the database's: "sqlite", "postgres" or "mysql".
func (d Dialect) Name() string { return d.sql.Name }

// Table is the name of the outbox table.
func (d Dialect) Table() string { return d.sql.Table }

// Schema is the SQL that makes the tables, their indexes and the identity where they
// are missing. Every statement ends in a semicolon and a line feed.
func (d Dialect) Schema() string { return d.sql.Create }

// known refuses the zero Dialect, which has no SQL.
func (d Dialect) known() error {
	if d.sql.Table == "" {
		return job.Errorf(job.Invalid, "the zero Dialect is of no database; use that of adapters/sqlite, adapters/postgres or adapters/mysql")
	}
	return nil
}

// In is the dialect for a database in a file, by the path with which the program
// opens it: that may be a link, which leads to another file one day.
func (d Dialect) In(path string) Dialect {
	d.file = path
	return d
}

// columns are what the statements of any dialect name.
var columns = []string{"id", "job_id", "job_type", "job_args", "job_options", "status",
	"owner", "attempts", "next_try_at", "created_at", "sent_at", "error"}

// Init makes the outbox's tables, their indexes and its identity in one transaction.
// It may be called again, and by several processes: what is there stays. Errors
// are Unavailable, or Unsupported when there is a table of that name that is no
// outbox.
func Init(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := d.known(); err != nil {
		return err
	}
	if err := create(ctx, db, d); err != nil {
		return job.Errorf(job.Unavailable, "make the outbox table %s: %w", d.sql.Table, err)
	}
	if err := Check(ctx, db, d); err != nil {
		return err
	}
	return CheckTicks(ctx, db, d)
}

func create(ctx context.Context, db *sql.DB, d Dialect) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	for _, stmt := range strings.SplitAfter(d.sql.Create, ";\n") {
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
// missing. Unavailable: the database does not answer. What only [Ticks] needs is
// not asked for: see [CheckTicks].
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := d.known(); err != nil {
		return err
	}
	has, err := columnsOf(ctx, db, d)
	if err != nil {
		return job.Errorf(job.Unavailable, "look at the outbox table %s: %w", d.sql.Table, err)
	}
	if len(has) == 0 {
		return job.Errorf(job.NotFound, "the database has no outbox table %s; make it with: outrider outbox init DSN", d.sql.Table)
	}
	for _, c := range columns {
		if !has[c] {
			return job.Errorf(job.Unsupported, "the outbox table %s has no column %s; rename that table or add the column, then run: outrider outbox init DSN", d.sql.Table, c)
		}
	}
	if err := audit(ctx, db, d, d.sql.Audit); err != nil {
		return err
	}
	if _, err := identity(ctx, db, d); err != nil {
		return job.Errorf(job.Unsupported, "the outbox table %s has no identity, from which job ids are made (%w); make it with: outrider outbox init DSN", d.sql.Table, err)
	}
	return nil
}

// CheckTicks says what the outbox lacks for [Ticks], as an outbox does that was
// made before there were any: Unsupported, in one sentence with the command that
// mends it. Unavailable: the database does not answer.
func CheckTicks(ctx context.Context, db *sql.DB, d Dialect) error {
	return audit(ctx, db, d, d.sql.TickAudit)
}

func audit(ctx context.Context, db *sql.DB, d Dialect, questions []string) error {
	for _, question := range questions {
		var missing string
		err := db.QueryRowContext(ctx, question).Scan(&missing)
		if err == nil {
			return job.Errorf(job.Unsupported, "the outbox table %s is not whole: %s", d.sql.Table, missing)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return job.Errorf(job.Unavailable, "look at the outbox table %s: %w", d.sql.Table, err)
		}
	}
	return nil
}

func columnsOf(ctx context.Context, db querier, d Dialect) (map[string]bool, error) {
	rows, err := db.QueryContext(ctx, d.sql.Columns)
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
	if err := db.QueryRowContext(ctx, d.sql.Identity).Scan(&id); err != nil {
		return "", err
	}
	return id, nil
}
