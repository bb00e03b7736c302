package sqlitestore

import (
	"context"
	"database/sql/driver"
	"log/slog"
	"time"
)

const (
	logPages = 14000                  // in the log before they are moved into the file
	logPause = 200 * time.Millisecond // between two looks at it, while there are commits
)

// checkpointer moves what the log holds into the file, on a connection and a
// processor of its own: pages of random keys lie all over the file, and the
// writer would spend a quarter of its time on them. Only the rest, which was
// written meanwhile, is the writer's, as the log begins anew when nothing is left
// in it (measured: +30 % pushes with a policy beside a million keys).
type checkpointer struct {
	conn    driver.Conn
	commits chan struct{} // room for one: there was a commit
	closing chan struct{}
	ended   chan struct{}
	w       *writer
	log     *slog.Logger
	told    time.Time // when it was last told that this fails
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

func (c *checkpointer) run() {
	defer close(c.ended)
	for {
		select {
		case <-c.closing:
			return
		case <-c.commits:
		}
		if err := c.look(); err != nil && time.Since(c.told) > time.Minute {
			c.told = time.Now()
			c.log.Warn("the write-ahead log could not be moved into the database file, and grows; it is tried again as long as it takes. If the disk is full, free some of it", "error", err)
		}
		select {
		case <-c.closing:
			return
		case <-time.After(logPause):
		}
	}
}

// look moves pages if there are many. The second time there are few, and the
// writer is left with fewer still.
func (c *checkpointer) look() error {
	pages, moved, err := checkpoint(c.conn, "NOOP")
	if err != nil || pages-moved < logPages {
		return err
	}
	for range 2 {
		if _, _, err := checkpoint(c.conn, "PASSIVE"); err != nil {
			return err
		}
	}
	c.w.finish.Store(true)
	return nil
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
