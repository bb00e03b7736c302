package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// The writer is the whole engine of the store:
//
//   - one goroutine owns the connection, the statements and the counters;
//   - a group is the call that came and all that were waiting behind it, never more patience than that;
//   - one that fails leaves its neighbours alone: if it has written, the group is
//     undone and runs again, each call in a savepoint;
//   - nobody is answered before COMMIT, the refused neither: a refusal may rest
//     on a neighbour's row that the commit then loses.

const (
	maxGroup = 512                   // calls in one commit
	maxTurn  = 20 * time.Millisecond // work in one commit, so that a reply is never far
	backlog  = 4096                  // calls that may wait
)

type call struct {
	ctx  context.Context
	fn   func(job.Tx) error
	err  error
	done chan error // buffered; the writer never waits for a caller
}

type writer struct {
	calls chan *call
	ended chan struct{} // closed when the goroutine has gone
	conn  driver.Conn
	cold  *sqlx.DB // the same connection, for statements that are not worth preparing
	st    statements
	log   *slog.Logger

	queues map[string]*queueRow // as committed, plus the group that is running
	seq    int64                // last place given in a queue
	events int64                // last Seq given to an event
	cache  cache
	tx     *tx // used again for every group
	path   string
	file   fs.FileInfo // as it was opened
	looked time.Time   // when the file was last seen
	spoilt bool        // the pass that is running must be undone, and made again with care
	finish atomic.Bool // the log is nearly in the file: move the rest, so that it begins anew
	undone error       // why SQLite has rolled the running transaction back by itself
	broken error       // why nothing can be written any more

	committed func() // is told of every commit
}

// run serves calls until the channel is closed and empty.
func (w *writer) run() {
	defer close(w.ended)
	group := make([]*call, 0, maxGroup)
	for first := range w.calls {
		group = append(group[:0], first)
	drain:
		for len(group) < maxGroup {
			select {
			case c, ok := <-w.calls:
				if !ok {
					break drain
				}
				group = append(group, c)
			default:
				break drain
			}
		}
		for rest := group; len(rest) > 0; {
			n, err := w.commit(rest)
			for _, c := range rest[:n] {
				if err != nil {
					c.err = err
				}
				c.done <- c.err
			}
			rest = rest[n:]
		}
		clear(group)
	}
}

// commit runs calls in one transaction until all are done or the turn is over,
// and says how many ran. An error is the answer to all of them.
func (w *writer) commit(calls []*call) (n int, err error) {
	if n, err = w.pass(calls, false); w.spoilt {
		w.spoilt = false
		n, err = w.pass(calls, true)
	}
	return n, err
}

// pass is one attempt at commit. Without care the calls run as they are: a
// savepoint costs each of them a fifth, as SQLite copies every page that changes
// inside one. Then one that fails after it has written spoils the pass, which is
// undone, and the next is made with care. One that fails before it has written
// spoils nothing.
func (w *writer) pass(calls []*call, careful bool) (n int, err error) {
	if w.present(); w.broken != nil {
		return len(calls), w.broken
	}
	if _, err := w.st.begin.exec(); err != nil {
		return len(calls), translate("begin", err)
	}
	tx := w.tx
	tx.reset()
	tx.calls = len(calls)
	start := time.Now()
	for _, c := range calls {
		if n > 0 && time.Since(start) > maxTurn {
			break
		}
		n++
		c.err = w.try(tx, c, careful)
		if w.broken != nil || w.undone != nil || w.spoilt {
			break
		}
	}
	if w.spoilt {
		w.cache.reset() // it may hold what is undone now
		if _, err := w.st.rollback.exec(); err != nil {
			w.spoilt = false
			return n, w.doubt(err)
		}
		return n, nil
	}
	if err = w.broken; err == nil {
		err, w.undone = w.undone, nil
	}
	if err == nil {
		err = tx.flush()
	}
	if err == nil {
		_, err = w.st.commit.exec()
	}
	if err == nil {
		w.shrink(tx.gone)
		w.tidy()
		return n, nil
	}
	return n, w.abandon(err)
}

// tidy does what is left to the writer of the log.
func (w *writer) tidy() {
	w.committed()
	if w.finish.CompareAndSwap(true, false) {
		if _, _, err := checkpoint(w.conn, "PASSIVE"); err != nil {
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
	if err := script(w.conn, "PRAGMA incremental_vacuum(1000)"); err != nil {
		w.log.Warn("the database file could not be made smaller", "error", err)
	}
}

// present looks, once a second, whether the file is still the one that was
// opened. What is written to a file without a name is lost with this process.
func (w *writer) present() {
	now := time.Now()
	if w.broken != nil || now.Sub(w.looked) < time.Second {
		return
	}
	w.looked = now
	st, err := os.Stat(w.path)
	if err == nil && os.SameFile(st, w.file) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = w.doubt(job.Errorf(job.Unavailable, "%s was removed or replaced while it was in use; nothing more is acknowledged, stop the server and put the file back or restore a backup", w.path))
}

// abandon undoes the whole transaction after err.
func (w *writer) abandon(err error) error {
	if fatal(err) && w.broken == nil {
		w.broken = translate("write", err)
		w.log.Error("the database can no longer be trusted, nothing will be written until a restart", "error", err)
	}
	if _, rerr := w.st.rollback.exec(); rerr != nil {
		// SQLite rolls back by itself after some errors; then there is nothing to undo.
		w.log.Debug("rollback", "error", rerr)
	}
	if lerr := w.load(); lerr != nil && w.broken == nil {
		w.broken = translate("read the counters again", lerr)
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
		tx.keep()
		return nil
	}
	cause := tx.failed
	tx.drop()
	if fatal(cause) || fatal(err) {
		return w.doubt(err)
	}
	if rolledBack(cause) {
		w.undone = cause
		return translate("update", cause)
	}
	if !careful {
		w.spoilt = tx.wrote || cause != nil
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

// doubt says that the connection itself failed: no call of the group may be believed.
func (w *writer) doubt(err error) error {
	w.broken = translate("write", err)
	w.log.Error("the database can no longer be trusted, nothing will be written until a restart", "error", err)
	return w.broken
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

// statements are prepared once, on the writer's connection.
type statements struct {
	begin, commit, rollback, savepoint, release, rollbackTo *stmt
	insert, insertPlain, insertFirst, insertFirstPlain      *stmt
	insertTogether, removeSeq                               *stmt
	update, updateKeyed, rewrite, remove                    *stmt
	byID, available, due, nextDue                           *stmt
	heldKey, pastKey, dedupKey, customID                    *stmt
	putQueue, putMark, putEvents                            *stmt
	cronByName, stepCron                                    *stmt
}

func (w *writer) prepare() error {
	for _, p := range []struct {
		into **stmt
		sql  string
	}{
		{&w.st.begin, "BEGIN IMMEDIATE"}, {&w.st.commit, "COMMIT"}, {&w.st.rollback, "ROLLBACK"},
		{&w.st.savepoint, "SAVEPOINT one"}, {&w.st.release, "RELEASE one"}, {&w.st.rollbackTo, "ROLLBACK TO one"},
		{&w.st.insert, insertJob}, {&w.st.insertPlain, insertPlain}, {&w.st.insertFirst, insertFirst}, {&w.st.insertFirstPlain, insertFirstPlain},
		{&w.st.insertTogether, insertTogether}, {&w.st.removeSeq, deleteSeq},
		{&w.st.update, updateJob}, {&w.st.updateKeyed, updateKeyed}, {&w.st.rewrite, rewriteJob},
		{&w.st.remove, deleteJob}, {&w.st.byID, jobByID},
		{&w.st.heldKey, heldKey}, {&w.st.pastKey, pastKey}, {&w.st.dedupKey, dedupKey}, {&w.st.customID, customID},
		{&w.st.available, availableIDs}, {&w.st.due, dueIDs}, {&w.st.nextDue, nextDue},
		{&w.st.putQueue, putQueue}, {&w.st.putMark, putMark}, {&w.st.putEvents, putEvents},
		{&w.st.cronByName, cronByName}, {&w.st.stepCron, stepCron},
	} {
		s, err := prepare(w.conn, p.sql)
		if err != nil {
			return err
		}
		*p.into = s
	}
	return nil
}

// load reads what the writer keeps in memory.
func (w *writer) load() error {
	w.cache.reset()
	w.queues = map[string]*queueRow{}
	var rows []queueRow
	if err := w.cold.Select(&rows, allQueues); err != nil {
		return fmt.Errorf("read the queues: %w", err)
	}
	for i := range rows {
		w.queues[rows[i].Name] = &rows[i]
	}
	w.seq, w.events = 0, 0
	var marks []struct {
		Name  string
		Value int64
	}
	if err := w.cold.Select(&marks, "SELECT name, value FROM marks WHERE name IN ('seq', 'events')"); err != nil {
		return fmt.Errorf("read the marks: %w", err)
	}
	for _, m := range marks {
		switch m.Name {
		case "seq":
			w.seq = m.Value
		case "events":
			w.events = m.Value
		}
	}
	return nil
}

// closeStatements gives the statements back before their connection closes.
func (w *writer) closeStatements() {
	st := w.st
	for _, s := range []*stmt{st.begin, st.commit, st.rollback, st.savepoint, st.release, st.rollbackTo, st.insert, st.insertPlain, st.insertFirst, st.insertFirstPlain,
		st.insertTogether, st.removeSeq, st.update, st.updateKeyed, st.rewrite, st.remove, st.heldKey, st.pastKey, st.dedupKey, st.customID, st.byID, st.available, st.due, st.nextDue, st.putQueue, st.putMark, st.putEvents,
		st.cronByName, st.stepCron} {
		if s != nil {
			_ = s.s.Close() // the connection closes next
		}
	}
}
