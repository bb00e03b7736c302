// Package sqlite is the outbox in the SQL of SQLite 3.8 or later. It holds text
// and imports no driver: a program brings the one it uses anyway.
//
// # The app's side
//
// Any driver and any pragmas will do. The database should be in WAL mode
// (PRAGMA journal_mode=WAL, once; the file remembers it). A transaction that
// reads before it writes should begin with BEGIN IMMEDIATE, as beside any other
// writer: SQLite refuses to turn a read into a write once somebody else has
// committed, whatever the busy timeout is.
//
// # The relay's side
//
// Open the relay's connections with [DSN].
package sqlite

import (
	"cmp"
	_ "embed"
	"net/url"
	"regexp"
	"strings"

	"github.com/outrider-jobs/outrider/internal/outboxsql"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// DefaultTable is the outbox table where no other name is given.
const DefaultTable = "ojs_outbox"

//go:embed outbox.sql
var create string

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Dialect is the outbox in a table of that name; empty is [DefaultTable]. Two
// outboxes in one database need two names. A name other than a letter or an
// underscore, and up to 62 letters, digits and underscores, is Invalid.
func Dialect(table string) (outbox.Dialect, error) {
	table = cmp.Or(table, DefaultTable)
	if !identifier.MatchString(table) || strings.HasPrefix(strings.ToLower(table), "sqlite_") {
		return outbox.Dialect{}, job.Errorf(job.Invalid, "an outbox table is named with 1 to 63 letters, digits and underscores, not a digit first nor sqlite_, got %.80q", table)
	}
	return outbox.NewDialect(statements().For(table, words)), nil
}

// words are the parts of statements that only SQLite writes like this.
var words = outboxsql.Words{
	Update:  `UPDATE ojs_outbox`,
	Delete:  `DELETE FROM ojs_outbox`,
	Now:     `CAST((julianday('now') - 2440587.5) * 86400000 + 0.5 AS INTEGER)`,
	Tries:   `min(max(CAST(ifnull(attempts, 0) AS INTEGER), 0), 1000000000)`,
	Written: `CASE WHEN typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END`,
}

func statements() outboxsql.Statements {
	return outboxsql.Statements{
		Name:    "sqlite",
		Create:  create,
		Columns: `SELECT name FROM pragma_table_info('ojs_outbox')`,
		Path:    `SELECT file FROM pragma_database_list WHERE name = 'main'`,
		Audit:   []string{tables, columns, autoincrement, indexes, identity},
		Refused: refused,
		Pending: pending,
		Done:    `DELETE FROM ojs_outbox WHERE status = 'pending' AND id IN ({ids}) AND ` + mine("?1"),
		Sent:    `UPDATE ojs_outbox SET status = 'sent', sent_at = ?1, attempts = {tries} + ?2, error = NULL WHERE status = 'pending' AND id IN ({ids}) AND ` + mine("?3"),
		Relayed: `UPDATE ojs_outbox SET status = 'relayed', sent_at = ?1, attempts = {tries} + ?2, owner = ?3, error = NULL, answered_by = {by} WHERE status = 'pending' AND id IN ({ids}) AND ` + mine("?3"),
		Parked:  `UPDATE ojs_outbox SET status = 'parked', error = ?1, attempts = {tries} + ?2 WHERE status = 'pending' AND id IN ({ids}) AND ` + mine("?3"),
		Later:   `UPDATE ojs_outbox SET next_try_at = ?1, error = ?2, attempts = {tries} + ?3 WHERE status = 'pending' AND id IN ({ids}) AND ` + mine("?4"),
		Kept:    `SELECT id, status, CAST(ifnull(sent_at, 0) AS INTEGER) FROM ojs_outbox WHERE id > ? ORDER BY id LIMIT ?`,
		Renew:   renew,
		Leases:  `SELECT owner, CAST(until AS INTEGER) FROM ojs_outbox_relays WHERE owner <> ? AND until > 0`,
		Holder:  holder,
		Adopt:   `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at) VALUES (?1, 'on_relay', min(1, ?2), 0) ON CONFLICT (owner) DO UPDATE SET until = excluded.until WHERE ojs_outbox_relays.until = 0`,
		Free:    `UPDATE ojs_outbox SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE id IN (SELECT id FROM ojs_outbox WHERE owner = ?1 AND status = 'relayed' ORDER BY id LIMIT 500) AND ` + dead,
		Held:    `SELECT id, CAST(job_id AS TEXT), {written}, CAST(answered_by AS TEXT) FROM ojs_outbox WHERE owner = ? AND status = 'relayed' AND id > ? ORDER BY id LIMIT ?`,
		Stats:   stats,
		Row:     rowOf,
		List:    `SELECT id, ifnull(substr(job_type, 1, 255), ''), {tries}, {written}, error FROM ojs_outbox WHERE status = 'parked' AND id > ? ORDER BY id LIMIT ?`,

		TickBegin: `BEGIN IMMEDIATE`,
		TickEnd:   `COMMIT`,
		TickAdd:   `INSERT INTO ojs_outbox_ticks (name, at) SELECT ?1, ?2 WHERE ?2 >= {now} - 90000000 ON CONFLICT (name, at) DO NOTHING`,
		TickTrim:  tickTrim,
		TickAgain: []string{"SQLITE_BUSY"},
		TickAudit: []string{tickTable, tickColumns, tickIndexes},

		Changed: `PRAGMA data_version`,
		Caution: outboxsql.Caution{
			Query:  `PRAGMA journal_mode`,
			Good:   "wal",
			Advice: "the database is not in WAL mode, so the app and the relay wait for each other at every commit; run once: PRAGMA journal_mode=WAL",
		},
	}
}

// stats counts rows by their status. One that is taken and nobody's is told by itself:
// no relay has it, and none will take it.
const stats = `SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN status || ' by nobody' ELSE status END AS status, {written} AS at FROM ojs_outbox) AS w
GROUP BY w.status`

// rowOf reads as pending does.
const rowOf = `SELECT ifnull(CAST(job_id AS TEXT), ''), substr(CAST(job_type AS BLOB), 1, 1024), substr(CAST(job_args AS BLOB), 1, 1048577),
  ifnull(substr(CAST(job_options AS BLOB), 1, 1048577), ''), ifnull(CAST(status AS TEXT), ''), ifnull(CAST(owner AS TEXT), ''), {tries},
  CAST(ifnull(next_try_at, 0) AS INTEGER), ifnull(CAST(error AS TEXT), ''), {written}, CAST(ifnull(sent_at, 0) AS INTEGER), ifnull(CAST(answered_by AS TEXT), '')
FROM ojs_outbox WHERE id = ?`

// holder reads one row by the index of owners, however many there are.
const holder = `SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM ojs_outbox WHERE owner > ? AND status = 'relayed' ORDER BY owner, id LIMIT 1) AS t`

// mine fences a statement: it changes nothing once another relay has taken over.
func mine(owner string) string {
	return `EXISTS (SELECT 1 FROM ojs_outbox_relays WHERE owner = ` + owner + ` AND until > 0)`
}

// dead fences what is done with the rows of an owner: it may have come back.
const dead = `EXISTS (SELECT 1 FROM ojs_outbox_relays WHERE owner = ?1 AND until > 0 AND until <= {now})`

// renew changes a row unless another relay lives, or may: one works at a time, as
// the database has one writer anyway.
const renew = `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at, host)
SELECT ?1, ?2, {now} + ?3, {now}, ?4
WHERE NOT EXISTS (SELECT 1 FROM ojs_outbox_relays WHERE owner <> ?1 AND until > min(?5, {now}))
ON CONFLICT (owner) DO UPDATE SET mode = excluded.mode, until = excluded.until, seen_at = excluded.seen_at, host = excluded.host`

const tickTrim = `DELETE FROM ojs_outbox_ticks WHERE rowid IN (
  SELECT a.rowid FROM ojs_outbox_ticks AS a WHERE a.at < {now} - 93600000
  AND EXISTS (SELECT 1 FROM ojs_outbox_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT ?)`

// pending reads as bytes what must come as it is, since SQLite's text functions
// end at a NUL, and no more of it than is needed to see that it is too long. It
// reads as integers what an app may have written as something else.
const pending = `SELECT id, substr(CAST(job_id AS BLOB), 1, 64), substr(CAST(job_type AS BLOB), 1, 1024),
  substr(CAST(job_args AS BLOB), 1, 1048577), substr(CAST(job_options AS BLOB), 1, 1048577),
  {written}, {tries},
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM ojs_outbox WHERE status = 'pending' AND CAST(ifnull(next_try_at, 0) AS INTEGER) <= ?{skip} ORDER BY id LIMIT ?`

// DSN is the address of an app's database file for the relay's connections, in
// the form of the driver modernc.org/sqlite. Like any DSN of SQLite it makes the
// file if there is none.
//
//   - busy_timeout: the relay waits up to 5 s for the app, never the other way round
//   - synchronous NORMAL and no checkpoints: in WAL mode the relay's commits
//     never wait for the disk while they keep the app from writing. A power cut
//     can lose marks, and the rows are sent again, which adds nothing. The app's
//     own commits are as durable as the app has chosen, and carry the relay's.
func DSN(path string) string {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(NORMAL)", "wal_autocheckpoint(0)"}, "_txlock": {"immediate"}}
	// SQLite reads the path of a URI with %-escapes; ?, # and % would end or change it.
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	return "file:" + escaped + "?" + q.Encode()
}
