package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// How far the check of a store is that was not closed in order.
const (
	CheckRunning = "running"
	CheckPassed  = "passed"
	CheckFailed  = "failed" // Trouble says what was found
)

// check reads a whole store after an unclean stop, beside the work: what is wrong
// with its pages is reported before a job on them is needed. It goes table by
// table, as its read transaction keeps the log from beginning anew.
type check struct {
	path     string
	conn     driver.Conn
	troubles *troubles
	state    atomic.Value // one of the constants above
	cancel   context.CancelFunc
	ended    chan struct{}
}

// startCheck checks the store at path until it is done, stop is called, or failed
// is closed: what is only in the log of a store that has failed can be saved when
// nobody reads what the log held before.
func startCheck(ctx context.Context, path string, t *troubles, failed <-chan struct{}) (*check, error) {
	from, err := newConnector(path, true)
	if err != nil {
		return nil, err
	}
	conn, err := from.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &check{path: path, conn: conn, troubles: t, ended: make(chan struct{})}
	c.state.Store(CheckRunning)
	ctx, c.cancel = context.WithCancel(context.Background())
	go c.run(ctx)
	go func() {
		select {
		case <-failed:
			c.cancel()
		case <-c.ended:
		}
	}()
	return c, nil
}

func (c *check) run(ctx context.Context) {
	defer close(c.ended)
	c.troubles.log.Info("the store was not closed cleanly; the database is being checked while the server works", "path", c.path)
	began := time.Now()
	found, err := c.tables(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		found = append(found, err.Error())
	}
	if len(found) > 0 {
		c.state.Store(CheckFailed)
		c.troubles.begin(damaged, slog.LevelError, c.damage(found))
		return
	}
	c.state.Store(CheckPassed)
	c.troubles.log.Info("the database was checked and is intact", "path", c.path, "took", time.Since(began).Round(time.Millisecond))
}

// damage is the error for what was found, with what to do.
func (c *check) damage(found []string) error {
	const shown = 3
	more := ""
	if len(found) > shown {
		more = fmt.Sprintf(", and %d more", len(found)-shown)
	}
	return job.Errorf(job.Unavailable, "the database %s is damaged (PRAGMA quick_check): %s%s. Stop the server, keep copies of %s, %s-wal and %s-shm, and restore a backup. Where indexes alone are damaged, sqlite3 %s REINDEX mends them while the server is stopped",
		c.path, strings.Join(found[:min(shown, len(found))], "; "), more, c.path, c.path, c.path, c.path)
}

// tables checks one table with its indexes after the other.
func (c *check) tables(ctx context.Context) (found []string, err error) {
	names, err := c.column(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rootpage")
	if err != nil {
		return nil, fmt.Errorf("its tables cannot be listed: %w", err)
	}
	for _, name := range append([]string{"sqlite_schema"}, names...) {
		said, err := c.column(ctx, `PRAGMA quick_check("`+strings.ReplaceAll(name, `"`, `""`)+`")`)
		for _, s := range said {
			if s != "ok" {
				found = append(found, "table "+name+": "+strings.ReplaceAll(s, "\n", " "))
			}
		}
		if err != nil {
			return found, fmt.Errorf("table %s cannot be read: %w", name, err)
		}
	}
	return found, nil
}

// column reads the texts that a query answers. The end of ctx interrupts it.
func (c *check) column(ctx context.Context, sql string) (texts []string, err error) {
	err = query(ctx, c.conn, sql, func(row []driver.Value) error {
		texts = append(texts, fmt.Sprint(row[0]))
		return nil
	})
	return texts, err
}

// stop interrupts the check and closes its connection.
func (c *check) stop() error {
	c.cancel()
	<-c.ended
	return c.conn.Close()
}

// Checked returns how far the check of a store is that was not closed in order:
// [CheckRunning], [CheckPassed] or [CheckFailed]. It is empty where there was no need.
func (s *Store) Checked() string {
	if s.check == nil {
		return ""
	}
	return s.check.state.Load().(string)
}
