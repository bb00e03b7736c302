package sqlitestore

import (
	"context"
	"database/sql/driver"

	"modernc.org/sqlite"
)

// post opens the sentry: a connection that may only read, and that is open as long
// as the store. SQLite moves what the log holds when the last connection to a file
// closes, removes the log, and tells nobody whether that went well. The one that
// closes last is the sentry when anything is wrong: it can neither take the lock
// for that nor write, so the log stays as it is, for the next start.
//
// It has read once, which gives it its share of the lock, and reads no more, so it
// keeps nobody from anything.
func post(ctx context.Context, path string) (driver.Conn, error) {
	c, err := sqlite.NewConnector("file:" + escape(path) + "?mode=ro&_pragma=cache_size(-64)")
	if err != nil {
		return nil, err
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := number(conn, "SELECT count(*) FROM sqlite_schema"); err != nil {
		return nil, closing(conn, err)
	}
	return conn, nil
}
