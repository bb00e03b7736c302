package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"log/slog"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/outrider-jobs/outrider/job"
)

// What a failed flush means.
//
// The kernel keeps the pages of a file that it could not write, and calls them
// clean. The next flush of that file succeeds and proves nothing. So after one
// flush, or one write of what is moved, has failed
//
//   - nothing more is moved from the log into the database, by any connection:
//     every checkpoint of this package goes through move, SQLite makes none of its
//     own at COMMIT (wal_autocheckpoint is 0; it would swallow the error), and none
//     when the connections close (the last to close is the sentry);
//   - so the log never starts over, and still holds every page that may be
//     missing in the database, until the next start reads it;
//   - nothing more is acknowledged. A commit that was flushed into the log after
//     the database's flush had failed would be safe, as the log is another file and
//     stays; but then a server that has reported its failure would answer with
//     success. The caller learns that the outcome is not known.
//
// docs/durability.md has the order of SQLite's own flushes, on which this rests.

// fault is why nothing can be written any more.
type fault struct {
	err  error // for the callers
	loss loss  // what has become of the files, if that is why
}

// fault is why nothing can be written any more, nil if nothing is wrong.
func (w *writer) fault() error {
	if f := w.broken.Load(); f != nil {
		return f.err
	}
	return nil
}

// doubt notes that the database itself failed: no call of the group has succeeded,
// nor will any that comes after it. Any goroutine may call it. It returns the first
// fault.
func (w *writer) doubt(err error) error { return w.failWith("write", err) }

// failWith is doubt with a text for what was being done when the database failed. If
// the reason is that its files are gone, that is reported instead.
func (w *writer) failWith(doing string, err error) error {
	l, size, any := w.place.lost()
	if l.cut = l.log == there && size >= 0 && size < w.length.Load(); any || l.cut && extended(err) == sqlite3.SQLITE_IOERR_SHORT_READ {
		return w.lose(l)
	}
	return w.fail(fault{err: translate("write", err)},
		fmt.Errorf("the database can no longer be trusted, and nothing more is written or acknowledged; what was acknowledged is read from its log at the next start: %w", translate(doing, err)))
}

// lose notes that the files of the store are not in their place any more.
func (w *writer) lose(l loss) error {
	err := w.place.lossError(l)
	return w.fail(fault{err, l}, err)
}

// fail ends all writing. logged is for the operator.
func (w *writer) fail(f fault, logged error) error {
	if !w.broken.CompareAndSwap(nil, &f) {
		return w.fault() // the first one was enough
	}
	w.troubles.begin(failed, slog.LevelError, logged)
	close(w.failed)
	return f.err
}

// move is checkpoint for a store that has not failed. Nothing else moves pages, so a
// failure of the disk ends the store whoever meant to move them: the checkpointer, the
// writer or the close.
func (w *writer) move(conn driver.Conn, mode string) (pages, moved int64, err error) {
	if err := w.fault(); err != nil {
		return 0, 0, err
	}
	pages, moved, err = checkpoint(conn, mode)
	if fatal(err) {
		err = w.failWith("move what "+w.place.log.path+" holds into "+w.place.db.path, err)
	}
	return pages, moved, err
}

// unsure is the answer to the calls of a commit that failed while it was flushed,
// or after which the store could not be trusted any more.
func unsure(err error) error {
	return job.Errorf(job.Unavailable, "it is not known whether this was kept: the server is at its end, and shows it when it has started again; to ask for the same again with the same id is safe: %w", err)
}

// present reports whether the files of the store are in their place, as far as can
// be seen, and ends the writing if not. size is the length of the log.
func (w *writer) present() (size int64, ok bool) {
	if w.fault() != nil {
		return 0, false
	}
	l, size, any := w.place.lost()
	if any {
		_ = w.lose(l)
	}
	return size, !any
}

// errShrunk is the answer when the log is shorter than it was after the last commit.
var errShrunk = job.Errorf(job.Unavailable, "the log became shorter while this was being done; nothing was done, try again")

// before looks at the log just before a commit is written into it: one that was
// cut since the last would hide behind what is written now. Then the pass is undone and
// made again, as only between transactions can SQLite be asked what it knows of the log.
func (w *writer) before() error {
	if err := w.fault(); err != nil || !looksAreCheap {
		return err
	}
	switch s, size := w.place.log.look(); {
	case s != there:
		w.present()
		return w.fault()
	case size >= 0 && size < w.length.Load():
		return errShrunk
	}
	return nil
}

// after looks at all files when a commit is in the log and nobody knows of it yet.
func (w *writer) after() error {
	if looksAreCheap {
		if size, ok := w.present(); ok && size >= 0 {
			w.measure(size)
		}
	}
	return w.fault()
}

// measure notes the length of the log. It becomes shorter where SQLite, having
// begun it anew, cuts it to its limit, or where another program has moved all of
// it into the database: then SQLite knows of no more pages than fit. Else somebody
// has cut it.
func (w *writer) measure(size int64) {
	if size < w.length.Load() {
		pages, _, err := w.move(w.conn, "NOOP")
		if err != nil {
			w.log.Debug("the length of the log could not be read", "error", err)
			return
		}
		if pages > 0 && size < logHeader+pages*(pageSize+frameHeader) {
			_ = w.lose(loss{cut: true})
			return
		}
	}
	w.length.Store(size)
}
