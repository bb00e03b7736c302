package outbox_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func asError(err error, into **job.Error) bool { return errors.As(err, into) }

func TestIDsAreStableOverAResend(t *testing.T) {
	w := newWorld(t)
	w.mail(10)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, created_at) VALUES ('odd.time','[]','yesterday'), ('odd.time','[]',-5), ('odd.time','[]',1.5)`)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, job_id) VALUES ('a','[]','01900000-0000-7000-8000-000000000001')`)
	broken := w.d.Statements()
	broken.Sent = "UPDATE nothing SET id = {ids} -- ? ?"
	forgetful := outbox.NewRelay(w.relayDB, outbox.NewDialect(broken), w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()})
	if n, err := forgetful.Step(t.Context()); n != 14 || job.KindOf(err) != job.Unavailable {
		t.Fatalf("a mark that fails: got %d and %v", n, err)
	}
	if n, resends, _ := w.server.sizes(); n != 14 || resends != 0 {
		t.Fatalf("got %d jobs and %d resends", n, resends)
	}
	order := slices.Clone(w.server.order)
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	n, resends, _ := w.server.sizes()
	if n != 14 || resends != 14 || !reflect.DeepEqual(w.server.order, order) || w.count("sent") != 14 {
		t.Errorf("got %d jobs, %d resends, %d sent", n, resends, w.count("sent"))
	}
	for _, id := range order {
		if !job.ValidID(string(id)) {
			t.Errorf("got id %s", id)
		}
	}
}

func TestARelayThatCannotMarkDoesNotSendTwiceItself(t *testing.T) {
	w := newWorld(t)
	w.mail(3)
	broken := w.d.Statements()
	broken.Sent = "UPDATE nothing SET id = {ids} -- ? ?"
	r := outbox.NewRelay(w.relayDB, outbox.NewDialect(broken), w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()})
	for range 3 {
		if _, err := r.Step(t.Context()); err == nil {
			t.Fatal("got nil, want the error of the mark")
		}
	}
	if _, resends, calls := w.server.sizes(); resends != 0 || calls != 1 {
		t.Errorf("got %d resends in %d calls, want one call", resends, calls)
	}
}

func TestTwoRelaysAtOnce(t *testing.T) {
	const rows = 2000
	w := newWorld(t)
	w.mail(rows)
	w.server.came = make(chan int, rows)
	stopA := run(t, w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Batch: 50}))
	stopB := run(t, w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Batch: 70}))
	for n := 0; n < rows; {
		n += <-w.server.came
	}
	stopA()
	stopB()
	n, resends, calls := w.server.sizes()
	if n != rows || w.count("sent") != rows || w.count("pending") != 0 {
		t.Errorf("got %d jobs, %d sent, %d pending, want %d", n, w.count("sent"), w.count("pending"), rows)
	}
	t.Logf("%d rows: %d resends in %d calls", rows, resends, calls)
}

// poison are rows that can never be a job, and a word of the reason.
var poison = []struct{ typ, args, options, reason string }{
	{"Bad Type", `[]`, `{}`, "type"},
	{"", `[]`, `{}`, "type"},
	{"a", `{"to":"ada"}`, `{}`, "array"},
	{"a", `[1`, `{}`, "job_args"},
	{"a", ``, `{}`, "job_args"},
	{"a", "[\"\xff\"]", `{}`, "UTF-8"},
	{"a", "[1]\x00", `{}`, "job_args"},
	{"a\x00b", `[]`, `{}`, "type"},
	{"a", `[1],"queue":"other"`, `{}`, "job_args"},
	{"a", `[]`, `{"retry":{"max_attempts":-1}}`, "max_attempts"},
	{"a", `[]`, `{"retry":{"max_attempts":1},"retry":{}}`, "twice"},
	{"a", `[]`, `[]`, "options"},
	{"a", `[]`, `{"specversion":"1.0","type":"b"}`, "twice"},
	{"a", `[]`, `{"priority":101}`, "priority"},
	{"a", `["` + strings.Repeat("x", 2<<20) + `"]`, `{}`, "1048576 bytes"},
	{strings.Repeat("a", 5000), `[]`, `{}`, "255"},
}

func TestPoisonIsParkedAndTheRestFlows(t *testing.T) {
	w := newWorld(t)
	tx, err := w.app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		p := poison[i%len(poison)]
		if i >= 2*len(poison) {
			p = poison[i%14] // the huge ones twice are enough
		}
		if _, err := tx.Exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES (?, ?, ?)`, p.typ, p.args, p.options); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.mail(5)
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	if n, _, calls := w.server.sizes(); n != 5 || calls != 1 || w.count("parked") != 1000 || w.count("sent") != 5 {
		t.Fatalf("got %d jobs in %d calls, %d parked, %d sent", n, calls, w.count("parked"), w.count("sent"))
	}
	for i, p := range poison {
		if why := w.text(`SELECT error FROM ojs_outbox WHERE id = ?`, i+1); !strings.Contains(why, p.reason) {
			t.Errorf("row of type %.20q: got reason %q, want %q in it", p.typ, why, p.reason)
		}
	}
	// An operator mends a row.
	w.exec(`UPDATE ojs_outbox SET job_args = '["ada"]', status = 'pending' WHERE id = 3`)
	w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	if n, _, _ := w.server.sizes(); n != 6 {
		t.Errorf("got %d jobs after a row was mended, want 6", n)
	}
}

func TestTheServersWordOnOneRow(t *testing.T) {
	bad := func(k job.Kind, index any) func(int, []job.Envelope) error {
		return func(_ int, es []job.Envelope) error {
			for i, e := range es {
				if string(e.Args) == `["ada@example.com",3]` {
					err := job.Errorf(k, "that one")
					switch index.(type) {
					case int:
						err.Details = map[string]any{"index": i}
					case float64:
						err.Details = map[string]any{"index": float64(i)}
					}
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		refuse func(int, []job.Envelope) error
		status string
	}{
		"named":           {bad(job.Invalid, 0), "parked"},
		"over the wire":   {bad(job.Duplicate, 0.0), "parked"},
		"not named":       {bad(job.TooLarge, nil), "parked"},
		"a passing fault": {bad(job.Internal, 0), "pending"},
	} {
		w := newWorld(t)
		w.mail(10)
		w.server.refuse = c.refuse
		w.drain(w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
		if w.count("sent") != 9 || w.text(`SELECT status || ' ' || attempts || ' ' || error FROM ojs_outbox WHERE id = 4`) != c.status+" 1 that one" {
			t.Errorf("%s: got %d sent, row 4 is %s", name, w.count("sent"), w.text(`SELECT status || ' ' || attempts || ' ' || ifnull(error,'') FROM ojs_outbox WHERE id = 4`))
		}
		if got := w.server.args(); !slices.IsSorted(got) {
			t.Errorf("%s: got order %v", name, got)
		}
	}
}

// TestAnOutage runs in a bubble: the backoff takes no real time.
func TestAnOutage(t *testing.T) {
	t.Run("of any length", func(t *testing.T) { anOutage(t, 0, 10*time.Second) })
	t.Run("with a short lease", func(t *testing.T) { anOutage(t, 12*time.Second, 2*time.Second) })
}

func anOutage(t *testing.T, lease, longest time.Duration) {
	var log journal
	w := newWorld(t)
	w.mail(5)
	const down = 12
	args := []string{}
	synctest.Test(t, func(t *testing.T) {
		w := *w
		w.t = t
		w.app, w.relayDB = w.open("file:"+w.path), w.open("file:"+w.path)
		var tries []time.Time
		w.server.refuse = func(calls int, _ []job.Envelope) error {
			tries = append(tries, time.Now())
			if calls <= down {
				return job.Errorf(job.Unavailable, "the disk is full")
			}
			return nil
		}
		done := make(chan []outbox.Relayed, 9)
		stop := run(t, w.relay(outbox.RelayOptions{Name: "shop", Batch: 3, Lease: lease, Log: log.log(), OnRelay: func(rs []outbox.Relayed) { done <- rs }}))
		<-done
		<-done
		stop()
		for i := range tries[:down] {
			want := min(100*time.Millisecond<<i, longest)
			if got := tries[i+1].Sub(tries[i]); got < want/2 || got > want+time.Second/100 {
				t.Errorf("backoff %d: got %s, want %s or up to a half less", i+1, got, want)
			}
		}
		args = w.server.args()
		if got := w.text(`SELECT group_concat(attempts) || ifnull(max(error), '') FROM ojs_outbox`); got != "13,13,13,1,1" {
			t.Errorf("got attempts and errors %s", got)
		}
	})
	if len(args) != 5 || !slices.IsSorted(args) {
		t.Errorf("got order %v", args)
	}
	lines := log.all()
	if len(lines) != 2 || !strings.Contains(lines[0], "disk is full") || !strings.Contains(lines[0], "outbox=shop") || !strings.Contains(lines[0], "row 1") || !strings.Contains(lines[1], "works again") {
		t.Errorf("got log %q, want one line for the outage and one for its end", lines)
	}
}

// TestAnOutageWithSeveralCauses is told by each of them once, up to eight, however
// its tries differ in a port; the next outage is told anew.
func TestAnOutageWithSeveralCauses(t *testing.T) {
	var log journal
	w := newWorld(t)
	var tries []string // what the job server fails with, empty where it does not
	for i := range 3 {
		tries = append(tries, fmt.Sprintf("read 127.0.0.1:%d: connection refused", 40000+7*i))
	}
	tries = append(tries, "password authentication failed", "password authentication failed", tries[0], "503 Service Unavailable", "502 Bad Gateway")
	for i := range 20 {
		tries = append(tries, "cause "+string(rune('a'+i)))
	}
	tries = append(tries, "", "password authentication failed", tries[0], tries[1], "")
	w.server.refuse = func(calls int, _ []job.Envelope) error {
		if why := tries[calls-1]; why != "" {
			return job.Errorf(job.Unavailable, "%s", why)
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		w := *w
		w.t = t
		w.app, w.relayDB = w.open("file:"+w.path), w.open("file:"+w.path)
		done := make(chan struct{}, 1)
		r := w.relay(outbox.RelayOptions{Name: "shop", Log: log.log(), OnRelay: func([]outbox.Relayed) { done <- struct{}{} }})
		stop := run(t, r)
		for range 2 {
			synctest.Wait() // the relay waits: nobody else has the database
			w.mail(1)
			<-done
		}
		stop()
		if s := r.State(); s.Trouble || !strings.HasSuffix(s.Err.Error(), tries[1]) {
			t.Errorf("its state is %+v", s)
		}
	})
	want := []string{"has stopped", "connection refused", "another reason", "password", "another reason", "503", "another reason", "502",
		"another reason", "cause a", "another reason", "cause b", "another reason", "cause c", "another reason", "cause d", "works again", "tries=28",
		"has stopped", "password", "another reason", "connection refused", "works again", "tries=3"}
	lines := log.all()
	if len(lines) != len(want)/2 {
		t.Fatalf("it says %q, want %d lines", lines, len(want)/2)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[2*i]) || !strings.Contains(line, want[2*i+1]) || !strings.Contains(line, "outbox=shop") {
			t.Errorf("line %d is %q, want %s with %s", i, line, want[2*i], want[2*i+1])
		}
	}
}

func TestTheHeadOfAStoppedOutboxSaysWhy(t *testing.T) {
	w := newWorld(t)
	w.mail(2)
	w.server.refuse = func(int, []job.Envelope) error { return job.Errorf(job.Unavailable, "no answer") }
	if _, err := w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}).Step(t.Context()); job.KindOf(err) != job.Unavailable {
		t.Fatalf("got %v", err)
	}
	if got := w.text(`SELECT status || ' ' || error FROM ojs_outbox WHERE id = 1`); got != "pending the job server does not take jobs, this is tried again: no answer" {
		t.Errorf("got %q", got)
	}
}

func TestALateRowWithALowerIDIsNotSkipped(t *testing.T) {
	w := newWorld(t)
	w.mail(9)
	w.exec(`DELETE FROM ojs_outbox WHERE id = 5`)
	w.server.came = make(chan int, 10)
	stop := run(t, w.relay(outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	<-w.server.came
	w.exec(`INSERT INTO ojs_outbox (id, job_type, job_args) VALUES (5, 'late', '[]')`)
	<-w.server.came
	w.exec(`UPDATE ojs_outbox SET next_try_at = 1 WHERE id = 1`) // a commit that is no row
	stop()
	if n, resends, _ := w.server.sizes(); n != 9 || resends != 0 || w.count("sent") != 9 {
		t.Errorf("got %d jobs, %d resends, %d sent, want 9, 0, 9", n, resends, w.count("sent"))
	}
}
