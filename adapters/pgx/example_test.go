package pgx_test

import (
	"context"
	"encoding/json"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	jobspgx "github.com/outrider-jobs/outrider/adapters/pgx"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// An order and the mail about it, or neither.
func ExampleAdd() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://shop@127.0.0.1:5432/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	dialect, err := postgres.Dialect("") // ojs_outbox, made by: outrider outbox init DSN
	if err != nil {
		log.Fatal(err)
	}
	jobs := outbox.New(dialect)

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (email) VALUES ($1)", "ada@example.com"); err != nil {
			return err
		}
		_, err := jobspgx.Add(ctx, jobs, tx, job.Envelope{
			Type: "email.send",
			Args: json.RawMessage(`["ada@example.com"]`),
		})
		return err
	})
	if err != nil {
		log.Fatal(err) // there is no order, and no job
	}
}
