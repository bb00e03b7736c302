package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// source is a user's database with an outbox in it, and the relay from it if there is one.
type source struct {
	dsn     dsn
	name    string // in paths; no other source of this process has it
	db      *sql.DB
	dialect outbox.Dialect
	made    bool // it is a SQLite file that was not there before

	relay *outbox.Relay
	mode  outbox.Release
}

// openSource opens a database. A file must exist: a mistyped path must not make
// a new, empty database. A server need not answer yet.
func openSource(ctx context.Context, d dsn, table string) (*source, error) {
	if d.scheme == onSQLite {
		if _, err := os.Stat(d.file); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the outbox database %s does not exist; let your app make it, or run: outrider outbox init %s", d.file, d)
		}
	}
	return openAnySource(ctx, d, table)
}

// openOrMakeSource is openSource for a database whose file may be missing.
func openOrMakeSource(ctx context.Context, d dsn, table string) (*source, error) {
	d.make = true
	return openAnySource(ctx, d, table)
}

func openAnySource(ctx context.Context, d dsn, table string) (*source, error) {
	dialect, err := d.dialect(table)
	if err != nil {
		return nil, usage("--outbox-table: %w", err)
	}
	dialect.File = d.file
	if st, err := os.Stat(d.file); d.scheme == onSQLite && err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("the outbox database %s is not a plain file and cannot hold a database", d.file)
	}
	db, err := d.open()
	if err != nil {
		return nil, fmt.Errorf("open the outbox database %s: %w", d, err)
	}
	made := false
	if d.scheme == onSQLite {
		_, err := os.Stat(d.file)
		made = errors.Is(err, fs.ErrNotExist)
		if err := db.PingContext(ctx); err != nil {
			_ = db.Close() // err is why we are here
			return nil, fmt.Errorf("open the outbox database %s: %w", d.file, err)
		}
	}
	return &source{dsn: d, name: d.name, db: db, dialect: dialect, made: made}, nil
}

func withSource(ctx context.Context, d dsn, table string, make bool, do func(*source, context.Context) error) error {
	open := openSource
	if make {
		open = openOrMakeSource
	}
	src, err := open(ctx, d, table)
	if err != nil {
		return err
	}
	return unreached(errors.Join(do(src, ctx), src.db.Close()))
}

// unreached gives the error of a database that does not answer its exit code.
func unreached(err error) error {
	var e *job.Error
	if errors.As(err, &e) && e.Kind == job.Unavailable && !errors.Is(err, context.Canceled) {
		return &failure{exitUnreachable, err}
	}
	return err
}

// init makes the tables. A SQLite file that is made for them is put in WAL mode,
// in which the relay and the app do not wait for each other; how one that is there
// keeps its journal is the affair of its app.
func (s *source) init(ctx context.Context) error {
	if s.made {
		if _, err := s.db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
			return s.told(job.Unavailable, err.Error())
		}
	}
	if err := outbox.Init(ctx, s.db, s.dialect); err != nil {
		return s.told(job.KindOf(err), err.Error())
	}
	return nil
}

// check says all that is wrong with the outbox, and what mends it. ticks asks for
// what schedules of several servers need besides.
func (s *source) check(ctx context.Context, ticks bool) error {
	faults, err := s.audit(ctx, ticks)
	if err == nil && len(faults) == 0 {
		if err := outbox.Check(ctx, s.db, s.dialect); err != nil {
			return s.told(job.KindOf(err), err.Error())
		}
		faults, err = s.probe(ctx, ticks)
	}
	if err != nil {
		return s.told(job.Unavailable, err.Error())
	}
	return s.faulty(faults)
}

// checkRows says which rows have a status that is none. It counts all rows.
func (s *source) checkRows(ctx context.Context) error {
	is, err := outbox.Inspect(ctx, s.db, s.dialect, time.Now())
	if err != nil {
		return s.told(job.KindOf(err), err.Error())
	}
	var faults []string
	for _, o := range is.Strays {
		faults = append(faults, strayText(o, " "))
	}
	return s.faulty(faults)
}

func (s *source) faulty(faults []string) error {
	switch {
	case len(faults) == 1:
		return s.told(job.Unsupported, faults[0])
	case len(faults) > 1:
		return s.told(job.Unsupported, fmt.Sprintf("%d things are wrong:\n  %s", len(faults), strings.Join(faults, "\n  ")))
	}
	return nil
}

// told is an error about this outbox. Where others write DSN for one, a file is named.
func (s *source) told(kind job.Kind, text string) error {
	if s.dsn.scheme == onSQLite {
		command := s.dsn.String()
		if s.dialect.Table != sqlite.DefaultTable {
			command += " --outbox-table " + s.dialect.Table
		}
		text = strings.ReplaceAll(text, "DSN", command)
	}
	return job.Errorf(kind, "outbox %s: %s", s.dsn, text)
}

// audit asks the dialect's questions. When one has found something, the next may
// fail for the same reason, which tells nothing more.
func (s *source) audit(ctx context.Context, ticks bool) (faults []string, err error) {
	questions := s.dialect.Audit
	if ticks {
		questions = slices.Concat(questions, s.dialect.TickAudit)
	}
	for _, question := range questions {
		more, err := texts(ctx, s.db, question)
		if err != nil && len(faults) == 0 {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return faults, nil
}

func texts(ctx context.Context, db *sql.DB, query string) (all []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close() // Err tells of what matters
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// a probe is what somebody does, to no row.
type probe struct{ verb, table, stmt string }

// probes are those of a relay.
var probes = []probe{
	{"SELECT", "", "SELECT id FROM {table} WHERE id = 0"},
	{"UPDATE", "", "UPDATE {table} SET status = status WHERE id = 0"},
	{"DELETE", "", "DELETE FROM {table} WHERE id = 0"},
	{"SELECT", "_relays", "SELECT owner FROM {table} WHERE owner = ''"},
	{"INSERT", "_relays", "INSERT INTO {table} (owner, until, seen_at, mode) SELECT owner, until, seen_at, mode FROM {table} WHERE owner = ''"},
	{"UPDATE", "_relays", "UPDATE {table} SET sent = sent WHERE owner = ''"},
	{"SELECT", "_identity", "SELECT value FROM {table} WHERE one = 0"},
}

// tickProbes are those of schedules of several servers.
var tickProbes = []probe{
	{"INSERT", "", "INSERT INTO {table} (job_type, job_args) SELECT job_type, job_args FROM {table} WHERE id = 0"},
	{"SELECT", "_ticks", "SELECT name FROM {table} WHERE name = '' AND at = -1"},
	{"INSERT", "_ticks", "INSERT INTO {table} (name, at) SELECT name, at FROM {table} WHERE name = '' AND at = -1"},
	{"UPDATE", "_ticks", "UPDATE {table} SET job_id = job_id WHERE name = '' AND at = -1"},
	{"DELETE", "_ticks", "DELETE FROM {table} WHERE name = '' AND at = -1"},
}

// probe finds out which rights are missing where the catalog does not tell.
func (s *source) probe(ctx context.Context, ticks bool) (faults []string, err error) {
	if s.dsn.scheme == onPostgres {
		return nil, nil
	}
	all := probes
	if ticks {
		all = slices.Concat(all, tickProbes)
	}
	for _, p := range all {
		table := s.dialect.Table + p.table
		_, err := s.db.ExecContext(ctx, strings.ReplaceAll(p.stmt, "{table}", table))
		var my *mysql.MySQLError
		var lite interface{ Code() int }
		switch {
		case err == nil:
		case errors.As(err, &my) && (my.Number == 1142 || my.Number == 1143 || my.Number == 1044):
			faults = append(faults, fmt.Sprintf("the user of the relay lacks the right %s on %s; run as an administrator: GRANT %[1]s ON %[2]s TO that user", p.verb, table))
		case errors.As(err, &lite) && lite.Code()&0xff == 8:
			return []string{"the file may not be written to by this user; the relay must mark rows in it"}, nil
		default:
			return nil, fmt.Errorf("%s on %s: %w", p.verb, table, err)
		}
	}
	return faults, nil
}

// Name is what the source is called in paths.
func (s *source) Name() string { return s.name }

// Status asks the database how the outbox is.
func (s *source) Status(ctx context.Context) httpapi.OutboxStatus {
	st := httpapi.OutboxStatus{Name: s.name, Database: s.dsn.String(), Table: s.dialect.Table, Release: string(s.mode), State: "running"}
	if s.relay != nil {
		now := s.relay.State()
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
	is, err := outbox.Inspect(ctx, s.db, s.dialect, time.Now())
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
		st.Relays = append(st.Relays, httpapi.OutboxRelay{Owner: p.Owner, Release: string(p.Mode), Sent: p.Sent, SeenAt: p.Seen})
	}
	return st
}

// Parked are rows that can never be jobs.
func (s *source) Parked(ctx context.Context, after int64, limit int) ([]httpapi.OutboxRow, error) {
	rows, err := outbox.ParkedRows(ctx, s.db, s.dialect, after, limit)
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
func (s *source) Replay(ctx context.Context, ids ...int64) (int64, error) {
	n, err := outbox.Replay(ctx, s.db, s.dialect, ids...)
	if n > 0 {
		s.Poke()
	}
	return n, err
}

// Discard removes parked rows; without ids all of them.
func (s *source) Discard(ctx context.Context, ids ...int64) (int64, error) {
	return outbox.Discard(ctx, s.db, s.dialect, ids...)
}

// Poke tells the relay that there may be a row.
func (s *source) Poke() {
	if s.relay != nil {
		s.relay.Poke()
	}
}
