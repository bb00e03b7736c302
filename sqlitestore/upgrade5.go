package sqlitestore

// toSchema5 is what schema 5 has and schema 4 has not: what a worker tells of a job
// while it runs, and the schemas of args.
const toSchema5 = `
ALTER TABLE job_states ADD COLUMN progress TEXT;
ALTER TABLE job_states ADD COLUMN checkpoint TEXT;
ALTER TABLE job_bodies ADD COLUMN rate_limit TEXT;
ALTER TABLE job_states ADD COLUMN tenant TEXT;
ALTER TABLE job_states ADD COLUMN lane TEXT;
ALTER TABLE job_states ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;
DROP INDEX jobs_claim;
CREATE INDEX jobs_claim ON job_states (queue, behind, priority DESC, seq) WHERE state_code = 1;
CREATE INDEX jobs_lane ON job_states (lane, queue, priority DESC, seq, behind) WHERE state_code = 1 AND lane IS NOT NULL;
CREATE INDEX jobs_tenant ON job_states (tenant, queue, state_code, behind, priority DESC, seq) WHERE tenant IS NOT NULL;
CREATE TABLE limits (
  key      TEXT    NOT NULL PRIMARY KEY,
  pace     TEXT,
  override TEXT,
  active   INTEGER NOT NULL,
  next     INTEGER NOT NULL,
  deferred INTEGER,
  opens_at INTEGER,
  used_at  INTEGER NOT NULL,
  starts   BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX limits_open ON limits (opens_at) WHERE opens_at IS NOT NULL;
CREATE TABLE schemas (
  n          INTEGER PRIMARY KEY,
  uri        TEXT    NOT NULL UNIQUE,
  type       TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  written    TEXT    NOT NULL,
  schema     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (type, version)
) STRICT;
CREATE TABLE queue_settings (
  name TEXT NOT NULL PRIMARY KEY,
  info TEXT NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE queues ADD COLUMN slot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_enqueued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_completed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_timed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_took INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN slot_waited INTEGER NOT NULL DEFAULT 0;
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
CREATE TABLE answers (
  key    TEXT    NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL,
  digest TEXT    NOT NULL, -- of the request
  answer TEXT    NOT NULL
) STRICT;
ALTER TABLE job_bodies ADD COLUMN flow TEXT;
ALTER TABLE job_bodies ADD COLUMN parent_results TEXT;
ALTER TABLE job_bodies ADD COLUMN parent_errors TEXT;
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

CREATE INDEX workflows_state ON workflows (state, id_bytes);
CREATE INDEX workflows_ended ON workflows (state, finished_at) WHERE finished_at IS NOT NULL;

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
PRAGMA user_version = 5;
`
