package mysql

import (
	"fmt"
	"regexp"
	"strings"
)

// The audit reads information_schema only. Rights are not in it: what a role
// grants is not told there in the same way by MySQL and MariaDB, so whoever wants
// to know runs the statements themselves with an id that no row has.

// version stands before all else: without SKIP LOCKED two relays wait for each other.
const version = `SELECT CONCAT(w.kind, ' ', w.v, ' is too old: the outbox needs MySQL 8.0.13 or MariaDB 10.6, or later, for SKIP LOCKED') FROM (
  SELECT IF(v LIKE '%MariaDB%', 'MariaDB', 'MySQL') AS kind, SUBSTRING_INDEX(v, '-', 1) AS v,
    1000000 * SUBSTRING_INDEX(v, '.', 1) + 1000 * SUBSTRING_INDEX(SUBSTRING_INDEX(v, '.', 2), '.', -1)
      + SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(v, '-', 1), '.', 3), '.', -1) AS n
  FROM (SELECT VERSION() AS v) AS x) AS w
WHERE w.n < IF(w.kind = 'MariaDB', 10006000, 8000013)`

const readOnly = `SELECT 'the server is read-only, as a replica is; name the primary in the DSN' FROM (SELECT 1 AS one) AS w WHERE @@GLOBAL.read_only = 1 OR @@GLOBAL.innodb_read_only = 1`

// readTransactions asks for a variable that the two servers name differently.
const readTransactions = `SELECT 'the transactions of this user are read-only, and a relay must mark rows; set transaction_read_only (tx_read_only in MariaDB) to 0 where it is set: in the DSN, or on the server'
FROM (SELECT 1 AS one) AS w WHERE @@SESSION./*M! tx_read_only *//*!80000 transaction_read_only */ = 1`

// ours are the tables of a relay.
const ours = three + `
LEFT JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab`

const three = `(SELECT 1 AS n, 'ojs_outbox' AS tab UNION ALL SELECT 2, 'ojs_outbox_relays' UNION ALL SELECT 3, 'ojs_outbox_identity') AS w`

const tables = `SELECT CONCAT('the table ', w.tab, ' is missing, or the user of the relay has no right on it; make it with: outrider outbox init DSN')
FROM ` + ours + ` LEFT JOIN information_schema.tables m ON m.table_schema = DATABASE() AND m.table_name = 'ojs_outbox'
WHERE t.table_name IS NULL AND (w.n = 1 OR m.table_name IS NOT NULL) ORDER BY w.n`

const engine = `SELECT CONCAT('the table ', w.tab, ' has the engine ', COALESCE(t.engine, 'of a view'), ', which has no transactions; run: ALTER TABLE ', w.tab, ' ENGINE = InnoDB')
FROM ` + ours + ` WHERE t.table_name IS NOT NULL AND COALESCE(t.engine, '') <> 'InnoDB' ORDER BY w.n`

// wanted are the columns: the type as it is told, those that will do, the least
// length of a varchar, and whether it may not be NULL.
const wanted = `(
` + relayColumns + `
) AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab
LEFT JOIN information_schema.columns c ON c.table_schema = DATABASE() AND c.table_name = w.tab AND c.column_name = w.name
LEFT JOIN (` + givenDefaults + `) AS d ON d.tab = w.tab AND d.name = w.name`

const relayColumns = `  SELECT 1 AS n, 'ojs_outbox' AS tab, 'id' AS name, 'bigint' AS type, 'bigint,int' AS types, 0 AS len, 1 AS required
  UNION ALL SELECT 2, 'ojs_outbox', 'job_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 3, 'ojs_outbox', 'job_type', 'varchar', 'varchar,text', 1, 1
  UNION ALL SELECT 4, 'ojs_outbox', 'job_args', 'longtext', 'longtext,mediumtext,json', 0, 1
  UNION ALL SELECT 5, 'ojs_outbox', 'job_options', 'longtext', 'longtext,mediumtext,json,text', 0, 0
  UNION ALL SELECT 6, 'ojs_outbox', 'status', 'varchar', 'varchar', 7, 1
  UNION ALL SELECT 7, 'ojs_outbox', 'owner', 'varchar', 'varchar', 64, 0
  UNION ALL SELECT 8, 'ojs_outbox', 'attempts', 'bigint', 'bigint,int', 0, 1
  UNION ALL SELECT 9, 'ojs_outbox', 'next_try_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 10, 'ojs_outbox', 'created_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 11, 'ojs_outbox', 'sent_at', 'bigint', 'bigint', 0, 0
  UNION ALL SELECT 12, 'ojs_outbox', 'error', 'text', 'text,mediumtext,longtext', 0, 0
  UNION ALL SELECT 13, 'ojs_outbox_relays', 'owner', 'varchar', 'varchar', 64, 1
  UNION ALL SELECT 14, 'ojs_outbox_relays', 'until', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 15, 'ojs_outbox_relays', 'seen_at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 16, 'ojs_outbox_relays', 'mode', 'varchar', 'varchar', 16, 1
  UNION ALL SELECT 17, 'ojs_outbox_relays', 'sent', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 18, 'ojs_outbox_identity', 'value', 'varchar', 'varchar,char', 32, 1
  UNION ALL SELECT 19, 'ojs_outbox', 'answered_by', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 20, 'ojs_outbox_relays', 'epoch', 'varchar', 'varchar', 16, 0
  UNION ALL SELECT 21, 'ojs_outbox_relays', 'upto', 'bigint', 'bigint', 0, 0
  UNION ALL SELECT 22, 'ojs_outbox_relays', 'host', 'varchar', 'varchar,char', 64, 0`

const columns = `SELECT CONCAT(w.tab, '.', w.name, CASE
  WHEN c.column_name IS NULL THEN CONCAT(': the column is missing; ', IF(w.required = 1 AND d.def IS NULL, 'expected ', CONCAT('run: ALTER TABLE ', w.tab, ' ADD COLUMN ', w.name, ' ')), w.type,
    IF(w.type = 'varchar' AND (w.required = 0 OR d.def IS NOT NULL), '(64)', ''), COALESCE(CONCAT(' NOT NULL ', d.def), ''))
  WHEN NOT FIND_IN_SET(c.data_type, w.types) THEN CONCAT(': expected ', w.type, ', found ', c.data_type)
  WHEN c.character_maximum_length < w.len THEN CONCAT(': expected at least ', w.len, ' characters, found ', c.column_type)
  ELSE ': expected NOT NULL, found a column that may be NULL' END)
FROM ` + wanted + `
WHERE c.column_name IS NULL OR NOT FIND_IN_SET(c.data_type, w.types) OR c.character_maximum_length < w.len
  OR w.required = 1 AND c.is_nullable = 'YES'
ORDER BY w.n`

// charset: what utf8mb4 cannot hold, any other refuses or writes as question marks.
const charset = `SELECT CONCAT(w.tab, '.', w.name, ': expected the character set utf8mb4, found ', c.character_set_name, '; run: ALTER TABLE ', w.tab, ' CONVERT TO CHARACTER SET utf8mb4')
FROM ` + wanted + `
WHERE w.tab = 'ojs_outbox' AND w.name IN ('job_type', 'job_args', 'job_options', 'error') AND c.character_set_name <> 'utf8mb4'
ORDER BY w.n`

// givenDefaults are what an INSERT of type and args leaves out.
const givenDefaults = `  SELECT 2 AS n, 'ojs_outbox' AS tab, 'status' AS name, 'DEFAULT ''pending''' AS def
  UNION ALL SELECT 3, 'ojs_outbox', 'attempts', 'DEFAULT 0'
  UNION ALL SELECT 4, 'ojs_outbox', 'next_try_at', 'DEFAULT 0'
  UNION ALL SELECT 5, 'ojs_outbox', 'created_at', 'DEFAULT (TIMESTAMPDIFF(MICROSECOND, ''1970-01-01'', UTC_TIMESTAMP(3)) DIV 1000)'
  UNION ALL SELECT 6, 'ojs_outbox_relays', 'sent', 'DEFAULT 0'`

const defaults = `SELECT CONCAT(w.tab, '.', w.name, ': has no default; expected ', w.def) FROM (
  SELECT 1 AS n, 'ojs_outbox' AS tab, 'id' AS name, 'AUTO_INCREMENT' AS def
  UNION ALL ` + givenDefaults + `) AS w
JOIN information_schema.columns c ON c.table_schema = DATABASE() AND c.table_name = w.tab AND c.column_name = w.name
WHERE IF(w.name = 'id', c.extra NOT LIKE '%auto_increment%', c.column_default IS NULL) ORDER BY w.n`

const indexes = `SELECT w.told FROM (
  SELECT 1 AS n, 'ojs_outbox' AS tab, 'id' AS a, '' AS b, 1 AS uniq, 'ojs_outbox.id: expected a primary key' AS told
  UNION ALL SELECT 2, 'ojs_outbox', 'status', 'id', 0, 'the index ojs_outbox_status is missing; run: ALTER TABLE ojs_outbox ADD KEY ojs_outbox_status (status, id)'
  UNION ALL SELECT 3, 'ojs_outbox', 'owner', 'id', 0, 'the index ojs_outbox_owner is missing; run: ALTER TABLE ojs_outbox ADD KEY ojs_outbox_owner (owner, id)'
  UNION ALL SELECT 4, 'ojs_outbox_relays', 'owner', '', 1, 'ojs_outbox_relays.owner: expected a primary key') AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = w.tab
WHERE NOT EXISTS (
  SELECT 1 FROM information_schema.statistics s
  LEFT JOIN information_schema.statistics s2 ON s2.table_schema = s.table_schema AND s2.table_name = s.table_name AND s2.index_name = s.index_name AND s2.seq_in_index = 2
  WHERE s.table_schema = DATABASE() AND s.table_name = w.tab AND s.seq_in_index = 1 AND s.column_name = w.a
  AND IF(w.uniq = 1, s.non_unique = 0 AND s2.column_name IS NULL, s2.column_name = w.b))
ORDER BY w.n`

const identity = `SELECT 'the outbox ojs_outbox has no identity, from which job ids are made; make it with: outrider outbox init DSN' FROM (SELECT 1 AS one) AS w
WHERE (SELECT COUNT(*) FROM ojs_outbox_identity WHERE one = 1 AND value <> '') <> 1`

// What outbox.Ticks needs.

// tickAudit are the questions of outboxsql.Statements.TickAudit: the same of one more table.
func tickAudit() []string {
	of := func(question, list, other string) string { return strings.Replace(question, list, other, 1) }
	return []string{of(tables, three, tickTable), of(engine, three, tickTable), of(columns, relayColumns, tickColumns), tickIndexes}
}

const tickTable = `(SELECT 4 AS n, 'ojs_outbox_ticks' AS tab) AS w`

const tickColumns = `  SELECT 1 AS n, 'ojs_outbox_ticks' AS tab, 'name' AS name, 'varchar' AS type, 'varchar' AS types, 255 AS len, 1 AS required
  UNION ALL SELECT 2, 'ojs_outbox_ticks', 'at', 'bigint', 'bigint', 0, 1
  UNION ALL SELECT 3, 'ojs_outbox_ticks', 'job_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 4, 'ojs_outbox_ticks', 'last_id', 'varchar', 'varchar,char', 36, 0
  UNION ALL SELECT 5, 'ojs_outbox_ticks', 'last_row', 'bigint', 'bigint', 0, 0`

// tickIndexes: without the key two servers would make the job of one tick.
const tickIndexes = `SELECT w.told FROM (
  SELECT 1 AS n, 'name,at' AS a, 'at,name' AS b, 1 AS uniq, 'ojs_outbox_ticks: expected a primary key (name, at)' AS told
  UNION ALL SELECT 2, 'at', 'at', 0, 'the index ojs_outbox_ticks_at is missing; run: ALTER TABLE ojs_outbox_ticks ADD KEY ojs_outbox_ticks_at (at)') AS w
JOIN information_schema.tables t ON t.table_schema = DATABASE() AND t.table_name = 'ojs_outbox_ticks'
WHERE NOT EXISTS (
  SELECT 1 FROM (
    SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index) AS cols, MAX(non_unique) AS shared FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'ojs_outbox_ticks' AND sub_part IS NULL GROUP BY index_name) AS s
  WHERE s.cols IN (w.a, w.b) AND (w.uniq = 0 OR s.shared = 0))
ORDER BY w.n`

// noRight are the errors of the server for a right that is missing, as drivers write them.
var noRight = regexp.MustCompile(`^Error (1142|1143|1044)\b`)

// refused says which right is missing.
func refused(err error, verb, table string) string {
	if !noRight.MatchString(err.Error()) {
		return ""
	}
	return fmt.Sprintf("the relay's user lacks the right %s on %s; as an administrator, run: GRANT %[1]s ON %[2]s TO that user", verb, table)
}
