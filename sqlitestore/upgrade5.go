package sqlitestore

// toSchema5 is what schema 5 has and schema 4 has not: what a worker tells of a job
// while it runs, and the schemas of args.
const toSchema5 = `
ALTER TABLE job_states ADD COLUMN progress TEXT;
ALTER TABLE job_states ADD COLUMN checkpoint TEXT;
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
