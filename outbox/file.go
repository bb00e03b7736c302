package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// openFile watches the file of a database that is one. A connection stays with the
// file that it has opened, even when that is deleted or replaced: it would never see
// a row of the app again, and what it writes would be lost. The zero value knows of
// no file yet. It is for one goroutine at a time.
type openFile struct {
	path string
	is   fs.FileInfo // what path named when the connections of the pool were opened
	lost bool        // path has named something else since, or nothing
	next time.Time   // it is not looked at before
}

const (
	lookEvery = time.Second
	openTries = 3
)

// moved says, as an error, that the path does not name the file any more that is
// open. It asks the file system and no database.
func (s *openFile) moved() error {
	if s.is == nil || s.lost {
		return nil
	}
	now, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.lost = true
		return s.gone(err)
	case err == nil && !os.SameFile(now, s.is):
		s.lost = true
		return job.Errorf(job.Unavailable, "the file %s is another one than before, and is opened anew", s.path)
	}
	return nil
}

func (s *openFile) gone(err error) error {
	return job.Errorf(job.Unavailable, "the file %s is gone: %w; put it back, or make a new one with: outrider outbox init DSN. It is opened as soon as it is there", s.path, err)
}

// conn is a connection to what the path names now. replaced says that this is
// another file than the last time, and that moved has not told of it. Where the
// database is no file it is just a connection of the pool.
func (s *openFile) conn(ctx context.Context, db *sql.DB, d Dialect) (conn *sql.Conn, replaced bool, err error) {
	if s.path == "" && d.sql.Path != "" {
		if s.path, err = pathOf(ctx, db, d); err != nil {
			return nil, false, err
		}
	}
	if s.path == "" {
		conn, err = db.Conn(ctx)
		return conn, false, err
	}
	for range openTries {
		was, err := os.Stat(s.path)
		if err != nil && s.is == nil { // whoever opens a file for the first time may make it
			conn, err := db.Conn(ctx)
			return conn, false, err
		}
		if err != nil {
			s.lost = true
			return nil, false, s.gone(err)
		}
		same := s.is != nil && !s.lost && os.SameFile(was, s.is)
		if !same {
			empty(ctx, db)
		}
		if conn, err = db.Conn(ctx); err != nil {
			return nil, false, err
		}
		if now, err := os.Stat(s.path); err == nil && os.SameFile(was, now) {
			replaced = s.is != nil && !s.lost && !same
			s.is, s.lost = now, false
			return conn, replaced, nil
		}
		discard(conn)
	}
	return nil, false, job.Errorf(job.Unavailable, "the file %s is replaced again and again", s.path)
}

// pathOf is the path of the database's file, as the program or the database
// itself names it. It is empty for one in memory.
func pathOf(ctx context.Context, db *sql.DB, d Dialect) (path string, err error) {
	if d.file != "" {
		return d.file, nil
	}
	err = db.QueryRowContext(ctx, d.sql.Path).Scan(&path)
	return path, err
}

// empty closes the connections that wait in a pool.
func empty(ctx context.Context, db *sql.DB) {
	for db.Stats().Idle > 0 {
		conn, err := db.Conn(ctx)
		if err != nil {
			return
		}
		discard(conn)
	}
}

// discard closes a connection that nobody may use again.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close() // it is gone already
}
