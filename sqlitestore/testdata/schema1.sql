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
  told          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Available: the claim, in its order. Only waiting jobs are in it.
CREATE INDEX jobs_claim ON jobs (queue, priority DESC, seq) WHERE state = 'available';

-- Due, NextDue, Held: what a clock must look at, and when; seq keeps those of one instant in order.
CREATE INDEX jobs_due ON jobs (state, due_at, seq) WHERE due_at IS NOT NULL;

-- Jobs with Dead, DeadStats: the dead letters, newest last.
CREATE INDEX jobs_dead ON jobs (finished_at) WHERE dead = 1;

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

-- The event log: the events of one commit are one row, as lines of JSON. first
-- is the Seq of the first of them. Each line names the event before it of the
-- same job, and jobs.told is the Seq of the job's newest: History follows the chain.
CREATE TABLE events (
  first INTEGER NOT NULL PRIMARY KEY,
  at    INTEGER NOT NULL,
  lines TEXT    NOT NULL
) STRICT;

-- Numbers that must outlive the process: the last Seq given to a job, and to an event.
CREATE TABLE marks (
  name  TEXT    NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
