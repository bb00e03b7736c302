// Package mysql is the outbox in the SQL of MySQL 8.0.13 and MariaDB 10.6 or later. It
// holds text and imports no driver: a program brings the one it uses anyway.
package mysql

import (
	"cmp"
	_ "embed"
	"regexp"

	"github.com/outrider-jobs/outrider/internal/outboxsql"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// DefaultTable is the outbox table where no other name is given.
const DefaultTable = "ojs_outbox"

//go:embed outbox.sql
var create string

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// Dialect is the outbox in a table of that name; empty is [DefaultTable]. Two
// outboxes in one database need two names. A name other than a letter or an underscore, and up
// to 39 lower-case letters, digits and underscores, is Invalid.
func Dialect(table string) (outbox.Dialect, error) {
	table = cmp.Or(table, DefaultTable)
	if !identifier.MatchString(table) {
		return outbox.Dialect{}, job.Errorf(job.Invalid, "an outbox table is named with 1 to 40 lower-case letters, digits and underscores, not a digit first, got %.80q", table)
	}
	return outbox.NewDialect(outboxsql.Statements{
		Name:    "mysql",
		Create:  create,
		Columns: `SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = 'ojs_outbox'`,
		Audit:   []string{version, readOnly, readTransactions, tables, engine, columns, charset, defaults, indexes, identity},
		Refused: refused,
		Pending: pending,
		Take:    `{update} SET status = 'taken', owner = ? WHERE id IN ({ids})`,
		Peek:    `SELECT 1 FROM ojs_outbox WHERE status = 'pending' AND next_try_at <= ? LIMIT 1`,
		Back:    `UPDATE ojs_outbox FORCE INDEX (ojs_outbox_owner) SET status = 'pending', owner = NULL WHERE owner = ? AND status = 'taken'`,
		Done:    `{delete} WHERE status = 'taken' AND owner = ? AND id IN ({ids})`,
		Sent:    `{update} SET status = 'sent', owner = NULL, sent_at = ?, attempts = {tries} + ?, error = NULL WHERE status = 'taken' AND owner = ? AND id IN ({ids})`,
		Relayed: `{update} SET status = 'relayed', sent_at = ?, attempts = {tries} + ?, error = NULL, answered_by = {by} WHERE status = 'taken' AND owner = ? AND id IN ({ids})`,
		Parked:  `{update} SET status = 'parked', owner = NULL, error = LEFT(?, 10000), attempts = {tries} + ? WHERE status = 'taken' AND owner = ? AND id IN ({ids})`,
		Later:   `{update} SET status = 'pending', owner = NULL, next_try_at = ?, error = LEFT(?, 10000), attempts = {tries} + ? WHERE status = 'taken' AND owner = ? AND id IN ({ids})`,
		Renew:   renew,
		Holder:  holder,
		Adopt:   `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at) VALUES (?, 'on_relay', {now} + ?, 0) ON DUPLICATE KEY UPDATE until = IF(until = 0, VALUES(until), until)`,
		Free:    free,
		Stats:   stats,

		TickBegin: tickBegin,
		TickEnd:   tickEnd,
		TickAdd:   `INSERT IGNORE INTO ojs_outbox_ticks (name, at) SELECT w.name, w.at FROM (SELECT CAST(? AS CHAR(255)) AS name, CAST(? AS SIGNED) AS at) AS w WHERE w.at >= {now} - 90000000`,
		TickTrim:  tickTrim,
		TickAgain: []string{"Error 1213"},
		TickAudit: tickAudit(),
	}.For(table, words)), nil
}

// words are the parts of statements that only MySQL writes like this. Now is not
// UNIX_TIMESTAMP(NOW(3)), which would go through the session's time zone and be an
// hour off when that one's summer time ends.
var words = outboxsql.Words{
	Update:  `UPDATE ojs_outbox FORCE INDEX (PRIMARY)`,
	Delete:  `DELETE o FROM ojs_outbox AS o FORCE INDEX (PRIMARY)`,
	Now:     `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)`,
	Tries:   `LEAST(GREATEST(attempts, 0), 1000000000)`,
	Written: `CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END`,
}

// SQL are the statements that make the outbox, for migrations. They may be run again.
func SQL(table string) (string, error) {
	d, err := Dialect(table)
	return d.Schema(), err
}

// stats counts rows by their status. One that is taken and nobody's is told by itself:
// no relay has it, and none will take it.
const stats = `SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN CONCAT(status, ' by nobody') ELSE status END AS status, {written} AS at FROM ojs_outbox) AS w
GROUP BY w.status`

// holder reads one row by the index of owners, however many there are.
const holder = `SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM ojs_outbox FORCE INDEX (ojs_outbox_owner) WHERE owner > ? AND status IN ('taken', 'relayed') ORDER BY owner, id LIMIT 1) AS t`

// tickBegin ends the session of a server that falls silent in its transaction:
// the others wait for it.
const tickBegin = `SET SESSION wait_timeout = 30;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;
INSERT INTO ojs_outbox_ticks (name, at) VALUES ('', 0) ON DUPLICATE KEY UPDATE job_id = NULL`

const tickEnd = `COMMIT;
SET SESSION wait_timeout = DEFAULT`

// tickTrim chooses in a table of its own: MySQL reads none that it deletes from.
const tickTrim = `DELETE t FROM ojs_outbox_ticks AS t JOIN (
  SELECT a.name, a.at FROM ojs_outbox_ticks AS a FORCE INDEX (ojs_outbox_ticks_at) WHERE a.at < {now} - 93600000
  AND EXISTS (SELECT 1 FROM ojs_outbox_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT ?) AS old ON t.name = old.name AND t.at = old.at`

// The indexes are named because a planner that chooses to scan a small table
// would wait there for rows that the app has not committed yet.

// pending reads no more of a row than is needed to see that it is too long.
const pending = `SELECT id, left(job_id, 64), left(job_type, 1024), left(job_args, 1048577), left(job_options, 1048577), {written}, {tries},
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM ojs_outbox FORCE INDEX (ojs_outbox_status) WHERE status = 'pending' AND next_try_at <= ? ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED`

const renew = `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at, host)
VALUES (?, ?, {now} + ?, {now}, ?)
ON DUPLICATE KEY UPDATE mode = VALUES(mode), until = VALUES(until), seen_at = VALUES(seen_at), host = VALUES(host)`

// free is fenced: the owner may have come back.
const free = `UPDATE ojs_outbox FORCE INDEX (ojs_outbox_owner) SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL
WHERE owner = ? AND status IN ('taken', 'relayed')
AND EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = ojs_outbox.owner AND r.until > 0 AND r.until <= {now})
ORDER BY id LIMIT 500`
