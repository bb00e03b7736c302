== Name
postgres
== Table
shop_jobs
== Create
SELECT pg_advisory_xact_lock(7020405, hashtext('shop_jobs'));
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
-- Times are milliseconds since 1970 in UTC.
CREATE TABLE IF NOT EXISTS shop_jobs (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id      TEXT,                             -- a UUIDv7; NULL: made of the row
  job_type    TEXT    NOT NULL,                 -- 'email.send'
  job_args    JSON    NOT NULL,                 -- an array
  job_options JSON    NOT NULL DEFAULT '{}',    -- an object: queue, priority, retry, delay_ms, meta
  status      TEXT    NOT NULL DEFAULT 'pending', -- then 'taken', 'relayed' or 'sent', or 'parked' with an error
  owner       TEXT,                             -- the job server that has it
  attempts    BIGINT  NOT NULL DEFAULT 0,
  next_try_at BIGINT  NOT NULL DEFAULT 0,
  created_at  BIGINT  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  sent_at     BIGINT,
  error       TEXT,
  answered_by TEXT                              -- relayed: the job that answers for it, if that is not its own
);

-- What the relays ask for all the time. Rows that are gone cost it nothing.
CREATE INDEX IF NOT EXISTS shop_jobs_pending ON shop_jobs (id) WHERE status = 'pending';

-- What a job server has, and what was parked.
CREATE INDEX IF NOT EXISTS shop_jobs_owned ON shop_jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS shop_jobs_parked ON shop_jobs (id) WHERE status = 'parked';

-- The job servers that relay: until when each is taken to live, and what it has sent.
CREATE TABLE IF NOT EXISTS shop_jobs_relays (
  owner   TEXT   NOT NULL PRIMARY KEY,
  until   BIGINT NOT NULL, -- 0: it is dead, and its rows are free
  seen_at BIGINT NOT NULL,
  mode    TEXT   NOT NULL, -- 'on_relay' or 'on_complete'
  sent    BIGINT NOT NULL DEFAULT 0,
  epoch   TEXT,            -- of its disk, when it took the newest job
  upto    BIGINT,          -- and the event there behind that job
  host    TEXT             -- its newest process: 'web-1:4711', with its pid
);

-- The ticks of schedules that several job servers keep: each is decided once, by
-- the key. They go after 26 hours, but the newest of each schedule stays.
CREATE TABLE IF NOT EXISTS shop_jobs_ticks (
  name     TEXT   NOT NULL, -- of the schedule, or '' for what the servers wait for
  at       BIGINT NOT NULL, -- the tick
  job_id   TEXT,            -- its job, or NULL: the one before had not ended
  last_id  TEXT,            -- the newest job of the schedule, this one or one before
  last_row BIGINT,          -- and its row in the outbox, which may be gone
  PRIMARY KEY (name, at)
);
CREATE INDEX IF NOT EXISTS shop_jobs_ticks_at ON shop_jobs_ticks (at);

-- What tells this outbox from all others, in the ids of its jobs. Never change it.
CREATE TABLE IF NOT EXISTS shop_jobs_identity (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  value TEXT    NOT NULL
);
INSERT INTO shop_jobs_identity (one, value) VALUES (1, replace(gen_random_uuid()::text, '-', '')) ON CONFLICT DO NOTHING;
== Columns
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('shop_jobs') AND attnum > 0 AND NOT attisdropped
== Identity
SELECT value FROM shop_jobs_identity
== Path

== Narrow
SELECT 1 WHERE current_setting('server_encoding') <> 'UTF8'
== Audit
SELECT 'PostgreSQL ' || current_setting('server_version') || ' is too old: the outbox needs 13 or later'
WHERE current_setting('server_version_num')::int < 130000
SELECT 'the server is a read-only replica; name the primary in the DSN, or several hosts with target_session_attrs=read-write'
WHERE pg_is_in_recovery()
SELECT 'transactions of this user are read-only, and a relay must mark rows; run as an administrator: ALTER ROLE that user SET default_transaction_read_only = off; it may be set for the database or in the DSN, too'
WHERE current_setting('transaction_read_only') = 'on' AND NOT pg_is_in_recovery()
SELECT CASE WHEN current_setting('server_encoding') = 'SQL_ASCII'
  THEN 'the database has the encoding SQL_ASCII, in which one row that is not UTF-8 would stop all others; move it to a database made with: CREATE DATABASE name ENCODING ''UTF8'' TEMPLATE template0'
  ELSE 'the connection speaks ' || current_setting('client_encoding') || ', and jobs are UTF-8; add client_encoding=UTF8 to the parameters of the DSN' END
WHERE current_setting('server_encoding') = 'SQL_ASCII' OR current_setting('client_encoding') <> 'UTF8'
SELECT 'the table ' || w.name || ' is missing; make it with: outrider outbox init DSN'
FROM (VALUES (1, 'shop_jobs'), (2, 'shop_jobs_relays'), (3, 'shop_jobs_identity')) AS w(n, name) WHERE to_regclass(w.name) IS NULL AND (w.n = 1 OR to_regclass('shop_jobs') IS NOT NULL) ORDER BY w.n
SELECT 'the user of the relay lacks the right ' || string_agg(w.verb, ', ' ORDER BY w.n) || ' on ' || w.name || '; run as its owner: GRANT ' || string_agg(w.verb, ', ' ORDER BY w.n) || ' ON ' || w.name || ' TO that user'
FROM (VALUES (1, 'shop_jobs', 'SELECT'), (2, 'shop_jobs', 'UPDATE'), (3, 'shop_jobs', 'DELETE'),
  (4, 'shop_jobs_relays', 'SELECT'), (5, 'shop_jobs_relays', 'INSERT'), (6, 'shop_jobs_relays', 'UPDATE'),
  (7, 'shop_jobs_identity', 'SELECT')) AS w(n, name, verb)
WHERE to_regclass(w.name) IS NOT NULL AND NOT has_table_privilege(to_regclass(w.name), w.verb)
GROUP BY w.name ORDER BY min(w.n)
SELECT 'row level security hides rows of ' || w.name || ' from the user of the relay; run as its owner: ALTER TABLE ' || w.name || ' DISABLE ROW LEVEL SECURITY'
FROM (VALUES (1, 'shop_jobs'), (2, 'shop_jobs_relays'), (3, 'shop_jobs_identity')) AS w(n, name) WHERE to_regclass(w.name) IS NOT NULL AND row_security_active(to_regclass(w.name)) ORDER BY w.n
SELECT w.tab || '.' || w.name || CASE
  WHEN a.attname IS NULL THEN ': the column is missing; ' || CASE WHEN w.required AND d.def IS NULL THEN 'expected ' ELSE 'run: ALTER TABLE ' || w.tab || ' ADD COLUMN ' || w.name || ' ' END || w.types[1] || coalesce(' NOT NULL ' || d.def, '')
  WHEN format_type(a.atttypid, NULL) <> ALL (w.types) THEN ': expected ' || w.types[1] || ', found ' || format_type(a.atttypid, NULL)
  WHEN a.atttypmod BETWEEN 4 AND w.len + 3 THEN ': expected at least ' || w.len || ' characters, found ' || format_type(a.atttypid, a.atttypmod)
  ELSE ': expected NOT NULL, found a column that may be NULL' END
FROM (VALUES
  (1, 'shop_jobs', 'id', ARRAY['bigint', 'integer'], 0, true),
  (2, 'shop_jobs', 'job_id', ARRAY['text', 'character varying'], 36, false),
  (3, 'shop_jobs', 'job_type', ARRAY['text', 'character varying'], 1, true),
  (4, 'shop_jobs', 'job_args', ARRAY['json', 'jsonb', 'text'], 0, true),
  (5, 'shop_jobs', 'job_options', ARRAY['json', 'jsonb', 'text'], 0, false),
  (6, 'shop_jobs', 'status', ARRAY['text', 'character varying'], 7, true),
  (7, 'shop_jobs', 'owner', ARRAY['text', 'character varying'], 64, false),
  (8, 'shop_jobs', 'attempts', ARRAY['bigint', 'integer'], 0, true),
  (9, 'shop_jobs', 'next_try_at', ARRAY['bigint'], 0, true),
  (10, 'shop_jobs', 'created_at', ARRAY['bigint'], 0, true),
  (11, 'shop_jobs', 'sent_at', ARRAY['bigint'], 0, false),
  (12, 'shop_jobs', 'error', ARRAY['text'], 0, false),
  (13, 'shop_jobs_relays', 'owner', ARRAY['text', 'character varying'], 64, true),
  (14, 'shop_jobs_relays', 'until', ARRAY['bigint'], 0, true),
  (15, 'shop_jobs_relays', 'seen_at', ARRAY['bigint'], 0, true),
  (16, 'shop_jobs_relays', 'mode', ARRAY['text', 'character varying'], 16, true),
  (17, 'shop_jobs_relays', 'sent', ARRAY['bigint'], 0, true),
  (18, 'shop_jobs_identity', 'value', ARRAY['text', 'character varying'], 32, true),
  (19, 'shop_jobs', 'answered_by', ARRAY['text', 'character varying'], 36, false),
  (20, 'shop_jobs_relays', 'epoch', ARRAY['text', 'character varying'], 16, false),
  (21, 'shop_jobs_relays', 'upto', ARRAY['bigint'], 0, false),
  (22, 'shop_jobs_relays', 'host', ARRAY['text', 'character varying'], 64, false)
) AS w(n, tab, name, types, len, required)
LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attname = w.name AND NOT a.attisdropped
LEFT JOIN (VALUES (2, 'shop_jobs', 'status', 'DEFAULT ''pending'''),
  (3, 'shop_jobs', 'attempts', 'DEFAULT 0'), (4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'),
  (5, 'shop_jobs', 'created_at', 'DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint'),
  (6, 'shop_jobs_relays', 'sent', 'DEFAULT 0')) AS d(n, tab, name, def) ON d.tab = w.tab AND d.name = w.name
WHERE to_regclass(w.tab) IS NOT NULL AND (a.attname IS NULL OR format_type(a.atttypid, NULL) <> ALL (w.types)
  OR a.atttypmod BETWEEN 4 AND w.len + 3 OR w.required AND NOT a.attnotnull)
ORDER BY w.n
SELECT w.tab || '.' || w.name || ': has no default; expected ' || w.def
FROM (SELECT 1 AS n, 'shop_jobs' AS tab, 'id' AS name, 'GENERATED ALWAYS AS IDENTITY' AS def UNION ALL SELECT * FROM (VALUES (2, 'shop_jobs', 'status', 'DEFAULT ''pending'''),
  (3, 'shop_jobs', 'attempts', 'DEFAULT 0'), (4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'),
  (5, 'shop_jobs', 'created_at', 'DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint'),
  (6, 'shop_jobs_relays', 'sent', 'DEFAULT 0')) AS d(n, tab, name, def)) AS w
JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attname = w.name AND NOT a.attisdropped
WHERE NOT a.atthasdef AND a.attidentity = '' ORDER BY w.n
SELECT w.told FROM (VALUES
  (1, 'shop_jobs', 'id', '', true, 'shop_jobs.id: expected a primary key or a unique index'),
  (2, 'shop_jobs', 'id', 'pending', false, 'the index shop_jobs_pending is missing or not valid; run: CREATE INDEX shop_jobs_pending ON shop_jobs (id) WHERE status = ''pending'''),
  (3, 'shop_jobs', 'owner', '', false, 'the index shop_jobs_owned is missing or not valid; run: CREATE INDEX shop_jobs_owned ON shop_jobs (owner, id) WHERE owner IS NOT NULL'),
  (4, 'shop_jobs', 'id', 'parked', false, 'the index shop_jobs_parked is missing or not valid; run: CREATE INDEX shop_jobs_parked ON shop_jobs (id) WHERE status = ''parked'''),
  (5, 'shop_jobs_relays', 'owner', '', true, 'shop_jobs_relays.owner: expected a primary key or a unique index')
) AS w(n, tab, col, part, uniq, told)
WHERE to_regclass(w.tab) IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  WHERE i.indrelid = to_regclass(w.tab) AND i.indisvalid AND a.attname = w.col
  AND CASE WHEN w.uniq THEN i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL
    WHEN w.part <> '' THEN pg_get_expr(i.indpred, i.indrelid) LIKE '%' || w.part || '%'
    ELSE true END)
ORDER BY w.n
SELECT 'the outbox shop_jobs has no identity, from which job ids are made; make it with: outrider outbox init DSN'
WHERE (SELECT count(*) FROM shop_jobs_identity WHERE one = 1 AND value <> '') <> 1
== Insert
INSERT INTO shop_jobs (job_id, job_type, job_args, job_options) VALUES ($1, $2, $3, $4)
== Pending
SELECT id, left(job_id, 64), left(job_type, 1024), left(job_args::text, 1048577), left(job_options::text, 1048577), CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, least(greatest(attempts, 0), 1000000000),
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM shop_jobs WHERE status = 'pending' AND next_try_at <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
== Done
DELETE FROM shop_jobs WHERE status = 'taken' AND owner = $1 AND id IN ({ids})
== Sent
UPDATE shop_jobs SET status = 'sent', owner = NULL, sent_at = $1, attempts = least(greatest(attempts, 0), 1000000000) + $2, error = NULL WHERE status = 'taken' AND owner = $3 AND id IN ({ids})
== Relayed
UPDATE shop_jobs SET status = 'relayed', sent_at = $1, attempts = least(greatest(attempts, 0), 1000000000) + $2, error = NULL, answered_by = {by} WHERE status = 'taken' AND owner = $3 AND id IN ({ids})
== Ended
DELETE FROM shop_jobs WHERE status = 'relayed' AND owner = $1 AND id IN ({ids})
== Passed
UPDATE shop_jobs SET answered_by = {by} WHERE status = 'relayed' AND owner = $1 AND id IN ({ids})
== Again
UPDATE shop_jobs SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE status = 'relayed' AND owner = $1 AND id IN ({ids})
== Parked
UPDATE shop_jobs SET status = 'parked', owner = NULL, error = $1, attempts = least(greatest(attempts, 0), 1000000000) + $2 WHERE status = 'taken' AND owner = $3 AND id IN ({ids})
== Later
UPDATE shop_jobs SET status = 'pending', owner = NULL, next_try_at = $1, error = $2, attempts = least(greatest(attempts, 0), 1000000000) + $3 WHERE status = 'taken' AND owner = $4 AND id IN ({ids})
== Kept
SELECT id, status, coalesce(sent_at, 0) FROM shop_jobs WHERE id > $1 ORDER BY id LIMIT $2
== Delete
DELETE FROM shop_jobs WHERE status = 'sent' AND id IN ({ids})
== Take
UPDATE shop_jobs SET status = 'taken', owner = $1 WHERE id IN ({ids})
== Ordered
SET LOCAL enable_sort = off
== Peek
SELECT 1 FROM shop_jobs WHERE status = 'pending' AND next_try_at <= $1 LIMIT 1
== Back
UPDATE shop_jobs SET status = 'pending', owner = NULL WHERE owner = $1 AND status = 'taken'
== Renew
INSERT INTO shop_jobs_relays (owner, mode, until, seen_at, host)
VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $4)
ON CONFLICT (owner) DO UPDATE SET mode = excluded.mode, until = excluded.until, seen_at = excluded.seen_at, host = excluded.host
== Leave
UPDATE shop_jobs_relays SET until = 1 WHERE owner = $1 AND until > 0
== Count
UPDATE shop_jobs_relays SET sent = sent + $1, epoch = $2, upto = $3 WHERE owner = $4
== Leases
SELECT owner, until FROM shop_jobs_relays WHERE owner <> $1 AND until > 0
== Holder
SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM shop_jobs_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM shop_jobs WHERE owner > $1 AND status IN ('taken', 'relayed') ORDER BY owner, id LIMIT 1) AS t
== Adopt
INSERT INTO shop_jobs_relays (owner, mode, until, seen_at) VALUES ($1, 'on_relay', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2, 0) ON CONFLICT (owner) DO UPDATE SET until = excluded.until WHERE shop_jobs_relays.until = 0
== Free
UPDATE shop_jobs SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE id IN (
  SELECT id FROM shop_jobs WHERE owner = $1 AND status IN ('taken', 'relayed') ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)
AND EXISTS (SELECT 1 FROM shop_jobs_relays AS r WHERE r.owner = shop_jobs.owner AND r.until > 0 AND r.until <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
== Bury
UPDATE shop_jobs_relays SET until = 0 WHERE owner = $1 AND until <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
== Held
SELECT id, job_id, CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, answered_by FROM shop_jobs WHERE owner = $1 AND status = 'relayed' AND id > $2 ORDER BY id LIMIT $3
== Reached
SELECT coalesce(epoch, ''), coalesce(upto, 0) FROM shop_jobs_relays WHERE owner = $1
== Peers
SELECT owner, mode, sent, seen_at, coalesce(host, '') FROM shop_jobs_relays WHERE seen_at >= $1
== Stats
SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN status || ' by nobody' ELSE status END AS status, CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END AS at FROM shop_jobs) AS w
GROUP BY w.status
== List
SELECT id, left(job_type, 255), least(greatest(attempts, 0), 1000000000), CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, error FROM shop_jobs WHERE status = 'parked' AND id > $1 ORDER BY id LIMIT $2
== Row
SELECT coalesce(job_id, ''), left(job_type, 1024), left(job_args::text, 1048577), coalesce(left(job_options::text, 1048577), ''), status, coalesce(owner, ''), least(greatest(attempts, 0), 1000000000),
  next_try_at, coalesce(error, ''), CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, coalesce(sent_at, 0), coalesce(answered_by, '') FROM shop_jobs WHERE id = $1
== Replay
UPDATE shop_jobs SET status = 'pending', error = NULL, next_try_at = 0 WHERE status = 'parked' AND id IN ({ids})
== Discard
DELETE FROM shop_jobs WHERE status = 'parked' AND id IN ({ids})
== TickBegin
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL idle_in_transaction_session_timeout = 30000;
INSERT INTO shop_jobs_ticks (name, at) VALUES ('', 0) ON CONFLICT (name, at) DO UPDATE SET job_id = NULL
== TickEnd
COMMIT
== TickAdd
INSERT INTO shop_jobs_ticks (name, at) SELECT $1::text, $2::bigint WHERE $2::bigint >= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 90000000 ON CONFLICT (name, at) DO NOTHING
== TickOf
SELECT job_id FROM shop_jobs_ticks WHERE name = $1 AND at = $2
== TickLast
SELECT t.last_id, t.last_row, o.status FROM shop_jobs_ticks AS t LEFT JOIN shop_jobs AS o ON o.id = t.last_row AND o.job_id = t.last_id WHERE t.name = $1 AND t.at <> $2 ORDER BY t.at DESC LIMIT 1
== TickSet
UPDATE shop_jobs_ticks SET job_id = $1, last_id = $2, last_row = $3 WHERE name = $4 AND at = $5
== TickRow
INSERT INTO shop_jobs (job_id, job_type, job_args, job_options) VALUES ($1, $2, $3, $4) RETURNING id
== TickTrim
DELETE FROM shop_jobs_ticks WHERE ctid = ANY (ARRAY(
  SELECT a.ctid FROM shop_jobs_ticks AS a WHERE a.at < (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 93600000)
  AND EXISTS (SELECT 1 FROM shop_jobs_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT $1 FOR UPDATE SKIP LOCKED))
== TickAgain
40P01
40001
deadlock detected
== TickAudit
SELECT 'the table ' || w.name || ' is missing; make it with: outrider outbox init DSN'
FROM (VALUES (4, 'shop_jobs_ticks')) AS w(n, name) WHERE to_regclass(w.name) IS NULL AND (w.n = 1 OR to_regclass('shop_jobs') IS NOT NULL) ORDER BY w.n
SELECT 'the user of the relay lacks the right ' || string_agg(w.verb, ', ' ORDER BY w.n) || ' on ' || w.name || '; run as its owner: GRANT ' || string_agg(w.verb, ', ' ORDER BY w.n) || ' ON ' || w.name || ' TO that user'
FROM (VALUES (1, 'shop_jobs', 'INSERT'), (2, 'shop_jobs_ticks', 'SELECT'), (3, 'shop_jobs_ticks', 'INSERT'),
  (4, 'shop_jobs_ticks', 'UPDATE'), (5, 'shop_jobs_ticks', 'DELETE')) AS w(n, name, verb)
WHERE to_regclass(w.name) IS NOT NULL AND NOT has_table_privilege(to_regclass(w.name), w.verb)
GROUP BY w.name ORDER BY min(w.n)
SELECT 'row level security hides rows of ' || w.name || ' from the user of the relay; run as its owner: ALTER TABLE ' || w.name || ' DISABLE ROW LEVEL SECURITY'
FROM (VALUES (4, 'shop_jobs_ticks')) AS w(n, name) WHERE to_regclass(w.name) IS NOT NULL AND row_security_active(to_regclass(w.name)) ORDER BY w.n
SELECT w.tab || '.' || w.name || CASE
  WHEN a.attname IS NULL THEN ': the column is missing; ' || CASE WHEN w.required AND d.def IS NULL THEN 'expected ' ELSE 'run: ALTER TABLE ' || w.tab || ' ADD COLUMN ' || w.name || ' ' END || w.types[1] || coalesce(' NOT NULL ' || d.def, '')
  WHEN format_type(a.atttypid, NULL) <> ALL (w.types) THEN ': expected ' || w.types[1] || ', found ' || format_type(a.atttypid, NULL)
  WHEN a.atttypmod BETWEEN 4 AND w.len + 3 THEN ': expected at least ' || w.len || ' characters, found ' || format_type(a.atttypid, a.atttypmod)
  ELSE ': expected NOT NULL, found a column that may be NULL' END
FROM (VALUES
  (1, 'shop_jobs_ticks', 'name', ARRAY['text', 'character varying'], 255, true),
  (2, 'shop_jobs_ticks', 'at', ARRAY['bigint'], 0, true),
  (3, 'shop_jobs_ticks', 'job_id', ARRAY['text', 'character varying'], 36, false),
  (4, 'shop_jobs_ticks', 'last_id', ARRAY['text', 'character varying'], 36, false),
  (5, 'shop_jobs_ticks', 'last_row', ARRAY['bigint'], 0, false)
) AS w(n, tab, name, types, len, required)
LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attname = w.name AND NOT a.attisdropped
LEFT JOIN (VALUES (2, 'shop_jobs', 'status', 'DEFAULT ''pending'''),
  (3, 'shop_jobs', 'attempts', 'DEFAULT 0'), (4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'),
  (5, 'shop_jobs', 'created_at', 'DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint'),
  (6, 'shop_jobs_relays', 'sent', 'DEFAULT 0')) AS d(n, tab, name, def) ON d.tab = w.tab AND d.name = w.name
WHERE to_regclass(w.tab) IS NOT NULL AND (a.attname IS NULL OR format_type(a.atttypid, NULL) <> ALL (w.types)
  OR a.atttypmod BETWEEN 4 AND w.len + 3 OR w.required AND NOT a.attnotnull)
ORDER BY w.n
SELECT w.told FROM (VALUES
  (1, ARRAY['at', 'name'], 'shop_jobs_ticks: expected a primary key or a unique index on (name, at)'),
  (2, ARRAY['at'], 'the index shop_jobs_ticks_at is missing or not valid; run: CREATE INDEX shop_jobs_ticks_at ON shop_jobs_ticks (at)')
) AS w(n, cols, told)
WHERE to_regclass('shop_jobs_ticks') IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM pg_index i WHERE i.indrelid = to_regclass('shop_jobs_ticks') AND i.indisvalid AND i.indpred IS NULL
  AND (i.indisunique OR w.n = 2) AND i.indnkeyatts = cardinality(w.cols)
  AND w.cols = ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]) ORDER BY 1))
ORDER BY w.n
SELECT 'the user of the relay lacks the right USAGE on the sequence ' || pg_get_serial_sequence('shop_jobs', 'id')::regclass || '; run as its owner: GRANT USAGE ON SEQUENCE ' || pg_get_serial_sequence('shop_jobs', 'id')::regclass || ' TO that user'
FROM pg_attribute AS a WHERE a.attrelid = to_regclass('shop_jobs') AND a.attname = 'id' AND a.attidentity = ''
AND NOT has_sequence_privilege(pg_get_serial_sequence('shop_jobs', 'id'), 'USAGE')
== Changed

== extra
-- A job from anywhere in SQL: SELECT shop_jobs_enqueue('email.send', '["ada@example.com"]')
CREATE OR REPLACE FUNCTION shop_jobs_enqueue(type text, args json, options json DEFAULT '{}') RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO shop_jobs (job_type, job_args, job_options) VALUES ($1, $2, $3) RETURNING id
$$;
== extra
-- Tells the relays that listen of every INSERT, when its transaction commits.
CREATE OR REPLACE FUNCTION shop_jobs_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('shop_jobs', ''); RETURN NULL; END
$$;
DROP TRIGGER IF EXISTS shop_jobs_notify ON shop_jobs;
CREATE TRIGGER shop_jobs_notify AFTER INSERT ON shop_jobs FOR EACH STATEMENT EXECUTE FUNCTION shop_jobs_notify();
== extra
SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass('shop_jobs') AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND p.prosrc ILIKE '%notify%' LIMIT 1
