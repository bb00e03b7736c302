package postgres

import "strings"

// What an app may add to the outbox, as SQL for its migrations. Every statement
// ends in a semicolon and a line feed, and none has one inside.

// Function is a function that writes a job, for triggers, procedures and apps
// that would rather call than insert. It returns the id of the row:
//
//	SELECT ojs_enqueue('email.send', '["ada@example.com"]', '{"queue": "mail"}')
//
// Of another table than [DefaultTable] its name is the table's with _enqueue.
func Function(table string) (string, error) {
	return extra(table, strings.ReplaceAll(function, "{name}", functionName(table)))
}

func functionName(table string) string {
	if table == "" || table == DefaultTable {
		return "ojs_enqueue"
	}
	return table + "_enqueue"
}

// Trigger makes PostgreSQL tell the relays of every INSERT when its transaction
// commits, by a NOTIFY on the channel of the table's name. It is a hint that
// saves the wait for the next poll, and not free: all transactions of a database
// that notify commit one after the other. It is per statement, so that a
// transaction of 1,000 rows notifies once.
func Trigger(table string) (string, error) { return extra(table, trigger) }

// Notifies asks whether something tells of an INSERT into the table: it returns
// a row if so.
func Notifies(table string) (string, error) { return extra(table, notifies) }

func extra(table, sql string) (string, error) {
	d, err := Dialect(table)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(sql, DefaultTable, d.Table()), nil
}

const function = `-- A job from anywhere in SQL: SELECT {name}('email.send', '["ada@example.com"]')
CREATE OR REPLACE FUNCTION {name}(type text, args json, options json DEFAULT '{}') RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ($1, $2, $3) RETURNING id
$$;
`

const trigger = `-- Tells the relays that listen of every INSERT, when its transaction commits.
CREATE OR REPLACE FUNCTION ojs_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('ojs_outbox', ''); RETURN NULL; END
$$;
DROP TRIGGER IF EXISTS ojs_outbox_notify ON ojs_outbox;
CREATE TRIGGER ojs_outbox_notify AFTER INSERT ON ojs_outbox FOR EACH STATEMENT EXECUTE FUNCTION ojs_outbox_notify();
`

const notifies = `SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass('ojs_outbox') AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND p.prosrc ILIKE '%notify%' LIMIT 1`
