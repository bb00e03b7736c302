// Quickstart embeds Outrider in a Go program: one database for the app, one
// file for the jobs, no other process. An order and its job commit together.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the app's own driver

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

func main() {
	dir, err := os.MkdirTemp("", "quickstart-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(context.Background(), dir, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, out io.Writer) error {
	// The app's database, with the outbox table in it.
	shop, err := sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer shop.Close()
	dialect, err := sqlite.Dialect("")
	if err != nil {
		return err
	}
	if err := outbox.Init(ctx, shop, dialect); err != nil {
		return err
	}

	// The job server: a file, the service over it, and what it does by itself.
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "outrider.db"), sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	jobs := sidecar.New(store, sidecar.Options{})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go jobs.Run(ctx)
	go outbox.NewRelay(shop, dialect, jobs, outbox.RelayOptions{}).Run(ctx)

	// The app: what it writes and the job it asks for are one transaction.
	tx, err := shop.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY, email TEXT);
		INSERT INTO orders VALUES (1, 'ada@example.com')`); err != nil {
		return err
	}
	_, err = outbox.New(dialect).Add(ctx, tx, job.Envelope{Type: "order.confirm", Args: []byte(`[1, "ada@example.com"]`)})
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	// The worker: the same code works in another process, with client.New(url) in place of jobs.
	worker := client.NewWorker(jobs, client.WorkerOptions{})
	worker.HandleFunc("order.confirm", func(_ context.Context, j *job.Job) error {
		defer stop() // one order is all there is
		var id int
		var email string
		if err := client.Args(j, &id, &email); err != nil {
			return client.Discard(err)
		}
		_, err := fmt.Fprintf(out, "order %d: mail to %s\n", id, email)
		return err
	})
	return worker.Run(ctx)
}
