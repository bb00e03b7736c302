// Go-sqlite is an app on a database of its own, in SQLite with sqlx. An order
// and its job are one transaction: what is sold out leaves neither behind.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // the app's own driver

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

const schema = `CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, email TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS stock  (item TEXT PRIMARY KEY, amount INTEGER NOT NULL);
INSERT INTO stock VALUES ('pen', 2) ON CONFLICT DO NOTHING;`

func main() {
	path := flag.String("db", "shop.db", "file of the app's database")
	server := flag.String("server", "http://127.0.0.1:8080", "where outrider serves")
	flag.Parse()
	var err error
	switch ctx := context.Background(); flag.Arg(0) {
	case "order":
		err = order(ctx, *path, flag.Arg(1))
	case "work":
		err = work(*server)
	default:
		err = fmt.Errorf("say order EMAIL or work, got %q", flag.Arg(0))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func order(ctx context.Context, path, email string) error {
	db, err := sqlx.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	defer db.Close()
	dialect, err := sqlite.Dialect("")
	if err != nil {
		return err
	}
	if err := outbox.Init(ctx, db.DB, dialect); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}

	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	var id, left int
	if err := tx.GetContext(ctx, &id, `INSERT INTO orders (email) VALUES (?) RETURNING id`, email); err != nil {
		return err
	}
	args, err := json.Marshal([]any{id, email})
	if err != nil {
		return err
	}
	if _, err := outbox.New(dialect).Add(ctx, tx, job.Envelope{Type: "order.confirm", Args: args}); err != nil {
		return err
	}
	err = tx.GetContext(ctx, &left, `UPDATE stock SET amount = amount - 1 RETURNING amount`)
	if err == nil && left < 0 {
		err = fmt.Errorf("sold out: no order for %s, and no job", email) // the rollback takes both
	}
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Printf("order %d for %s, and its job\n", id, email)
	return nil
}
