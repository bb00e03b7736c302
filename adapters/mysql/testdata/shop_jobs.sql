== Name
mysql
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
-- Times are milliseconds since 1970 in UTC. The JSON columns are text: a column
-- of type JSON would be written anew by the server, numbers and all.
CREATE TABLE IF NOT EXISTS shop_jobs (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id      VARCHAR(64),                            -- a UUIDv7; NULL: made of the row
  job_type    VARCHAR(255) NOT NULL,                  -- 'email.send'
  job_args    LONGTEXT     NOT NULL,                  -- a JSON array
  job_options LONGTEXT     NULL,                      -- a JSON object: queue, priority, retry, delay_ms, meta
  status      VARCHAR(16)  NOT NULL DEFAULT 'pending', -- then 'taken', 'relayed' or 'sent', or 'parked' with an error
  owner       VARCHAR(64),                            -- the job server that has it
  attempts    BIGINT       NOT NULL DEFAULT 0,
  next_try_at BIGINT       NOT NULL DEFAULT 0,
  created_at  BIGINT       NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000),
  sent_at     BIGINT,
  error       TEXT,
  answered_by VARCHAR(64),            -- relayed: the job that answers for it, if that is not its own
  KEY shop_jobs_status (status, id), -- what the relays ask for all the time
  KEY shop_jobs_owner (owner, id)    -- what a job server has
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The job servers that relay: until when each is taken to live, and what it has sent.
CREATE TABLE IF NOT EXISTS shop_jobs_relays (
  owner   VARCHAR(64) NOT NULL PRIMARY KEY,
  until   BIGINT      NOT NULL, -- 0: it is dead, and its rows are free
  seen_at BIGINT      NOT NULL,
  mode    VARCHAR(16) NOT NULL, -- 'on_relay' or 'on_complete'
  sent    BIGINT      NOT NULL DEFAULT 0,
  epoch   VARCHAR(64),          -- of its disk, when it took the newest job
  upto    BIGINT,               -- and the event there behind that job
  host    VARCHAR(64)           -- its newest process: 'web-1:4711', with its pid
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The ticks of schedules that several job servers keep: each is decided once, by
-- the key. They go after 26 hours, but the newest of each schedule stays.
CREATE TABLE IF NOT EXISTS shop_jobs_ticks (
  name     VARCHAR(255) NOT NULL, -- of the schedule, or '' for what the servers wait for
  at       BIGINT       NOT NULL, -- the tick
  job_id   VARCHAR(64),           -- its job, or NULL: the one before had not ended
  last_id  VARCHAR(64),           -- the newest job of the schedule, this one or one before
  last_row BIGINT,                -- and its row in the outbox, which may be gone
  PRIMARY KEY (name, at),
  KEY shop_jobs_ticks_at (at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What tells this outbox from all others, in the ids of its jobs. Never change it.
CREATE TABLE IF NOT EXISTS shop_jobs_identity (
  one   INTEGER     NOT NULL PRIMARY KEY CHECK (one = 1),
  value VARCHAR(64) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT IGNORE INTO shop_jobs_identity (one, value) VALUES (1, REPLACE(UUID(), '-', ''));
== Columns
SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = 'shop_jobs'
== Identity
SELECT value FROM shop_jobs_identity
== Path

== Narrow

== Audit
SELECT CONCAT(w.kind, ' ', w.v, ' is too old: the outbox needs MySQL 8.0.13 or MariaDB 10.6, or later, for SKIP LOCKED') FROM (
  SELECT IF(v LIKE '%MariaDB%', 'MariaDB', 'MySQL') AS kind, SUBSTRING_INDEX(v, '-', 1) AS v,
    1000000 * SUBSTRING_INDEX(v, '.', 1) + 1000 * SUBSTRING_INDEX(SUBSTRING_INDEX(v, '.', 2), '.', -1)
      + SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(v, '-', 1), '.', 3), '.', -1) AS n
  FROM (SELECT VERSION() AS v) AS x) AS w
WHERE w.n < IF(w.kind = 'MariaDB', 10006000, 8000013)
SELECT 'the server is read-only, as a replica is; name the primary in the DSN' FROM (SELECT 1 AS one) AS w WHERE @@GLOBAL.read_only = 1 OR @@GLOBAL.innodb_read_only = 1
SELECT 'the transactions of this user are read-only, and a relay must mark rows; set transaction_read_only (tx_read_only in MariaDB) to 0 where it is set: in the DSN, or on the server'
FROM (SELECT 1 AS one) AS w WHERE @@SESSION./*M! tx_read_only *//*!80000 transaction_read_only */ = 1
SELECT CONCAT('the table ', w.tab, ' is missing, or the user of the relay has no right on it; make it with: outrider outbox init DSN')
FROM (SELECT 1 AS n, 'shop_jobs' AS tab UNION ALL SELECT 2, 'shop_jobs_relays' UNION ALL SELECT 3, 'shop_jobs_identity') AS w
LEFT JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab LEFT JOIN information_schema.tables m ON m.table_schema = DATABASE() AND m.table_name = 'shop_jobs'
WHERE t.table_name IS NULL AND (w.n = 1 OR m.table_name IS NOT NULL) ORDER BY w.n
SELECT CONCAT('the table ', w.tab, ' has the engine ', COALESCE(t.engine, 'of a view'), ', which has no transactions; run: ALTER TABLE ', w.tab, ' ENGINE = InnoDB')
FROM (SELECT 1 AS n, 'shop_jobs' AS tab UNION ALL SELECT 2, 'shop_jobs_relays' UNION ALL SELECT 3, 'shop_jobs_identity') AS w
LEFT JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab WHERE t.table_name IS NOT NULL AND COALESCE(t.engine, '') <> 'InnoDB' ORDER BY w.n
SELECT CONCAT(w.tab, '.', w.name, CASE
  WHEN c.column_name IS NULL THEN CONCAT(': the column is missing; ', IF(w.required = 1 AND d.def IS NULL, 'expected ', CONCAT('run: ALTER TABLE ', w.tab, ' ADD COLUMN ', w.name, ' ')), w.type,
    IF(w.type = 'varchar' AND (w.required = 0 OR d.def IS NOT NULL), '(64)', ''), COALESCE(CONCAT(' NOT NULL ', d.def), ''))
  WHEN NOT FIND_IN_SET(c.data_type, w.types) THEN CONCAT(': expected ', w.type, ', found ', c.data_type)
  WHEN c.character_maximum_length < w.len THEN CONCAT(': expected at least ', w.len, ' characters, found ', c.column_type)
  ELSE ': expected NOT NULL, found a column that may be NULL' END)
FROM (
  SELECT 1 AS n, 'shop_jobs' AS tab, 'id' AS name, 'bigint' AS type, 'bigint,int' AS types, 0 AS len, 1 AS required
  UNION ALL SELECT 2, 'shop_jobs', 'job_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 3, 'shop_jobs', 'job_type', 'varchar', 'varchar,text', 1, 1
  UNION ALL SELECT 4, 'shop_jobs', 'job_args', 'longtext', 'longtext,mediumtext,json', 0, 1
  UNION ALL SELECT 5, 'shop_jobs', 'job_options', 'longtext', 'longtext,mediumtext,json,text', 0, 0
  UNION ALL SELECT 6, 'shop_jobs', 'status', 'varchar', 'varchar', 7, 1
  UNION ALL SELECT 7, 'shop_jobs', 'owner', 'varchar', 'varchar', 64, 0
  UNION ALL SELECT 8, 'shop_jobs', 'attempts', 'bigint', 'bigint,int', 0, 1
  UNION ALL SELECT 9, 'shop_jobs', 'next_try_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 10, 'shop_jobs', 'created_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 11, 'shop_jobs', 'sent_at', 'bigint', 'bigint', 0, 0
  UNION ALL SELECT 12, 'shop_jobs', 'error', 'text', 'text,mediumtext,longtext', 0, 0
  UNION ALL SELECT 13, 'shop_jobs_relays', 'owner', 'varchar', 'varchar', 64, 1
  UNION ALL SELECT 14, 'shop_jobs_relays', 'until', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 15, 'shop_jobs_relays', 'seen_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 16, 'shop_jobs_relays', 'mode', 'varchar', 'varchar', 16, 1
  UNION ALL SELECT 17, 'shop_jobs_relays', 'sent', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 18, 'shop_jobs_identity', 'value', 'varchar', 'varchar,char', 32, 1
  UNION ALL SELECT 19, 'shop_jobs', 'answered_by', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 20, 'shop_jobs_relays', 'epoch', 'varchar', 'varchar', 16, 0
  UNION ALL SELECT 21, 'shop_jobs_relays', 'upto', 'bigint', 'bigint', 0, 0
  UNION ALL SELECT 22, 'shop_jobs_relays', 'host', 'varchar', 'varchar,char', 64, 0
) AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab
LEFT JOIN information_schema.columns c ON c.table_schema = DATABASE() AND c.table_name = w.tab AND c.column_name = w.name
LEFT JOIN (  SELECT 2 AS n, 'shop_jobs' AS tab, 'status' AS name, 'DEFAULT ''pending''' AS def
  UNION ALL SELECT 3, 'shop_jobs', 'attempts', 'DEFAULT 0'
  UNION ALL SELECT 4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'
  UNION ALL SELECT 5, 'shop_jobs', 'created_at', 'DEFAULT (TIMESTAMPDIFF(MICROSECOND, ''1970-01-01'', UTC_TIMESTAMP(3)) DIV 1000)'
  UNION ALL SELECT 6, 'shop_jobs_relays', 'sent', 'DEFAULT 0') AS d ON d.tab = w.tab AND d.name = w.name
WHERE c.column_name IS NULL OR NOT FIND_IN_SET(c.data_type, w.types) OR c.character_maximum_length < w.len
  OR w.required = 1 AND c.is_nullable = 'YES'
ORDER BY w.n
SELECT CONCAT(w.tab, '.', w.name, ': expected the character set utf8mb4, found ', c.character_set_name, '; run: ALTER TABLE ', w.tab, ' CONVERT TO CHARACTER SET utf8mb4')
FROM (
  SELECT 1 AS n, 'shop_jobs' AS tab, 'id' AS name, 'bigint' AS type, 'bigint,int' AS types, 0 AS len, 1 AS required
  UNION ALL SELECT 2, 'shop_jobs', 'job_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 3, 'shop_jobs', 'job_type', 'varchar', 'varchar,text', 1, 1
  UNION ALL SELECT 4, 'shop_jobs', 'job_args', 'longtext', 'longtext,mediumtext,json', 0, 1
  UNION ALL SELECT 5, 'shop_jobs', 'job_options', 'longtext', 'longtext,mediumtext,json,text', 0, 0
  UNION ALL SELECT 6, 'shop_jobs', 'status', 'varchar', 'varchar', 7, 1
  UNION ALL SELECT 7, 'shop_jobs', 'owner', 'varchar', 'varchar', 64, 0
  UNION ALL SELECT 8, 'shop_jobs', 'attempts', 'bigint', 'bigint,int', 0, 1
  UNION ALL SELECT 9, 'shop_jobs', 'next_try_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 10, 'shop_jobs', 'created_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 11, 'shop_jobs', 'sent_at', 'bigint', 'bigint', 0, 0
  UNION ALL SELECT 12, 'shop_jobs', 'error', 'text', 'text,mediumtext,longtext', 0, 0
  UNION ALL SELECT 13, 'shop_jobs_relays', 'owner', 'varchar', 'varchar', 64, 1
  UNION ALL SELECT 14, 'shop_jobs_relays', 'until', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 15, 'shop_jobs_relays', 'seen_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 16, 'shop_jobs_relays', 'mode', 'varchar', 'varchar', 16, 1
  UNION ALL SELECT 17, 'shop_jobs_relays', 'sent', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 18, 'shop_jobs_identity', 'value', 'varchar', 'varchar,char', 32, 1
  UNION ALL SELECT 19, 'shop_jobs', 'answered_by', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 20, 'shop_jobs_relays', 'epoch', 'varchar', 'varchar', 16, 0
  UNION ALL SELECT 21, 'shop_jobs_relays', 'upto', 'bigint', 'bigint', 0, 0
  UNION ALL SELECT 22, 'shop_jobs_relays', 'host', 'varchar', 'varchar,char', 64, 0
) AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab
LEFT JOIN information_schema.columns c ON c.table_schema = DATABASE() AND c.table_name = w.tab AND c.column_name = w.name
LEFT JOIN (  SELECT 2 AS n, 'shop_jobs' AS tab, 'status' AS name, 'DEFAULT ''pending''' AS def
  UNION ALL SELECT 3, 'shop_jobs', 'attempts', 'DEFAULT 0'
  UNION ALL SELECT 4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'
  UNION ALL SELECT 5, 'shop_jobs', 'created_at', 'DEFAULT (TIMESTAMPDIFF(MICROSECOND, ''1970-01-01'', UTC_TIMESTAMP(3)) DIV 1000)'
  UNION ALL SELECT 6, 'shop_jobs_relays', 'sent', 'DEFAULT 0') AS d ON d.tab = w.tab AND d.name = w.name
WHERE w.tab = 'shop_jobs' AND w.name IN ('job_type', 'job_args', 'job_options', 'error') AND c.character_set_name <> 'utf8mb4'
ORDER BY w.n
SELECT CONCAT(w.tab, '.', w.name, ': has no default; expected ', w.def) FROM (
  SELECT 1 AS n, 'shop_jobs' AS tab, 'id' AS name, 'AUTO_INCREMENT' AS def
  UNION ALL   SELECT 2 AS n, 'shop_jobs' AS tab, 'status' AS name, 'DEFAULT ''pending''' AS def
  UNION ALL SELECT 3, 'shop_jobs', 'attempts', 'DEFAULT 0'
  UNION ALL SELECT 4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'
  UNION ALL SELECT 5, 'shop_jobs', 'created_at', 'DEFAULT (TIMESTAMPDIFF(MICROSECOND, ''1970-01-01'', UTC_TIMESTAMP(3)) DIV 1000)'
  UNION ALL SELECT 6, 'shop_jobs_relays', 'sent', 'DEFAULT 0') AS w
JOIN information_schema.columns c ON c.table_schema = DATABASE() AND c.table_name = w.tab AND c.column_name = w.name
WHERE IF(w.name = 'id', c.extra NOT LIKE '%auto_increment%', c.column_default IS NULL) ORDER BY w.n
SELECT w.told FROM (
  SELECT 1 AS n, 'shop_jobs' AS tab, 'id' AS a, '' AS b, 1 AS uniq, 'shop_jobs.id: expected a primary key' AS told
  UNION ALL SELECT 2, 'shop_jobs', 'status', 'id', 0, 'the index shop_jobs_status is missing; run: ALTER TABLE shop_jobs ADD KEY shop_jobs_status (status, id)'
  UNION ALL SELECT 3, 'shop_jobs', 'owner', 'id', 0, 'the index shop_jobs_owner is missing; run: ALTER TABLE shop_jobs ADD KEY shop_jobs_owner (owner, id)'
  UNION ALL SELECT 4, 'shop_jobs_relays', 'owner', '', 1, 'shop_jobs_relays.owner: expected a primary key') AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab
WHERE NOT EXISTS (
  SELECT 1 FROM information_schema.statistics s
  LEFT JOIN information_schema.statistics s2 ON s2.table_schema = s.table_schema AND s2.table_name = s.table_name AND s2.index_name = s.index_name AND s2.seq_in_index = 2
  WHERE s.table_schema = DATABASE() AND s.table_name = w.tab AND s.seq_in_index = 1 AND s.column_name = w.a
  AND IF(w.uniq = 1, s.non_unique = 0 AND s2.column_name IS NULL, s2.column_name = w.b))
ORDER BY w.n
SELECT 'the outbox shop_jobs has no identity, from which job ids are made; make it with: outrider outbox init DSN' FROM (SELECT 1 AS one) AS w
WHERE (SELECT COUNT(*) FROM shop_jobs_identity WHERE one = 1 AND value <> '') <> 1
== Insert
INSERT INTO shop_jobs (job_id, job_type, job_args, job_options) VALUES (?, ?, ?, ?)
== Pending
SELECT id, left(job_id, 64), left(job_type, 1024), left(job_args, 1048577), left(job_options, 1048577), CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, LEAST(GREATEST(attempts, 0), 1000000000),
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM shop_jobs FORCE INDEX (shop_jobs_status) WHERE status = 'pending' AND next_try_at <= ? ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED
== Done
DELETE o FROM shop_jobs AS o FORCE INDEX (PRIMARY) WHERE status = 'taken' AND owner = ? AND id IN ({ids})
== Sent
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'sent', owner = NULL, sent_at = ?, attempts = LEAST(GREATEST(attempts, 0), 1000000000) + ?, error = NULL WHERE status = 'taken' AND owner = ? AND id IN ({ids})
== Relayed
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'relayed', sent_at = ?, attempts = LEAST(GREATEST(attempts, 0), 1000000000) + ?, error = NULL, answered_by = {by} WHERE status = 'taken' AND owner = ? AND id IN ({ids})
== Ended
DELETE o FROM shop_jobs AS o FORCE INDEX (PRIMARY) WHERE status = 'relayed' AND owner = ? AND id IN ({ids})
== Passed
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET answered_by = {by} WHERE status = 'relayed' AND owner = ? AND id IN ({ids})
== Again
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE status = 'relayed' AND owner = ? AND id IN ({ids})
== Parked
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'parked', owner = NULL, error = LEFT(?, 10000), attempts = LEAST(GREATEST(attempts, 0), 1000000000) + ? WHERE status = 'taken' AND owner = ? AND id IN ({ids})
== Later
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'pending', owner = NULL, next_try_at = ?, error = LEFT(?, 10000), attempts = LEAST(GREATEST(attempts, 0), 1000000000) + ? WHERE status = 'taken' AND owner = ? AND id IN ({ids})
== Kept
SELECT id, status, coalesce(sent_at, 0) FROM shop_jobs WHERE id > ? ORDER BY id LIMIT ?
== Delete
DELETE o FROM shop_jobs AS o FORCE INDEX (PRIMARY) WHERE status = 'sent' AND id IN ({ids})
== Take
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'taken', owner = ? WHERE id IN ({ids})
== Ordered

== Peek
SELECT 1 FROM shop_jobs WHERE status = 'pending' AND next_try_at <= ? LIMIT 1
== Back
UPDATE shop_jobs FORCE INDEX (shop_jobs_owner) SET status = 'pending', owner = NULL WHERE owner = ? AND status = 'taken'
== Renew
INSERT INTO shop_jobs_relays (owner, mode, until, seen_at, host)
VALUES (?, ?, (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) + ?, (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000), ?)
ON DUPLICATE KEY UPDATE mode = VALUES(mode), until = VALUES(until), seen_at = VALUES(seen_at), host = VALUES(host)
== Leave
UPDATE shop_jobs_relays SET until = 1 WHERE owner = ? AND until > 0
== Count
UPDATE shop_jobs_relays SET sent = sent + ?, epoch = ?, upto = ? WHERE owner = ?
== Leases
SELECT owner, until FROM shop_jobs_relays WHERE owner <> ? AND until > 0
== Holder
SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM shop_jobs_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM shop_jobs FORCE INDEX (shop_jobs_owner) WHERE owner > ? AND status IN ('taken', 'relayed') ORDER BY owner, id LIMIT 1) AS t
== Adopt
INSERT INTO shop_jobs_relays (owner, mode, until, seen_at) VALUES (?, 'on_relay', (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) + ?, 0) ON DUPLICATE KEY UPDATE until = IF(until = 0, VALUES(until), until)
== Free
UPDATE shop_jobs FORCE INDEX (shop_jobs_owner) SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL
WHERE owner = ? AND status IN ('taken', 'relayed')
AND EXISTS (SELECT 1 FROM shop_jobs_relays AS r WHERE r.owner = shop_jobs.owner AND r.until > 0 AND r.until <= (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000))
ORDER BY id LIMIT 500
== Bury
UPDATE shop_jobs_relays SET until = 0 WHERE owner = ? AND until <= (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)
== Held
SELECT id, job_id, CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, answered_by FROM shop_jobs WHERE owner = ? AND status = 'relayed' AND id > ? ORDER BY id LIMIT ?
== Reached
SELECT coalesce(epoch, ''), coalesce(upto, 0) FROM shop_jobs_relays WHERE owner = ?
== Peers
SELECT owner, mode, sent, seen_at, coalesce(host, '') FROM shop_jobs_relays WHERE seen_at >= ?
== Stats
SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN CONCAT(status, ' by nobody') ELSE status END AS status, CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END AS at FROM shop_jobs) AS w
GROUP BY w.status
== List
SELECT id, left(job_type, 255), LEAST(GREATEST(attempts, 0), 1000000000), CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, error FROM shop_jobs WHERE status = 'parked' AND id > ? ORDER BY id LIMIT ?
== Row
SELECT coalesce(job_id, ''), left(job_type, 1024), left(job_args, 1048577), coalesce(left(job_options, 1048577), ''), status, coalesce(owner, ''), LEAST(GREATEST(attempts, 0), 1000000000), next_try_at, coalesce(error, ''), CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END, coalesce(sent_at, 0), coalesce(answered_by, '') FROM shop_jobs WHERE id = ?
== Replay
UPDATE shop_jobs FORCE INDEX (PRIMARY) SET status = 'pending', error = NULL, next_try_at = 0 WHERE status = 'parked' AND id IN ({ids})
== Discard
DELETE o FROM shop_jobs AS o FORCE INDEX (PRIMARY) WHERE status = 'parked' AND id IN ({ids})
== TickBegin
SET SESSION wait_timeout = 30;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
INSERT INTO shop_jobs_ticks (name, at) VALUES ('', 0) ON DUPLICATE KEY UPDATE job_id = NULL
== TickEnd
COMMIT;
SET SESSION wait_timeout = DEFAULT
== TickAdd
INSERT IGNORE INTO shop_jobs_ticks (name, at) SELECT w.name, w.at FROM (SELECT CAST(? AS CHAR(255)) AS name, CAST(? AS SIGNED) AS at) AS w WHERE w.at >= (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) - 90000000
== TickOf
SELECT job_id FROM shop_jobs_ticks WHERE name = ? AND at = ?
== TickLast
SELECT t.last_id, t.last_row, o.status FROM shop_jobs_ticks AS t LEFT JOIN shop_jobs AS o ON o.id = t.last_row AND o.job_id = t.last_id WHERE t.name = ? AND t.at <> ? ORDER BY t.at DESC LIMIT 1
== TickSet
UPDATE shop_jobs_ticks SET job_id = ?, last_id = ?, last_row = ? WHERE name = ? AND at = ?
== TickRow

== TickTrim
DELETE t FROM shop_jobs_ticks AS t JOIN (
  SELECT a.name, a.at FROM shop_jobs_ticks AS a FORCE INDEX (shop_jobs_ticks_at) WHERE a.at < (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000) - 93600000
  AND EXISTS (SELECT 1 FROM shop_jobs_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT ?) AS old ON t.name = old.name AND t.at = old.at
== TickAgain
Error 1213
== TickAudit
SELECT CONCAT('the table ', w.tab, ' is missing, or the user of the relay has no right on it; make it with: outrider outbox init DSN')
FROM (SELECT 4 AS n, 'shop_jobs_ticks' AS tab) AS w
LEFT JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab LEFT JOIN information_schema.tables m ON m.table_schema = DATABASE() AND m.table_name = 'shop_jobs'
WHERE t.table_name IS NULL AND (w.n = 1 OR m.table_name IS NOT NULL) ORDER BY w.n
SELECT CONCAT('the table ', w.tab, ' has the engine ', COALESCE(t.engine, 'of a view'), ', which has no transactions; run: ALTER TABLE ', w.tab, ' ENGINE = InnoDB')
FROM (SELECT 4 AS n, 'shop_jobs_ticks' AS tab) AS w
LEFT JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab WHERE t.table_name IS NOT NULL AND COALESCE(t.engine, '') <> 'InnoDB' ORDER BY w.n
SELECT CONCAT(w.tab, '.', w.name, CASE
  WHEN c.column_name IS NULL THEN CONCAT(': the column is missing; ', IF(w.required = 1 AND d.def IS NULL, 'expected ', CONCAT('run: ALTER TABLE ', w.tab, ' ADD COLUMN ', w.name, ' ')), w.type,
    IF(w.type = 'varchar' AND (w.required = 0 OR d.def IS NOT NULL), '(64)', ''), COALESCE(CONCAT(' NOT NULL ', d.def), ''))
  WHEN NOT FIND_IN_SET(c.data_type, w.types) THEN CONCAT(': expected ', w.type, ', found ', c.data_type)
  WHEN c.character_maximum_length < w.len THEN CONCAT(': expected at least ', w.len, ' characters, found ', c.column_type)
  ELSE ': expected NOT NULL, found a column that may be NULL' END)
FROM (
  SELECT 1 AS n, 'shop_jobs_ticks' AS tab, 'name' AS name, 'varchar' AS type, 'varchar' AS types, 255 AS len, 1 AS required
  UNION ALL SELECT 2, 'shop_jobs_ticks', 'at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 3, 'shop_jobs_ticks', 'job_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 4, 'shop_jobs_ticks', 'last_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 5, 'shop_jobs_ticks', 'last_row', 'bigint', 'bigint', 0, 0
) AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab
LEFT JOIN information_schema.columns c ON c.table_schema = DATABASE() AND c.table_name = w.tab AND c.column_name = w.name
LEFT JOIN (  SELECT 2 AS n, 'shop_jobs' AS tab, 'status' AS name, 'DEFAULT ''pending''' AS def
  UNION ALL SELECT 3, 'shop_jobs', 'attempts', 'DEFAULT 0'
  UNION ALL SELECT 4, 'shop_jobs', 'next_try_at', 'DEFAULT 0'
  UNION ALL SELECT 5, 'shop_jobs', 'created_at', 'DEFAULT (TIMESTAMPDIFF(MICROSECOND, ''1970-01-01'', UTC_TIMESTAMP(3)) DIV 1000)'
  UNION ALL SELECT 6, 'shop_jobs_relays', 'sent', 'DEFAULT 0') AS d ON d.tab = w.tab AND d.name = w.name
WHERE c.column_name IS NULL OR NOT FIND_IN_SET(c.data_type, w.types) OR c.character_maximum_length < w.len
  OR w.required = 1 AND c.is_nullable = 'YES'
ORDER BY w.n
SELECT w.told FROM (
  SELECT 1 AS n, 'name,at' AS a, 'at,name' AS b, 1 AS uniq, 'shop_jobs_ticks: expected a primary key (name, at)' AS told
  UNION ALL SELECT 2, 'at', 'at', 0, 'the index shop_jobs_ticks_at is missing; run: ALTER TABLE shop_jobs_ticks ADD KEY shop_jobs_ticks_at (at)') AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = 'shop_jobs_ticks'
WHERE NOT EXISTS (
  SELECT 1 FROM (
    SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) AS cols, MAX(non_unique) AS shared FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'shop_jobs_ticks' AND sub_part IS NULL GROUP BY index_name) AS s
  WHERE s.cols IN (w.a, w.b) AND (w.uniq = 0 OR s.shared = 0))
ORDER BY w.n
== Changed

