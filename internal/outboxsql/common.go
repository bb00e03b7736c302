package outboxsql

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// common are the statements that all databases share, with ? for each parameter.
var common = Statements{
	Identity: `SELECT value FROM ojs_outbox_identity`,
	Insert:   `INSERT INTO ojs_outbox (job_id, job_type, job_args, job_options) VALUES (?, ?, ?, ?)`,
	Ended:    `{delete} WHERE status = 'relayed' AND owner = ? AND id IN ({ids})`,
	Passed:   `{update} SET answered_by = {by} WHERE status = 'relayed' AND owner = ? AND id IN ({ids})`,
	Again:    `{update} SET status = 'pending', owner = NULL, answered_by = NULL, sent_at = NULL WHERE status = 'relayed' AND owner = ? AND id IN ({ids})`,
	Kept:     `SELECT id, status, coalesce(sent_at, 0) FROM ojs_outbox WHERE id > ? ORDER BY id LIMIT ?`,
	Delete:   `{delete} WHERE status = 'sent' AND id IN ({ids})`,
	Leave:    `UPDATE ojs_outbox_relays SET until = 1 WHERE owner = ? AND until > 0`,
	Count:    `UPDATE ojs_outbox_relays SET sent = sent + ?, epoch = ?, upto = ? WHERE owner = ?`,
	Leases:   `SELECT owner, until FROM ojs_outbox_relays WHERE owner <> ? AND until > 0`,
	Bury:     `UPDATE ojs_outbox_relays SET until = 0 WHERE owner = ? AND until <= {now}`,
	Held:     `SELECT id, job_id, {written}, answered_by FROM ojs_outbox WHERE owner = ? AND status = 'relayed' AND id > ? ORDER BY id LIMIT ?`,
	Reached:  `SELECT coalesce(epoch, ''), coalesce(upto, 0) FROM ojs_outbox_relays WHERE owner = ?`,
	Peers:    `SELECT owner, mode, sent, seen_at, coalesce(host, '') FROM ojs_outbox_relays WHERE seen_at >= ?`,
	List:     `SELECT id, left(job_type, 255), {tries}, {written}, error FROM ojs_outbox WHERE status = 'parked' AND id > ? ORDER BY id LIMIT ?`,
	Row:      `SELECT coalesce(job_id, ''), left(job_type, 1024), left(job_args, 1048577), coalesce(left(job_options, 1048577), ''), status, coalesce(owner, ''), {tries}, next_try_at, coalesce(error, ''), {written}, coalesce(sent_at, 0), coalesce(answered_by, '') FROM ojs_outbox WHERE id = ?`,
	Replay:   `{update} SET status = 'pending', error = NULL, next_try_at = 0 WHERE status = 'parked' AND id IN ({ids})`,
	Discard:  `{delete} WHERE status = 'parked' AND id IN ({ids})`,

	TickOf:   `SELECT job_id FROM ojs_outbox_ticks WHERE name = ? AND at = ?`,
	TickLast: `SELECT t.last_id, t.last_row, o.status FROM ojs_outbox_ticks AS t LEFT JOIN ojs_outbox AS o ON o.id = t.last_row AND o.job_id = t.last_id WHERE t.name = ? AND t.at <> ? ORDER BY t.at DESC LIMIT 1`,
	TickSet:  `UPDATE ojs_outbox_ticks SET job_id = ?, last_id = ?, last_row = ? WHERE name = ? AND at = ?`,
}

// Words are the parts of a statement that databases write differently. They
// take the place of {update}, {delete}, {now}, {tries} and {written}.
type Words struct {
	Update, Delete string // of rows with the given ids, up to SET and WHERE
	Now            string // the clock of the database, in milliseconds since 1970
	Tries          string // the attempts of a row so far: a number that no column refuses one more of, whatever an app has written there
	Written        string // the created_at of a row, and 0 for one that is no time, as in the id of its job
	Numbered       bool   // parameters are $1, $2 and not ?
}

// For completes the statements of a database: a common one fills in for each that is
// empty, the words are put in, and table takes the place of ojs_outbox.
func (s Statements) For(table string, w Words) Statements {
	s.Table = "ojs_outbox"
	words := strings.NewReplacer("{update}", w.Update, "{delete}", w.Delete, "{now}", w.Now, "{tries}", w.Tries, "{written}", w.Written)
	finish := func(text string) string { return strings.ReplaceAll(words.Replace(text), "ojs_outbox", table) }
	all, shared := reflect.ValueOf(&s).Elem(), reflect.ValueOf(common)
	for i := range all.NumField() {
		switch own := all.Field(i).Addr().Interface().(type) {
		case *string:
			*own = finish(cmp.Or(*own, w.placed(shared.Field(i).String())))
		case *[]string:
			for j, text := range *own {
				(*own)[j] = finish(text)
			}
		}
	}
	return s
}

// placed is a common statement with the placeholders of the database.
func (w Words) placed(stmt string) string {
	for n := 1; w.Numbered && strings.Contains(stmt, "?"); n++ {
		stmt = strings.Replace(stmt, "?", "$"+strconv.Itoa(n), 1)
	}
	return stmt
}
