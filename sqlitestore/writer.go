package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/outrider-jobs/outrider/job"
)

// The writer is the whole engine of the store:
//
//   - one goroutine owns the connection, the statements and the counters;
//   - a group is the call that came, all that were waiting behind it, and those that come in the first 2 ms of its work;
//   - one that fails leaves its neighbours alone: if it has written, the group is
//     undone and runs again, each call in a savepoint;
//   - nobody is answered before COMMIT, the refused neither: a refusal may rest
//     on a neighbour's row that the commit then loses.

const (
	maxGroup = 512                   // calls in one commit
	maxTurn  = 20 * time.Millisecond // work in one commit, so that a reply is never far
	maxGrown = 2 * time.Millisecond  // work after which no more calls join: all that they have read is held until the commit
	backlog  = 4096                  // calls that may wait
	maxTurns = 16                    // that others get, while no call comes, before a group is closed
)

type call struct {
	ctx  context.Context
	fn   func(job.Tx) error
	err  error
	done chan error // buffered; the writer never waits for a caller
}

type writer struct {
	calls      chan *call
	ended      chan struct{} // closed when the goroutine has gone
	conn       driver.Conn
	unprepared *sqlx.DB // the same connection, for statements that are not worth preparing
	st         statements
	prepared   []*stmt               // all of st
	updates    map[stateUpdate]*stmt // by the columns that they write
	log        *slog.Logger

	queues   map[string]*queueRow // as committed, plus the group that is running
	settings settings             // of queues, as committed
	seq      int64                // last place given in a queue
	events   int64                // last Seq given to an event
	waiting  int64                // jobs with an After, as committed
	cache    cache
	nodes    nodes // of workflows, as committed
	heads    heads
	sifts    sifts
	limits   limits
	tx       *tx          // used again for every group
	lock     *fileLock    // on the database
	stood    time.Time    // when the claim was last looked at
	place    place        // the files as they were opened
	length   atomic.Int64 // of the log after the last commit, in bytes
	mustRedo bool         // the pass that is running must be undone, and made again with care
	torn     bool         // the pass that is running has met a rotten index: undo it, build that anew, and make it again
	undone   error        // why SQLite has rolled the running transaction back by itself

	finish atomic.Bool           // the log is nearly in the file: move the rest, so that it begins anew
	broken atomic.Pointer[fault] // why nothing can be written any more

	suspects  suspects
	gauge     *gauge        // shows what it is at
	wrote     bool          // the pass that is running has changed something
	committed func()        // is told of every commit
	troubles  *troubles     // of the store
	failed    chan struct{} // closed when broken is set
}

// run serves calls until the channel is closed and empty.
func (w *writer) run() {
	defer close(w.ended)
	g := &group{}
	for first := range w.calls {
		g.calls = append(g.calls[:0], first)
		for w.take(g) {
		}
		for done := 0; done < len(g.calls); {
			n, err := w.commit(g, done)
			for _, c := range g.calls[done : done+n] {
				if err != nil {
					c.err = err
				}
				c.done <- c.err
			}
			done += n
			_ = w.mend() // which tells it
		}
		g.crowded = len(g.calls) > 1
		clear(g.calls) // what they point to may go
	}
}

// group is calls that come one after the other and are committed together.
type group struct {
	calls   []*call // in the order in which they came
	crowded bool    // the group before had more than one
}

// take takes a call that waits into the group, if there is one.
func (w *writer) take(g *group) bool {
	if len(g.calls) >= maxGroup {
		return false
	}
	select {
	case c, open := <-w.calls:
		if open {
			g.calls = append(g.calls, c)
		}
		return open
	default:
		return false
	}
}

// more is take while a group runs. A commit costs as much as some calls do: what is in it
// by then need not wait for the next. Where the last group had several, those who were
// answered a moment ago may be about to call again.
func (w *writer) more(g *group) bool {
	if w.take(g) {
		return true
	}
	for turn := 0; g.crowded && turn < maxTurns; turn++ {
		runtime.Gosched()
		if w.take(g) {
			return true
		}
	}
	return false
}

// commit runs the calls of the group from one on in a transaction, until all are done or
// the turn is over, and says how many ran. An error is the answer to all of them.
func (w *writer) commit(g *group, from int) (n int, err error) {
	for careful := false; ; {
		n, err = w.pass(g, from, careful)
		switch {
		case w.torn: // met a second time, mend gives up
			w.torn = false
			if err := w.mend(); err != nil {
				return len(g.calls) - from, err
			}
		case w.mustRedo:
			w.mustRedo, careful = false, true
		default:
			return n, err
		}
	}
}

// pass is one attempt at commit. Without care the calls run as they are: a
// savepoint costs each of them a fifth, as SQLite copies every page that changes
// inside one. Then one that fails after it has written spoils the pass, which is
// undone, and the next is made with care. One that fails before it has written
// spoils nothing.
func (w *writer) pass(g *group, from int, careful bool) (n int, err error) {
	if w.checkLock(); w.fault() != nil {
		return len(g.calls) - from, w.fault()
	}
	defer w.gauge.to(resting)
	w.gauge.to(locking)
	if _, err := w.st.begin.exec(); err != nil {
		return len(g.calls) - from, translate("begin", err)
	}
	w.gauge.to(working)
	w.wrote = false
	tx := w.tx
	tx.reset()
	tx.careful = careful
	start := time.Now()
	for from+n < len(g.calls) || time.Since(start) < maxGrown && w.more(g) {
		if n > 0 && time.Since(start) > maxTurn {
			break
		}
		c := g.calls[from+n]
		n++
		c.err = w.try(tx, c, careful)
		if w.fault() != nil || w.undone != nil || w.mustRedo || w.torn {
			break
		}
	}
	if !w.mustRedo && !w.torn && w.undone == nil && w.fault() == nil {
		if serr := tx.settle(); serr != nil {
			cause := tx.failed
			tx.drop()
			switch {
			case w.showsBadIndex(cause):
				w.torn = true
			case fatal(cause), rolledBack(cause), careful:
				w.undone = serr
			default:
				w.mustRedo = true
			}
		}
	}
	if err = w.before(); errors.Is(err, errShrunk) && !careful && w.undone == nil {
		w.mustRedo = true
	}
	if w.mustRedo || w.torn {
		tx.waits.reset() // nobody is to store it now
		w.forget()       // what is undone now
		if _, err := w.st.rollback.exec(); err != nil {
			w.mustRedo, w.torn = false, false
			return n, w.doubt(err)
		}
		_ = w.after() // the next pass finds what is wrong
		return n, nil
	}
	if err == nil {
		err = w.undone
	}
	w.undone = nil
	if err == nil {
		err = tx.flush()
	}
	if err != nil {
		return n, w.abandon(err)
	}
	w.gauge.to(committing)
	if _, err = w.st.commit.exec(); err != nil {
		return n, w.uncommitted(err)
	}
	w.gauge.done(w.wrote)
	w.shrink(tx.gone)
	w.tidy()
	if err := w.after(); err != nil {
		return n, unsure(err)
	}
	return n, nil
}

// uncommitted undoes a transaction whose COMMIT failed. Where the disk failed its
// frames may be in the log all the same, and be found there by the next start.
func (w *writer) uncommitted(err error) error {
	if fatal(err) {
		_ = w.failWith("flush a commit into "+w.place.log.path, err)
		return unsure(w.abandon(err))
	}
	return w.abandon(err)
}

// tidy does what is left to the writer of the log.
func (w *writer) tidy() {
	w.committed()
	if w.finish.CompareAndSwap(true, false) {
		if _, _, err := w.move(w.conn, "PASSIVE"); err != nil {
			w.log.Debug("the rest of the log could not be moved into the database file", "error", err) // the checkpointer tells
		}
	}
}

// shrink gives pages back to the file system, some at a time, where many jobs
// were deleted: a file that once was large need not stay so.
func (w *writer) shrink(gone int) {
	if gone < 100 {
		return
	}
	if err := script(w.conn, "PRAGMA incremental_vacuum(1000)"); fatal(err) {
		_ = w.doubt(err) // it is a commit like another
	} else if err != nil {
		w.log.Warn("the database file could not be made smaller", "error", err)
	}
}

// checkLock looks, once a second, whether no other server can have come in.
func (w *writer) checkLock() {
	now := time.Now()
	if now.Sub(w.stood) < time.Second {
		return
	}
	w.stood = now
	if err := w.lock.check(); err != nil {
		_ = w.doubt(err)
	}
}

// abandon undoes the whole transaction after err.
func (w *writer) abandon(err error) error {
	w.gauge.refused(err)
	w.tx.waits.reset() // nobody is to store it now
	if fatal(err) {
		_ = w.doubt(err)
	}
	if _, rerr := w.st.rollback.exec(); rerr != nil {
		// SQLite rolls back by itself after some errors; then there is nothing to undo.
		w.log.Debug("rollback", "error", rerr)
	}
	if lerr := w.load(); lerr != nil {
		_ = w.doubt(fmt.Errorf("read the counters again: %w", lerr))
	}
	return translate("write", err)
}

// try runs one call, with care in a savepoint.
func (w *writer) try(tx *tx, c *call, careful bool) error {
	if err := c.ctx.Err(); err != nil {
		return job.Errorf(job.Unavailable, "the caller left before its turn came, nothing was done: %w", err)
	}
	if careful {
		if _, err := w.st.savepoint.exec(); err != nil {
			return w.doubt(err)
		}
	}
	tx.wrote = false
	err := protect(tx, c.fn)
	if err == nil {
		err = tx.failed
	}
	if err == nil {
		if careful {
			if _, err := w.st.release.exec(); err != nil {
				return w.doubt(err)
			}
		}
		w.wrote = w.wrote || tx.wrote
		tx.keep()
		return nil
	}
	cause := tx.failed
	if tx.wrote {
		clear(w.heads) // what left them is back
		clear(w.sifts)
		w.limits.forget()
	}
	tx.drop()
	if w.torn = w.showsBadIndex(cause); w.torn {
		return nil // it runs again
	}
	if fatal(cause) || fatal(err) {
		return w.doubt(err)
	}
	w.noteDamage(err)
	if rolledBack(cause) {
		w.undone = cause
		return translate("update", cause)
	}
	if !careful {
		w.mustRedo = tx.wrote || cause != nil
		return translate("update", err)
	}
	if _, rerr := w.st.rollbackTo.exec(); rerr != nil {
		return w.doubt(rerr)
	}
	if _, rerr := w.st.release.exec(); rerr != nil {
		return w.doubt(rerr)
	}
	return translate("update", err)
}

// protect runs fn and turns its panic into an Internal error: a fault in one
// call must not stop the writer of all.
func protect(tx *tx, fn func(job.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			tx.w.log.Error("a call to the store panicked", "panic", p, "stack", string(debug.Stack()))
			err = job.Errorf(job.Internal, "panic in a store transaction: %v", p)
		}
	}()
	return fn(tx)
}

const countWaiting = `SELECT count(*) FROM job_states WHERE after_id IS NOT NULL`

// forget drops what is remembered of jobs.
func (w *writer) forget() {
	w.cache.reset()
	w.nodes = nil
	clear(w.heads)
	clear(w.sifts)
	w.limits.forget()
}

// load reads what the writer keeps in memory.
func (w *writer) load() error {
	w.forget()
	w.queues = map[string]*queueRow{}
	rows, err := reader{q: w.unprepared}.queues(allQueues)
	if err != nil {
		return fmt.Errorf("read the queues: %w", err)
	}
	for _, q := range rows {
		w.queues[q.Name] = q
	}
	if err := w.loadSettings(); err != nil {
		return fmt.Errorf("read what is set of the queues: %w", err)
	}
	if err := w.unprepared.Get(&w.waiting, countWaiting); err != nil {
		return fmt.Errorf("count the jobs that wait for another: %w", err)
	}
	if err := w.loadLimits(); err != nil {
		return fmt.Errorf("count the jobs that wait for a limit: %w", err)
	}
	if w.seq, err = number(w.conn, lastSeq); err == nil {
		w.events, err = number(w.conn, lastEvent)
	}
	if err != nil {
		return fmt.Errorf("read the last numbers that were given: %w", err)
	}
	return nil
}
