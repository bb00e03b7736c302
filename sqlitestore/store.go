package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// Options sets a store up. The zero value works.
type Options struct {
	Log *slog.Logger // where faults of the disk are logged; nil is nowhere

	// AcceptDamage opens a store although acknowledged jobs are lost from it, where
	// Open says so with a [DamageError]. The files are copied aside before.
	AcceptDamage bool

	alone bool  // a test uses the writer's connection, so nobody writes unasked
	watch watch // a test counts what the connections are told
}

// Store keeps jobs in one SQLite file. See [job.Store] for what its methods
// promise. It is safe for concurrent use.
type Store struct {
	path    string
	lock    *fileLock
	w       *writer
	readers *sqlx.DB
	sentry  driver.Conn // closes last when anything is wrong
	scans   scanning

	checkpoints *checkpointer
	check       *check // after an unclean stop
	guard       *guard
	troubles    troubles
	failed      chan struct{} // closed when nothing can be written any more

	mu       sync.RWMutex // held for reading while a call is handed to the writer
	closed   bool
	identity int64
	fresh    bool // this Open has made the file
	lineage  job.Lineage
}

var _ job.Store = (*Store)(nil)

// Open opens the store in the file at path and makes it if there is none. It
// takes the file for this process until Close. A file that another process
// holds is a Conflict; one that is not a store, that is of a newer version, or
// that lies on a network file system is an Unavailable. Either says what to do,
// and the file is not changed then.
// One from which acknowledged jobs are lost is a [DamageError].
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	lock, err := take(path, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: lock, troubles: troubles{log: o.Log}, failed: make(chan struct{})}
	if err := s.start(ctx, o); err != nil {
		if s.w != nil {
			s.w.broken.CompareAndSwap(nil, &fault{err: err}) // so that nothing is moved on the way out
		}
		_ = s.release() // err is why we are here
		return nil, asDamage(path, translateEnd("open "+path, "free some and start again", err))
	}
	return s, nil
}

// start connects, makes or checks the schema, and starts the writer. What it has
// opened when it fails, release closes.
func (s *Store) start(ctx context.Context, o Options) error {
	if err := create(ctx, s.path); err != nil {
		return err
	}
	if err := s.lock.hold(); err != nil {
		return err
	}
	found, err := examine(s.path, o)
	if err != nil {
		return err
	}
	rw, err := newConnector(s.path, false)
	if err != nil {
		return err
	}
	rw.watch = o.watch
	for _, step := range [...]func() error{
		func() error { return s.openWriter(ctx, rw, o) },
		func() error { return s.guardFiles(ctx, found) },
		func() error { return migrate(s.w.conn, s.path, o.Log) },
		s.name,
		func() error { return s.date(o.Log) },
		func() error { return s.w.prepare() },
		func() error { s.w.tx.finder = s.w.tx.prepared(); return s.w.load() },
		func() error { return s.openReaders(ctx, o) },
		func() error { return s.startCheckpointer(ctx, rw, o.Log) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if found.frames > 0 || found.damaged() {
		if s.check, err = startCheck(ctx, s.path, &s.troubles, s.w.failed); err != nil {
			return err
		}
	}
	warnExposed(s.path, o.Log)
	s.guard = newGuard(s)
	if !o.alone {
		s.guard.start()
	}
	go s.w.run()
	return nil
}

// openWriter opens the one connection that writes.
func (s *Store) openWriter(ctx context.Context, rw *connector, o Options) error {
	conn, err := rw.Connect(ctx)
	if err != nil {
		return err
	}
	s.w = &writer{
		calls: make(chan *call, backlog), ended: make(chan struct{}), log: o.Log,
		troubles: &s.troubles, failed: s.failed, gauge: newGauge(), lock: s.lock,
		updates: map[stateUpdate]*stmt{}, heads: heads{}, sifts: sifts{}, conn: conn, unprepared: sqlx.NewDb(sql.OpenDB(only{conn, rw}), "sqlite"),
	}
	s.w.tx = &tx{w: s.w}
	s.w.tx.reader = reader{q: settled{s.w.tx}}
	s.w.unprepared.SetMaxOpenConns(1)
	return s.w.unprepared.PingContext(ctx) // from here on the connection is closed with unprepared
}

// guardFiles takes hold of the files, so that their loss is noticed, and makes the
// log ready to be written.
func (s *Store) guardFiles(ctx context.Context, found survey) (err error) {
	if s.sentry, err = post(ctx, s.path); err != nil {
		return err
	}
	if s.w.place, err = hold(s.path); err != nil {
		return err
	}
	if err := renewTail(s.w.conn, s.w.place.log.path); err != nil {
		return err
	}
	if found.damaged() { // and accepted: what is left is moved, so that the damage is not found again
		return script(s.w.conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return nil
}

// openReaders opens the connections of both lanes.
func (s *Store) openReaders(ctx context.Context, o Options) error {
	ro, err := newConnector(s.path, true)
	if err != nil {
		return err
	}
	ro.watch = o.watch
	s.readers = sqlx.NewDb(sql.OpenDB(ro), "sqlite")
	s.readers.SetMaxOpenConns(8)
	s.readers.SetMaxIdleConns(4)
	s.readers.SetConnMaxIdleTime(readerRest)
	if err := s.readers.PingContext(ctx); err != nil {
		return err
	}
	s.scans = scanning{db: sqlx.NewDb(sql.OpenDB(ro), "sqlite"), turns: make(chan struct{}, scans()), wait: scanWait, most: scanTime}
	s.scans.db.SetMaxOpenConns(cap(s.scans.turns))
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
	return s.outward(<-c.done)
}

// hand gives a call to the writer.
func (s *Store) hand(ctx context.Context, c *call) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed
	}
	select {
	case s.w.calls <- c:
		return nil
	case <-ctx.Done():
		return job.Errorf(job.Unavailable, "the writer is busy and the caller left, nothing was done: %w", ctx.Err())
	}
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
	return translateEnd("close "+s.path, "its log is kept, with all that was acknowledged; free some and start again", s.release())
}

// release closes what has been opened. The writer goroutine must not be running.
func (s *Store) release() error {
	var errs []error
	if s.guard != nil {
		s.guard.stop()
	}
	if s.check != nil {
		errs = append(errs, s.check.stop())
	}
	for _, db := range []*sqlx.DB{s.readers, s.scans.db} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.checkpoints != nil {
		errs = append(errs, s.checkpoints.stop())
	}
	if s.w != nil {
		errs = append(errs, s.part())
	}
	return cmp.Or(append(errs, s.lock.free())...) // after the last connection to the file
}

// part moves what the log holds into the database and closes the writer's
// connection. SQLite removes the log then, but for a store with which anything is
// wrong: the sentry, which closes last, keeps it from that.
func (s *Store) part() (err error) {
	whole := false
	if s.sentry != nil && s.w.fault() == nil {
		if _, ok := s.w.present(); ok {
			pages, moved, merr := s.w.move(s.w.conn, "TRUNCATE")
			whole, err = merr == nil && moved == pages, merr
		}
	}
	s.w.closeStatements()
	switch {
	case s.sentry == nil:
		return cmp.Or(err, s.w.unprepared.Close())
	case whole:
		return cmp.Or(err, s.sentry.Close(), s.w.unprepared.Close())
	}
	return cmp.Or(err, s.w.unprepared.Close(), s.sentry.Close())
}
