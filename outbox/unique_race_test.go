package outbox_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// keyWorld is an outbox whose rows go to a real server with a store.
type keyWorld struct {
	*world
	server *sidecar.Sidecar
	store  *sqlitestore.Store
	db     *sql.DB // of the store, to look at
}

func newKeyWorld(t *testing.T) *keyWorld {
	t.Helper()
	w := &keyWorld{world: newWorld(t)}
	path := filepath.Join(t.TempDir(), "jobs.db")
	var err error
	if w.store, err = sqlitestore.Open(t.Context(), path, sqlitestore.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			storetest.Audit(t, w.store)
		}
		_ = w.store.Close()
	})
	w.server = sidecar.New(w.store, sidecar.Options{})
	w.db = w.open("file:" + path + "?mode=ro")
	return w
}

// keyedRows inserts rows as an app does: each key comes several times, and turn
// says for which time.
func (w *keyWorld) keyedRows(keys, times int, options string) {
	w.t.Helper()
	tx, err := w.app.Begin()
	if err != nil {
		w.t.Fatal(err)
	}
	defer tx.Rollback()
	for turn := range times {
		for key := range keys {
			if _, err := tx.Exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('race.run', ?, ?)`,
				fmt.Sprintf(`[{"key":%d,"turn":%d}]`, key, turn), strings.ReplaceAll(options, "KEY", fmt.Sprint(key))); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

// keyedJob is a job of the server, as a row of its file.
type keyedJob struct {
	key, turn int
	state     job.State
}

func (w *keyWorld) jobs() map[job.ID]keyedJob {
	w.t.Helper()
	rows, err := w.db.Query(`SELECT id, json_extract(args, '$[0].key'), json_extract(args, '$[0].turn'), state FROM jobs`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	jobs := map[job.ID]keyedJob{}
	for rows.Next() {
		var id job.ID
		var j keyedJob
		if err := rows.Scan(&id, &j.key, &j.turn, &j.state); err != nil {
			w.t.Fatal(err)
		}
		jobs[id] = j
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

// keyCase is what becomes of rows whose key comes several times.
type keyCase struct {
	name, options string
	parked        bool // all but the first of each key
	state         job.State
	stored        bool // each row is a job, all but the last of each key cancelled
	last          bool // the job of each key is as its last row says, otherwise as its first
	any           bool // or as any row of it says: two relays keep no order between them
}

var keyCases = []keyCase{
	{name: "reject", options: `{"unique":{"keys":["args"],"args_keys":["key"]}}`, parked: true, state: job.Available},
	{name: "ignore", options: `{"unique":{"keys":["args"],"args_keys":["key"],"on_conflict":"ignore"}}`, state: job.Available},
	{name: "replace", options: `{"unique":{"keys":["args"],"args_keys":["key"],"on_conflict":"replace"}}`, state: job.Available, stored: true, last: true},
	{name: "replace_except_schedule", options: `{"delay_ms":3600000,"unique":{"keys":["args"],"args_keys":["key"],"on_conflict":"replace_except_schedule"}}`,
		state: job.Scheduled, last: true, any: true},
	{name: "deduplication", options: `{"deduplication":{"id":"dKEY","ttl":3600}}`, state: job.Available},
	{name: "debounce", options: `{"delay_ms":3600000,"deduplication":{"id":"dKEY","replace":true}}`, state: job.Scheduled, stored: true, last: true},
	{name: "job_id", options: `{"job_id":"cKEY"}`, state: job.Available},
}

// judge looks at the outbox and the jobs when every row has got its outcome.
func (w *keyWorld) judge(c keyCase, keys, times, relays int) {
	w.t.Helper()
	jobs, live := w.jobs(), map[int]job.ID{}
	for id, j := range jobs {
		if j.state == job.Cancelled && c.stored {
			continue
		}
		if j.state != c.state || live[j.key] != "" {
			w.t.Errorf("key %d: %s is %s, want one %s job; the other is %q", j.key, id, j.state, c.state, live[j.key])
		}
		live[j.key] = id
		want := 0
		if c.last {
			want = times - 1
		}
		if j.turn != want && !(c.any && relays > 1) {
			w.t.Errorf("key %d: its job %s is that of row %d of %d, want %d", j.key, id, j.turn, times, want)
		}
	}
	stored, parked := keys, 0
	if c.stored {
		stored = keys * times
	}
	if c.parked {
		parked = keys * (times - 1)
	}
	if len(live) != keys || len(jobs) != stored {
		w.t.Errorf("%d of %d jobs live, want %d of %d", len(live), len(jobs), keys, stored)
	}
	if s, p := w.count("sent"), w.count("parked"); s != keys*times-parked || p != parked {
		w.t.Errorf("%d rows are sent and %d parked, want %d and %d; one says %s", s, p, keys*times-parked, parked,
			w.text(`SELECT ifnull(max(error), '') FROM ojs_outbox WHERE status = 'parked'`))
	}
	rows, err := w.app.Query(`SELECT json_extract(job_args, '$[0].key'), json_extract(job_args, '$[0].turn'), error FROM ojs_outbox WHERE status = 'parked'`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key, turn int
		var why string
		if err := rows.Scan(&key, &turn, &why); err != nil {
			w.t.Fatal(err)
		}
		if turn == 0 || live[key] == "" || !strings.Contains(why, string(live[key])) {
			w.t.Errorf("row %d of key %d is parked with %q, which should name %s", turn, key, why, live[key])
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
}

// Two relays send the same rows, each at its own pace.
func TestKeysThroughTwoRelays(t *testing.T) {
	const keys, times = 150, 4
	for _, c := range keyCases {
		t.Run(c.name, func(t *testing.T) {
			w := newKeyWorld(t)
			w.keyedRows(keys, times, c.options)
			relay := func(batch int) *outbox.Relay {
				return outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Batch: batch, Log: new(journal).log()})
			}
			stopA, stopB := run(t, relay(35)), run(t, relay(50))
			defer stopA()
			defer stopB()
			for end := time.Now().Add(time.Minute); w.count("pending") > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d rows are still pending", w.count("pending"))
				}
			}
			stopA()
			stopB()
			w.judge(c, keys, times, 2)
		})
	}
}

// A relay dies after it has sent a batch and before it has marked it, and again
// and again. What was sent is sent again, and comes to the same.
func TestKeysOfRowsThatAreSentAgain(t *testing.T) {
	const keys, times, batch = 20, 3, 25
	for _, c := range keyCases {
		t.Run(c.name, func(t *testing.T) {
			w := newKeyWorld(t)
			w.keyedRows(keys, times, c.options)
			broken := w.d.Statements()
			broken.Sent = "UPDATE nothing SET id = {ids} -- ? ?"
			broken.Parked = broken.Sent
			for n := 1; n <= keys*times; n += batch {
				dying := outbox.NewRelay(w.relayDB, outbox.NewDialect(broken), w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Batch: n + batch, Log: new(journal).log()})
				if _, err := dying.Step(t.Context()); err == nil {
					t.Fatal("the marks did not fail")
				}
			}
			if w.count("pending") != keys*times {
				t.Fatalf("%d rows are pending, want all", w.count("pending"))
			}
			w.drain(outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Batch: batch, Log: new(journal).log()}))
			w.judge(c, keys, times, 1)
		})
	}
}

// What happened to a job since is no reason to park the row that made it, and
// no reason to make it again.
func TestARowThatIsSentAgainMeetsItsOwnJob(t *testing.T) {
	for _, c := range keyCases {
		t.Run(c.name, func(t *testing.T) {
			w := newKeyWorld(t)
			w.keyedRows(1, 1, c.options)
			broken := w.d.Statements()
			broken.Sent = "UPDATE nothing SET id = {ids} -- ? ?"
			dying := outbox.NewRelay(w.relayDB, outbox.NewDialect(broken), w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()})
			if n, err := dying.Step(t.Context()); n != 1 || err == nil {
				t.Fatalf("got %d and %v", n, err)
			}
			for id := range w.jobs() {
				if _, err := w.server.Cancel(t.Context(), id, "", ""); err != nil {
					t.Fatal(err)
				}
			}
			w.drain(outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()}))
			if n := len(w.jobs()); n != 1 || w.count("sent") != 1 {
				t.Errorf("%d jobs, %d rows sent, %d parked; want one job that is sent", n, w.count("sent"), w.count("parked"))
			}
		})
	}
}
