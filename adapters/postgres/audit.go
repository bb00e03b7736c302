package postgres

import "strings"

// The audit reads the catalogs only: it locks nothing, and needs no right but to
// be connected. Tables are looked for along the search_path, as everywhere.

// The questions of outboxsql.Statements.Audit. What is wrong with the server comes
// before what is wrong with a table, and a right before what it hides.

const version = `SELECT 'PostgreSQL ' || current_setting('server_version') || ' is too old: the outbox needs 13 or later'
WHERE current_setting('server_version_num')::int < 130000`

const replica = `SELECT 'the server is a read-only replica; name the primary in the DSN, or several hosts with target_session_attrs=read-write'
WHERE pg_is_in_recovery()`

const readOnly = `SELECT 'transactions of this user are read-only, and a relay must mark rows; run as an administrator: ALTER ROLE that user SET default_transaction_read_only = off; it may be set for the database or in the DSN, too'
WHERE current_setting('transaction_read_only') = 'on' AND NOT pg_is_in_recovery()`

// encoding: a job is text in UTF-8. Any other is changed into it by the server, but
// for SQL_ASCII, which does not say what its bytes mean: the first row that is not
// UTF-8 would stop the relay, and what is by chance would come out as other text.
const encoding = `SELECT CASE WHEN current_setting('server_encoding') = 'SQL_ASCII'
  THEN 'the database has the encoding SQL_ASCII, in which one row that is not UTF-8 would stop all others; move it to a database made with: CREATE DATABASE name ENCODING ''UTF8'' TEMPLATE template0'
  ELSE 'the connection speaks ' || current_setting('client_encoding') || ', and jobs are UTF-8; add client_encoding=UTF8 to the parameters of the DSN' END
WHERE current_setting('server_encoding') = 'SQL_ASCII' OR current_setting('client_encoding') <> 'UTF8'`

// ours are the tables of a relay.
const ours = `(VALUES (1, 'ojs_outbox'), (2, 'ojs_outbox_relays'), (3, 'ojs_outbox_identity')) AS w(n, name)`

const tables = `SELECT 'the table ' || w.name || ' is missing; make it with: outrider outbox init DSN'
FROM ` + ours + ` WHERE to_regclass(w.name) IS NULL AND (w.n = 1 OR to_regclass('ojs_outbox') IS NOT NULL) ORDER BY w.n`

// rights are those that a relay uses. INSERT into the outbox is the app's.
const rights = `SELECT 'the user of the relay lacks the right ' || string_agg(w.verb, ', ' ORDER BY w.n) || ' on ' || w.name || '; run as its owner: GRANT ' || string_agg(w.verb, ', ' ORDER BY w.n) || ' ON ' || w.name || ' TO that user'
FROM ` + rightsOf + `
WHERE to_regclass(w.name) IS NOT NULL AND NOT has_table_privilege(to_regclass(w.name), w.verb)
GROUP BY w.name ORDER BY min(w.n)`

const rightsOf = `(VALUES (1, 'ojs_outbox', 'SELECT'), (2, 'ojs_outbox', 'UPDATE'), (3, 'ojs_outbox', 'DELETE'),
  (4, 'ojs_outbox_relays', 'SELECT'), (5, 'ojs_outbox_relays', 'INSERT'), (6, 'ojs_outbox_relays', 'UPDATE'),
  (7, 'ojs_outbox_identity', 'SELECT')) AS w(n, name, verb)`

const rowSecurity = `SELECT 'row level security hides rows of ' || w.name || ' from the user of the relay; run as its owner: ALTER TABLE ' || w.name || ' DISABLE ROW LEVEL SECURITY'
FROM ` + ours + ` WHERE to_regclass(w.name) IS NOT NULL AND row_security_active(to_regclass(w.name)) ORDER BY w.n`

// wanted are the columns: the types that will do, the first as it is told, the
// least length of a varchar, and whether it may not be NULL.
const wanted = `(VALUES` + relayColumns + columnsOf

const relayColumns = `
  (1, 'ojs_outbox', 'id', ARRAY['bigint', 'integer'], 0, true),
  (2, 'ojs_outbox', 'job_id', ARRAY['text', 'character varying'], 36, false),
  (3, 'ojs_outbox', 'job_type', ARRAY['text', 'character varying'], 1, true),
  (4, 'ojs_outbox', 'job_args', ARRAY['json', 'jsonb', 'text'], 0, true),
  (5, 'ojs_outbox', 'job_options', ARRAY['json', 'jsonb', 'text'], 0, false),
  (6, 'ojs_outbox', 'status', ARRAY['text', 'character varying'], 7, true),
  (7, 'ojs_outbox', 'owner', ARRAY['text', 'character varying'], 64, false),
  (8, 'ojs_outbox', 'attempts', ARRAY['bigint', 'integer'], 0, true),
  (9, 'ojs_outbox', 'next_try_at', ARRAY['bigint'], 0, true),
  (10, 'ojs_outbox', 'created_at', ARRAY['bigint'], 0, true),
  (11, 'ojs_outbox', 'sent_at', ARRAY['bigint'], 0, false),
  (12, 'ojs_outbox', 'error', ARRAY['text'], 0, false),
  (13, 'ojs_outbox_relays', 'owner', ARRAY['text', 'character varying'], 64, true),
  (14, 'ojs_outbox_relays', 'until', ARRAY['bigint'], 0, true),
  (15, 'ojs_outbox_relays', 'seen_at', ARRAY['bigint'], 0, true),
  (16, 'ojs_outbox_relays', 'mode', ARRAY['text', 'character varying'], 16, true),
  (17, 'ojs_outbox_relays', 'sent', ARRAY['bigint'], 0, true),
  (18, 'ojs_outbox_identity', 'value', ARRAY['text', 'character varying'], 32, true),
  (19, 'ojs_outbox', 'answered_by', ARRAY['text', 'character varying'], 36, false),
  (20, 'ojs_outbox_relays', 'epoch', ARRAY['text', 'character varying'], 16, false),
  (21, 'ojs_outbox_relays', 'upto', ARRAY['bigint'], 0, false),
  (22, 'ojs_outbox_relays', 'host', ARRAY['text', 'character varying'], 64, false)`

const columnsOf = `
) AS w(n, tab, name, types, len, required)
LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attname = w.name AND NOT a.attisdropped
LEFT JOIN ` + givenDefaults + ` ON d.tab = w.tab AND d.name = w.name`

const columns = `SELECT w.tab || '.' || w.name || CASE
  WHEN a.attname IS NULL THEN ': the column is missing; ' || CASE WHEN w.required AND d.def IS NULL THEN 'expected ' ELSE 'run: ALTER TABLE ' || w.tab || ' ADD COLUMN ' || w.name || ' ' END || w.types[1] || coalesce(' NOT NULL ' || d.def, '')
  WHEN format_type(a.atttypid, NULL) <> ALL (w.types) THEN ': expected ' || w.types[1] || ', found ' || format_type(a.atttypid, NULL)
  WHEN a.atttypmod BETWEEN 4 AND w.len + 3 THEN ': expected at least ' || w.len || ' characters, found ' || format_type(a.atttypid, a.atttypmod)
  ELSE ': expected NOT NULL, found a column that may be NULL' END
FROM ` + wanted + `
WHERE to_regclass(w.tab) IS NOT NULL AND (a.attname IS NULL OR format_type(a.atttypid, NULL) <> ALL (w.types)
  OR a.atttypmod BETWEEN 4 AND w.len + 3 OR w.required AND NOT a.attnotnull)
ORDER BY w.n`

// givenDefaults are what an INSERT of type and args leaves out.
const givenDefaults = `(VALUES (2, 'ojs_outbox', 'status', 'DEFAULT ''pending'''),
  (3, 'ojs_outbox', 'attempts', 'DEFAULT 0'), (4, 'ojs_outbox', 'next_try_at', 'DEFAULT 0'),
  (5, 'ojs_outbox', 'created_at', 'DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint'),
  (6, 'ojs_outbox_relays', 'sent', 'DEFAULT 0')) AS d(n, tab, name, def)`

const defaults = `SELECT w.tab || '.' || w.name || ': has no default; expected ' || w.def
FROM (SELECT 1 AS n, 'ojs_outbox' AS tab, 'id' AS name, 'GENERATED ALWAYS AS IDENTITY' AS def UNION ALL SELECT * FROM ` + givenDefaults + `) AS w
JOIN pg_attribute a ON a.attrelid = to_regclass(w.tab) AND a.attname = w.name AND NOT a.attisdropped
WHERE NOT a.atthasdef AND a.attidentity = '' ORDER BY w.n`

const indexes = `SELECT w.told FROM (VALUES
  (1, 'ojs_outbox', 'id', '', true, 'ojs_outbox.id: expected a primary key or a unique index'),
  (2, 'ojs_outbox', 'id', 'pending', false, 'the index ojs_outbox_pending is missing or not valid; run: CREATE INDEX ojs_outbox_pending ON ojs_outbox (id) WHERE status = ''pending'''),
  (3, 'ojs_outbox', 'owner', '', false, 'the index ojs_outbox_owned is missing or not valid; run: CREATE INDEX ojs_outbox_owned ON ojs_outbox (owner, id) WHERE owner IS NOT NULL'),
  (4, 'ojs_outbox', 'id', 'parked', false, 'the index ojs_outbox_parked is missing or not valid; run: CREATE INDEX ojs_outbox_parked ON ojs_outbox (id) WHERE status = ''parked'''),
  (5, 'ojs_outbox_relays', 'owner', '', true, 'ojs_outbox_relays.owner: expected a primary key or a unique index')
) AS w(n, tab, col, part, uniq, told)
WHERE to_regclass(w.tab) IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  WHERE i.indrelid = to_regclass(w.tab) AND i.indisvalid AND a.attname = w.col
  AND CASE WHEN w.uniq THEN i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL
    WHEN w.part <> '' THEN pg_get_expr(i.indpred, i.indrelid) LIKE '%' || w.part || '%'
    ELSE true END)
ORDER BY w.n`

// identity is asked last: with no right to read it the question itself fails.
const identity = `SELECT 'the outbox ojs_outbox has no identity, from which job ids are made; make it with: outrider outbox init DSN'
WHERE (SELECT count(*) FROM ojs_outbox_identity WHERE one = 1 AND value <> '') <> 1`

// What outbox.Ticks needs. It writes rows of the outbox as the app does.

// tickAudit are the questions of outboxsql.Statements.TickAudit: the same of one more table.
func tickAudit() []string {
	of := func(question, list, other string) string { return strings.Replace(question, list, other, 1) }
	return []string{of(tables, ours, tickTable), of(rights, rightsOf, tickRights), of(rowSecurity, ours, tickTable), of(columns, wanted, tickWanted), tickIndexes, sequence}
}

const tickTable = `(VALUES (4, 'ojs_outbox_ticks')) AS w(n, name)`

const tickRights = `(VALUES (1, 'ojs_outbox', 'INSERT'), (2, 'ojs_outbox_ticks', 'SELECT'), (3, 'ojs_outbox_ticks', 'INSERT'),
  (4, 'ojs_outbox_ticks', 'UPDATE'), (5, 'ojs_outbox_ticks', 'DELETE')) AS w(n, name, verb)`

const tickWanted = `(VALUES
  (1, 'ojs_outbox_ticks', 'name', ARRAY['text', 'character varying'], 255, true),
  (2, 'ojs_outbox_ticks', 'at', ARRAY['bigint'], 0, true),
  (3, 'ojs_outbox_ticks', 'job_id', ARRAY['text', 'character varying'], 36, false),
  (4, 'ojs_outbox_ticks', 'last_id', ARRAY['text', 'character varying'], 36, false),
  (5, 'ojs_outbox_ticks', 'last_row', ARRAY['bigint'], 0, false)` + columnsOf

// tickIndexes: without the key two servers would make the job of one tick.
const tickIndexes = `SELECT w.told FROM (VALUES
  (1, ARRAY['at', 'name'], 'ojs_outbox_ticks: expected a primary key or a unique index on (name, at)'),
  (2, ARRAY['at'], 'the index ojs_outbox_ticks_at is missing or not valid; run: CREATE INDEX ojs_outbox_ticks_at ON ojs_outbox_ticks (at)')
) AS w(n, cols, told)
WHERE to_regclass('ojs_outbox_ticks') IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM pg_index i WHERE i.indrelid = to_regclass('ojs_outbox_ticks') AND i.indisvalid AND i.indpred IS NULL
  AND (i.indisunique OR w.n = 2) AND i.indnkeyatts = cardinality(w.cols)
  AND w.cols = ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]) ORDER BY 1))
ORDER BY w.n`

// sequence: the ids of a table of one's own may come from a sequence, which has
// rights of its own; those of an identity column need none.
const sequence = `SELECT 'the user of the relay lacks the right USAGE on the sequence ' || pg_get_serial_sequence('ojs_outbox', 'id')::regclass || '; run as its owner: GRANT USAGE ON SEQUENCE ' || pg_get_serial_sequence('ojs_outbox', 'id')::regclass || ' TO that user'
FROM pg_attribute AS a WHERE a.attrelid = to_regclass('ojs_outbox') AND a.attname = 'id' AND a.attidentity = ''
AND NOT has_sequence_privilege(pg_get_serial_sequence('ojs_outbox', 'id'), 'USAGE')`
