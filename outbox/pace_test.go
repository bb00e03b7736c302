package outbox_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func TestARowWaitsForItsTime(t *testing.T) {
	w := newWorld(t)
	now := time.UnixMilli(1_000_000)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, next_try_at) VALUES ('later','[]',1000001), ('odd','[]','soon'), ('now','[]',1000000)`)
	r := w.relay(outbox.RelayOptions{Now: func() time.Time { return now }})
	if n, err := r.Step(t.Context()); n != 2 || err != nil {
		t.Fatalf("got %d and %v, want 2 rows", n, err)
	}
	now = now.Add(time.Millisecond)
	if n, err := r.Step(t.Context()); n != 1 || err != nil {
		t.Fatalf("got %d and %v, want the last row", n, err)
	}
}

func TestRunNamesTheCommandThatIsMissing(t *testing.T) {
	w := emptyWorld(t, "WAL")
	err := w.relay(outbox.RelayOptions{Name: "sqlite:shop.db"}).Run(t.Context())
	if job.KindOf(err) != job.NotFound || !strings.Contains(err.Error(), "sqlite:shop.db") || !strings.Contains(err.Error(), "outrider outbox init DSN") {
		t.Errorf("got %v", err)
	}
}

func TestATableThatGoesAndComesBack(t *testing.T) {
	var log journal
	w := newWorld(t)
	w.server.came = make(chan int, 9)
	stop := run(t, w.relay(outbox.RelayOptions{Log: log.log()}))
	defer stop()
	w.mail(1)
	<-w.server.came // it runs: a table that is missing at the start ends the relay
	w.exec(`ALTER TABLE ojs_outbox RENAME TO elsewhere`)
	for len(log.all()) == 0 { // the table is missed at the next look
		time.Sleep(time.Millisecond)
	}
	w.exec(`ALTER TABLE elsewhere RENAME TO ojs_outbox`)
	w.mail(1)
	<-w.server.came
	if line := log.all()[0]; !strings.Contains(line, "outrider outbox init DSN") {
		t.Errorf("got %s", line)
	}
}

func TestWithoutWALItWarnsOnceAndWorks(t *testing.T) {
	var log journal
	w := emptyWorld(t, "DELETE")
	if err := outbox.Init(t.Context(), w.app, w.d); err != nil {
		t.Fatal(err)
	}
	w.server.came = make(chan int, 9)
	stop := run(t, w.relay(outbox.RelayOptions{Log: log.log()}))
	for range 3 {
		w.mail(1)
		<-w.server.came
	}
	stop()
	if lines := log.all(); len(lines) != 1 || !strings.Contains(lines[0], "journal_mode=WAL") || w.count("sent") != 3 {
		t.Errorf("got %d sent and log %q", w.count("sent"), lines)
	}
}

func TestACommitWakesTheRelay(t *testing.T) {
	w := newWorld(t)
	w.server.came = make(chan int, 9)
	stop := run(t, w.relay(outbox.RelayOptions{}))
	defer stop()
	var took []time.Duration
	for range 100 {
		w.mail(1)
		committed := time.Now()
		<-w.server.came
		took = append(took, time.Since(committed))
	}
	slices.Sort(took)
	t.Logf("commit to enqueue: p50 %s, p95 %s, max %s", took[50], took[95], took[99])
	if took[50] > 500*time.Millisecond { // without being woken it looks each second
		t.Errorf("got a median of %s, want milliseconds", took[50])
	}
}

func TestPokeNeedsNoPoll(t *testing.T) {
	w := newWorld(t)
	w.server.came = make(chan int, 9)
	r := w.relay(outbox.RelayOptions{Idle: time.Hour, Busy: time.Hour})
	stop := run(t, r)
	defer stop()
	for range 3 {
		w.mail(1)
		r.Poke()
		<-w.server.came
	}
}

func TestOldRowsAreDeleted(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w := newWorld(t)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('Bad', '[]')`)
	w.mail(700)
	w.drain(w.relay(outbox.RelayOptions{}))
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, next_try_at) VALUES ('a', '[]', 9999999999999)`)
	at := func() time.Time { mu.Lock(); defer mu.Unlock(); return now.Add(59 * time.Minute) }
	stop := run(t, w.relay(outbox.RelayOptions{Now: at}))
	w.server.came = make(chan int, 1)
	w.mail(1)
	<-w.server.came
	stop()
	if n := w.count("sent"); n != 701 {
		t.Fatalf("after 59 minutes: got %d sent rows, want all 701", n)
	}
	moving := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(10 * time.Second)
		return now.Add(time.Hour)
	}
	stop = run(t, w.relay(outbox.RelayOptions{Now: moving}))
	for deadline := time.Now().Add(time.Minute); w.count("sent") > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("got %d sent rows, want none", w.count("sent"))
		}
	}
	stop()
	if w.count("parked") != 1 || w.count("pending") != 1 {
		t.Errorf("got %d parked and %d pending rows, want 1 and 1", w.count("parked"), w.count("pending"))
	}
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('a', '[]')`)
	if id := w.text(`SELECT max(id) FROM ojs_outbox`); id != "704" {
		t.Errorf("got row id %s, want 704: an id must not come again", id)
	}
}

func TestRunMarksBeforeItReturns(t *testing.T) {
	w := newWorld(t)
	w.server.came = make(chan int, 9)
	w.mail(3)
	stop := run(t, w.relay(outbox.RelayOptions{}))
	<-w.server.came
	stop()
	if n := w.count("sent"); n != 3 {
		t.Errorf("got %d sent rows, want 3", n)
	}
}
