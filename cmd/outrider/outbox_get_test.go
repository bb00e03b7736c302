package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
)

// TestOutboxGet: all of a row is shown, by each database the same, and what has
// become of one that is gone.
func TestOutboxGet(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		db.init(t)
		db.exec(t, `INSERT INTO ojs_outbox (job_type, job_args, job_options, created_at) VALUES ('mail.send', '["ada"]', '{"queue": "mail"}', 1700000000000)`,
			`INSERT INTO ojs_outbox (job_id, job_type, job_args, status, error, attempts, next_try_at, sent_at, owner, answered_by, created_at)
			VALUES ('018bcfe5-6800-7000-8000-000000000001', 'a b', '[1]', 'parked', 'no such type', 3, 1700000001000, 1700000002000, 'me', '018bcfe5-6800-7000-8000-000000000002', 1700000000000)`,
			`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('order.fulfil', '[]', '{"workflow": {"type": "chain", "steps": [{"type": "order.ship"}]}}')`)
		for _, tt := range []struct {
			args []string
			code int
			want []string
		}{
			{[]string{"1", db.dsn}, exitOK, []string{"status    pending\n", "type      mail.send\n", `args      ["ada"]`, `options   {"queue": "mail"}`, "attempts  0\n",
				"written   2023-11-14T22:13:20.000Z (", "job       018bcfe5-6800-7"}},
			{[]string{db.dsn, "2"}, exitOK, []string{"018bcfe5-6800-7000-8000-000000000001\n", "error        no such type\n", "next try     2023-11-14T22:13:21.000Z (", "sent         2023-11-14T22:13:22.000Z (",
				"owner        me\n", "answered by  018bcfe5-6800-7000-8000-000000000002\n"}},
			{[]string{"2", db.dsn, "-o", "json"}, exitOK, []string{`"id":2,"status":"parked","job_id":"018bcfe5-6800-7000-8000-000000000001","type":"a b","args":[1],"options":`,
				`"owner":"me","attempts":3,"next_try_at":"2023-11-14T22:13:21.000Z","error":"no such type","created_at":"2023-11-14T22:13:20.000Z","sent_at":"2023-11-14T22:13:22.000Z","answered_by":"018bcfe5-6800-7000-8000-000000000002"}`}},
			{[]string{"1", db.dsn, "-o", "yaml"}, exitOK, []string{"type: mail.send\n", "queue: mail\n"}},
			{[]string{"3", db.dsn}, exitOK, []string{"workflow  0"}},
			{[]string{"99", db.dsn}, exitNotFound, []string{"has no row 99 in ojs_outbox: a row is deleted once its job is on the server"}},
			{[]string{db.dsn}, exitUsage, []string{"needs the id of one row"}},
			{[]string{"0", db.dsn}, exitUsage, []string{"needs the id of one row"}},
			{[]string{"1", "2", db.dsn}, exitUsage, []string{"needs the id of one row"}},
		} {
			o := try(t, nil, append([]string{"outbox", "get"}, tt.args...)...)
			for _, want := range tt.want {
				if o.code != tt.code || !strings.Contains(o.stdout+o.stderr, want) {
					t.Errorf("%q: exit %d, it does not say %q:\n%s%s", tt.args[:1], o.code, want, o.stdout, o.stderr)
				}
			}
		}
		if db.scheme == appdb.SQLite { // which keeps whatever an app writes
			db.exec(t, `INSERT INTO ojs_outbox (id, job_type, job_args, next_try_at, created_at) VALUES (7, x'00', 'no JSON', 'soon', 'now')`)
			if o := try(t, nil, "outbox", "get", "7", db.dsn, "-o", "json"); o.code != exitOK || !strings.Contains(o.stdout, `"args":"no JSON","options":{},"attempts":0}`) {
				t.Errorf("an odd row: %+v", o)
			}
		}
		url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn, "--outbox-poll-idle", "50ms", "--outbox-keep", "1h")
		o := try(t, nil, "outbox", "get", "1", db.dsn)
		_, id, _ := strings.Cut(o.stdout, "job       ")
		id, _, _ = strings.Cut(id, "\n")
		fetched(t, url, "mail.send", time.Minute)
		if status, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/jobs/"+id, ""); status != 200 || !strings.Contains(body, "mail.send") {
			t.Errorf("the job of the row is not %q: %d %s", id, status, body)
		}
	})
}
