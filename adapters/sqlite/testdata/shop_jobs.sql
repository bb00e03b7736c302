== Create
-- The outbox of Outrider. A job exists if and only if the transaction commits
-- that writes its row:
--
--   INSERT INTO shop_jobs (job_type, job_args) VALUES ('email.send', '["ada@example.com"]')
--
-- AUTOINCREMENT, because job ids are made of row ids: the id of a row that was
-- deleted must not come again. Times are milliseconds since 1970 in UTC.
CREATE TABLE IF NOT EXISTS shop_jobs (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id      TEXT,                             -- a UUIDv7; NULL: made of the row
  job_type    TEXT    NOT NULL,                 -- 'email.send'
  job_args    TEXT    NOT NULL,                 -- a JSON array
  job_options TEXT    NOT NULL DEFAULT '{}',    -- a JSON object: queue, priority, retry, delay_ms, meta
  status      TEXT    NOT NULL DEFAULT 'pending', -- then 'sent', or 'parked' with an error
  attempts    INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
  sent_at     INTEGER,
  error       TEXT
);

-- What the relay asks for all the time. Rows that were sent cost it nothing.
CREATE INDEX IF NOT EXISTS shop_jobs_pending ON shop_jobs (id) WHERE status = 'pending';

-- What tells this outbox from all others, in the ids of its jobs. Never change it.
CREATE TABLE IF NOT EXISTS shop_jobs_identity (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  value TEXT    NOT NULL
);
INSERT OR IGNORE INTO shop_jobs_identity (one, value) VALUES (1, lower(hex(randomblob(16))));
== Columns
SELECT name FROM pragma_table_info('shop_jobs')
== Identity
SELECT value FROM shop_jobs_identity
== Insert
INSERT INTO shop_jobs (job_id, job_type, job_args, job_options) VALUES (?, ?, ?, ?)
== Pending
SELECT id, substr(CAST(job_id AS BLOB), 1, 64), substr(CAST(job_type AS BLOB), 1, 1024),
  substr(CAST(job_args AS BLOB), 1, 1048577), substr(CAST(job_options AS BLOB), 1, 1048577),
  CASE typeof(created_at) WHEN 'integer' THEN created_at ELSE 0 END, CAST(attempts AS INTEGER)
FROM shop_jobs WHERE status = 'pending' AND CAST(next_try_at AS INTEGER) <= ?{skip} ORDER BY id LIMIT ?
== Sent
UPDATE shop_jobs SET status = 'sent', sent_at = ?, attempts = attempts + ?, error = NULL WHERE status = 'pending' AND id IN ({ids})
== Parked
UPDATE shop_jobs SET status = 'parked', error = ?, attempts = attempts + ? WHERE status = 'pending' AND id IN ({ids})
== Later
UPDATE shop_jobs SET next_try_at = ?, error = ?, attempts = attempts + ? WHERE status = 'pending' AND id IN ({ids})
== Kept
SELECT id, status, CAST(ifnull(sent_at, 0) AS INTEGER) FROM shop_jobs WHERE id > ? ORDER BY id LIMIT ?
== Delete
DELETE FROM shop_jobs WHERE status = 'sent' AND id IN ({ids})
== Changed
PRAGMA data_version
