package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

var errSoldOut = errors.New("sold out: no order, and no job")

type shop struct {
	db     *sql.DB
	outbox *outbox.Outbox
}

// order is one transaction: the order, its job and a pen less, or nothing.
func (s *shop) order(ctx context.Context, email string) (id int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // after Commit it does nothing
	err = tx.QueryRowContext(ctx, `INSERT INTO orders (email) VALUES ($1) RETURNING id`, email).Scan(&id)
	if err != nil {
		return 0, err
	}
	args, _ := json.Marshal([]any{id, email}) // a number and a text never fail
	if _, err := s.outbox.Add(ctx, tx, job.Envelope{Type: "order.confirm", Args: args}); err != nil {
		return 0, err
	}
	var left int
	err = tx.QueryRowContext(ctx, `UPDATE stock SET amount = amount - 1 RETURNING amount`).Scan(&left)
	if err == nil && left < 0 {
		err = errSoldOut // the rollback takes the order and the job
	}
	if err != nil {
		return 0, err
	}
	return id, tx.Commit()
}
