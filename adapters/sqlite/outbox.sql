-- The outbox of Outrider. A job exists if and only if the transaction commits
-- that writes its row:
--
--   INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', '["ada@example.com"]')
--
-- AUTOINCREMENT, because job ids are made of row ids: the id of a row that was
-- deleted must not come again. Times are milliseconds since 1970 in UTC.
CREATE TABLE IF NOT EXISTS ojs_outbox (
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
CREATE INDEX IF NOT EXISTS ojs_outbox_pending ON ojs_outbox (id) WHERE status = 'pending';

-- What tells this outbox from all others, in the ids of its jobs. Never change it.
CREATE TABLE IF NOT EXISTS ojs_outbox_identity (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  value TEXT    NOT NULL
);
INSERT OR IGNORE INTO ojs_outbox_identity (one, value) VALUES (1, lower(hex(randomblob(16))));
