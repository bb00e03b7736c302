package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/internal/outboxsql"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// tick is a tick with a new job.
func tick(name string, at time.Time, overlap job.Overlap) job.Tick {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err)
	}
	return job.Tick{Name: name, At: at, Overlap: overlap, Envelope: checked(job.Envelope{ID: job.ID(id.String()), Type: "report.make",
		Args: json.RawMessage(`["` + name + `"]`), Queue: "reports", Meta: json.RawMessage(`{"cron_name":"` + name + `"}`)})}
}

// asking makes the job of a tick ask for something else.
func asking(t *job.Tick, change func(*job.Envelope)) {
	e := t.Envelope.Envelope()
	change(&e)
	t.Envelope = checked(e)
}

func checked(e job.Envelope) job.Checked {
	c, err := e.Check()
	if err != nil {
		panic(err)
	}
	return c
}

// minute is a full minute so many minutes ago.
func minute(ago int) time.Time {
	return time.Now().Add(-time.Duration(ago) * time.Minute).Truncate(time.Minute)
}

// fire fires ticks of which every answer must be the wanted one.
func fire(t *testing.T, ticks *outbox.Ticks, live func(job.ID) (bool, error), want string, all ...job.Tick) {
	t.Helper()
	got, err := ticks.Fire(t.Context(), all, live)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if got[i] != want {
			t.Errorf("%s at %s: got %q, want %q", all[i].Name, all[i].At, got[i], want)
		}
	}
}

// TestOneOfThreeServersMakesEachJob: they ask at once for the same ticks, each
// in an order of its own.
func TestOneOfThreeServersMakesEachJob(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const servers, schedules, times = 3, 40, 5
		var mu sync.Mutex
		made := map[string][]job.ID{} // by schedule and tick
		var wait sync.WaitGroup
		at := minute(0)
		for range servers {
			var all []job.Tick
			for i := range schedules * times {
				all = append(all, tick(fmt.Sprintf("schedule-%d", i%schedules), at.Add(-time.Duration(i/schedules)*time.Minute), job.OverlapAllow))
			}
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			ticks := outbox.NewTicks(w.again(), w.d)
			wait.Go(func() {
				for len(all) > 0 {
					some := all[:50]
					all = all[50:]
					got, err := ticks.Fire(context.Background(), some, nil)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for i, c := range some {
						if got[i] == "" {
							key := c.Name + c.At.String()
							made[key] = append(made[key], c.Envelope.ID())
						} else if got[i] != job.SkippedElsewhere {
							t.Errorf("%s: got %q", c.Name, got[i])
						}
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		for key, ids := range made {
			if len(ids) != 1 {
				t.Errorf("%s was made by %d servers", key, len(ids))
			}
		}
		if len(made) != schedules*times || w.rows() != schedules*times {
			t.Errorf("%d ticks made %d rows, want %d", len(made), w.rows(), schedules*times)
		}
		w.drain(outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{}))
		for key, ids := range made {
			if e, ok := w.server.jobs[ids[0]]; !ok || !strings.HasPrefix(key, strings.Trim(string(e.Args), `[]"`)) {
				t.Errorf("%s: no job with the id of its winner, or another's: %+v", key, e)
			}
		}
	})
}

// TestOneScheduleAtManyTicks: servers that are at different ticks of one
// schedule at once still make one job while it has not ended.
func TestOneScheduleAtManyTicks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var made atomic.Int64
		var wait sync.WaitGroup
		for i := range 6 {
			ticks := outbox.NewTicks(w.again(), w.d)
			wait.Go(func() {
				got, err := ticks.Fire(context.Background(), []job.Tick{tick("often", minute(i), job.OverlapSkip)}, nil)
				switch {
				case err != nil:
					t.Error(err)
				case got[0] == "":
					made.Add(1)
				case got[0] != job.SkippedOverlap:
					t.Errorf("got %q", got[0])
				}
			})
		}
		wait.Wait()
		if made.Load() != 1 || w.rows() != 1 {
			t.Errorf("%d jobs, %d rows, want one", made.Load(), w.rows())
		}
	})
}

// TestATicksRowIsWhatAddWrites, in every column but those of its own place and time.
func TestATicksRowIsWhatAddWrites(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a := tick("nightly", minute(0), job.OverlapSkip)
		asking(&a, func(e *job.Envelope) { e.Delay, e.Priority = 3*time.Second, 7 })
		fire(t, outbox.NewTicks(w.relayDB, w.d), nil, "", a)
		twin := a.Envelope.Envelope()
		twin.ID = tick("x", time.Time{}, "").Envelope.ID()
		if _, err := outbox.New(w.d).Add(t.Context(), w.app, twin); err != nil {
			t.Fatal(err)
		}
		rows, err := w.app.Query(`SELECT job_id, job_type, job_args, job_options, status, attempts, next_try_at FROM ojs_outbox ORDER BY id`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close() // Err tells of what matters
		var seen []string
		for rows.Next() {
			var id, typ, args, options, status string
			var attempts, next int64
			if err := rows.Scan(&id, &typ, &args, &options, &status, &attempts, &next); err != nil {
				t.Fatal(err)
			}
			id = strings.NewReplacer(string(a.Envelope.ID()), "ID", string(twin.ID), "ID").Replace(id)
			seen = append(seen, fmt.Sprint(id, typ, args, options, status, attempts, next))
		}
		if rows.Err() != nil || len(seen) != 2 || seen[0] != seen[1] || !strings.Contains(seen[0], `"cron_name":"nightly"`) {
			t.Errorf("got %q, %v", seen, rows.Err())
		}
	})
}

// TestOverlap: which jobs have not ended, by their rows and by this server.
func TestOverlap(t *testing.T) {
	alive := func(job.ID) (bool, error) { return true, nil }
	never := func(id job.ID) (bool, error) { return false, fmt.Errorf("job %s was asked for", id) }
	onEach(t, func(t *testing.T, w *world) {
		ticks := outbox.NewTicks(w.relayDB, w.d)
		first := tick("hourly", minute(30), job.OverlapSkip)
		fire(t, ticks, never, "", first) // there is none before it
		ago := 29
		try := func(live func(job.ID) (bool, error), want string) job.Tick {
			t.Helper()
			next := tick("hourly", minute(ago), job.OverlapSkip)
			ago--
			fire(t, ticks, live, want, next)
			fire(t, ticks, never, want, next) // it stays decided
			return next
		}
		for _, status := range []string{"pending", "taken", "relayed"} {
			w.exec(`UPDATE ojs_outbox SET status = '` + status + `'`)
			try(never, job.SkippedOverlap)
		}
		if w.rows() != 1 || w.text(`SELECT last_id FROM ojs_outbox_ticks WHERE job_id IS NULL AND name <> '' LIMIT 1`) != string(first.Envelope.ID()) {
			t.Errorf("%d rows, want one", w.rows())
		}
		for _, status := range []string{"sent", "parked"} {
			w.exec(`UPDATE ojs_outbox SET status = '` + status + `'`)
			try(func(id job.ID) (bool, error) { return id == first.Envelope.ID(), nil }, job.SkippedOverlap)
		}
		w.exec(`DELETE FROM ojs_outbox`)
		try(alive, job.SkippedOverlap)
		second := try(nil, "")
		try(never, job.SkippedOverlap)
		w.exec(`UPDATE ojs_outbox SET status = 'sent'`)
		third := try(func(id job.ID) (bool, error) { return id != second.Envelope.ID(), nil }, "")
		late := tick("hourly", third.At.Add(-30*time.Second), job.OverlapSkip)
		fire(t, ticks, never, job.SkippedOverlap, late) // a tick before the newest job's
		fire(t, ticks, never, "", tick("hourly", minute(0), job.OverlapAllow), tick("other", minute(0), job.OverlapSkip))

		w.exec(`DELETE FROM ojs_outbox`)
		broken := errors.New("the store is closed")
		lost := tick("other", minute(-1), job.OverlapSkip)
		if got, err := ticks.Fire(t.Context(), []job.Tick{lost}, func(job.ID) (bool, error) { return false, broken }); !errors.Is(err, broken) || got != nil {
			t.Errorf("got %v and %v, want the error of live", got, err)
		}
		fire(t, ticks, nil, "", lost) // nothing was decided
	})
}

// TestOldTicks: a server that slept does not write what the others may have
// trimmed; and what is trimmed is older than that, and never the newest.
func TestOldTicks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		now, insert := time.Now(), `INSERT INTO ojs_outbox_ticks (name, at, job_id, last_id) VALUES ('%s', %d, 'x', 'x')`
		for i := range 100 {
			w.exec(fmt.Sprintf(insert, "often", now.Add(-26*time.Hour-time.Duration(i+1)*time.Minute).UnixMilli()))
		}
		w.exec(fmt.Sprintf(insert, "often", now.Add(-25*time.Hour-55*time.Minute).UnixMilli()))
		for i := range 3 {
			w.exec(fmt.Sprintf(insert, "weekly", now.Add(-time.Duration(i+1)*7*24*time.Hour).UnixMilli()))
		}
		ticks := outbox.NewTicks(w.relayDB, w.d)
		fire(t, ticks, nil, job.SkippedClock, tick("slept", now.Add(-25*time.Hour-time.Minute), job.OverlapSkip), tick("slept", time.UnixMilli(1), job.OverlapAllow))
		const count = `SELECT CONCAT(count(*), '') FROM ojs_outbox_ticks WHERE name = '`
		if a, b, c := w.text(count+`often'`), w.text(count+`weekly'`), w.text(count+`slept'`); a != "1" || b != "1" || c != "0" {
			t.Errorf("got %s of often, %s of weekly and %s of slept, want 1, 1 and 0", a, b, c)
		}
		if at := w.text(`SELECT CONCAT(at, '') FROM ojs_outbox_ticks WHERE name = 'weekly'`); at != fmt.Sprint(now.Add(-7*24*time.Hour).UnixMilli()) {
			t.Errorf("weekly: got %s, want the newest", at)
		}
		w.exec(fmt.Sprintf(insert, "weekly", now.Add(-9*7*24*time.Hour).UnixMilli()))
		fire(t, ticks, nil, "", tick("slept", now.Add(-25*time.Hour+time.Minute), job.OverlapSkip))
		if b := w.text(count + `weekly'`); b != "2" {
			t.Errorf("it trims more often than once an hour: %s of weekly", b)
		}
		live := func(id job.ID) (bool, error) { return id == "x", nil }
		fire(t, ticks, live, job.SkippedOverlap, tick("weekly", now, job.OverlapSkip)) // the job of a week ago
		if w.rows() != 1 {
			t.Errorf("%d rows, want one", w.rows())
		}
	})
}

// TestAnOutboxWithoutTicks, as an older init has made it: its relay works, Fire
// names the command, and after that all is well.
func TestAnOutboxWithoutTicks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.exec(`DROP TABLE ojs_outbox_ticks`)
		w.commit(w.write(0, 3))
		if err := outbox.Check(t.Context(), w.app, w.d); err != nil {
			t.Errorf("a relay does not need them: %v", err)
		}
		if err := outbox.CheckTicks(t.Context(), w.app, w.d); job.KindOf(err) != job.Unsupported || !strings.Contains(err.Error(), "ojs_outbox_ticks") {
			t.Errorf("got %v", err)
		}
		stop := run(t, outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Log: new(journal).log()}))
		w.until("the rows are gone", func() bool { return w.rows() == 0 })
		stop()
		ticks, want := outbox.NewTicks(w.relayDB, w.d), tick("nightly", minute(0), job.OverlapSkip)
		_, err := ticks.Fire(t.Context(), []job.Tick{want}, nil)
		if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "the table ojs_outbox_ticks is missing") || !strings.Contains(err.Error(), "outrider outbox init DSN") {
			t.Errorf("got %v", err)
		}
		w.init()
		fire(t, ticks, nil, "", want)
	})
}

// TestTicksThatCannotBe: a job that breaks a rule stops no other's.
func TestTicksThatCannotBe(t *testing.T) {
	w := newWorld(t)
	ticks := outbox.NewTicks(w.relayDB, w.d)
	bad, good := tick("bad", minute(0), job.OverlapSkip), tick("good", minute(0), job.OverlapSkip)
	bad.Envelope = checked(job.Envelope{Type: "report.make", Args: []byte(`[]`), Extra: []byte(`{"tags":"no array"}`)})
	if got, err := ticks.Fire(t.Context(), []job.Tick{bad, good}, nil); err != nil || got[0] != job.SkippedRejected || got[1] != "" {
		t.Errorf("got %q and %v", got, err)
	}
	for _, name := range []string{"", strings.Repeat("a", job.MaxCronName+1)} {
		if _, err := ticks.Fire(t.Context(), []job.Tick{tick(name, minute(0), "")}, nil); err == nil || job.KindOf(err) != job.Invalid {
			t.Errorf("a name of %d: got %v", len(name), err)
		}
	}
	if _, err := outbox.NewTicks(w.relayDB, outbox.NewDialect(outboxsql.Statements{Name: "other"})).Fire(t.Context(), nil, nil); job.KindOf(err) != job.Unsupported {
		t.Errorf("got %v", err)
	}
}
