package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"os"
	"sync"

	"github.com/gofrs/flock"
	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// Options sets a store up. The zero value works.
type Options struct {
	Log *slog.Logger // where faults of the disk are told; nil is nowhere
}

// Store keeps jobs in one SQLite file. See [job.Store] for what its methods
// promise. It is safe for concurrent use.
type Store struct {
	path    string
	lock    *flock.Flock
	w       *writer
	readers *sqlx.DB

	checkpoints *checkpointer

	mu       sync.RWMutex // held for reading while a call is handed to the writer
	closed   bool
	identity int64
	fresh    bool // this Open has made the file
	lineage  job.Lineage
}

var _ job.Store = (*Store)(nil)

// Open opens the store in the file at path and makes it if there is none. It
// takes the file for this process until Close. A file that another process
// holds, that is not a store, that is of a newer version, or that lies on a
// network file system is an Unavailable that says what to do; it is not changed then.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	if _, err := inspect(path); err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: lock}
	if err := s.start(ctx, o); err != nil {
		_ = s.release() // err is why we are here
		return nil, translate("open "+path, err)
	}
	return s, nil
}

// start connects, makes or checks the schema, and starts the writer.
func (s *Store) start(ctx context.Context, o Options) error {
	if err := create(ctx, s.path); err != nil {
		return err
	}
	rw, err := newConnector(s.path, false)
	if err != nil {
		return err
	}
	conn, err := rw.Connect(ctx)
	if err != nil {
		return err
	}
	s.w = &writer{
		calls: make(chan *call, backlog), ended: make(chan struct{}), log: o.Log,
		conn: conn, cold: sqlx.NewDb(sql.OpenDB(only{conn, rw}), "sqlite"),
	}
	s.w.cold.SetMaxOpenConns(1)
	s.w.path = s.path
	if s.w.file, err = os.Stat(s.path); err != nil {
		return err
	}
	s.w.tx = &tx{w: s.w, reader: reader{q: s.w.cold}, call: changes{jobs: map[job.ID]*job.Job{}}}
	if err := migrate(conn, s.path, o.Log); err != nil {
		return err
	}
	if err := s.name(); err != nil {
		return err
	}
	if err := s.date(o.Log); err != nil {
		return err
	}
	if err := s.w.prepare(); err != nil {
		return err
	}
	if err := s.w.load(); err != nil {
		return err
	}
	ro, err := newConnector(s.path, true)
	if err != nil {
		return err
	}
	s.readers = sqlx.NewDb(sql.OpenDB(ro), "sqlite")
	s.readers.SetMaxOpenConns(8)
	s.readers.SetMaxIdleConns(4)
	if err := s.readers.PingContext(ctx); err != nil {
		return err
	}
	if err := s.startCheckpointer(ctx, rw, o.Log); err != nil {
		return err
	}
	go s.w.run()
	return nil
}

// only is a connector that gives out one connection which exists already, so
// that cold statements can go through sqlx on the writer's own transaction.
type only struct {
	conn driver.Conn
	from *connector
}

func (o only) Connect(context.Context) (driver.Conn, error) { return o.conn, nil }
func (o only) Driver() driver.Driver                        { return o.from.Driver() }

// Update runs fn in a transaction; see [job.Store]. At most 4096 calls wait for
// the writer; further ones wait until their ctx ends.
func (s *Store) Update(ctx context.Context, fn func(job.Tx) error) error {
	c := &call{ctx: ctx, fn: fn, done: make(chan error, 1)}
	if err := s.hand(ctx, c); err != nil {
		return err
	}
	return <-c.done
}

// hand gives a call to the writer.
func (s *Store) hand(ctx context.Context, c *call) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return job.Errorf(job.Unavailable, "the store is closed, the server is shutting down")
	}
	select {
	case s.w.calls <- c:
		return nil
	case <-ctx.Done():
		return job.Errorf(job.Unavailable, "the writer is busy and the caller left, nothing was done: %w", ctx.Err())
	}
}

// View runs fn on a snapshot; see [job.Store].
func (s *Store) View(ctx context.Context, fn func(job.ReadTx) error) error {
	tx, err := s.readers.BeginTxx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		if ctx.Err() != nil {
			return job.Errorf(job.Unavailable, "the caller left: %w", err)
		}
		return translate("read", err)
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to keep
	err = fn(reader{q: bound{tx, ctx}})
	if err != nil && ctx.Err() != nil {
		return job.Errorf(job.Unavailable, "the caller left while it read: %w", ctx.Err())
	}
	return translate("read", err)
}

// bound runs the queries of a view under the context of its caller, so that one
// who has left holds neither a connection nor the log.
type bound struct {
	tx  *sqlx.Tx
	ctx context.Context
}

func (b bound) Query(query string, args ...any) (*sql.Rows, error) {
	return b.tx.QueryContext(b.ctx, query, args...)
}

func (b bound) Queryx(query string, args ...any) (*sqlx.Rows, error) {
	return b.tx.QueryxContext(b.ctx, query, args...)
}

func (b bound) QueryRowx(query string, args ...any) *sqlx.Row {
	return b.tx.QueryRowxContext(b.ctx, query, args...)
}

// Close lets the calls that are waiting finish, moves what the log holds into
// the file and gives the file free. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.w.calls)
	s.mu.Unlock()
	<-s.w.ended
	return translate("close "+s.path, s.release())
}

// release closes what has been opened. The writer goroutine must not be running.
func (s *Store) release() error {
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	if s.checkpoints != nil {
		keep(s.checkpoints.stop())
	}
	if s.readers != nil {
		keep(s.readers.Close())
	}
	if s.w != nil {
		if s.w.broken == nil {
			keep(script(s.w.conn, "PRAGMA wal_checkpoint(TRUNCATE)"))
		}
		s.w.closeStatements()
		keep(s.w.cold.Close())
	}
	keep(s.lock.Unlock())
	return first
}
