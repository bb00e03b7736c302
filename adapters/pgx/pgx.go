// Package pgx writes jobs inside a transaction of github.com/jackc/pgx/v5, and
// listens for the commits of others. It may import job, outbox and
// adapters/postgres. It must never decide what becomes of a row (outbox does).
package pgx

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// Tx is what [Add] needs of a transaction. pgx.Tx and *pgxpool.Tx have it. Pools
// and connections, which commit every statement by itself, have no Commit, and
// so do not compile here.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Commit(ctx context.Context) error
}

// Add is [outbox.Outbox.Add] in a transaction of pgx: the jobs exist if and only
// if tx commits, and errors are the same. Nothing is committed here.
//
// What tx.Begin returns is a savepoint. Jobs that were added in it are gone when
// it is rolled back; else they exist if and only if the outermost transaction
// commits. After an error it is enough to roll back the savepoint.
func Add(ctx context.Context, o *outbox.Outbox, tx Tx, es ...job.Envelope) ([]job.ID, error) {
	return o.Add(ctx, execer{tx}, es...)
}

// execer is a Tx in the words of database/sql.
type execer struct{ tx Tx }

func (e execer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := e.tx.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}
