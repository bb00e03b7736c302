package appdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/outboxsql"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// Source is a user's database with an outbox in it, and the relay from it if there is one.
type Source struct {
	DSN     DSN
	name    string // in paths; no other source of this process has it
	DB      *sql.DB
	Dialect outbox.Dialect
	Args    string // how the program's user names it in a command, in the place of DSN; may be empty
	made    bool   // it is a SQLite file that was not there before

	Relay *outbox.Relay // nil without one
	Mode  outbox.Release
}

// Open opens a database. A file must exist: a mistyped path must not make
// a new, empty database. A server need not answer yet.
func Open(ctx context.Context, d DSN, table string) (*Source, error) {
	if d.scheme == SQLite {
		if _, err := os.Stat(d.file); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the outbox database %s does not exist; let your app make it, or run: outrider outbox init %s", d.file, d)
		}
	}
	return open(ctx, d, table)
}

// OpenOrMake is Open for a database whose file may be missing.
func OpenOrMake(ctx context.Context, d DSN, table string) (*Source, error) {
	d.make = true
	return open(ctx, d, table)
}

func open(ctx context.Context, d DSN, table string) (*Source, error) {
	dialect, err := DialectOf(d.scheme, table)
	if err != nil {
		return nil, err // Invalid
	}
	dialect = dialect.In(d.file)
	if st, err := os.Stat(d.file); d.scheme == SQLite && err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("the outbox database %s is not a plain file and cannot hold a database", d.file)
	}
	if folder := filepath.Dir(d.file); d.scheme == SQLite {
		if st, err := os.Stat(folder); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("the folder %s of the outbox database %s does not exist; make it, or name another file", folder, d.file)
		}
	}
	db, err := d.open()
	if err != nil {
		return nil, fmt.Errorf("open the outbox database %s: %w", d, err)
	}
	made := false
	if d.scheme == SQLite {
		_, err := os.Stat(d.file)
		made = errors.Is(err, fs.ErrNotExist)
		if err := db.PingContext(ctx); err != nil {
			_ = db.Close() // err is why we are here
			return nil, fmt.Errorf("open the outbox database %s: %w", d.file, err)
		}
	}
	return &Source{DSN: d, name: d.name, DB: db, Dialect: dialect, made: made}, nil
}

// Check says all that is wrong with the outbox, and what mends it. ticks asks for
// what schedules of several servers need besides.
func (s *Source) Check(ctx context.Context, ticks bool) error {
	faults, err := outbox.Faults(ctx, s.DB, s.Dialect, ticks)
	if err != nil {
		return s.about(err)
	}
	return s.faulty(faults)
}

// Explained is err, or what Check finds wrong that may have led to it.
func (s *Source) Explained(ctx context.Context, err error) error {
	if why := s.Check(ctx, false); why != nil {
		return why
	}
	return s.about(err)
}

// CheckRows says which rows have a status that is none. It counts all rows.
func (s *Source) CheckRows(ctx context.Context) error {
	is, err := outbox.Inspect(ctx, s.DB, s.Dialect, time.Now())
	if err != nil {
		return s.about(err)
	}
	var faults []string
	for _, o := range is.Strays {
		faults = append(faults, fmt.Sprintf("%q: %s", o.Status, StrayText(o)))
	}
	return s.faulty(faults)
}

func (s *Source) faulty(faults []string) error {
	switch {
	case len(faults) == 1:
		return s.Fault(job.Unsupported, faults[0])
	case len(faults) > 1:
		return s.Fault(job.Unsupported, fmt.Sprintf("%d problems:\n  %s", len(faults), strings.Join(faults, "\n  ")))
	}
	return nil
}

// Fault is an error about this outbox. Advice that says DSN is given with Args.
func (s *Source) Fault(kind job.Kind, text string) error {
	if s.Args != "" {
		text = strings.ReplaceAll(text, "DSN", s.Args)
	}
	return job.Errorf(kind, "outbox %s: %s", s.DSN, text)
}

// about is an error of the outbox, or nil, as one about this source.
func (s *Source) about(err error) error {
	if err == nil {
		return nil
	}
	return s.Fault(job.KindOf(err), err.Error())
}

// StrayText says what is wrong with rows that no relay takes, and what mends it.
func StrayText(o outbox.Stray) string {
	rows := "1 row has"
	if o.Rows != 1 {
		rows = fmt.Sprintf("%d rows have", o.Rows)
	}
	return rows + " this invalid status, so no relay takes them; set it to 'pending' or delete them"
}

// Exec runs statements that each end in a semicolon and a line feed, in one transaction.
func (s *Source) Exec(ctx context.Context, text string) error {
	if err := outboxsql.Run(ctx, s.DB, text); err != nil {
		return s.Fault(job.Unavailable, err.Error())
	}
	return nil
}

// Rename gives the source another name in paths.
func (s *Source) Rename(name string) { s.name = name }

// Name is what the source is called in paths.
func (s *Source) Name() string { return s.name }

// Status asks the database how the outbox is.
func (s *Source) Status(ctx context.Context) httpapi.OutboxStatus {
	st := httpapi.OutboxStatus{Name: s.name, Database: s.DSN.Public(), Table: s.Dialect.Table(), Release: string(s.Mode), State: "running"}
	if s.Relay != nil {
		now := s.Relay.State()
		if now.Err != nil {
			st.Error, st.ErrorAt = now.Err.Error(), now.ErrAt
		}
		switch {
		case now.Trouble:
			st.State = "trouble"
		case now.Standby:
			st.State = "standby" // one works at a time
		}
	}
	is, err := outbox.Inspect(ctx, s.DB, s.Dialect, time.Now())
	if err != nil {
		if st.State != "trouble" { // what the relay says of it tells more
			st.Error, st.ErrorAt = err.Error(), time.Now()
		}
		st.State = "trouble"
		return st
	}
	st.Counted = true
	st.Pending, st.Taken, st.Relayed, st.Sent, st.Parked = is.Pending, is.Taken, is.Relayed, is.Sent, is.Parked
	st.Oldest, st.Lag = is.Oldest, is.Lag
	for _, p := range is.Relays {
		st.Relays = append(st.Relays, httpapi.OutboxRelay{Owner: p.Owner, Host: p.Host, PID: p.PID, Release: string(p.Mode), Sent: p.Sent, SeenAt: p.Seen})
	}
	return st
}

// Parked are rows that can never be jobs.
func (s *Source) Parked(ctx context.Context, after int64, limit int) ([]httpapi.OutboxRow, error) {
	rows, err := outbox.ParkedRows(ctx, s.DB, s.Dialect, after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]httpapi.OutboxRow, len(rows))
	for i, r := range rows {
		all[i] = httpapi.OutboxRow{ID: r.ID, Type: r.Type, Attempts: r.Attempts, CreatedAt: r.Written, Error: r.Reason}
	}
	return all, nil
}

// Replay makes parked rows pending again; without ids all of them.
func (s *Source) Replay(ctx context.Context, ids ...int64) (int64, error) {
	n, err := outbox.Replay(ctx, s.DB, s.Dialect, ids...)
	if n > 0 {
		s.Poke()
	}
	return n, err
}

// Discard removes parked rows; without ids all of them.
func (s *Source) Discard(ctx context.Context, ids ...int64) (int64, error) {
	return outbox.Discard(ctx, s.DB, s.Dialect, ids...)
}

// Poke tells the relay that there may be a row.
func (s *Source) Poke() {
	if s.Relay != nil {
		s.Relay.Poke()
	}
}
