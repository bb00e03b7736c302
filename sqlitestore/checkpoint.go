package sqlitestore

import (
	"context"
	"database/sql/driver"
	"log/slog"
	"os"
	"time"
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
// written meanwhile, is the writer's, as the log begins anew when nothing is left
// in it (measured: +30 % pushes with a policy beside a million keys).
type checkpointer struct {
	conn     driver.Conn
	commits  chan struct{} // room for one: there was a commit
	closing  chan struct{}
	ended    chan struct{}
	w        *writer
	log      *slog.Logger
	loggedAt time.Time // when it was last told that this fails
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

// run works until the store closes or fails. The close may come first to a log that is
// lost, or at once behind the failure: what can be saved is saved then as well.
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

// look moves pages if there are many, or any of a log that has not begun anew in
// its time, as somebody has read it. The second time there are few, and the writer
// is left with fewer still.
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

// checkpoint moves pages as the mode says, and tells how many the log holds and
// how many of them have been moved. One that somebody else is doing is none of ours.
func checkpoint(conn driver.Conn, mode string) (pages, moved int64, err error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")", nil)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	dest := make([]driver.Value, 3)
	if err := rows.Next(dest); err != nil {
		return 0, 0, err
	}
	pages, _ = dest[1].(int64)
	moved, _ = dest[2].(int64)
	return pages, moved, nil
}
