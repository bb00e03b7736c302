package sqlitestore

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	logPages = 14000                  // in the log before they are moved into the file
	logPause = 200 * time.Millisecond // between two looks at it, while there are commits
	idleLook = 15 * time.Second       // between two looks at the files, while there are none

	pageSize = 4096 // bytes, SQLite's own choice

	patience = 10 * time.Second // with those who keep a lost log from being moved
)

// checkpointer moves what the log holds into the file, on a connection and a
// processor of its own: pages of random keys lie all over the file, and the
// writer would spend a quarter of its time on them. Only the rest, which was
// written meanwhile, is the writer's, as the log starts over when nothing is left
// in it (measured: +30 % pushes with a policy beside a million keys).
type checkpointer struct {
	conn     driver.Conn
	commits  chan struct{} // room for one: there was a commit
	closing  chan struct{}
	ended    chan struct{}
	w        *writer
	log      *slog.Logger
	loggedAt time.Time // when a failure was last logged
}

func (s *Store) startCheckpointer(ctx context.Context, from *connector, log *slog.Logger) error {
	conn, err := from.Connect(ctx)
	if err != nil {
		return err
	}
	s.checkpoints = &checkpointer{conn: conn, commits: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}), w: s.w, log: log}
	s.w.committed = s.checkpoints.committed
	go s.checkpoints.run()
	return nil
}

// committed says that there was a commit. It never waits.
func (c *checkpointer) committed() {
	select {
	case c.commits <- struct{}{}:
	default:
	}
}

// run works until the store closes or fails. A close may be the first to find that the
// files are lost, or may follow the failure at once: what can be saved is saved then too.
func (c *checkpointer) run() {
	defer close(c.ended)
	defer func() {
		if _, ok := c.w.present(); !ok {
			c.rescue()
		}
	}()
	for {
		select {
		case <-c.closing:
			return
		case <-c.w.failed:
			return
		case <-time.After(idleLook):
			c.w.present()
			continue
		case <-c.commits:
		}
		if err := c.look(); err != nil && c.w.fault() == nil && time.Since(c.loggedAt) > time.Minute {
			c.loggedAt = time.Now()
			c.log.Warn("the write-ahead log could not be moved into the database file, and keeps growing; the server keeps trying. If the disk is full, free some space", "error", err)
		}
		select {
		case <-c.closing:
			return
		case <-c.w.failed: // the next round sees to it
		case <-time.After(logPause):
		}
	}
}

// look moves pages if there are many, or any at all if the log should have started
// over long ago but a reader kept it from that. It moves twice: the second pass has few
// pages left to move, and the writer fewer still.
func (c *checkpointer) look() error {
	pages, moved, err := c.w.move(c.conn, "NOOP")
	if err != nil || moved == pages || pages-moved < logPages && pages < 2*logPages {
		return err
	}
	for range 2 {
		if _, _, err := c.w.move(c.conn, "PASSIVE"); err != nil {
			return err
		}
	}
	c.w.finish.Store(true)
	return nil
}

// rescue saves what is only in open files when the names of the store are not its
// own any more: SQLite can still read a log without a name. It moves nothing after
// a flush has failed, nor where all is in files that keep their names.
func (c *checkpointer) rescue() {
	l, p := c.w.broken.Load().loss, c.w.place
	mode := "FULL"
	switch {
	case l.cut || l.db == removed:
		return // there is nothing to move, or nowhere to move it
	case l.db == replaced:
		mode = "TRUNCATE" // the log is not the new file's, and would be applied to it
	case l.log == there:
		return // all is in it
	}
	for began := time.Now(); time.Since(began) < patience; {
		pages, moved, err := checkpoint(c.conn, mode)
		if err != nil {
			c.log.Error("what the log held could not be moved into the database; keep copies of all files, and restore a backup", "database", p.db.path, "error", err)
			return
		}
		if moved == pages && (mode == "FULL" || pages == 0) {
			c.setAside(l)
			c.log.Info("everything that was acknowledged is in the database file; its log is not needed", "database", p.db.path)
			return
		}
		time.Sleep(logPause) // the writer, or a reader, is just leaving
	}
	c.log.Error("not everything in the log could be moved into the database, because another program reads it; keep copies of all files", "database", p.db.path)
}

// setAside gives another name to the file that somebody has put in place of the
// log. The next start would apply it to a database that it is not the log of.
func (c *checkpointer) setAside(l loss) {
	if l.log != replaced || l.db != there {
		return
	}
	from := c.w.place.log.path
	to := from + ".set-aside"
	if _, err := os.Lstat(to); err == nil {
		to += time.Now().UTC().Format("-20060102T150405.000000000")
	}
	if err := os.Rename(from, to); err != nil {
		c.log.Error("the file that was put in place of the log is not the log of this database; move it away before the next start", "file", from, "error", err)
		return
	}
	c.log.Warn("the file that was put in place of the log is not the log of this database, and was given another name", "file", from, "now", to)
}

// stop ends the goroutine and closes its connection.
func (c *checkpointer) stop() error {
	close(c.closing)
	<-c.ended
	return c.conn.Close()
}

// checkpoint moves pages in the given mode, and returns how many the log holds and
// how many of them have been moved. If somebody else is moving pages, it moves none, which is no error.
func checkpoint(conn driver.Conn, mode string) (pages, moved int64, err error) {
	err = query(context.Background(), conn, "PRAGMA wal_checkpoint("+mode+")", func(row []driver.Value) error {
		pages, _ = row[1].(int64)
		moved, _ = row[2].(int64)
		return nil
	})
	return pages, moved, err
}

// post opens the sentry: a connection that may only read, and that is open as long
// as the store. SQLite moves what the log holds when the last connection to a file
// closes, removes the log, and reports no error if that fails. When anything is wrong
// the sentry closes last: it can neither take the lock for that nor write, so the log
// stays as it is, for the next start.
//
// It has read once, which gives it its share of the lock, and never reads again, so
// it blocks nobody.
func post(ctx context.Context, path string) (driver.Conn, error) {
	conn, err := connect(ctx, path, "?mode=ro&_pragma=cache_size(-64)")
	if err != nil {
		return nil, err
	}
	if _, err := number(conn, "SELECT count(*) FROM sqlite_schema"); err != nil {
		return nil, closing(conn, err)
	}
	return conn, nil
}

// renewTail writes the last transaction of the log once more, as it is, and
// flushes it. If the flush of that transaction has failed in the process before,
// the system still shows it, calls it clean and has it nowhere on the disk: then
// what is added behind it now, and acknowledged, would be lost with it at the next
// power cut, as a log is read up to its first gap. All before it was flushed, or
// the process would not have gone on. (Nor may it be moved into the database from
// the system's memory alone: with power cut in the middle of that, the log on the
// disk could not make the database whole again.)
//
// It is called before anything is written. The lock for writing is held, so no
// other program begins the log anew meanwhile.
func renewTail(conn driver.Conn, path string) error {
	pages, _, err := checkpoint(conn, "NOOP")
	if err != nil || pages == 0 {
		return err
	}
	if err := script(conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() { _ = script(conn, "ROLLBACK") }() // nothing was changed
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return job.Errorf(job.Unavailable, "the log %s cannot be read and written; check the owner and the rights of the file: %w", path, err)
	}
	defer f.Close()
	from, to, err := lastTransaction(f, pages)
	if err == nil {
		err = rewrite(f, from, to)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return job.Errorf(job.Unavailable, "the log %s cannot be flushed, so the disk is not to be trusted; nothing was changed, see what the system says of the disk and start again: %w", path, err)
	}
	return nil
}

// lastTransaction is where the last transaction lies in a log of so many frames,
// in bytes. That of the first one begins with the header of the log.
func lastTransaction(log io.ReaderAt, frames int64) (from, to int64, err error) {
	at := func(frame int64) int64 { return logHeader + frame*(frameHeader+pageSize) }
	for first := frames - 1; first > 0; first-- {
		var head [frameHeader]byte
		if _, err := log.ReadAt(head[:], at(first-1)); err != nil {
			return 0, 0, fmt.Errorf("frame %d: %w", first, err)
		}
		if binary.BigEndian.Uint32(head[4:]) != 0 { // the frame before ends a transaction
			return at(first), at(frames), nil
		}
	}
	return 0, at(frames), nil
}

// rewrite writes what stands in a part of a file once more.
func rewrite(f *os.File, from, to int64) error {
	buf := make([]byte, min(to-from, 1<<20))
	for from < to {
		part := buf[:min(int64(len(buf)), to-from)]
		if _, err := f.ReadAt(part, from); err != nil {
			return err
		}
		if _, err := f.WriteAt(part, from); err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}
