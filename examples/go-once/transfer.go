package main

import (
	"context"
	"fmt"
	"os"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/once"
)

// transfer is the handler. The record that the job is done is in the same
// transaction as what it did, so there is never one without the other.
func (b bank) transfer(ctx context.Context, j *job.Job) error {
	var from, to string
	var amount int64
	if err := client.Args(j, &from, &to, &amount); err != nil {
		return client.DeadLetter(err) // for a person to look at
	}
	tx, err := b.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	first, err := once.Record(ctx, tx, j)
	if err != nil {
		return err
	}
	if !first {
		fmt.Printf("attempt %d: it was done before\n", j.Attempt)
		return nil // so that it is acknowledged at last
	}
	if _, err := tx.ExecContext(ctx, tx.Rebind(`UPDATE account SET balance = balance - ? WHERE owner = ?`), amount, from); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, tx.Rebind(`UPDATE account SET balance = balance + ? WHERE owner = ?`), amount, to); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Printf("attempt %d: moved %d from %s to %s\n", j.Attempt, amount, from, to)
	if b.crash {
		die()
	}
	return nil // and now the worker acknowledges
}

// die is kill -9 of this process: nothing is tidied up, nobody is told.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
