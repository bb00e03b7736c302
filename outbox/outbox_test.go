package outbox_test

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"go.uber.org/goleak"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestAPlainInsertIsEnough(t *testing.T) {
	w := newWorld(t)
	before := time.Now().UnixMilli()
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send','["ada@example.com"]')`)
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	if len(w.server.order) != 1 {
		t.Fatalf("got %d jobs, want 1", len(w.server.order))
	}
	e := w.server.jobs[w.server.order[0]]
	if !job.ValidID(string(e.ID)) || e.Type != "email.send" || string(e.Args) != `["ada@example.com"]` || e.Queue != "default" {
		t.Errorf("got %+v", e)
	}
	var created, sent int64
	if err := w.app.QueryRow(`SELECT created_at, sent_at FROM ojs_outbox WHERE status = 'sent' AND attempts = 1`).Scan(&created, &sent); err != nil {
		t.Fatal(err)
	}
	if now := time.Now().UnixMilli(); created < before || created > now || sent < created || sent > now {
		t.Errorf("got created_at %d and sent_at %d, want from %d to %d", created, sent, before, now)
	}
}

func TestARollbackMakesNoJob(t *testing.T) {
	w := newWorld(t)
	tx, err := w.app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.New(w.d).Add(t.Context(), tx, job.Envelope{Type: "email.send", Args: json.RawMessage(`[]`)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	if n, _, _ := w.server.sizes(); n != 0 {
		t.Errorf("got %d jobs, want none", n)
	}
}

func TestAddInAnyTransaction(t *testing.T) {
	w := newWorld(t)
	box := outbox.New(w.d)
	mine := job.ID("01900000-0000-7000-8000-000000000001")
	tx, err := w.app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	first, err := box.Add(t.Context(), tx, job.Envelope{Type: "a", Args: json.RawMessage(`[1]`), ID: mine}, job.Envelope{Type: "b", Args: json.RawMessage(`[2]`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	xtx, err := sqlx.NewDb(w.app, "sqlite").Beginx()
	if err != nil {
		t.Fatal(err)
	}
	second, err := box.Add(t.Context(), xtx, job.Envelope{Type: "c", Args: json.RawMessage(`[3]`), Queue: "mail", Priority: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := xtx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	want := append(first, second...)
	if want[0] != mine || !reflect.DeepEqual(w.server.order, want) {
		t.Errorf("got jobs %v, want %v", w.server.order, want)
	}
	if e := w.server.jobs[second[0]]; e.Queue != "mail" || e.Priority != 5 {
		t.Errorf("got %+v", e)
	}
}

func TestAddRefusesBeforeItWrites(t *testing.T) {
	w := newWorld(t)
	tx, err := w.app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	ok := job.Envelope{Type: "a", Args: json.RawMessage(`[]`)}
	for name, c := range map[string]struct {
		bad  job.Envelope
		kind job.Kind
	}{
		"type":   {job.Envelope{Type: "Bad", Args: json.RawMessage(`[]`)}, job.Invalid},
		"args":   {job.Envelope{Type: "a", Args: json.RawMessage(`{}`)}, job.Invalid},
		"none":   {job.Envelope{Type: "a"}, job.Invalid},
		"retry":  {job.Envelope{Type: "a", Args: json.RawMessage(`[]`), Retry: json.RawMessage(`{"max_attempts":-1}`)}, job.BadRetry},
		"hidden": {job.Envelope{Type: "a", Args: json.RawMessage(`[]`), Retry: json.RawMessage(`{"jitter":7}`), MaxAttempts: 3}, job.BadRetry},
		"extra":  {job.Envelope{Type: "a", Args: json.RawMessage(`[]`), Extra: json.RawMessage(`{"id":"x"}`)}, job.Invalid},
	} {
		_, err := outbox.New(w.d).Add(t.Context(), tx, ok, c.bad)
		var e *job.Error
		if !asError(err, &e) || e.Kind != c.kind || e.Details["index"] != 1 || !strings.HasPrefix(e.Message, "job 2 of 2: ") {
			t.Errorf("%s: got %#v, want kind %v at index 1", name, err, c.kind)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := w.count("pending"); n != 0 {
		t.Errorf("got %d rows, want none", n)
	}
}

func TestAddWithoutATableNamesTheCommand(t *testing.T) {
	w := emptyWorld(t, "WAL")
	_, err := outbox.New(w.d).Add(t.Context(), w.app, job.Envelope{Type: "a", Args: json.RawMessage(`[]`)})
	if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "outrider outbox init DSN") {
		t.Errorf("got %v", err)
	}
}

func TestInitMayBeRepeatedAndCheckSaysWhatIsMissing(t *testing.T) {
	w := emptyWorld(t, "WAL")
	check := func(kind job.Kind, words ...string) {
		t.Helper()
		err := outbox.Check(t.Context(), w.app, w.d)
		if err == nil || job.KindOf(err) != kind {
			t.Fatalf("got %v, want kind %v", err, kind)
		}
		for _, word := range append(words, "ojs_outbox", "outrider outbox init DSN") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("got %q, want %q in it", err, word)
			}
		}
	}
	check(job.NotFound, "no outbox table")
	for range 2 {
		if err := outbox.Init(t.Context(), w.app, w.d); err != nil {
			t.Fatal(err)
		}
	}
	id := w.text(`SELECT value FROM ojs_outbox_identity`)
	if err := outbox.Init(t.Context(), w.app, w.d); err != nil || len(id) != 32 || w.text(`SELECT value FROM ojs_outbox_identity`) != id {
		t.Errorf("got %v and identity %q, want it to stay", err, id)
	}
	w.exec(`DELETE FROM ojs_outbox_identity`)
	check(job.Unsupported, "identity")
	w.exec(`ALTER TABLE ojs_outbox RENAME COLUMN job_args TO args`)
	check(job.Unsupported, "job_args")
	if err := outbox.Init(t.Context(), w.app, w.d); job.KindOf(err) != job.Unsupported {
		t.Errorf("Init on another's table: got %v", err)
	}
}

func TestTwoOutboxesInOneDatabase(t *testing.T) {
	w := newWorld(t)
	d, err := sqlite.Dialect("billing_outbox")
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.Init(t.Context(), w.app, d); err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, created_at) VALUES ('a','[]', 1)`)
	w.exec(`INSERT INTO billing_outbox (job_type, job_args, created_at) VALUES ('a','[]', 1)`)
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	w.drain(outbox.NewRelay(w.relayDB, d, w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	if n, resends, _ := w.server.sizes(); n != 2 || resends != 0 {
		t.Errorf("got %d jobs and %d resends, want 2 jobs with two ids", n, resends)
	}
}

func TestTheLibraryLinksNoDriver(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "../adapters/sqlite").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dep := range strings.Fields(string(out)) {
		if strings.HasPrefix(dep, "modernc.org/") || strings.Contains(dep, "sqlite3") || strings.Contains(dep, "sqlx") {
			t.Errorf("the outbox links %s", dep)
		}
	}
}
