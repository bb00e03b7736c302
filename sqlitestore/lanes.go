package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// Reads have two lanes. What a FETCH or an ACK waits for, and whatever else is
// found by its key, goes through the readers. What may look at all there is (a
// list, a count, the event log) is a scan: a few at once, each for a while at
// most, so that many of them leave a processor to the writer, and a connection to
// the others.
const (
	maxScans = 4               // at once
	scanTime = 5 * time.Second // for one
	scanWait = 8 * time.Second // for its turn: longer than one takes
)

// scans is how many scans may run at once on this machine: one processor is left free.
func scans() int { return min(maxScans, max(1, runtime.GOMAXPROCS(0)-1)) }

// scanning is the lane of the scans.
type scanning struct {
	db    *sqlx.DB
	turns chan struct{} // one in it for each that runs
	wait  time.Duration
	most  time.Duration
	began func() // for tests: called when the turn of one has come
}

// view is one snapshot. It begins with the first question, whose kind decides its lane.
type view struct {
	s    *Store
	ctx  context.Context // of the caller; of the scan, once it is one
	tx   *sqlx.Tx
	scan bool
	stop func()
	err  error // why it could not begin
}

// long announces that what is asked next may look at all there is.
func (v *view) long() error {
	if v.tx != nil || v.err != nil || v.scan {
		return v.err
	}
	l := &v.s.scans
	timeout := time.NewTimer(l.wait)
	defer timeout.Stop()
	select {
	case l.turns <- struct{}{}:
	case <-v.ctx.Done():
		v.err = v.ctx.Err()
		return v.err
	case <-timeout.C:
		v.err = job.Errorf(job.Unavailable, "as many lists and counts are being read as this machine bears, and none of them ended in %s; ask again later, or for less", l.wait)
		return v.err
	}
	v.scan = true
	if l.began != nil {
		l.began()
	}
	v.ctx, v.stop = context.WithTimeoutCause(v.ctx, l.most, errLong)
	return nil
}

var errClosed = job.Errorf(job.Unavailable, "the store is closed, the server is shutting down")

var errLong = errors.New("a scan took too long")

// begin takes the snapshot, once.
func (v *view) begin() error {
	if v.tx != nil || v.err != nil {
		return v.err
	}
	db := v.s.readers
	if v.scan {
		db = v.s.scans.db
	}
	v.tx, v.err = db.BeginTxx(v.ctx, &sql.TxOptions{ReadOnly: true})
	return v.err
}

// end gives everything back.
func (v *view) end() {
	if v.tx != nil {
		_ = v.tx.Rollback() // there is nothing to keep
	}
	if v.scan {
		v.stop()
		<-v.s.scans.turns
	}
}

// Queryx runs under the context of the caller, so that a caller who has left
// keeps neither a connection nor the log in use.
func (v *view) Queryx(query string, args ...any) (*sqlx.Rows, error) {
	if err := v.begin(); err != nil {
		return nil, err
	}
	return v.tx.QueryxContext(v.ctx, query, args...)
}

// View runs fn on a snapshot; see [job.Store].
func (s *Store) View(ctx context.Context, fn func(job.ReadTx) error) error {
	if s.over() {
		return errClosed
	}
	v := &view{s: s, ctx: ctx}
	defer v.end()
	r := reader{q: v}
	err := fn(snapshot{r, r.finder()})
	if err != nil && ctx.Err() != nil {
		return job.Errorf(job.Unavailable, "the caller left while it read: %w", ctx.Err())
	}
	if err != nil && v.scan && context.Cause(v.ctx) == errLong {
		return job.Errorf(job.Unavailable, "what was asked for was not found in %s and is given up, so that others get their turn; ask for less: name a queue, a time (since), or the place to go on from (after, cursor)", s.scans.most)
	}
	if v.err != nil {
		return s.outward(translate("read", v.err))
	}
	s.found(err)
	return s.outward(translate("read", err))
}

// long announces a scan to a view. In the writer it does nothing.
func (r reader) long() error {
	if v, ok := r.q.(*view); ok {
		return v.long()
	}
	return nil
}
