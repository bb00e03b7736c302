package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// An order and the mail about it, or neither.
func ExampleOutbox_Add() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(dir, "shop.db")))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA journal_mode=WAL"); err != nil {
		log.Fatal(err)
	}
	dialect, err := sqlite.Dialect("") // ojs_outbox
	if err != nil {
		log.Fatal(err)
	}
	if err := outbox.Init(ctx, db, dialect); err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	// … write the order with tx …
	ids, err := outbox.New(dialect).Add(ctx, tx, job.Envelope{
		Type:  "email.send",
		Args:  json.RawMessage(`["ada@example.com"]`),
		Queue: "mail",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), "job")

	// Elsewhere: outrider serve --outbox sqlite:./shop.db, or a relay of one's own.
	relay := outbox.NewRelay(db, dialect, newServer(), outbox.RelayOptions{
		OnRelay: func(rows []outbox.Relayed) { fmt.Println("row", rows[0].Row, "is a job:", rows[0].Job == ids[0]) },
	})
	if _, err := relay.Step(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 job
	// row 1 is a job: true
}
