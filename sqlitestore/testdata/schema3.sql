-- The store of Outrider: one file, one writer. Times are milliseconds since
-- 1970 in UTC, durations milliseconds; JSON is text as it came.

CREATE TABLE jobs (
  id            TEXT    NOT NULL PRIMARY KEY,
  type          TEXT    NOT NULL,
  queue         TEXT    NOT NULL,
  args          TEXT    NOT NULL,
  meta          TEXT,
  priority      INTEGER NOT NULL,
  scheduled_at  INTEGER,
  expires_at    INTEGER,
  timeout_ms    INTEGER,
  visibility_ms INTEGER,
  retry         TEXT,
  max_attempts  INTEGER NOT NULL,
  uniq          TEXT,
  dedup         TEXT,
  custom_id     TEXT,
  extra         TEXT,
  created_at    INTEGER NOT NULL,
  state         TEXT    NOT NULL CHECK (state IN ('scheduled', 'available', 'pending', 'active', 'completed', 'retryable', 'cancelled', 'discarded')),
  attempt       INTEGER NOT NULL,
  releases      INTEGER NOT NULL,
  seq           INTEGER NOT NULL,
  due_at        INTEGER,
  enqueued_at   INTEGER,
  started_at    INTEGER,
  activated_at  INTEGER,
  finished_at   INTEGER,
  next_retry_at INTEGER,
  retry_delay   INTEGER,
  lease_token   TEXT,
  lease_worker  TEXT,
  lease_ms      INTEGER,
  lease_until   INTEGER,
  lost          TEXT,
  dead          INTEGER NOT NULL,
  result        TEXT,
  error         TEXT,
  errors        TEXT,
  told          INTEGER NOT NULL,
  fingerprint   BLOB,    -- the unique key: SHA-256
  holds         INTEGER, -- while it holds that key, the set of states that do; 0 afterwards; NULL without a key
  dedup_key     TEXT,    -- while it may hold it
  dedup_until   INTEGER, -- the end of its window, the largest number for none, 0 once it was taken off
  keep_until    INTEGER,
  rewritten_at  INTEGER,
  after_id      TEXT     -- the job whose end it waits for, or would if it had not been activated; never one that has ended
) STRICT, WITHOUT ROWID;

-- Available: the claim, in its order. Only waiting jobs are in it.
CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq) WHERE state = 'available';

-- Due, NextDue, Held: what a clock must look at, and when; seq keeps those of one instant in order.
CREATE INDEX jobs_due ON jobs (state, due_at, seq) WHERE due_at IS NOT NULL;

-- Jobs with Dead, DeadStats: the dead letters, newest last.
CREATE INDEX jobs_dead ON jobs (finished_at) WHERE dead = 1;

-- Twins: one job at most holds a unique key. The writer looks before it inserts;
-- this index is the net under it.
CREATE UNIQUE INDEX jobs_held ON jobs (fingerprint) WHERE holds > 0;

-- Twins: the others with that key, the newest of each state first.
CREATE INDEX jobs_past ON jobs (fingerprint, state, created_at DESC, id DESC) WHERE holds = 0;

-- DedupOwner: who may hold a deduplication key.
CREATE INDEX jobs_dedup ON jobs (queue, dedup_key, dedup_until) WHERE dedup_key IS NOT NULL;

-- Custom: the caller's own names, each once in its queue.
CREATE UNIQUE INDEX jobs_custom ON jobs (queue, custom_id) WHERE custom_id IS NOT NULL;

-- Waiting: who waits for the end of a job.
CREATE INDEX jobs_after ON jobs (after_id) WHERE after_id IS NOT NULL;

-- A queue and its counters, kept in the transaction of every change.
CREATE TABLE queues (
  name       TEXT    NOT NULL PRIMARY KEY,
  paused     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  scheduled  INTEGER NOT NULL,
  available  INTEGER NOT NULL,
  pending    INTEGER NOT NULL,
  active     INTEGER NOT NULL,
  retryable  INTEGER NOT NULL,
  completed  INTEGER NOT NULL,
  cancelled  INTEGER NOT NULL,
  discarded  INTEGER NOT NULL,
  dead       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What workers have told of themselves, as JSON.
CREATE TABLE workers (
  id      TEXT    NOT NULL PRIMARY KEY,
  beat_at INTEGER NOT NULL,
  info    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Schedules, and what has become of them. The template comes last: once the runs
-- are as many as are kept, a tick leaves the size of its row as it was, and the
-- pages of a long template alone.
CREATE TABLE crons (
  n           INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL UNIQUE,
  expression  TEXT    NOT NULL,
  timezone    TEXT,
  overlap     TEXT,
  enabled     INTEGER, -- NULL when nobody said
  source      TEXT,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  anchor_at   INTEGER,
  seen_at     INTEGER,
  hole_from   INTEGER, -- of older builds; nothing reads or writes it
  hole_to     INTEGER,
  ahead_at    INTEGER,
  next_run_at INTEGER,
  last_run_at INTEGER,
  last_job    TEXT,
  run_count   INTEGER NOT NULL,
  runs        BLOB,    -- 25 bytes each: 0 or the number of the reason, the tick, the id of its job or zeros
  description TEXT,
  template    TEXT
) STRICT;

-- The event log: the events of one commit are one row, as lines of JSON. first
-- is the Seq of the first of them. Each line names the event before it of the
-- same job, and jobs.told is the Seq of the job's newest: History follows the chain.
CREATE TABLE events (
  first INTEGER NOT NULL PRIMARY KEY,
  at    INTEGER NOT NULL,
  lines TEXT    NOT NULL
) STRICT;

-- Numbers that must outlive the process: the last Seq given to a job, and to an
-- event; who the file is; and for each opening of it the last Seq of an event before.
CREATE TABLE marks (
  name  TEXT    NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
