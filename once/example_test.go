package once_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/once"
)

// A payment is booked once, however often its job is delivered.
func ExampleRecord() {
	ctx := context.Background()
	db, clean := openBank(ctx)
	defer clean()

	book := func(ctx context.Context, j *job.Job) error {
		var amount int
		if err := client.Args(j, &amount); err != nil {
			return client.DeadLetter(err)
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after Commit it does nothing
		first, err := once.Record(ctx, tx, j)
		if err != nil {
			return err
		}
		if !first {
			fmt.Println("booked before")
			return nil // so that the job is acknowledged
		}
		if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + ?`, amount); err != nil {
			return err
		}
		return tx.Commit() // the booking and the record of it, together
	}

	// The worker booked, and died before its ACK was heard: the job comes again.
	j := &job.Job{Envelope: job.Envelope{ID: "019539a4-b68c-7def-8000-1a2b3c4d5e6f", Type: "payment.book", Args: json.RawMessage(`[100]`)}}
	for range 2 {
		if err := book(ctx, j); err != nil {
			log.Fatal(err)
		}
	}
	var balance int
	if err := db.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance", balance)
	// Output:
	// booked before
	// balance 100
}

// openBank makes the app's own database, with the table of Record in it.
func openBank(ctx context.Context) (db *sql.DB, clean func()) {
	dir, err := os.MkdirTemp("", "bank")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", filepath.Join(dir, "bank.db"))
	if err != nil {
		log.Fatal(err)
	}
	if err := once.Create(ctx, db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE account AS SELECT 0 AS balance`); err != nil {
		log.Fatal(err)
	}
	return db, func() {
		_ = db.Close() // the folder goes, too
		_ = os.RemoveAll(dir)
	}
}
