// Package postgres is the outbox in the SQL of PostgreSQL 13 or later. It holds
// text and imports no driver: a program brings the one it uses anyway, pgx or
// another that numbers its parameters $1, $2.
package postgres

import (
	_ "embed"
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

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// Dialect is the outbox in a table of that name; empty is [DefaultTable]. The
// table is looked for as any other is, along the search_path. Two outboxes in
// one schema need two names. A name other than a letter or an underscore, and up
// to 39 lower-case letters, digits and underscores, is Invalid.
func Dialect(table string) (outbox.Dialect, error) {
	if table == "" {
		table = DefaultTable
	}
	if !identifier.MatchString(table) {
		return outbox.Dialect{}, job.Errorf(job.Invalid, "an outbox table is named with 1 to 40 lower-case letters, digits and underscores, not a digit first, got %.80q", table)
	}
	named := func(sql string) string { return strings.ReplaceAll(sql, DefaultTable, table) }
	return outbox.NewDialect(outboxsql.Statements{
		Name:     "postgres",
		Table:    table,
		Create:   named(lock + create),
		Columns:  named(`SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('ojs_outbox') AND attnum > 0 AND NOT attisdropped`),
		Identity: named(`SELECT value FROM ojs_outbox_identity`),
		Narrow:   `SELECT 1 WHERE current_setting('server_encoding') <> 'UTF8'`,
		Audit:    audit(table),
		Insert:   named(`INSERT INTO ojs_outbox (job_id, job_type, job_args, job_options) VALUES ($1, $2, $3, $4)`),
		Ordered:  ordered,
		Pending:  named(pending),
		Take:     named(`UPDATE ojs_outbox SET status = 'taken', owner = $1 WHERE id IN ({ids})`),
		Peek:     named(`SELECT 1 FROM ojs_outbox WHERE status = 'pending' AND next_try_at <= $1 LIMIT 1`),
		Back:     named(`UPDATE ojs_outbox SET status = 'pending', owner = NULL WHERE owner = $1 AND status = 'taken'`),
		Done:     named(`DELETE FROM ojs_outbox WHERE status = 'taken' AND owner = $1 AND id IN ({ids})`),
		Sent:     named(`UPDATE ojs_outbox SET status = 'sent', owner = NULL, sent_at = $1, attempts = ` + tries + ` + $2, error = NULL WHERE status = 'taken' AND owner = $3 AND id IN ({ids})`),
		Relayed:  named(`UPDATE ojs_outbox SET status = 'relayed', sent_at = $1, attempts = ` + tries + ` + $2, error = NULL, answered_by = {by} WHERE status = 'taken' AND owner = $3 AND id IN ({ids})`),
		Ended:    named(`DELETE FROM ojs_outbox WHERE status = 'relayed' AND owner = $1 AND id IN ({ids})`),
		Passed:   named(`UPDATE ojs_outbox SET answered_by = {by} WHERE status = 'relayed' AND owner = $1 AND id IN ({ids})`),
		Again:    named(`UPDATE ojs_outbox SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE status = 'relayed' AND owner = $1 AND id IN ({ids})`),
		Parked:   named(`UPDATE ojs_outbox SET status = 'parked', owner = NULL, error = $1, attempts = ` + tries + ` + $2 WHERE status = 'taken' AND owner = $3 AND id IN ({ids})`),
		Later:    named(`UPDATE ojs_outbox SET status = 'pending', owner = NULL, next_try_at = $1, error = $2, attempts = ` + tries + ` + $3 WHERE status = 'taken' AND owner = $4 AND id IN ({ids})`),
		Kept:     named(`SELECT id, status, coalesce(sent_at, 0) FROM ojs_outbox WHERE id > $1 ORDER BY id LIMIT $2`),
		Delete:   named(`DELETE FROM ojs_outbox WHERE status = 'sent' AND id IN ({ids})`),
		Renew:    named(renew),
		Leave:    named(`UPDATE ojs_outbox_relays SET until = 1 WHERE owner = $1 AND until > 0`),
		Count:    named(`UPDATE ojs_outbox_relays SET sent = sent + $1, epoch = $2, upto = $3 WHERE owner = $4`),
		Leases:   named(`SELECT owner, until FROM ojs_outbox_relays WHERE owner <> $1 AND until > 0`),
		Holder:   named(holder),
		Adopt:    named(`INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at) VALUES ($1, 'on_relay', ` + now + ` + $2, 0) ON CONFLICT (owner) DO UPDATE SET until = excluded.until WHERE ojs_outbox_relays.until = 0`),
		Free:     named(free),
		Bury:     named(`UPDATE ojs_outbox_relays SET until = 0 WHERE owner = $1 AND until <= ` + now),
		Held:     named(`SELECT id, job_id, ` + written + `, answered_by FROM ojs_outbox WHERE owner = $1 AND status = 'relayed' AND id > $2 ORDER BY id LIMIT $3`),
		Reached:  named(`SELECT coalesce(epoch, ''), coalesce(upto, 0) FROM ojs_outbox_relays WHERE owner = $1`),
		Peers:    named(`SELECT owner, mode, sent, seen_at FROM ojs_outbox_relays WHERE seen_at >= $1`),
		Stats:    named(stats),
		List:     named(`SELECT id, left(job_type, 255), ` + tries + `, ` + written + `, error FROM ojs_outbox WHERE status = 'parked' AND id > $1 ORDER BY id LIMIT $2`),
		Replay:   named(`UPDATE ojs_outbox SET status = 'pending', error = NULL, next_try_at = 0 WHERE status = 'parked' AND id IN ({ids})`),
		Discard:  named(`DELETE FROM ojs_outbox WHERE status = 'parked' AND id IN ({ids})`),

		TickBegin: named(tickBegin),
		TickEnd:   `COMMIT`,
		TickAdd:   named(`INSERT INTO ojs_outbox_ticks (name, at) SELECT $1::text, $2::bigint WHERE $2::bigint >= ` + now + ` - 90000000 ON CONFLICT (name, at) DO NOTHING`),
		TickOf:    named(`SELECT job_id FROM ojs_outbox_ticks WHERE name = $1 AND at = $2`),
		TickLast:  named(`SELECT t.last_id, t.last_row, o.status FROM ojs_outbox_ticks AS t LEFT JOIN ojs_outbox AS o ON o.id = t.last_row AND o.job_id = t.last_id WHERE t.name = $1 AND t.at <> $2 ORDER BY t.at DESC LIMIT 1`),
		TickSet:   named(`UPDATE ojs_outbox_ticks SET job_id = $1, last_id = $2, last_row = $3 WHERE name = $4 AND at = $5`),
		TickRow:   named(`INSERT INTO ojs_outbox (job_id, job_type, job_args, job_options) VALUES ($1, $2, $3, $4) RETURNING id`),
		TickTrim:  named(tickTrim),
		TickAgain: []string{"40P01", "40001", "deadlock detected"},
		TickAudit: tickAudit(table),
	}), nil
}

// lock keeps two that make the outbox at the same time apart: IF NOT EXISTS does
// not, one of them would fail in the catalog.
const lock = `SELECT pg_advisory_xact_lock(7020405, hashtext('ojs_outbox'));
`

// SQL are the statements that make the outbox, for migrations. They may be run again.
func SQL(table string) (string, error) { return extra(table, create) }

// tries are those of a row so far: a number that no column refuses one more of,
// whatever somebody has written there.
const tries = `least(greatest(attempts, 0), 1000000000)`

// written is the created_at of a row, and 0 for one that is no time, as in the id
// of its job.
const written = `CASE WHEN created_at BETWEEN 0 AND 281474976710655 THEN created_at ELSE 0 END`

// stats counts rows by their status. One that is taken and nobody's is told by itself:
// no relay has it, and none will take it.
const stats = `SELECT w.status, count(*), coalesce(min(NULLIF(w.at, 0)), 0) FROM (
  SELECT CASE WHEN status IN ('taken', 'relayed') AND owner IS NULL THEN status || ' by nobody' ELSE status END AS status, ` + written + ` AS at FROM ojs_outbox) AS w
GROUP BY w.status`

// holder reads one row by the index of owners, however many there are.
const holder = `SELECT t.owner, CASE WHEN EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = t.owner AND r.until > 0) THEN 1 ELSE 0 END
FROM (SELECT owner FROM ojs_outbox WHERE owner > $1 AND status IN ('taken', 'relayed') ORDER BY owner, id LIMIT 1) AS t`

// now is the clock of the database, in milliseconds since 1970.
const now = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// tickBegin ends the session of a server that falls silent in its transaction:
// the others wait for it.
const tickBegin = `BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL idle_in_transaction_session_timeout = 30000;
INSERT INTO ojs_outbox_ticks (name, at) VALUES ('', 0) ON CONFLICT (name, at) DO UPDATE SET job_id = NULL`

// tickTrim asks for the time once, as an index cannot be searched for what changes.
const tickTrim = `DELETE FROM ojs_outbox_ticks WHERE ctid = ANY (ARRAY(
  SELECT a.ctid FROM ojs_outbox_ticks AS a WHERE a.at < (SELECT ` + now + ` - 93600000)
  AND EXISTS (SELECT 1 FROM ojs_outbox_ticks AS b WHERE b.name = a.name AND b.at > a.at)
  ORDER BY a.at LIMIT $1 FOR UPDATE SKIP LOCKED))`

// ordered makes the planner read the pending rows by their index. What it knows of
// an outbox is that it is empty; so it would sort all rows of a sudden backlog for
// each batch, until the table is analyzed (measured: 60 ms a batch at 100,000 rows).
const ordered = `SET LOCAL enable_sort = off`

// pending reads no more of a row than is needed to see that it is too long.
const pending = `SELECT id, left(job_id, 64), left(job_type, 1024), left(job_args::text, 1048577), left(job_options::text, 1048577), ` + written + `, ` + tries + `,
  CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END
FROM ojs_outbox WHERE status = 'pending' AND next_try_at <= $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`

const renew = `INSERT INTO ojs_outbox_relays (owner, mode, until, seen_at)
VALUES ($1, $2, ` + now + ` + $3, ` + now + `)
ON CONFLICT (owner) DO UPDATE SET mode = excluded.mode, until = excluded.until, seen_at = excluded.seen_at`

// free is fenced: the owner may have come back.
const free = `UPDATE ojs_outbox SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE id IN (
  SELECT id FROM ojs_outbox WHERE owner = $1 AND status IN ('taken', 'relayed') ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED)
AND EXISTS (SELECT 1 FROM ojs_outbox_relays AS r WHERE r.owner = ojs_outbox.owner AND r.until > 0 AND r.until <= ` + now + `)`
