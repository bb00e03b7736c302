package sidecar

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// gone reports whether a job has been removed.
func (w *world) gone(id job.ID) bool {
	w.t.Helper()
	_, err := w.Job(w.t.Context(), id)
	if err != nil && job.KindOf(err) != job.NotFound {
		w.t.Fatal(err)
	}
	return err != nil
}

// ends makes one job for each way to end, and one that never ends.
func (w *world) ends() map[string]job.ID {
	w.t.Helper()
	m := map[string]job.ID{}
	end := func(name string, f func(*job.Job)) {
		w.push(nil)
		j := w.take("w", 1000*time.Hour)
		m[name] = j.ID
		f(j)
	}
	end("completed", w.ack)
	end("discarded", func(j *job.Job) { w.fail(j, job.Failure{Code: "DISCARD"}) })
	end("dead", func(j *job.Job) { w.fail(j, job.Failure{Code: "DEAD_LETTER"}) })
	end("cancelled", func(j *job.Job) {
		if _, err := w.Cancel(w.t.Context(), j.ID, "", ""); err != nil {
			w.t.Fatal(err)
		}
	})
	m["pending"] = w.push(func(e *job.Envelope) { e.Hold = true }).ID
	return m
}

// contract §4.21: completed and cancelled 7 days, discarded 30, dead letters 180, from their end.
func TestPruneByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	ids := w.ends()
	for _, tt := range []struct {
		keep  time.Duration
		names []string
	}{{7 * day, []string{"completed", "cancelled"}}, {30 * day, []string{"discarded"}}, {180 * day, []string{"dead"}}} {
		w.pruned(ids, genesis.Add(tt.keep), tt.names...)
	}
	w.pass(1000 * day)
	if w.gone(ids["pending"]) {
		t.Error("a job that has not finished was removed")
	}
}

// pruned makes sure that jobs are kept until an instant, and are gone an hour later.
func (w *world) pruned(ids map[string]job.ID, until time.Time, names ...string) {
	w.t.Helper()
	w.set(until.Add(-tick))
	w.settle()
	for _, name := range names {
		if w.gone(ids[name]) {
			w.t.Errorf("%s: removed before %s", name, until)
		}
	}
	w.pass(hourly + tick)
	for _, name := range names {
		if !w.gone(ids[name]) {
			w.t.Errorf("%s: still there an hour after %s", name, until)
		}
	}
}

func TestPruneAsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{Completed: 2 * time.Hour, Cancelled: 4 * time.Hour, Discarded: 6 * time.Hour, Dead: 8 * time.Hour, Events: 10 * time.Hour})
	ids := w.ends()
	for i, name := range []string{"completed", "cancelled", "discarded", "dead"} {
		w.pruned(ids, genesis.Add(time.Duration(i+1)*2*time.Hour), name)
	}
	if es, err := w.Events(t.Context(), job.EventFilter{}); err != nil || len(es) == 0 {
		t.Errorf("%d events after 9 hours, %v", len(es), err)
	}
	w.pass(2 * time.Hour)
	if es, err := w.Events(t.Context(), job.EventFilter{}); err != nil || len(es) != 0 {
		t.Errorf("%d events after 11 hours, %v", len(es), err)
	}
}

// Events live 7 days (contract §4.18), and the log goes on behind a prune.
func TestPruneEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	w.pass(7*day - tick)
	young := w.push(nil)
	count := func() (n int, last job.Event) {
		es, err := w.Events(t.Context(), job.EventFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(es) > 0 {
			last = es[len(es)-1]
		}
		return len(es), last
	}
	if n, _ := count(); n != 2 {
		t.Errorf("%d events within 7 days, want 2", n)
	}
	w.pass(hourly)
	n, last := count()
	if n != 1 || last.JobID != young.ID || last.Seq != 2 {
		t.Errorf("%d events, the last is %+v", n, last)
	}
}

// A dead letter that was revived is pruned by its second end, not by its first.
func TestPruneCountsFromTheLastEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{Dead: time.Hour, Completed: 10 * time.Hour})
	w.push(nil)
	j := w.take("w", 0)
	w.fail(j, job.Failure{Code: "DEAD_LETTER"})
	if _, err := w.Revive(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(5 * time.Hour)
	w.is("revived", j.ID, job.Available)
	w.ack(w.take("w", 0))
	w.pass(9 * time.Hour)
	w.is("completed", j.ID, job.Completed)
	w.pass(2 * time.Hour)
	if !w.gone(j.ID) {
		t.Error("still there")
	}
}

// More than one slice is removed in one go of the duties.
func TestPruneOfManySlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	const n = 3*slice + 7
	es := make([]job.Envelope, n)
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: []byte(`[]`), ExpiresAt: genesis.Add(time.Second)}
	}
	if _, err := w.Enqueue(t.Context(), es...); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	q, err := w.Queue(t.Context(), mail)
	if err != nil || q.Counts[job.Discarded] != n {
		t.Errorf("expired %d of %d, %v", q.Counts[job.Discarded], n, err)
	}
	w.pass(30*day + hourly)
	if page, err := w.Jobs(t.Context(), job.Filter{}); err != nil || page.Total != 0 {
		t.Errorf("%d jobs are left, %v", page.Total, err)
	}
}

// A retention of less than an hour is kept to the tick, and a negative one
// removes at once, however a job ends.
func TestPruneSoon(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{-1, 90 * time.Second} {
		w := newWorld(t, Retention{Completed: keep, Cancelled: keep, Discarded: keep, Dead: keep})
		w.pass(time.Minute) // the hourly round is far away
		ids := w.ends()
		ids["expired"] = w.push(func(e *job.Envelope) { e.TTL = tick }).ID
		w.pass(tick)
		if q, err := w.Queue(t.Context(), mail); err != nil || keep > 0 && q.Counts[job.Discarded] != 3 {
			t.Errorf("%+v, %v", q, err)
		}
		ids["late"] = w.push(func(e *job.Envelope) { e.TTL = 2 * tick }).ID
		w.set(w.time().Add(2 * tick))
		w.fetch("w", 1, 0) // finds it expired
		w.settle()
		pending := ids["pending"]
		delete(ids, "pending")
		if keep > 0 {
			w.pass(keep - 3*tick)
			for name, id := range ids {
				if name != "late" && name != "expired" && !w.gone(id) {
					t.Errorf("%s: %s after it ended it is still there", name, keep)
				}
			}
			if w.gone(ids["late"]) || w.gone(ids["expired"]) {
				t.Error("removed before its time")
			}
			w.pass(3 * tick)
		}
		for name, id := range ids {
			if !w.gone(id) {
				t.Errorf("%s: still there, retention %s", name, keep)
			}
		}
		if w.gone(pending) {
			t.Error("a job that has not finished was removed")
		}
	}
}

// What is left of a life before is removed when its time comes, not an hour later.
func TestPruneSoonAfterARestart(t *testing.T) {
	t.Parallel()
	r := Retention{Completed: time.Minute, Dead: 2 * time.Minute}
	w := newWorld(t, r)
	ids := w.ends()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.set(genesis.Add(30 * time.Second))
	w.start(r)
	w.pass(30*time.Second - tick)
	if w.gone(ids["completed"]) {
		t.Error("removed early")
	}
	w.pass(tick)
	if !w.gone(ids["completed"]) {
		t.Error("still there a minute after its end")
	}
	w.pass(time.Minute)
	if !w.gone(ids["dead"]) {
		t.Error("a dead letter is still there after two minutes")
	}
}

// always is a policy with a final state and no period.
func always(conflict string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"on_conflict":%q,"states":["scheduled","available","pending","active","retryable","completed","cancelled","discarded"]}`, conflict))
}

// left is what is stored, the newest id first.
func (w *world) left() (ids []job.ID) {
	w.t.Helper()
	page, err := w.Jobs(w.t.Context(), job.Filter{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// A key that is pushed for ever keeps those jobs that decide: the newest of each end.
func TestPruneLeavesTheNewestOfAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{Completed: time.Hour, Cancelled: time.Hour, Discarded: time.Hour, Dead: time.Hour})
	newest := map[job.State]job.ID{}
	ends := map[string]job.ID{}
	for i := range 100 {
		j := w.push(func(e *job.Envelope) { e.Unique = always("replace") })
		if before := ends["live"]; before != "" {
			newest[w.read(before).State] = before
		}
		if ends["live"] = j.ID; i%2 == 0 {
			w.ack(w.take("w", 0))
			newest[job.Completed], ends["live"] = j.ID, ""
		}
		w.set(w.time().Add(time.Minute))
	}
	want := []job.ID{ends["live"], newest[job.Cancelled], newest[job.Completed]}
	slices.Sort(want)
	slices.Reverse(want)
	days := 1000
	if raced {
		days = 150
	}
	for range days {
		w.pass(day)
	}
	if got := w.left(); !slices.Equal(got, want) {
		t.Errorf("left are %d: %v; want %v", len(got), got, want)
	}
	for state, id := range newest {
		_, err := w.Enqueue(t.Context(), job.Envelope{Type: "email.send", Queue: mail, Args: json.RawMessage(`[]`),
			Unique: json.RawMessage(fmt.Sprintf(`{"states":[%q]}`, state))})
		if job.KindOf(err) != job.Duplicate || err.(*job.Error).Details["existing_job_id"] != string(id) {
			t.Errorf("%s: %v, want a Duplicate of %s", state, err, id)
		}
	}
}

// What decides stays although a newer one goes, whose own policy has no final state.
func TestPruneDoesNotTrustWhoGoesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{Completed: time.Hour})
	old := w.push(func(e *job.Envelope) { e.Unique = always("ignore") })
	w.ack(w.take("w", 0))
	w.push(func(e *job.Envelope) { e.Unique = json.RawMessage(`{}`) })
	w.ack(w.take("w", 0))
	w.pass(day)
	w.pass(40 * day)
	if got := w.left(); !slices.Equal(got, []job.ID{old.ID}) {
		t.Errorf("left are %v, want %s", got, old.ID)
	}
}

// A job whose keys were taken off goes when its retention is over, not when they would have ended.
func TestPruneAfterARelease(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*world, *job.Job) error{
		"deduplication": func(w *world, j *job.Job) error {
			_, err := w.ReleaseDedup(w.t.Context(), j.Queue, "d")
			return err
		},
		"unique": func(w *world, j *job.Job) error {
			_, err := w.ReleaseKey(w.t.Context(), j.Fingerprint)
			return err
		},
	} {
		for _, early := range []bool{true, false} {
			w := newWorld(t, Retention{Completed: time.Hour})
			j := w.push(func(e *job.Envelope) {
				if e.Unique = json.RawMessage(`{}`); name == "unique" {
					e.Unique = always("reject")
				} else {
					e.Deduplication = json.RawMessage(`{"id":"d","ttl":7776000}`)
				}
			})
			w.ack(w.take("w", 0))
			if !early { // Stay has put it off
				w.pass(10 * day)
			}
			if w.gone(j.ID) {
				t.Fatalf("%s: gone before the release", name)
			}
			if err := release(w, j); err != nil {
				t.Fatal(err)
			}
			w.pass(2 * time.Hour)
			if !w.gone(j.ID) {
				t.Errorf("%s, early %v: still there", name, early)
			}
		}
	}
}

// A dead letter that is kept for nothing but its window goes when that is over,
// and not with the round of the next hour.
func TestADeadLetterGoesWithItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{Discarded: -1, Dead: -1})
	j := w.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`)
		e.Deduplication = json.RawMessage(`{"id":"k","ttl":8}`)
	})
	w.take("", 4*time.Second)
	w.pass(4 * time.Second)
	w.is("its window is open", j.ID, job.Discarded)
	w.pass(4 * time.Second)
	if _, err := w.Job(t.Context(), j.ID); job.KindOf(err) != job.NotFound {
		t.Errorf("its window is over: %v", err)
	}
}
