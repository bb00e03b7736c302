// Package postgres is the outbox in the SQL of PostgreSQL 13 or later. It holds
// text and imports no driver: a program brings the one it uses anyway, pgx or
// another that numbers its parameters $1, $2.
package postgres

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

// Dialect is the outbox in a table of that name; empty is [DefaultTable]. The
// table is looked for as any other is, along the search_path. Two outboxes in
// one schema need two names. A name other than a letter or an underscore, and up
// to 39 lower-case letters, digits and underscores, is Invalid.
func Dialect(table string) (outbox.Dialect, error) {
	table = cmp.Or(table, DefaultTable)
	if !identifier.MatchString(table) {
		return outbox.Dialect{}, job.Errorf(job.Invalid, "an outbox table is named with 1 to 40 lower-case letters, digits and underscores, not a digit first, got %.80q", table)
	}
	return outbox.NewDialect(outboxsql.Statements{
		Name:    "postgres",
		Create:  lock + create,
		Columns: `SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('ojs_outbox') AND attnum > 0 AND NOT attisdropped`,
		Narrow:  `SELECT 1 WHERE current_setting('server_encoding') <> 'UTF8'`,
		Audit:   []string{version, replica, readOnly, encoding, tables, rights, rowSecurity, columns, defaults, indexes, identity},
		Ordered: ordered,
		Pending: pending,
		Take:    `UPDATE ojs_outbox SET status = 'taken', owner = $1 WHERE id IN ({ids})`,
		Peek:    `SELECT 1 FROM ojs_outbox WHERE status = 'pending' AND next_try_at <= $1 LIMIT 1`,
		Back:    `UPDATE ojs_outbox SET status = 'pending', owner = NULL WHERE owner = $1 AND status = 'taken'`,
		Done:    `DELETE FROM ojs_outbox WHERE status = 'taken' AND owner = $1 AND id IN ({ids})`,
		Sent:    `UPDATE ojs_outbox SET status = 'sent', owner = NULL, sent_at = $1, attempts = {tries} + $2, error = NULL WHERE status = 'taken' AND owner = $3 AND id IN ({ids})`,
		Relayed: `UPDATE ojs_outbox SET status = 'relayed', sent_at = $1, attempts = {tries} + $2, error = NULL, answered_by = {by} WHERE status = 'taken' AND owner = $3 AND id IN ({ids})`,
		Parked:  `UPDATE ojs_outbox SET status = 'parked', owner = NULL, error = $1, attempts = {tries} + $2 WHERE status = 'taken' AND owner = $3 AND id IN ({ids})`,
		Later:   `UPDATE ojs_outbox SET status = 'pending', owner = NULL, next_try_at = $1, error = $2, attempts = {tries} + $3 WHERE status = 'taken' AND owner = $4 AND id IN ({ids})`,
		Renew:   renew,
		Holder:  holder,
		Adopt:   `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at) VALUES ($1, 'on_relay', {now} + $2, 0) ON CONFLICT (owner) DO UPDATE SET until = excluded.until WHERE ojs_outbox_relays.until = 0`,
		Free:    free,
		Stats:   stats,
		Row:     rowOf,

		TickBegin: tickBegin,
		TickEnd:   `COMMIT`,
		TickAdd:   `INSERT INTO ojs_outbox_ticks (name, at) SELECT $1::text, $2::bigint WHERE $2::bigint >= {now} - 90000000 ON CONFLICT (name, at) DO NOTHING`,
		TickRow:   `INSERT INTO ojs_outbox (job_id, job_type, job_args, job_options) VALUES ($1, $2, $3, $4) RETURNING id`,
		TickTrim:  tickTrim,
		TickAgain: []string{"40P01", "40001", "deadlock detected"},
		TickAudit: tickAudit(),
	}.For(table, words)), nil
}

// words are the parts of statements that only PostgreSQL writes like this.
var words = outboxsql.Words{
	Update:   `UPDATE ojs_outbox`,
	Delete:   `DELETE FROM ojs_outbox`,
	Now:      `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`,
	Tries:    `least(greatest(attempts, 0), 1000000000)`,
	Written:  `CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END`,
	Numbered: true,
}

// lock keeps two that make the outbox at the same time apart: IF NOT EXISTS does
// not, one of them would fail in the catalog.
const lock = `SELECT pg_advisory_xact_lock(7020405, hashtext('ojs_outbox'));
`

// SQL are the statements that make the outbox, for migrations. They may be run again.
func SQL(table string) (string, error) { return extra(table, create) }

// stats counts rows by their status. One that is taken and nobody's is told by itself:
// no relay has it, and none will take it.
const stats = `SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN status || ' by nobody' ELSE status END AS status, {written} AS at FROM ojs_outbox) AS w
GROUP BY w.status`

const rowOf = `SELECT coalesce(job_id, ''), left(job_type, 1024), left(job_args::text, 1048577), coalesce(left(job_options::text, 1048577), ''), status, coalesce(owner, ''), {tries},
  next_try_at, coalesce(error, ''), {written}, coalesce(sent_at, 0), coalesce(answered_by, '') FROM ojs_outbox WHERE id = $1`

// holder reads one row by the index of owners, however many there are.
const holder = `SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM ojs_outbox WHERE owner > $1 AND status IN ('taken', 'relayed') ORDER BY owner, id LIMIT 1) AS t`

// tickBegin ends the session of a server that falls silent in its transaction:
// the others wait for it.
const tickBegin = `BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL idle_in_transaction_session_timeout = 30000;
INSERT INTO ojs_outbox_ticks (name, at) VALUES ('', 0) ON CONFLICT (name, at) DO UPDATE SET job_id = NULL`

// tickTrim asks for the time once, as an index cannot be searched for what changes.
const tickTrim = `DELETE FROM ojs_outbox_ticks WHERE ctid = ANY (ARRAY(
  SELECT a.ctid FROM ojs_outbox_ticks AS a WHERE a.at < (SELECT {now} - 93600000)
  AND EXISTS (SELECT 1 FROM ojs_outbox_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT $1 FOR UPDATE SKIP LOCKED))`

// ordered makes the planner read the pending rows by their index. What it knows of
// an outbox is that it is empty; so it would sort all rows of a sudden backlog for
// each batch, until the table is analyzed (measured: 60 ms a batch at 100,000 rows).
const ordered = `SET LOCAL enable_sort = off`

// pending reads no more of a row than is needed to see that it is too long.
const pending = `SELECT id, left(job_id, 64), left(job_type, 1024), left(job_args::text, 1048577), left(job_options::text, 1048577), {written}, {tries},
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM ojs_outbox WHERE status = 'pending' AND next_try_at <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`

const renew = `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at, host)
VALUES ($1, $2, {now} + $3, {now}, $4)
ON CONFLICT (owner) DO UPDATE SET mode = excluded.mode, until = excluded.until, seen_at = excluded.seen_at, host = excluded.host`

// free is fenced: the owner may have come back.
const free = `UPDATE ojs_outbox SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE id IN (
  SELECT id FROM ojs_outbox WHERE owner = $1 AND status IN ('taken', 'relayed') ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)
AND EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = ojs_outbox.owner AND r.until > 0 AND r.until <= {now})`
