package outboxsql

import (
	"context"
	"database/sql"
	"strings"
)

// Run runs statements that each end in a semicolon and a line feed, in one
// transaction.
func Run(ctx context.Context, db *sql.DB, statements string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	for _, stmt := range strings.SplitAfter(strings.TrimSpace(statements), ";\n") {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return tx.Commit()
}
