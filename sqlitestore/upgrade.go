package sqlitestore

import (
	"database/sql/driver"
	"fmt"

	"github.com/outrider-jobs/outrider/job"
)

// oldest is the first schema that is taken over.
const oldest = 1

// toSchema2 is what schema 2 has and schema 1 has not: unique keys,
// deduplication, the callers' own names, and schedules. It is no part of a later
// schema and stays as it is.
const toSchema2 = `
ALTER TABLE jobs ADD COLUMN dedup TEXT;
ALTER TABLE jobs ADD COLUMN custom_id TEXT;
ALTER TABLE jobs ADD COLUMN fingerprint BLOB;
ALTER TABLE jobs ADD COLUMN holds INTEGER;
ALTER TABLE jobs ADD COLUMN dedup_key TEXT;
ALTER TABLE jobs ADD COLUMN dedup_until INTEGER;
ALTER TABLE jobs ADD COLUMN keep_until INTEGER;
ALTER TABLE jobs ADD COLUMN rewritten_at INTEGER;
CREATE UNIQUE INDEX jobs_held ON jobs (fingerprint) WHERE holds > 0;
CREATE INDEX jobs_past ON jobs (fingerprint, state, created_at DESC, id DESC) WHERE holds = 0;
CREATE INDEX jobs_dedup ON jobs (queue, dedup_key, dedup_until) WHERE dedup_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_custom ON jobs (queue, custom_id) WHERE custom_id IS NOT NULL;
CREATE TABLE crons (
  n           INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL UNIQUE,
  expression  TEXT    NOT NULL,
  timezone    TEXT,
  overlap     TEXT,
  enabled     INTEGER,
  source      TEXT,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  anchor_at   INTEGER,
  seen_at     INTEGER,
  hole_from   INTEGER,
  hole_to     INTEGER,
  ahead_at    INTEGER,
  next_run_at INTEGER,
  last_run_at INTEGER,
  last_job    TEXT,
  run_count   INTEGER NOT NULL,
  runs        BLOB,
  description TEXT,
  template    TEXT
) STRICT;
PRAGMA user_version = 2;
` + giveIdentity // it is no new store

// toSchema3 is what schema 3 has and schema 2 has not: which job another waits
// for. It stood in the meta of the jobs that wait, and they were due so late that
// nothing but the start of a server found them.
const toSchema3 = `
ALTER TABLE jobs ADD COLUMN after_id TEXT;
CREATE INDEX jobs_after ON jobs (after_id) WHERE after_id IS NOT NULL;
PRAGMA user_version = 3;
`

// upgrade brings a file from an older schema to this one in one transaction:
// whatever happens, the file has the one or the other.
func upgrade(conn driver.Conn, path string, from int64) error {
	err := script(conn, "BEGIN IMMEDIATE")
	if err == nil {
		if err = steps(conn, from); err == nil {
			err = script(conn, "COMMIT")
		}
		if err != nil {
			_ = script(conn, "ROLLBACK") // SQLite may have done so by itself
		}
	}
	if err != nil {
		return job.Errorf(job.Unavailable, "%s has schema %d and could not be brought to schema %d, so it was left as it was; free space on its disk if that is full, else keep a copy and use the outrider that wrote it: %w", path, from, version, err)
	}
	return script(conn, "PRAGMA wal_checkpoint(TRUNCATE)") // as build does
}

// steps are the statements of an upgrade, inside its transaction.
func steps(conn driver.Conn, from int64) error {
	if from < 2 {
		if err := script(conn, toSchema2); err != nil {
			return err
		}
		if err := keyAll(conn); err != nil {
			return err
		}
	}
	if err := script(conn, toSchema3); err != nil {
		return err
	}
	return lineUp(conn)
}

// notKeyed reads jobs with a unique policy, the newest id first.
const notKeyed = `SELECT id, type, queue, args, meta, uniq, created_at, state, attempt, releases, scheduled_at, enqueued_at, activated_at
FROM jobs WHERE uniq IS NOT NULL AND id < ? ORDER BY id DESC LIMIT 100`

// giveKey leaves the job as it is where a newer one holds the key.
const giveKey = `UPDATE OR IGNORE jobs SET fingerprint = ?, holds = ?, keep_until = ? WHERE id = ?`

// keyAll gives the stored jobs that have a unique policy the keys that they would
// have had from the start. Schema 1 kept the policies and did not heed them: of
// twins the newest holds the key, and the others count as twins that held it once.
func keyAll(conn driver.Conn) error {
	read, err := prepare(conn, notKeyed)
	if err != nil {
		return err
	}
	defer func() { _ = read.s.Close() }() // it has been read to its end
	write, err := prepare(conn, giveKey)
	if err != nil {
		return err
	}
	defer func() { _ = write.s.Close() }() // each of its runs has been judged
	for last := job.ID("~"); last != ""; { // behind all ids
		var jobs []*job.Job
		if err := read.each(func(v []driver.Value) error {
			jobs = append(jobs, ofSchema1(v))
			return nil
		}, string(last)); err != nil {
			return err
		}
		last = ""
		for _, j := range jobs {
			last = j.ID
			if err := keyOne(write, j); err != nil {
				return fmt.Errorf("give job %s its unique key: %w", j.ID, err)
			}
		}
	}
	return nil
}

// ofSchema1 reads the columns of notKeyed.
func ofSchema1(v []driver.Value) *job.Job {
	r := &row[driver.Value]{v: v}
	j := &job.Job{}
	j.ID, j.Type, j.Queue = job.ID(r.str()), r.str(), r.str()
	j.Args, j.Meta, j.Unique, j.CreatedAt = r.raw(), r.raw(), r.raw(), r.time()
	j.State, j.Attempt, j.Releases = job.State(r.str()), int(r.int()), int(r.int())
	j.ScheduledAt, j.EnqueuedAt, j.ActivatedAt = r.time(), r.time(), r.time()
	return j
}

// keyOne stores the key of a job. One whose policy would be refused today gets
// none: it was never held to it.
func keyOne(write *stmt, j *job.Job) error {
	policy, err := job.ParseUnique(j.Unique, true)
	if err != nil {
		return nil
	}
	c, err := job.Envelope{ID: j.ID, Type: j.Type, Queue: j.Queue, Args: j.Args, Meta: j.Meta, Unique: j.Unique}.Check()
	if err != nil {
		return nil
	}
	pushed, err := c.Push(j.CreatedAt)
	if err != nil {
		return nil
	}
	holds := policy.States
	if been(j)&^holds != 0 {
		holds = 0 // it has left them, and never takes its key again
	}
	n, err := write.exec(blob(pushed.Fingerprint), int64(holds), millis(pushed.Keep), string(j.ID))
	if err == nil && n == 0 {
		_, err = write.exec(blob(pushed.Fingerprint), int64(0), millis(pushed.Keep), string(j.ID))
	}
	return err
}

// been are the states that a job of schema 1 is known to have been in.
func been(j *job.Job) job.StateSet {
	set := job.SetOf(j.State)
	for _, s := range []struct {
		state job.State
		was   bool
	}{
		{job.Scheduled, j.ScheduledAt.After(j.CreatedAt)},
		{job.Pending, !j.ActivatedAt.IsZero()},
		{job.Available, !j.EnqueuedAt.IsZero()},
		{job.Active, j.Attempt > 0},
		{job.Retryable, j.Attempt-j.Releases > 1},
	} {
		if s.was {
			set |= job.SetOf(s.state)
		}
	}
	return set
}
