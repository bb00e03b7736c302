package sqlitestore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Schema 4 keeps what a job is apart from what becomes of it, ids as bytes, states as
// numbers, and events packed. What follows takes the jobs of schema 3 over. They keep
// their order: the number of a job is its place in its queue. The event log stays as it
// is; its rows are told apart by their type.

// aside makes room for the tables and indexes of schema 4.
const aside = `
DROP INDEX jobs_claim; DROP INDEX jobs_due; DROP INDEX jobs_dead; DROP INDEX jobs_held;
DROP INDEX jobs_past; DROP INDEX jobs_dedup; DROP INDEX jobs_custom; DROP INDEX jobs_after;
ALTER TABLE jobs RENAME TO old_jobs;
ALTER TABLE events RENAME COLUMN lines TO packed;
ALTER TABLE queues ADD COLUMN last_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN last_event INTEGER NOT NULL DEFAULT 0;
`

// retype lets a column of events hold bytes, too. To copy the table would take as long
// as all the jobs do, and none of its rows changes: SQLite's documentation of ALTER TABLE
// has this way for it.
const retype = `
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'TEXT', 'ANY') WHERE type = 'table' AND name = 'events';
PRAGMA schema_version = %d;
PRAGMA writable_schema = OFF;
`

// The columns of schema 3 that schema 4 keeps in another way.
var oldForms = map[string]string{
	"id_bytes":    "unhex(replace(id, '-', ''))",
	"state_code":  "CASE state WHEN 'completed' THEN 5 WHEN 'available' THEN 1 WHEN 'scheduled' THEN 0 WHEN 'pending' THEN 2 WHEN 'active' THEN 3 WHEN 'retryable' THEN 4 WHEN 'cancelled' THEN 6 WHEN 'discarded' THEN 7 END",
	"lease_token": "iif(length(lease_token) % 2 = 0 AND lease_token NOT GLOB '*[^0-9a-f]*', unhex(lease_token), lease_token)",
}

// slice3 is how many jobs are taken over between two looks at the clock.
const slice3 = 20_000

// split is the step from schema 3 to schema 4, inside its transaction.
func split(conn driver.Conn, log *slog.Logger) error {
	jobs, err := number(conn, "SELECT coalesce(sum(scheduled + available + pending + active + retryable + completed + cancelled + discarded), 0) FROM queues")
	if err != nil {
		return err
	}
	schema, err := number(conn, "PRAGMA schema_version")
	if err != nil {
		return err
	}
	if err := script(conn, aside+fmt.Sprintf(retype, schema+1)+createdIn4); err != nil {
		return err
	}
	bodies, err := takeOver(conn, "job_bodies", fmt.Sprintf("id > ?1 ORDER BY id LIMIT %d", slice3))
	if err != nil {
		return err
	}
	defer func() { _ = bodies.s.Close() }() // each of its runs has been judged
	states, err := takeOver(conn, "job_states", "id > ?1 AND id <= ?2 ORDER BY id")
	if err != nil {
		return err
	}
	defer func() { _ = states.s.Close() }()
	told, done, last := time.Now(), int64(0), ""
	for n := int64(slice3); n == slice3; {
		if n, err = bodies.exec(last); err != nil {
			return explained(conn, fmt.Errorf("take over the jobs behind %q: %w", last, err))
		}
		end := last
		if err := once(conn, "SELECT id_bytes FROM job_bodies ORDER BY id_bytes DESC LIMIT 1", func(r *row[driver.Value]) { end = string(r.id()) }); err != nil {
			return err
		}
		if also, err := states.exec(last, end); err != nil || also != n {
			return explained(conn, errors.Join(fmt.Errorf("take over the jobs behind %q: of %d there are %d", last, n, also), err))
		}
		done, last = done+n, end
		if now := time.Now(); now.Sub(told) > 2*time.Second {
			told = now
			log.Info("the database is brought to this version's schema; nothing is changed if this is stopped", "jobs", done, "of", jobs)
		}
	}
	return script(conn, raiseMark+"DROP TABLE old_jobs; PRAGMA user_version = 4")
}

// raiseMark makes sure that no job to come is given the number of one that is there: a
// file of schema 3 could live with a mark that is behind.
const raiseMark = "UPDATE marks SET value = max(value, (SELECT coalesce(max(n), 0) FROM job_bodies)) WHERE name = 'seq';\n"

// What no job of schema 3 has ever been: two in one place, and an id that is no UUID.
const (
	placeTwice = `SELECT seq, min(id), max(id) FROM old_jobs GROUP BY seq HAVING count(*) > 1 LIMIT 1`
	noUUID     = `SELECT id FROM old_jobs WHERE length(id) <> 36 OR length(unhex(replace(id, '-', ''))) IS NOT 16 LIMIT 1`
)

// explained is an error of a takeover with the job that is the reason, if it is damage.
func explained(conn driver.Conn, err error) error {
	what := ""
	qerr := once(conn, placeTwice, func(r *row[driver.Value]) {
		n := r.int()
		what = fmt.Sprintf("the jobs %s and %s have both the place %d", r.str(), r.str(), n)
	})
	if qerr == nil && what == "" {
		qerr = once(conn, noUUID, func(r *row[driver.Value]) { what = fmt.Sprintf("the id of the job %.80q is none", r.str()) })
	}
	if qerr != nil || what == "" {
		return err
	}
	return fmt.Errorf("%s, so the file is damaged: restore a backup of it, or go on with the outrider that wrote it: %w", what, err)
}

// takeOver is a statement that copies some jobs into a table of schema 4.
func takeOver(conn driver.Conn, table, those string) (*stmt, error) {
	var names, values []string
	if err := once(conn, "SELECT name FROM pragma_table_info(?)", func(r *row[driver.Value]) {
		name := r.str()
		names = append(names, name)
		switch {
		case name == "n":
			values = append(values, "seq")
		case oldForms[name] != "":
			values = append(values, oldForms[name])
		default:
			values = append(values, name)
		}
	}, table); err != nil {
		return nil, err
	}
	return prepare(conn, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM old_jobs WHERE %s",
		table, strings.Join(names, ", "), strings.Join(values, ", "), those))
}

// createdIn4 is what schema 4 has and schema 3 has not. It is no part of a later schema
// and stays as it is.
const createdIn4 = `
CREATE TABLE job_bodies (
  n             INTEGER PRIMARY KEY,
  id_bytes      BLOB    NOT NULL,
  type          TEXT    NOT NULL,
  max_attempts  INTEGER NOT NULL,
  scheduled_at  INTEGER,
  expires_at    INTEGER,
  timeout_ms    INTEGER,
  visibility_ms INTEGER,
  uniq          TEXT,
  dedup         TEXT,
  retry         TEXT,
  extra         TEXT,
  meta          TEXT,
  args          TEXT    NOT NULL
) STRICT;
CREATE TABLE job_states (
  n             INTEGER PRIMARY KEY,
  state_code    INTEGER NOT NULL CHECK (state_code BETWEEN 0 AND 7),
  queue         TEXT    NOT NULL,
  priority      INTEGER NOT NULL,
  seq           INTEGER NOT NULL,
  due_at        INTEGER,
  attempt       INTEGER NOT NULL,
  releases      INTEGER NOT NULL,
  told          INTEGER NOT NULL,
  dead          INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  enqueued_at   INTEGER,
  started_at    INTEGER,
  finished_at   INTEGER,
  lease_token   ANY,
  lease_worker  TEXT,
  lease_ms      INTEGER,
  lease_until   INTEGER,
  fingerprint   BLOB,
  holds         INTEGER,
  dedup_key     TEXT,
  dedup_until   INTEGER,
  custom_id     TEXT,
  keep_until    INTEGER,
  rewritten_at  INTEGER,
  activated_at  INTEGER,
  next_retry_at INTEGER,
  retry_delay   INTEGER,
  after_id      TEXT,
  lost          TEXT,
  error         TEXT,
  result        TEXT,
  errors        TEXT
) STRICT;
CREATE VIEW jobs AS
SELECT lower(printf('%s-%s-%s-%s-%s', substr(hex(id_bytes), 1, 8), substr(hex(id_bytes), 9, 4), substr(hex(id_bytes), 13, 4), substr(hex(id_bytes), 17, 4), substr(hex(id_bytes), 21))) AS id,
  CASE state_code WHEN 0 THEN 'scheduled' WHEN 1 THEN 'available' WHEN 2 THEN 'pending' WHEN 3 THEN 'active'
    WHEN 4 THEN 'retryable' WHEN 5 THEN 'completed' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'discarded' END AS state, *
FROM job_bodies JOIN job_states USING (n);
CREATE UNIQUE INDEX jobs_id ON job_bodies (id_bytes);
CREATE INDEX jobs_claim ON job_states (queue, priority DESC, seq) WHERE state_code = 1;
CREATE INDEX jobs_due ON job_states (state_code, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_dead ON job_states (finished_at) WHERE dead = 1;
CREATE UNIQUE INDEX jobs_held ON job_states (fingerprint) WHERE holds > 0;
CREATE INDEX jobs_past ON job_states (fingerprint, state_code, created_at) WHERE holds = 0;
CREATE INDEX jobs_dedup ON job_states (queue, dedup_key, dedup_until) WHERE dedup_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_custom ON job_states (queue, custom_id) WHERE custom_id IS NOT NULL;
CREATE INDEX jobs_after ON job_states (after_id) WHERE after_id IS NOT NULL;
`

// spaceFor is space, but where a test has a smaller disk.
var spaceFor = space

// roomFor refuses an upgrade for which the disk has no room: the new rows go into the
// log first, and then into the file.
func roomFor(conn driver.Conn, path string) error {
	pages, err := number(conn, "PRAGMA page_count")
	if err != nil {
		return err
	}
	size, err := number(conn, "PRAGMA page_size")
	if err != nil {
		return err
	}
	free, _, err := spaceFor(filepath.Dir(path))
	if err != nil {
		return nil // it is not known; what does not fit undoes all
	}
	if need := 2 * pages * size; free < uint64(need) {
		return job.Errorf(job.Unavailable, "to bring %s to schema %d takes %d MB on its disk for a while, and %d MB are free: free some and start again. Nothing was changed", path, version, need>>20+1, free>>20)
	}
	return nil
}
