package outbox

import (
	"context"
	"database/sql"
	"time"
)

// patience is how long one statement may take: a connection that is half open
// must not hold the relay for ever.
const patience = 15 * time.Second

// reaching is how long it may take to connect and to look whose outbox it is. Of
// several hosts some may be away, and a connection that waits in the pool may be
// half open, too.
const reaching = 2 * patience

// querier is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// each calls fn for the rows of a query until it says no. doing is what an error says
// of it.
func (r *Relay) each(ctx context.Context, doing string, fn func(*sql.Rows) (more bool, err error), query string, args ...any) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := eachOf(within, r.conn, fn, query, args...); err != nil {
		return r.failed(ctx, doing, err)
	}
	return nil
}

// eachOf is each of any connection. The rows are closed when it returns: a connection
// cannot be dropped before that.
func eachOf(ctx context.Context, from querier, fn func(*sql.Rows) (more bool, err error), query string, args ...any) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() // Err tells of what matters
	for rows.Next() {
		if more, err := fn(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// texts are the rows of a query for one text.
func texts(ctx context.Context, from querier, query string) (all []string, err error) {
	err = eachOf(ctx, from, func(rows *sql.Rows) (bool, error) {
		var s string
		err := rows.Scan(&s)
		all = append(all, s)
		return true, err
	}, query)
	return all, err
}

// change runs a statement and says how many rows it changed. It goes on when ctx
// ends: it is short, and half of it would be none of it.
func (r *Relay) change(ctx context.Context, doing, stmt string, args ...any) (int64, error) {
	if err := r.open(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	n, err := affected(r.conn.ExecContext(ctx, stmt, args...))
	if err != nil {
		return 0, r.failed(ctx, doing, err)
	}
	return n, nil
}

// affected is how many rows a statement has changed.
func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
