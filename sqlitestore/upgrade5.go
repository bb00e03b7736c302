package sqlitestore

// toSchema5 is what schema 5 has and schema 4 has not: what a worker tells of a job
// while it runs.
const toSchema5 = `
ALTER TABLE job_states ADD COLUMN progress TEXT;
ALTER TABLE job_states ADD COLUMN checkpoint TEXT;
CREATE TABLE queue_settings (
  name TEXT NOT NULL PRIMARY KEY,
  info TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 5;
`
