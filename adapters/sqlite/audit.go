package sqlite

import "errors"

// The questions of outboxsql.Statements.Audit. Types are not asked for: a column of
// SQLite holds whatever is written to it, and the relay reads it so.

const tables = `WITH w(n, name) AS (VALUES (1, 'ojs_outbox'), (2, 'ojs_outbox_relays'), (3, 'ojs_outbox_identity'))
SELECT 'the table ' || name || ' is missing; make it with: outrider outbox init DSN' FROM w
WHERE name NOT IN (SELECT name FROM sqlite_master) AND (n = 1 OR 'ojs_outbox' IN (SELECT name FROM sqlite_master)) ORDER BY n`

// columns are told with what adds one. Some cannot be added: SQLite takes no default
// that is an expression, and what rows are about has none.
const columns = `WITH w(n, tab, name, def) AS (VALUES (1, 'ojs_outbox', 'id', NULL), (2, 'ojs_outbox', 'job_id', 'TEXT'),
  (3, 'ojs_outbox', 'job_type', NULL), (4, 'ojs_outbox', 'job_args', NULL), (5, 'ojs_outbox', 'job_options', 'TEXT NOT NULL DEFAULT ''{}'''),
  (6, 'ojs_outbox', 'status', 'TEXT NOT NULL DEFAULT ''pending'''), (7, 'ojs_outbox', 'owner', 'TEXT'),
  (8, 'ojs_outbox', 'attempts', 'INTEGER NOT NULL DEFAULT 0'), (9, 'ojs_outbox', 'next_try_at', 'INTEGER NOT NULL DEFAULT 0'),
  (10, 'ojs_outbox', 'created_at', NULL), (11, 'ojs_outbox', 'sent_at', 'INTEGER'), (12, 'ojs_outbox', 'error', 'TEXT'),
  (13, 'ojs_outbox_relays', 'owner', NULL), (14, 'ojs_outbox_relays', 'until', NULL), (15, 'ojs_outbox_relays', 'seen_at', NULL),
  (16, 'ojs_outbox_relays', 'mode', NULL), (17, 'ojs_outbox_relays', 'sent', 'INTEGER NOT NULL DEFAULT 0'),
  (18, 'ojs_outbox_identity', 'one', NULL), (19, 'ojs_outbox_identity', 'value', NULL), (20, 'ojs_outbox', 'answered_by', 'TEXT'),
  (21, 'ojs_outbox_relays', 'epoch', 'TEXT'), (22, 'ojs_outbox_relays', 'upto', 'INTEGER'), (23, 'ojs_outbox_relays', 'host', 'TEXT'))
SELECT tab || '.' || name || ': the column is missing' || coalesce('; run: ALTER TABLE ' || tab || ' ADD COLUMN ' || name || ' ' || def, '') FROM w
WHERE tab IN (SELECT name FROM sqlite_master) AND NOT EXISTS (SELECT 1 FROM pragma_table_info(w.tab) AS c WHERE c.name = w.name) ORDER BY n`

// autoincrement: job ids are made of row ids, so one that was deleted must not come again.
const autoincrement = `SELECT 'ojs_outbox.id: expected INTEGER PRIMARY KEY AUTOINCREMENT; without it the id of a deleted row comes again, and its job would count as sent'
FROM sqlite_master WHERE type = 'table' AND name = 'ojs_outbox' AND upper(sql) NOT LIKE '%AUTOINCREMENT%'`

const indexes = `WITH w(n, name, told) AS (VALUES
  (1, 'ojs_outbox_pending', 'CREATE INDEX ojs_outbox_pending ON ojs_outbox (id) WHERE status = ''pending'''),
  (2, 'ojs_outbox_owned', 'CREATE INDEX ojs_outbox_owned ON ojs_outbox (owner, id) WHERE owner IS NOT NULL'),
  (3, 'ojs_outbox_parked', 'CREATE INDEX ojs_outbox_parked ON ojs_outbox (id) WHERE status = ''parked'''))
SELECT 'the index ' || name || ' is missing; run: ' || told FROM w
WHERE 'ojs_outbox' IN (SELECT name FROM sqlite_master) AND name NOT IN (SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'ojs_outbox') ORDER BY n`

const identity = `SELECT 'the outbox ojs_outbox has no identity, from which job ids are made; make it with: outrider outbox init DSN'
WHERE (SELECT count(*) FROM ojs_outbox_identity WHERE one = 1 AND value <> '') <> 1`

// What outbox.Ticks needs.

const tickTable = `SELECT 'the table ojs_outbox_ticks is missing; make it with: outrider outbox init DSN'
WHERE 'ojs_outbox' IN (SELECT name FROM sqlite_master) AND 'ojs_outbox_ticks' NOT IN (SELECT name FROM sqlite_master)`

const tickColumns = `WITH w(n, name, def) AS (VALUES (1, 'name', NULL), (2, 'at', NULL), (3, 'job_id', 'TEXT'), (4, 'last_id', 'TEXT'), (5, 'last_row', 'INTEGER'))
SELECT 'ojs_outbox_ticks.' || name || ': the column is missing' || coalesce('; run: ALTER TABLE ojs_outbox_ticks ADD COLUMN ' || name || ' ' || def, '') FROM w
WHERE 'ojs_outbox_ticks' IN (SELECT name FROM sqlite_master) AND name NOT IN (SELECT name FROM pragma_table_info('ojs_outbox_ticks')) ORDER BY n`

// tickIndexes: without the key two servers would make the job of one tick.
const tickIndexes = `WITH w(n, cols, uniq, told) AS (VALUES
  (1, 'at,name', 1, 'ojs_outbox_ticks: expected PRIMARY KEY (name, at)'),
  (2, 'at', 0, 'the index ojs_outbox_ticks_at is missing; run: CREATE INDEX ojs_outbox_ticks_at ON ojs_outbox_ticks (at)'))
SELECT told FROM w WHERE 'ojs_outbox_ticks' IN (SELECT name FROM sqlite_master) AND NOT EXISTS (
  SELECT 1 FROM pragma_index_list('ojs_outbox_ticks') AS i WHERE i."unique" >= w.uniq AND i.partial = 0
  AND w.cols = (SELECT group_concat(name, ',') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY name))) ORDER BY n`

// refused says that the file may not be written to: SQLite has no other rights.
func refused(err error, _, _ string) string {
	const readOnly = 8 // SQLITE_READONLY, in the lowest byte of a code
	var coded interface{ Code() int }
	if !errors.As(err, &coded) || coded.Code()&0xff != readOnly {
		return ""
	}
	return "this user may not write to the file; the relay must mark rows in it"
}
