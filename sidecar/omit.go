package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// Backtraces says what becomes of the backtraces that workers report. They may
// hold paths, names and addresses of the inside (ojs-core.md §14.2).
type Backtraces string

// What becomes of backtraces. Any other value than these is as OmitBacktraces.
const (
	KeepBacktraces Backtraces = "keep" // they are stored and shown; so is the zero value
	OmitBacktraces Backtraces = "omit" // they are neither stored nor shown, also not those stored before
)

// omitting is a store that no backtrace gets into, and none comes out of. It
// stands before the real one, so that no verb can forget about it.
type omitting struct{ job.Store }

func (o omitting) Update(ctx context.Context, fn func(job.Tx) error) error {
	return o.Store.Update(ctx, func(tx job.Tx) error { return fn(omittingTx{tx}) })
}

func (o omitting) View(ctx context.Context, fn func(job.ReadTx) error) error {
	return o.Store.View(ctx, func(tx job.ReadTx) error { return fn(omittingReadTx{tx}) })
}

type omittingTx struct{ job.Tx }

func (o omittingTx) InsertJob(j *job.Job) error {
	j.OmitBacktraces()
	return o.Tx.InsertJob(j)
}

func (o omittingTx) UpdateJob(j *job.Job) error {
	j.OmitBacktraces()
	return o.Tx.UpdateJob(j)
}

func (o omittingTx) Job(id job.ID) (*job.Job, error) { return bare(o.Tx.Job(id)) }

type omittingReadTx struct{ job.ReadTx }

func (o omittingReadTx) Job(id job.ID) (*job.Job, error) { return bare(o.ReadTx.Job(id)) }

func (o omittingReadTx) Jobs(f job.Filter) (job.Page, error) {
	page, err := o.ReadTx.Jobs(f)
	for _, j := range page.Jobs {
		j.OmitBacktraces()
	}
	return page, err
}

func bare(j *job.Job, err error) (*job.Job, error) {
	if err == nil {
		j.OmitBacktraces()
	}
	return j, err
}
