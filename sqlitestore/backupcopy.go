package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// How a store is opened for reading: one that others may be writing to, so that nothing is written and nothing is
// moved from the log at the close; and a file that nobody changes, beside which then none is made.
const (
	whileWritten = "?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=temp_store(2)&_pragma=cache_size(-2000)"
	atRest       = whileWritten + "&immutable=1"
)

// copyStore copies one snapshot of a store into a file.
//
// It copies the bytes of the database, and then those of its log, while a read transaction is open, and has SQLite apply the one to the
// other in the copy. That holds, as long as the transaction does, because of what SQLite does for its readers (its wal.c): from
// the log nothing is moved into the database but what the reader may see, which stands in the log still, so that whatever
// is half moved in the copy is put right; and a log that a reader needs is not begun anew. Where the reader needs none of it, nothing is moved into the
// database at all, and a log that was begun anew meanwhile belongs to it as it was copied. (SQLite's own backup, page
// by page through two caches, took three times the processor time, and that from the server.)
func copyStore(ctx context.Context, path, params string, part *partFile, o BackupOptions) error {
	db, err := os.Open(path)
	if err != nil {
		return unreadableFile(path, err)
	}
	defer db.Close() // behind the connection: to close a descriptor of the file takes SQLite's locks away
	if err := copyFiles(ctx, db, path, params, part, o); err != nil {
		return err
	}
	return gentle(func() error { return applyLog(ctx, part.name) })
}

// copyFiles copies the database and its log while a read transaction is open.
func copyFiles(ctx context.Context, db *os.File, path, params string, part *partFile, o BackupOptions) (err error) {
	conn, err := connect(ctx, path, params)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, conn.Close()) }()
	if err := script(conn, "BEGIN"); err != nil {
		return err
	}
	if _, err := number(conn, "SELECT count(*) FROM sqlite_schema"); err != nil { // the snapshot begins
		return err
	}
	c := &copying{ctx: ctx, o: o, began: time.Now()}
	st, err := db.Stat()
	if err != nil {
		return unreadableFile(path, err)
	}
	c.all = st.Size()
	log, err := os.Open(path + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return unreadableFile(path+"-wal", err)
	default:
		defer log.Close()
		if st, err = log.Stat(); err != nil {
			return unreadableFile(log.Name(), err)
		}
		c.all += st.Size()
	}
	if err := roomForCopy(part.name, c.all); err != nil {
		return err
	}
	if err := c.file(db, part.File, math.MaxInt64); err != nil || log == nil {
		return err
	}
	return c.log(log, part.name+"-wal")
}

// copying copies at the rate that was asked for.
type copying struct {
	ctx       context.Context
	o         BackupOptions
	began     time.Time
	done, all int64
}

// file copies bytes up to the end of a file, or as many as there should be at most.
func (c *copying) file(from, to *os.File, most int64) error {
	began := c.done
	for left, flushed := most, c.done; left > 0; {
		n, err := io.CopyN(to, from, min(stepBytes, left))
		if c.done, left = c.done+n, left-n; err != nil && err != io.EOF {
			return translateCopy(from.Name(), to.Name(), err)
		}
		if c.o.Progress != nil {
			c.o.Progress("copy", min(c.done, c.all), c.all)
		}
		if err == io.EOF {
			break
		}
		if c.done-flushed >= flushBytes {
			if err := writeOut(to, flushed-began, c.done-flushed); err != nil {
				return translateCopy(from.Name(), to.Name(), err)
			}
			flushed = c.done
		}
		wait := time.Duration(0)
		if c.o.Rate > 0 {
			wait = time.Duration(float64(c.done)/float64(c.o.Rate)*float64(time.Second)) - time.Since(c.began)
		}
		if err := rest(c.ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// log copies the log as far as it goes now. If it is begun anew meanwhile the copy is of two logs, and is made again.
func (c *copying) log(from *os.File, name string) error {
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|noSurprise, 0o600)
	if err != nil {
		return translateCopy(from.Name(), name, err)
	}
	defer to.Close()
	for range 10 {
		var before, after [logHeader]byte
		_, berr := from.ReadAt(before[:], 0)
		st, err := from.Stat()
		if err == nil {
			_, err = from.Seek(0, io.SeekStart)
		}
		if err == nil {
			_, err = to.Seek(0, io.SeekStart)
		}
		if err == nil {
			err = to.Truncate(0)
		}
		if err == nil {
			err = c.file(from, to, st.Size())
		}
		if err != nil {
			return err
		}
		_, aerr := from.ReadAt(after[:], 0)
		if before == after && berr == aerr {
			return nil
		}
	}
	return job.Errorf(job.Unavailable, "the log %s is begun anew again and again while it is copied; try again, without --rate", from.Name())
}

// translateCopy says which file a copy has failed at.
func translateCopy(from, to string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return job.Errorf(job.Unavailable, "the disk of %s is full: free some, or choose another place. Nothing is left of the copy: %w", to, err)
	}
	return job.Errorf(job.Unavailable, "copy %s to %s: %w", from, to, err)
}

// applyLog moves what the copied log holds into the copy, alone with it.
func applyLog(ctx context.Context, name string) error {
	conn, err := connect(ctx, name, "?_pragma=locking_mode(EXCLUSIVE)&_pragma=synchronous(0)&_pragma=wal_autocheckpoint(0)&_pragma=cache_size(-2000)")
	if err != nil {
		return err
	}
	pages, moved, err := checkpoint(conn, "TRUNCATE")
	if err == nil && (pages > 0 || moved > 0) {
		err = fmt.Errorf("of the log of the copy %d pages are left", pages)
	}
	return cmp.Or(err, conn.Close())
}

// rest waits for d, if that is positive, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
