-- The store of Outrider: one file, one writer. Times are milliseconds since
-- 1970 in UTC, durations milliseconds; JSON is text as it came.

-- A job is two rows with one number. This is what it is: it is written when the job
-- is stored, and hardly ever again. What may be long comes last, so that the rest is
-- read without it.
CREATE TABLE job_bodies (
  n             INTEGER PRIMARY KEY, -- the first seq of the job, for good
  id_bytes      BLOB    NOT NULL,    -- the 16 bytes of its UUID
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
  args          TEXT    NOT NULL,
  flow           TEXT,   -- of a step of a workflow: its id, its place, the place of what it is in, and its name, with / between them
  parent_results TEXT,   -- of such a step: what it was given, JSON
  parent_errors  TEXT,
  rate_limit     TEXT    -- as it was asked for
) STRICT;

-- And this is what becomes of it: each step of its life writes what that changes, in
-- a row of some hundred bytes.
CREATE TABLE job_states (
  n             INTEGER PRIMARY KEY,
  state_code    INTEGER NOT NULL CHECK (state_code BETWEEN 0 AND 7), -- the place among scheduled, available, pending, active, retryable, completed, cancelled, discarded
  queue         TEXT    NOT NULL,
  priority      INTEGER NOT NULL,
  seq           INTEGER NOT NULL, -- the place in its queue: it gets another whenever it comes back
  due_at        INTEGER,
  attempt       INTEGER NOT NULL,
  releases      INTEGER NOT NULL,
  told          INTEGER NOT NULL,
  dead          INTEGER NOT NULL,
  created_at    INTEGER NOT NULL,
  enqueued_at   INTEGER,
  started_at    INTEGER,
  finished_at   INTEGER,
  lease_token   ANY,     -- its bytes, where it is the hexadecimal of some
  lease_worker  TEXT,
  lease_ms      INTEGER,
  lease_until   INTEGER,
  fingerprint   BLOB,    -- the unique key: SHA-256
  holds         INTEGER, -- while it holds that key, the set of states that do; 0 afterwards; NULL without a key
  dedup_key     TEXT,    -- while it may hold it
  dedup_until   INTEGER, -- the end of its window, the largest number for none, 0 once it was taken off
  custom_id     TEXT,
  keep_until    INTEGER,
  rewritten_at  INTEGER,
  activated_at  INTEGER,
  next_retry_at INTEGER,
  retry_delay   INTEGER,
  after_id      TEXT,    -- the job whose end it waits for, or would if it had not been activated; never one that has ended
  lost          TEXT,
  error         TEXT,
  result        TEXT,
  errors        TEXT,
  progress      TEXT,    -- what its worker has told of it last, as JSON
  checkpoint    TEXT,    -- where its next attempt may go on, as JSON
  tenant        TEXT,    -- that its meta names
  lane          TEXT,    -- the key of the limit that it waits for when it is available
  behind        INTEGER NOT NULL DEFAULT 0 -- 1 while it is available and not to be claimed: it is not the first of its lane, or the limit is exhausted
) STRICT;

-- The jobs as a person reads them. The program does not.
CREATE VIEW jobs AS
SELECT lower(printf('%s-%s-%s-%s-%s', substr(hex(id_bytes), 1, 8), substr(hex(id_bytes), 9, 4), substr(hex(id_bytes), 13, 4), substr(hex(id_bytes), 17, 4), substr(hex(id_bytes), 21))) AS id,
  CASE state_code WHEN 0 THEN 'scheduled' WHEN 1 THEN 'available' WHEN 2 THEN 'pending' WHEN 3 THEN 'active'
    WHEN 4 THEN 'retryable' WHEN 5 THEN 'completed' WHEN 6 THEN 'cancelled' WHEN 7 THEN 'discarded' END AS state, *
FROM job_bodies JOIN job_states USING (n);

-- Job: by id, and lists, the newest id first.
CREATE UNIQUE INDEX jobs_id ON job_bodies (id_bytes);

-- Available: the claim, in its order. Only waiting jobs are in it: those in line first, and
-- apart from them those that are behind.
CREATE INDEX jobs_claim ON job_states (queue, behind, priority DESC, seq) WHERE state_code = 1;

-- LaneHead, LaneHeads, LaneDepth: those that wait under one key, the first of each queue first.
CREATE INDEX jobs_lane ON job_states (lane, queue, priority DESC, seq, behind) WHERE state_code = 1 AND lane IS NOT NULL;

-- AvailableOf, TenantCounts: the jobs of one tenant.
CREATE INDEX jobs_tenant ON job_states (tenant, queue, state_code, behind, priority DESC, seq) WHERE tenant IS NOT NULL;

-- Due, NextDue, Held: what a clock must look at, and when; seq keeps those of one instant in order.
CREATE INDEX jobs_due ON job_states (state_code, due_at, seq) WHERE due_at IS NOT NULL;

-- Jobs with Dead, DeadStats: the dead letters, newest last.
CREATE INDEX jobs_dead ON job_states (finished_at) WHERE dead = 1;

-- Twins: one job at most holds a unique key. The writer looks before it inserts;
-- this index is the net under it.
CREATE UNIQUE INDEX jobs_held ON job_states (fingerprint) WHERE holds > 0;

-- Twins: the others with that key, the newest of each state last.
CREATE INDEX jobs_past ON job_states (fingerprint, state_code, created_at) WHERE holds = 0;

-- DedupOwner: who may hold a deduplication key.
CREATE INDEX jobs_dedup ON job_states (queue, dedup_key, dedup_until) WHERE dedup_key IS NOT NULL;

-- Custom: the caller's own names, each once in its queue.
CREATE UNIQUE INDEX jobs_custom ON job_states (queue, custom_id) WHERE custom_id IS NOT NULL;

-- Waiting: who waits for the end of a job.
CREATE INDEX jobs_after ON job_states (after_id) WHERE after_id IS NOT NULL;

-- A queue and its counters, kept in the transaction of every change, and with them the
-- last Seq that had been given to a job, and to an event: the largest of all rows count.
CREATE TABLE queues (
  name       TEXT    NOT NULL PRIMARY KEY,
  paused     INTEGER NOT NULL, -- of older builds: 0; queue_settings has it
  created_at INTEGER NOT NULL,
  scheduled  INTEGER NOT NULL,
  available  INTEGER NOT NULL,
  pending    INTEGER NOT NULL,
  active     INTEGER NOT NULL,
  retryable  INTEGER NOT NULL,
  completed  INTEGER NOT NULL,
  cancelled  INTEGER NOT NULL,
  discarded  INTEGER NOT NULL,
  dead       INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL DEFAULT 0,
  last_event INTEGER NOT NULL DEFAULT 0,
  slot           INTEGER NOT NULL DEFAULT 0, -- the minute in which something happened last, and what did
  slot_enqueued  INTEGER NOT NULL DEFAULT 0,
  slot_started   INTEGER NOT NULL DEFAULT 0,
  slot_completed INTEGER NOT NULL DEFAULT 0,
  slot_failed    INTEGER NOT NULL DEFAULT 0,
  slot_timed     INTEGER NOT NULL DEFAULT 0, -- of the completed, those of which slot_took is
  slot_took      INTEGER NOT NULL DEFAULT 0,
  slot_waited    INTEGER NOT NULL DEFAULT 0  -- of those that started
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
  last_job    TEXT,    -- its id, or that of a workflow behind "workflow "
  run_count   INTEGER NOT NULL,
  runs        BLOB,    -- 25 bytes each: 0 or the number of the reason, the tick, the id of its job, of its workflow or zeros
  description TEXT,
  template    TEXT
) STRICT;

-- The JSON Schemas that args are held to, in the order in which they were registered.
CREATE TABLE schemas (
  n          INTEGER PRIMARY KEY,
  uri        TEXT    NOT NULL UNIQUE,
  type       TEXT    NOT NULL,
  version    TEXT    NOT NULL, -- without the quotes of a string
  written    TEXT    NOT NULL, -- the version as it was given, JSON
  schema     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (type, version)
) STRICT;

-- The event log: the events of one commit are one row. first is the Seq of the first
-- of them. Each event names the one before it of the same job, and job_states.told is
-- the Seq of the job's newest: History follows the chain. Rows of older schemas are
-- text, a line of JSON for each event.
CREATE TABLE events (
  first  INTEGER NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL, -- the latest of them
  packed ANY     NOT NULL
) STRICT;

-- Numbers that must outlive the process: the last Seq given to an event that is no
-- job's; who the file is; and for each opening of it the last Seq of an event before.
CREATE TABLE marks (
  name  TEXT    NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What has been set of queues by those who run them, as JSON, and of _default for all
-- that have nothing of their own. It is not in the row of the counters, which nearly
-- every commit writes.
CREATE TABLE queue_settings (
  name TEXT NOT NULL PRIMARY KEY,
  info TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The minutes before that, of each queue. One in which nothing happened has no row.
CREATE TABLE queue_slots (
  queue     TEXT    NOT NULL,
  slot      INTEGER NOT NULL,
  enqueued  INTEGER NOT NULL,
  started   INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed    INTEGER NOT NULL,
  timed     INTEGER NOT NULL,
  took      INTEGER NOT NULL,
  waited    INTEGER NOT NULL,
  PRIMARY KEY (queue, slot)
) STRICT, WITHOUT ROWID;

-- What was answered to requests that bring a key of their own, to be answered again.
CREATE TABLE answers (
  key    TEXT    NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL,
  digest TEXT    NOT NULL, -- of the request
  answer TEXT    NOT NULL
) STRICT;

-- Workflows, as a list shows them. What becomes of one stands in its first node.
CREATE TABLE workflows (
  id_bytes    BLOB    NOT NULL PRIMARY KEY, -- the 16 bytes of its UUID
  kind        TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  state       TEXT    NOT NULL,
  nodes       INTEGER NOT NULL,             -- how many it has
  created_at  INTEGER NOT NULL,
  finished_at INTEGER,
  digest      TEXT                          -- of what was asked for, where its caller has chosen the id
) STRICT, WITHOUT ROWID;

-- Workflows: lists of one state. PruneFlows: those that ended first.
CREATE INDEX workflows_state ON workflows (state, id_bytes);
CREATE INDEX workflows_ended ON workflows (state, finished_at) WHERE finished_at IS NOT NULL;

-- The elements of a workflow: 0 is the whole, those of one stand side by side. What
-- becomes of a job stands in ends of what it is in, so that the ends of many jobs in one
-- commit write one row.
CREATE TABLE workflow_nodes (
  flow       BLOB    NOT NULL,
  idx        INTEGER NOT NULL,
  parent     INTEGER NOT NULL,
  kind       TEXT    NOT NULL, -- job, chain, group, batch or dag
  step       TEXT    NOT NULL,
  type       TEXT,             -- of a job
  callback   TEXT,
  job_id     BLOB,
  first      INTEGER NOT NULL, -- of its elements
  size       INTEGER NOT NULL, -- how many those are
  calls      TEXT,             -- which of them are callbacks, by their places; so are the next two
  needs      TEXT,
  feeds      TEXT,
  stage      INTEGER NOT NULL, -- waiting, released, completed, failed, cancelled
  calling    INTEGER NOT NULL, -- the callbacks run
  open       INTEGER NOT NULL,
  done       INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
  stopped    INTEGER NOT NULL,
  calls_lost INTEGER NOT NULL,
  wants      INTEGER NOT NULL,
  fed        INTEGER NOT NULL, -- bytes of results
  started_at INTEGER,
  ended_at   INTEGER,
  ends       BLOB,             -- two bits for each element: open, completed, failed, cancelled
  results    TEXT,
  spec       TEXT,             -- the PUSH of a job that was not released yet
  PRIMARY KEY (flow, idx)
) STRICT, WITHOUT ROWID;

-- What jobs with one rate_limit.key, or those of a queue ("@" and its name), may do and
-- have done. A row that a job would make again is dropped after a day.
CREATE TABLE limits (
  key      TEXT    NOT NULL PRIMARY KEY,
  pace     TEXT,             -- of the newest job, as JSON
  override TEXT,             -- an operator's, as JSON
  active   INTEGER NOT NULL, -- jobs of the key
  next     INTEGER NOT NULL, -- when a throttle lets the next one start, in nanoseconds; 0 for at once
  deferred INTEGER,
  opens_at INTEGER,          -- when those that wait may go on, where a clock decides that
  used_at  INTEGER NOT NULL,
  starts   BLOB              -- 12 bytes each: when, and how many
) STRICT, WITHOUT ROWID;

-- OpeningLimits, NextOpening.
CREATE INDEX limits_open ON limits (opens_at) WHERE opens_at IS NOT NULL;
