package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"log/slog"

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
func upgrade(conn driver.Conn, path string, from int64, log *slog.Logger) error {
	if from < 4 { // what comes later copies no jobs
		if err := roomFor(conn, path); err != nil {
			return err
		}
	}
	log.Info("the database is brought to this version's schema; until that is done nobody is answered", "path", path, "from", from, "to", version)
	// Pages that do not fit into the cache are written more than once.
	if err := script(conn, "PRAGMA cache_size = -65536"); err != nil {
		return err
	}
	defer func() { _ = script(conn, "PRAGMA cache_size = "+cacheSize+"; PRAGMA shrink_memory") }() // of a connection that fails nobody asks more
	if err := within(conn, func() error { return steps(conn, from, log) }); err != nil {
		return job.Errorf(job.Unavailable, "%s has schema %d and could not be brought to schema %d, so it was left as it was; free space on its disk if that is full, else keep a copy and use the outrider that wrote it: %w", path, from, version, err)
	}
	return script(conn, "PRAGMA wal_checkpoint(TRUNCATE)") // as build does
}

// steps are the statements of an upgrade, inside its transaction.
func steps(conn driver.Conn, from int64, log *slog.Logger) error {
	if from < 2 {
		if err := script(conn, toSchema2); err != nil {
			return err
		}
		if err := keyAll(conn); err != nil {
			return err
		}
	}
	if from < 3 {
		if err := script(conn, toSchema3); err != nil {
			return err
		}
		if err := lineUp(conn); err != nil {
			return err
		}
	}
	if from < 4 {
		if err := split(conn, log); err != nil {
			return err
		}
	}
	if from < 5 {
		if err := script(conn, toSchema5); err != nil {
			return err
		}
	}
	return script(conn, toSchema6)
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
	write, err := prepare(conn, giveKey)
	if err != nil {
		return err
	}
	defer func() { _ = write.s.Close() }() // each of its runs has been judged
	for last := job.ID("~"); last != ""; { // behind all ids
		var jobs []*job.Job
		if err := once(conn, notKeyed, func(r *row[driver.Value]) { jobs = append(jobs, ofSchema1(r)) }, string(last)); err != nil {
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
func ofSchema1(r *row[driver.Value]) *job.Job {
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
	n, err := write.exec(job.KeyValue(pushed.Fingerprint), int64(holds), millis(pushed.Keep), string(j.ID))
	if err == nil && n == 0 {
		_, err = write.exec(job.KeyValue(pushed.Fingerprint), int64(0), millis(pushed.Keep), string(j.ID))
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

// maybeWaiting reads the jobs of schema 2 that may wait for another: all of those
// had a due_at.
const maybeWaiting = `SELECT id, meta, created_at FROM jobs WHERE state = 'pending' AND due_at IS NOT NULL`

// before2 reads what shows whether a job of schema 2 is still waited for.
const before2 = `SELECT state, attempt, meta, created_at FROM jobs WHERE id = ?`

// stand puts a job behind another. The due_at of one that does not expire was no time.
const stand = `UPDATE jobs SET after_id = ?2, due_at = expires_at WHERE id = ?1`

// setFree lets a job go whose predecessor had ended before anybody saw to it, by way
// of the clock, which puts it into its queue; countFree counts it. What a change of
// state does to a key and to due_at it does, too: ?2 is the set of the new state.
const (
	setFree = `UPDATE jobs SET state = 'scheduled', holds = iif(holds & ?2 = 0, 0, holds),
  due_at = min(max(created_at, ifnull(scheduled_at, 0)), ifnull(expires_at, 9223372036854775807)) WHERE id = ?1`
	countFree = `UPDATE queues SET pending = pending - 1, scheduled = scheduled + 1 WHERE name = (SELECT queue FROM jobs WHERE id = ?)`
)

// lineUp gives the runs of schedules that wait for another the job whose end they
// wait for.
func lineUp(conn driver.Conn) error {
	behind := map[string]string{}
	if err := once(conn, maybeWaiting, func(r *row[driver.Value]) {
		if id, other := r.str(), ranAfter(r); other != "" && other != id {
			behind[id] = other
		}
	}); err != nil {
		return err
	}
	for id, other := range behind {
		other, err := waitedFor(conn, id, other)
		switch {
		case err != nil:
		case other != "":
			err = once(conn, stand, nil, id, other)
		default:
			if err = once(conn, setFree, nil, id, int64(job.SetOf(job.Scheduled))); err == nil {
				err = once(conn, countFree, nil, id)
			}
		}
		if err != nil {
			return fmt.Errorf("put job %s behind the one that it waits for: %w", id, err)
		}
	}
	return nil
}

// once runs a statement once; read is given each row that it answers.
func once(conn driver.Conn, sql string, read func(*row[driver.Value]), args ...driver.Value) error {
	s, err := prepare(conn, sql)
	if err != nil {
		return err
	}
	defer func() { _ = s.s.Close() }() // it has been judged
	if read == nil {
		_, err = s.exec(args...)
		return err
	}
	return s.each(func(v []driver.Value) error {
		read(&row[driver.Value]{v: v})
		return nil
	}, args...)
}

// waitedFor is the job that has not ended among other, which id had to wait for, and
// those that it waited for, as far as each was stopped before it began; empty for
// none. Meta that somebody has written may lead round in a circle, which is none.
func waitedFor(conn driver.Conn, id, other string) (string, error) {
	for seen := map[string]bool{id: true}; other != "" && !seen[other]; {
		next, alive := "", false
		if err := once(conn, before2, func(r *row[driver.Value]) {
			alive = !job.State(r.str()).Terminal()
			if began := r.int() > 0; !began {
				next = ranAfter(r)
			}
		}, other); err != nil || alive {
			return other, err
		}
		seen[other], other = true, next
	}
	return "", nil
}

// ranAfter reads meta and created_at: the job that a run had to wait for. Meta that
// a client has written does not count: only a run was made at the instant that its
// meta names.
func ranAfter(r *row[driver.Value]) string {
	var meta struct {
		After string `json:"cron_after"`
		At    string `json:"cron_triggered_at"`
	}
	if json.Unmarshal(r.raw(), &meta) != nil || meta.At != job.FormatTime(r.time()) {
		return ""
	}
	return meta.After
}
