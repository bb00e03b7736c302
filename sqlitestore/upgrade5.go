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
CREATE INDEX jobs_claim ON job_states (queue, priority DESC, seq) WHERE state_code = 1 AND behind = 0;
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
PRAGMA user_version = 5;
`
