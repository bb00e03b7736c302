package outbox

import (
	"context"
	"database/sql"
	"slices"

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

// shared reports whether several relays may work on an outbox side by side.
func (d Dialect) shared() bool { return d.sql.Take != "" }

// perStatement is how many rows one statement changes.
func (d Dialect) perStatement() int {
	if d.shared() {
		return manyRows
	}
	return fewRows
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
	if err := outboxsql.Run(ctx, db, d.sql.Create); err != nil {
		return job.Errorf(job.Unavailable, "make the outbox table %s: %w", d.sql.Table, err)
	}
	if err := Check(ctx, db, d); err != nil {
		return err
	}
	return CheckTicks(ctx, db, d)
}

// Check says what the outbox lacks, in one sentence with the command that mends
// it. NotFound: there is no table. Unsupported: a column or the identity is
// missing. Unavailable: the database does not answer. What only [Ticks] needs is
// not asked for: see [CheckTicks].
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := d.known(); err != nil {
		return err
	}
	has, err := texts(ctx, db, d.sql.Columns)
	if err != nil {
		return job.Errorf(job.Unavailable, "look at the outbox table %s: %w", d.sql.Table, err)
	}
	if len(has) == 0 {
		return job.Errorf(job.NotFound, "the database has no outbox table %s; make it with: outrider outbox init DSN", d.sql.Table)
	}
	for _, c := range columns {
		if !slices.Contains(has, c) {
			return job.Errorf(job.Unsupported, "the outbox table %s has no column %s; rename that table or add the column, then run: outrider outbox init DSN", d.sql.Table, c)
		}
	}
	if err := audit(ctx, db, d, d.sql.Audit); err != nil {
		return err
	}
	if _, err := identity(ctx, db, d); err != nil && ctx.Err() != nil {
		return job.Errorf(job.Unavailable, "look at the outbox table %s: %w", d.sql.Table, err)
	} else if err != nil {
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
		missing, err := texts(ctx, db, question)
		if err != nil {
			return job.Errorf(job.Unavailable, "look at the outbox table %s: %w", d.sql.Table, err)
		}
		if len(missing) > 0 {
			return job.Errorf(job.Unsupported, "the outbox table %s is not whole: %s", d.sql.Table, missing[0])
		}
	}
	return nil
}

// identity reads the text that tells this outbox from all others.
func identity(ctx context.Context, db querier, d Dialect) (id string, err error) {
	err = db.QueryRowContext(ctx, d.sql.Identity).Scan(&id)
	return id, err
}
