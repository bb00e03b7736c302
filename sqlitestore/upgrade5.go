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
PRAGMA user_version = 5;
`
