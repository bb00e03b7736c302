package sqlitestore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// dsn is the address of the file with every pragma in it, so that no connection can be without one.
func dsn(path string, readOnly bool) string {
	q := url.Values{"_txlock": {"immediate"}, "_dqs": {"0"}}
	for _, p := range pragmas(readOnly) {
		q.Add("_pragma", p.name+"("+p.value+")")
	}
	if readOnly {
		q.Set("_txlock", "deferred")
	}
	return "file:" + escape(path) + "?" + q.Encode()
}

// escape writes a path so that it stays one inside a URI.
func escape(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// connect opens a connection that has none of the pragmas of a store but those of params.
func connect(ctx context.Context, path, params string) (driver.Conn, error) {
	c, err := sqlite.NewConnector("file:" + escape(path) + params)
	if err != nil {
		return nil, err
	}
	return c.Connect(ctx)
}

type pragma struct{ name, value, shows string }

// How many KiB of pages a connection keeps, negative as SQLite has it. It takes twice
// as much: a page and what SQLite notes of it lie in 8 KiB. There are many readers, and
// what one of them does not keep the kernel does.
const (
	cacheSize       = "-4000"
	readerCacheSize = "-1000"
)

// pragmas are what every connection must have; shows is what SQLite answers when it holds.
func pragmas(readOnly bool) []pragma {
	cached := cacheSize
	if readOnly {
		cached = readerCacheSize
	}
	ps := []pragma{
		{"busy_timeout", "5000", "5000"},
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},
		{"fullfsync", "1", "1"}, // macOS flushes its drives only when asked to
		{"checkpoint_fullfsync", "1", "1"},
		{"journal_size_limit", "67108864", "67108864"},
		{"trusted_schema", "0", "0"},
		{"temp_store", "2", "2"},
		// What does not fit is the kernel's to keep, and a large transaction has most of
		// its pages in the log before it commits (measured: 10,000 jobs of schedules are
		// there 25 ms earlier than with 16 MB, and nothing is slower).
		{"cache_size", cached, cached},
		// SQLite would move pages inside COMMIT, and pass over what fails there: a flush
		// too. The checkpointer and the writer do it instead, and see the error.
		{"wal_autocheckpoint", "0", "0"},
	}
	if readOnly {
		ps = append(ps, pragma{"query_only", "1", "1"})
	}
	return ps
}

// connector opens connections that have proved their pragmas.
type connector struct {
	driver.Connector
	readOnly bool
	watch    watch
}

// watch stands between the store and a new connection, where a test counts what goes
// through it. It is nil but there.
type watch func(conn driver.Conn, readOnly bool) driver.Conn

func newConnector(path string, readOnly bool) (*connector, error) {
	c, err := sqlite.NewConnector(dsn(path, readOnly))
	if err != nil {
		return nil, err
	}
	return &connector{Connector: c, readOnly: readOnly}, nil
}

// Connect opens one connection. It fails when the file system would not give
// what the pragmas ask for, as some network file systems silently do with WAL.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pragmas(c.readOnly) {
		got, err := one(conn, "PRAGMA "+p.name)
		if err == nil && fmt.Sprint(got) != p.shows {
			err = fmt.Errorf("PRAGMA %s is %v and cannot be made %s here", p.name, got, p.value)
		}
		if err != nil {
			return nil, closing(conn, err)
		}
	}
	if c.watch != nil {
		conn = c.watch(conn, c.readOnly)
	}
	return conn, nil
}

// closing closes conn on the way out with err.
func closing(conn driver.Conn, err error) error {
	_ = conn.Close() // err is why we are here
	return err
}

// one is the first column of the only row of a statement without arguments.
func one(conn driver.Conn, sql string) (v driver.Value, err error) {
	none := io.EOF
	err = query(context.Background(), conn, sql, func(row []driver.Value) error {
		v, none = row[0], nil
		return nil
	})
	return v, cmp.Or(err, none)
}

// query calls fn with every row of a statement without arguments. The row is only
// good until fn returns.
func query(ctx context.Context, conn driver.Conn, sql string, fn func(row []driver.Value) error) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, sql, nil)
	if err != nil {
		return err
	}
	return drain(rows, make([]driver.Value, len(rows.Columns())), fn)
}

// drain calls fn with every row, each in dest, and closes rows.
func drain(rows driver.Rows, dest []driver.Value, fn func(row []driver.Value) error) (err error) {
	defer func() {
		err = cmp.Or(err, rows.Close())
	}()
	for {
		if err := rows.Next(dest); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := fn(dest); err != nil {
			return err
		}
	}
}

// script runs statements without arguments.
func script(conn driver.Conn, sql string) error {
	_, err := conn.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return err
}

// within runs fn in a transaction, and undoes all of it after an error.
func within(conn driver.Conn, fn func() error) error {
	err := script(conn, "BEGIN IMMEDIATE")
	if err != nil {
		return err
	}
	if err = fn(); err == nil {
		err = script(conn, "COMMIT")
	}
	if err != nil {
		_ = script(conn, "ROLLBACK") // SQLite may have done so by itself
	}
	return err
}

// stmt is a prepared statement of the writer's connection, called without the
// layer of database/sql: that layer costs as much as the statement itself. It
// belongs to the writer goroutine. No context reaches SQLite: a statement that
// has begun is finished.
type stmt struct {
	s    driver.Stmt
	args []driver.NamedValue
	dest []driver.Value
}

func prepare(conn driver.Conn, query string) (*stmt, error) {
	s, err := conn.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", query, err)
	}
	return &stmt{s: s}, nil
}

func (s *stmt) bind(args []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// exec runs the statement and says how many rows it changed.
func (s *stmt) exec(args ...driver.Value) (int64, error) {
	r, err := s.s.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	clear(s.args) // what they point to may go
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// each calls fn with every row. The row is only good until fn returns.
func (s *stmt) each(fn func(row []driver.Value) error, args ...driver.Value) error {
	rows, err := s.s.(driver.StmtQueryContext).QueryContext(context.Background(), s.bind(args))
	clear(s.args)
	if err != nil {
		return err
	}
	if s.dest == nil {
		s.dest = make([]driver.Value, len(rows.Columns()))
	}
	return drain(rows, s.dest, fn)
}

// millis is an instant as it is stored, NULL for none.
func millis(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// text is a string or JSON as it is stored, NULL for none.
func text[S ~string | ~[]byte](s S) driver.Value {
	if len(s) == 0 {
		return nil
	}
	return string(s)
}
