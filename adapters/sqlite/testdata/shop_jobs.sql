== Name
sqlite
== Table
shop_jobs
== Create
-- The outbox of Outrider. A job exists if and only if the transaction commits
-- that writes its row:
--
--   INSERT INTO shop_jobs (job_type, job_args) VALUES ('email.send', '["ada@example.com"]')
--
-- A whole workflow in one row: its id is that of the row's job.
--
--   INSERT INTO shop_jobs (job_type, job_args, job_options) VALUES ('order.fulfil', '[]',
--     '{"workflow": {"type": "chain", "steps": [{"type": "order.charge"}, {"type": "order.ship"}]}}')
--
-- AUTOINCREMENT, because job ids are made of row ids: the id of a row that was
-- deleted must not come again. Times are milliseconds since 1970 in UTC.
CREATE TABLE IF NOT EXISTS shop_jobs (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id      TEXT,                             -- a UUIDv7; NULL: made of the row
  job_type    TEXT    NOT NULL,                 -- 'email.send'
  job_args    TEXT    NOT NULL,                 -- a JSON array
  job_options TEXT    NOT NULL DEFAULT '{}',    -- a JSON object: queue, priority, retry, delay_ms, meta
  status      TEXT    NOT NULL DEFAULT 'pending', -- then 'relayed' or 'sent', or 'parked' with an error
  owner       TEXT,                             -- the job server that has it
  attempts    INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)),
  sent_at     INTEGER,
  error       TEXT,
  answered_by TEXT                              -- relayed: the job that answers for it, if that is not its own
);

-- What the relay asks for all the time. Rows that were sent cost it nothing.
CREATE INDEX IF NOT EXISTS shop_jobs_pending ON shop_jobs (id) WHERE status = 'pending';

-- What a job server has, and what was parked.
CREATE INDEX IF NOT EXISTS shop_jobs_owned ON shop_jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS shop_jobs_parked ON shop_jobs (id) WHERE status = 'parked';

-- The job servers that relay: until when each is taken to live, and what it has sent.
CREATE TABLE IF NOT EXISTS shop_jobs_relays (
  owner   TEXT    NOT NULL PRIMARY KEY,
  until   INTEGER NOT NULL, -- 0: it is dead, and its rows are free
  seen_at INTEGER NOT NULL,
  mode    TEXT    NOT NULL, -- 'on_relay' or 'on_complete'
  sent    INTEGER NOT NULL DEFAULT 0,
  epoch   TEXT,             -- of its disk, when it took the newest job
  upto    INTEGER,          -- and the event there behind that job
  host    TEXT              -- its newest process: 'web-1:4711', with its pid
);

-- The ticks of schedules that several job servers keep: each is decided once, by
-- the key. They go after 26 hours, but the newest of each schedule stays.
CREATE TABLE IF NOT EXISTS shop_jobs_ticks (
  name     TEXT    NOT NULL, -- of the schedule, or '' for what the servers wait for
  at       INTEGER NOT NULL, -- the tick
  job_id   TEXT,             -- its job, or NULL: the one before had not ended
  last_id  TEXT,             -- the newest job of the schedule, this one or one before
  last_row INTEGER,          -- and its row in the outbox, which may be gone
  PRIMARY KEY (name, at)
);
CREATE INDEX IF NOT EXISTS shop_jobs_ticks_at ON shop_jobs_ticks (at);

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
== Path
SELECT file FROM pragma_database_list WHERE name = 'main'
== Narrow

== Audit
WITH w(n, name) AS (VALUES (1, 'shop_jobs'), (2, 'shop_jobs_relays'), (3, 'shop_jobs_identity'))
SELECT 'the table ' || name || ' is missing; make it with: outrider outbox init DSN' FROM w
WHERE name NOT IN (SELECT name FROM sqlite_master) AND (n = 1 OR 'shop_jobs' IN (SELECT name FROM sqlite_master)) ORDER BY n
WITH w(n, tab, name, def) AS (VALUES (1, 'shop_jobs', 'id', NULL), (2, 'shop_jobs', 'job_id', 'TEXT'),
  (3, 'shop_jobs', 'job_type', NULL), (4, 'shop_jobs', 'job_args', NULL), (5, 'shop_jobs', 'job_options', 'TEXT NOT NULL DEFAULT ''{}'''),
  (6, 'shop_jobs', 'status', 'TEXT NOT NULL DEFAULT ''pending'''), (7, 'shop_jobs', 'owner', 'TEXT'),
  (8, 'shop_jobs', 'attempts', 'INTEGER NOT NULL DEFAULT 0'), (9, 'shop_jobs', 'next_try_at', 'INTEGER NOT NULL DEFAULT 0'),
  (10, 'shop_jobs', 'created_at', NULL), (11, 'shop_jobs', 'sent_at', 'INTEGER'), (12, 'shop_jobs', 'error', 'TEXT'),
  (13, 'shop_jobs_relays', 'owner', NULL), (14, 'shop_jobs_relays', 'until', NULL), (15, 'shop_jobs_relays', 'seen_at', NULL),
  (16, 'shop_jobs_relays', 'mode', NULL), (17, 'shop_jobs_relays', 'sent', 'INTEGER NOT NULL DEFAULT 0'),
  (18, 'shop_jobs_identity', 'one', NULL), (19, 'shop_jobs_identity', 'value', NULL), (20, 'shop_jobs', 'answered_by', 'TEXT'),
  (21, 'shop_jobs_relays', 'epoch', 'TEXT'), (22, 'shop_jobs_relays', 'upto', 'INTEGER'), (23, 'shop_jobs_relays', 'host', 'TEXT'))
SELECT tab || '.' || name || ': the column is missing' || coalesce('; run: ALTER TABLE ' || tab || ' ADD COLUMN ' || name || ' ' || def, '') FROM w
WHERE tab IN (SELECT name FROM sqlite_master) AND NOT EXISTS (SELECT 1 FROM pragma_table_info(w.tab) AS c WHERE c.name = w.name) ORDER BY n
SELECT 'shop_jobs.id: expected INTEGER PRIMARY KEY AUTOINCREMENT; without it the id of a deleted row comes again, and its job would count as sent'
FROM sqlite_master WHERE type = 'table' AND name = 'shop_jobs' AND upper(sql) NOT LIKE '%AUTOINCREMENT%'
WITH w(n, name, told) AS (VALUES
  (1, 'shop_jobs_pending', 'CREATE INDEX shop_jobs_pending ON shop_jobs (id) WHERE status = ''pending'''),
  (2, 'shop_jobs_owned', 'CREATE INDEX shop_jobs_owned ON shop_jobs (owner, id) WHERE owner IS NOT NULL'),
  (3, 'shop_jobs_parked', 'CREATE INDEX shop_jobs_parked ON shop_jobs (id) WHERE status = ''parked'''))
SELECT 'the index ' || name || ' is missing; run: ' || told FROM w
WHERE 'shop_jobs' IN (SELECT name FROM sqlite_master) AND name NOT IN (SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'shop_jobs') ORDER BY n
SELECT 'the outbox shop_jobs has no identity, from which job ids are made; make it with: outrider outbox init DSN'
WHERE (SELECT count(*) FROM shop_jobs_identity WHERE one = 1 AND value <> '') <> 1
== Insert
INSERT INTO shop_jobs (job_id, job_type, job_args, job_options) VALUES (?, ?, ?, ?)
== Pending
SELECT id, substr(CAST(job_id AS BLOB), 1, 64), substr(CAST(job_type AS BLOB), 1, 1024),
  substr(CAST(job_args AS BLOB), 1, 1048577), substr(CAST(job_options AS BLOB), 1, 1048577),
  CASE WHEN typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000),
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM shop_jobs WHERE status = 'pending' AND CAST(ifnull(next_try_at, 0) AS INTEGER) <= ?{skip} ORDER BY id LIMIT ?
== Done
DELETE FROM shop_jobs WHERE status = 'pending' AND id IN ({ids}) AND EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner = ?1 AND until > 0)
== Sent
UPDATE shop_jobs SET status = 'sent', sent_at = ?1, attempts = min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000) + ?2, error = NULL WHERE status = 'pending' AND id IN ({ids}) AND EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner = ?3 AND until > 0)
== Relayed
UPDATE shop_jobs SET status = 'relayed', sent_at = ?1, attempts = min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000) + ?2, owner = ?3, error = NULL, answered_by = {by} WHERE status = 'pending' AND id IN ({ids}) AND EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner = ?3 AND until > 0)
== Ended
DELETE FROM shop_jobs WHERE status = 'relayed' AND owner = ? AND id IN ({ids})
== Passed
UPDATE shop_jobs SET answered_by = {by} WHERE status = 'relayed' AND owner = ? AND id IN ({ids})
== Again
UPDATE shop_jobs SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE status = 'relayed' AND owner = ? AND id IN ({ids})
== Parked
UPDATE shop_jobs SET status = 'parked', error = ?1, attempts = min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000) + ?2 WHERE status = 'pending' AND id IN ({ids}) AND EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner = ?3 AND until > 0)
== Later
UPDATE shop_jobs SET next_try_at = ?1, error = ?2, attempts = min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000) + ?3 WHERE status = 'pending' AND id IN ({ids}) AND EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner = ?4 AND until > 0)
== Kept
SELECT id, status, CAST(ifnull(sent_at, 0) AS INTEGER) FROM shop_jobs WHERE id > ? ORDER BY id LIMIT ?
== Delete
DELETE FROM shop_jobs WHERE status = 'sent' AND id IN ({ids})
== Take

== Ordered

== Peek

== Back

== Renew
INSERT INTO shop_jobs_relays (owner, mode, until, seen_at, host)
SELECT ?1, ?2, CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) + ?3, CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER), ?4
WHERE NOT EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner <> ?1 AND until > min(?5, CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)))
ON CONFLICT (owner) DO UPDATE SET mode = excluded.mode, until = excluded.until, seen_at = excluded.seen_at, host = excluded.host
== Leave
UPDATE shop_jobs_relays SET until = 1 WHERE owner = ? AND until > 0
== Count
UPDATE shop_jobs_relays SET sent = sent + ?, epoch = ?, upto = ? WHERE owner = ?
== Leases
SELECT owner, CAST(until AS INTEGER) FROM shop_jobs_relays WHERE owner <> ? AND until > 0
== Holder
SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM shop_jobs_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM shop_jobs WHERE owner > ? AND status = 'relayed' ORDER BY owner, id LIMIT 1) AS t
== Adopt
INSERT INTO shop_jobs_relays (owner, mode, until, seen_at) VALUES (?1, 'on_relay', min(1, ?2), 0) ON CONFLICT (owner) DO UPDATE SET until = excluded.until WHERE shop_jobs_relays.until = 0
== Free
UPDATE shop_jobs SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE id IN (SELECT id FROM shop_jobs WHERE owner = ?1 AND status = 'relayed' ORDER BY id LIMIT 500) AND EXISTS (SELECT 1 FROM shop_jobs_relays WHERE owner = ?1 AND until > 0 AND until <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER))
== Bury
UPDATE shop_jobs_relays SET until = 0 WHERE owner = ? AND until <= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)
== Held
SELECT id, CAST(job_id AS TEXT), CASE WHEN typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, CAST(answered_by AS TEXT) FROM shop_jobs WHERE owner = ? AND status = 'relayed' AND id > ? ORDER BY id LIMIT ?
== Reached
SELECT coalesce(epoch, ''), coalesce(upto, 0) FROM shop_jobs_relays WHERE owner = ?
== Peers
SELECT owner, mode, sent, seen_at, coalesce(host, '') FROM shop_jobs_relays WHERE seen_at >= ?
== Stats
SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN status || ' by nobody' ELSE status END AS status, CASE WHEN typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END AS at FROM shop_jobs) AS w
GROUP BY w.status
== List
SELECT id, ifnull(substr(job_type, 1, 255), ''), min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000), CASE WHEN typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, error FROM shop_jobs WHERE status = 'parked' AND id > ? ORDER BY id LIMIT ?
== Row
SELECT ifnull(CAST(job_id AS TEXT), ''), substr(CAST(job_type AS BLOB), 1, 1024), substr(CAST(job_args AS BLOB), 1, 1048577),
  ifnull(substr(CAST(job_options AS BLOB), 1, 1048577), ''), ifnull(CAST(status AS TEXT), ''), ifnull(CAST(owner AS TEXT), ''), min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000),
  CAST(ifnull(next_try_at, 0) AS INTEGER), ifnull(CAST(error AS TEXT), ''), CASE WHEN typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, CAST(ifnull(sent_at, 0) AS INTEGER), ifnull(CAST(answered_by AS TEXT), '')
FROM shop_jobs WHERE id = ?
== Replay
UPDATE shop_jobs SET status = 'pending', error = NULL, next_try_at = 0 WHERE status = 'parked' AND id IN ({ids})
== Discard
DELETE FROM shop_jobs WHERE status = 'parked' AND id IN ({ids})
== TickBegin
BEGIN IMMEDIATE
== TickEnd
COMMIT
== TickAdd
INSERT INTO shop_jobs_ticks (name, at) SELECT ?1, ?2 WHERE ?2 >= CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) - 90000000 ON CONFLICT (name, at) DO NOTHING
== TickOf
SELECT job_id FROM shop_jobs_ticks WHERE name = ? AND at = ?
== TickLast
SELECT t.last_id, t.last_row, o.status FROM shop_jobs_ticks AS t LEFT JOIN shop_jobs AS o ON o.id = t.last_row AND o.job_id = t.last_id WHERE t.name = ? AND t.at <> ? ORDER BY t.at DESC LIMIT 1
== TickSet
UPDATE shop_jobs_ticks SET job_id = ?, last_id = ?, last_row = ? WHERE name = ? AND at = ?
== TickRow

== TickTrim
DELETE FROM shop_jobs_ticks WHERE rowid IN (
  SELECT a.rowid FROM shop_jobs_ticks AS a WHERE a.at < CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER) - 93600000
  AND EXISTS (SELECT 1 FROM shop_jobs_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT ?)
== TickAgain
SQLITE_BUSY
== TickAudit
SELECT 'the table shop_jobs_ticks is missing; make it with: outrider outbox init DSN'
WHERE 'shop_jobs' IN (SELECT name FROM sqlite_master) AND 'shop_jobs_ticks' NOT IN (SELECT name FROM sqlite_master)
WITH w(n, name, def) AS (VALUES (1, 'name', NULL), (2, 'at', NULL), (3, 'job_id', 'TEXT'), (4, 'last_id', 'TEXT'), (5, 'last_row', 'INTEGER'))
SELECT 'shop_jobs_ticks.' || name || ': the column is missing' || coalesce('; run: ALTER TABLE shop_jobs_ticks ADD COLUMN ' || name || ' ' || def, '') FROM w
WHERE 'shop_jobs_ticks' IN (SELECT name FROM sqlite_master) AND name NOT IN (SELECT name FROM pragma_table_info('shop_jobs_ticks')) ORDER BY n
WITH w(n, cols, uniq, told) AS (VALUES
  (1, 'at,name', 1, 'shop_jobs_ticks: expected PRIMARY KEY (name, at)'),
  (2, 'at', 0, 'the index shop_jobs_ticks_at is missing; run: CREATE INDEX shop_jobs_ticks_at ON shop_jobs_ticks (at)'))
SELECT told FROM w WHERE 'shop_jobs_ticks' IN (SELECT name FROM sqlite_master) AND NOT EXISTS (
  SELECT 1 FROM pragma_index_list('shop_jobs_ticks') AS i WHERE i."unique" >= w.uniq AND i.partial = 0
  AND w.cols = (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY name))) ORDER BY n
== Changed
PRAGMA data_version
