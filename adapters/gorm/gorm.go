// Package gorm writes jobs inside a transaction of gorm.io/gorm. It brings no
// driver: any of gorm's will do whose database has an outbox.
package gorm

import (
	"context"

	"gorm.io/gorm"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// Add is [outbox.Outbox.Add] in a transaction of GORM: the jobs exist if and only
// if tx commits, and errors are the same. tx is what db.Transaction gives to its
// function, what db.Begin returns, or what a hook such as AfterCreate is given.
// The dialect of o must be the one of tx's database.
//
// A handle that is not in a transaction is Invalid, and so is a dry run: GORM
// would commit every row by itself, or none, and the promise would be broken
// without a word. A handle on which something has failed already is Unavailable.
// After any error the function must return it, or roll back.
//
// A Transaction in a Transaction is a savepoint. Jobs that were added in it are
// gone when its function returns an error; else they exist if and only if the
// outermost transaction commits. With DisableNestedTransaction there is no
// savepoint, and only the outermost transaction decides.
//
// The rows pass by GORM's callbacks and its log, which would show the args of
// every job.
func Add(ctx context.Context, o *outbox.Outbox, tx *gorm.DB, es ...job.Envelope) ([]job.ID, error) {
	if err := tx.Error; err != nil { // such as that of Begin
		return nil, job.Errorf(job.Unavailable, "write to the outbox in a GORM transaction that has failed already: %w", err)
	}
	if tx.DryRun {
		return nil, job.Errorf(job.Invalid, "this GORM handle is a dry run, which writes no job; add jobs with a handle without DryRun")
	}
	if _, ok := tx.Statement.ConnPool.(gorm.TxCommitter); !ok { // as GORM itself asks
		return nil, job.Errorf(job.Invalid, "this GORM handle is not in a transaction, so a job could exist without what it is about; call Add in db.Transaction(func(tx *gorm.DB) error { … }) and give it that tx")
	}
	return o.Add(ctx, tx.Statement.ConnPool, es...)
}
