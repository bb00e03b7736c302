//go:build !race

package sqlitestore

import (
	"context"
	"database/sql/driver"
	"os"
	"strings"
	"sync"
)

// tally is what some connections were told to do, and what came of it.
type tally struct {
	begun, selects, inserts, updates, deletes, others int // statements that ran
	compiled                                          int // statements that were prepared, or ran without
	found                                             int // rows that they answered
}

func (t tally) all() int {
	return t.begun + t.selects + t.inserts + t.updates + t.deletes + t.others
}

func (t tally) less(u tally) tally {
	return tally{t.begun - u.begun, t.selects - u.selects, t.inserts - u.inserts, t.updates - u.updates, t.deletes - u.deletes,
		t.others - u.others, t.compiled - u.compiled, t.found - u.found}
}

// meter counts what a store tells its connections: the one that writes, those that
// read, and any other.
type meter struct {
	mu                    sync.Mutex
	writer, reader, other tally
	conn                  driver.Conn // of the writer, past the meter
}

// watch is for the Options of a store.
func (m *meter) watch(conn driver.Conn, readOnly bool) driver.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &m.other
	switch {
	case readOnly:
		t = &m.reader
	case m.conn == nil: // the first connection of a store
		t, m.conn = &m.writer, conn
		_ = script(conn, "PRAGMA synchronous=OFF") // the pages are the same, and nobody waits for a disk
	}
	return &watchedConn{conn, m, t}
}

// ran counts a statement.
func (m *meter) ran(t *tally, query string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(query)), " ")
	switch word {
	case "BEGIN":
		t.begun++
	case "COMMIT": // of what has begun
	case "SELECT", "WITH":
		t.selects++
	case "INSERT", "REPLACE":
		t.inserts++
	case "UPDATE":
		t.updates++
	case "DELETE":
		t.deletes++
	default:
		t.others++
	}
}

func (m *meter) add(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}

// reading is a look at a meter, and at the file.
type reading struct {
	writer, reader, other tally
	rows                  int64 // changed by the writer's connection
	log                   int64 // bytes of the log
}

// pages is how many of them lie in the log.
func (r reading) pages() int64 { return max(0, r.log-logHeader) / (frameHeader + pageSize) }

// read looks while the writer rests, or waits in a call: its connection is asked, too.
func (m *meter) read(s *Store) (reading, error) {
	rows, err := number(m.conn, "SELECT total_changes()")
	if err != nil {
		return reading{}, err
	}
	st, err := os.Stat(s.path + "-wal")
	if err != nil {
		return reading{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{m.writer, m.reader, m.other, rows, st.Size()}, nil
}

// watchedConn is a connection whose statements are counted.
type watchedConn struct {
	driver.Conn
	m *meter
	t *tally
}

func (c *watchedConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *watchedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.m.add(&c.t.compiled)
	return &watchedStmt{s, c, query}, nil
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.m.add(&c.t.compiled)
	c.m.ran(c.t, query)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.m.add(&c.t.compiled)
	c.m.ran(c.t, query)
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	return c.counted(rows, err)
}

func (c *watchedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.m.ran(c.t, "BEGIN")
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c *watchedConn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (c *watchedConn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

func (c *watchedConn) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

func (c *watchedConn) counted(rows driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	return &watchedRows{rows, c}, nil
}

type watchedStmt struct {
	driver.Stmt
	c     *watchedConn
	query string
}

func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.c.m.ran(s.c.t, s.query)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.c.m.ran(s.c.t, s.query)
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return s.c.counted(rows, err)
}

type watchedRows struct {
	driver.Rows
	c *watchedConn
}

func (r *watchedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil {
		r.c.m.add(&r.c.t.found)
	}
	return err
}
