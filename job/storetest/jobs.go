package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// full has a value in every field that a store keeps.
func full(t *testing.T) *job.Job {
	t.Helper()
	j := New(t, "reports", func(j *job.Job) {
		j.Args = json.RawMessage(`[1.10, 1e2, 9007199254740993, "é\u00e9", {"b":1,"a":2}]`)
		j.Meta = json.RawMessage(`{"trace_id":"t"}`)
		j.Priority = -7
		j.ScheduledAt = Now.Add(-time.Minute)
		j.ExpiresAt = Now.Add(time.Hour)
		j.Timeout, j.Visibility = 90*time.Second, 1500*time.Millisecond
		j.Retry = json.RawMessage(`{"max_attempts": 5}`)
		j.Unique = json.RawMessage(`{"keys":["type"]}`)
		j.Extra = json.RawMessage(`{"tags":["x"],"trace":"t1"}`)
	})
	j.Attempt, j.Releases, j.RetryDelay = 2, 1, 1500*time.Millisecond
	j.ActivatedAt = Now.Add(time.Second)
	j.Error, j.Errors = json.RawMessage(`{"type":"E","message":"m"}`), json.RawMessage(`[{"type":"E","message":"m"}]`)
	j.Lost = &job.LostLease{Token: "old", Worker: "w0", Length: time.Minute, At: Now, Fetches: 1}
	return j
}

// same compares what a store keeps of two jobs.
func same(t *testing.T, got, want *job.Job) {
	t.Helper()
	g, w := *got, *want
	g.TakeEvents()
	w.TakeEvents()
	// Only what is asked for once travels, not how it was asked for.
	w.Envelope.Delay, w.Envelope.TTL, w.Envelope.Hold = 0, 0, false
	for _, pair := range []struct{ got, want any }{{g.Status, w.Status}, {string(g.AppendJSON(nil, job.View{ToHolder: true})), string(w.AppendJSON(nil, job.View{ToHolder: true}))},
		{g.Visibility, w.Visibility}, {g.MaxAttempts, w.MaxAttempts}} {
		if !reflect.DeepEqual(pair.got, pair.want) {
			t.Errorf("stored and read back\n got %+v\nwant %+v", pair.got, pair.want)
		}
	}
}

func roundTrip(t *testing.T, s job.Store) {
	simple := New(t, "q", func(j *job.Job) { j.Meta, j.Extra = json.RawMessage(`{"a":1}`), json.RawMessage(`{"tags":["x"]}`) })
	insert(t, s, simple)
	same(t, read(t, s, simple.ID), simple)
	j := full(t)
	insert(t, s, j)
	same(t, read(t, s, j.ID), j)
	started := change(t, s, j.ID, func(j *job.Job) error {
		return j.Start(Now, job.Lease{Token: "tok", Worker: "w1", Length: time.Minute})
	})
	same(t, read(t, s, j.ID), started)
	done := change(t, s, j.ID, func(j *job.Job) error {
		return j.Complete(Now.Add(time.Second), job.Claim{ID: j.ID, Token: "tok"}, json.RawMessage(`null`))
	})
	same(t, read(t, s, j.ID), done)
}

func missingJob(t *testing.T, s job.Store) {
	for _, id := range []job.ID{"0197f6a0-0000-7000-8000-00000000dead", "", "'; DROP TABLE jobs; --"} {
		err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(id); return err })
		if job.KindOf(err) != job.NotFound {
			t.Errorf("view %q: %v", id, err)
		}
		err = s.Update(t.Context(), func(tx job.Tx) error { return tx.DeleteJob(id) })
		if job.KindOf(err) != job.NotFound {
			t.Errorf("delete %q: %v", id, err)
		}
	}
}

func duplicateID(t *testing.T, s job.Store) {
	j := New(t, "q", nil)
	insert(t, s, j)
	again := New(t, "q", func(n *job.Job) { n.ID, n.Args = j.ID, json.RawMessage(`["other"]`) })
	err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(again) })
	if job.KindOf(err) != job.Duplicate {
		t.Errorf("second insert: %v", err)
	}
	if got := read(t, s, j.ID); string(got.Args) != string(j.Args) {
		t.Errorf("the first was overwritten: %s", got.Args)
	}
}

func copies(t *testing.T, s job.Store) {
	j := New(t, "q", nil)
	insert(t, s, j)
	j.Type = "changed.after"
	var once *job.Job
	update(t, s, func(tx job.Tx) (err error) {
		once, err = tx.Job(j.ID)
		return err
	})
	once.State, once.Attempt = job.Completed, 99
	update(t, s, func(tx job.Tx) error {
		twice, err := tx.Job(j.ID)
		if err != nil {
			return err
		}
		if twice.State != job.Available || twice.Attempt != 0 || twice.Type != "email.send" {
			t.Errorf("a change of a copy shows: %s, attempt %d, %s", twice.State, twice.Attempt, twice.Type)
		}
		return nil
	})
}

// claim takes up to n jobs and returns their types, which the tests use as names.
func claim(t *testing.T, s job.Store, queues []string, n int) (names []string) {
	t.Helper()
	update(t, s, func(tx job.Tx) error {
		names = nil
		jobs, err := tx.Available(queues, n)
		if err != nil {
			return err
		}
		for i, j := range jobs {
			names = append(names, j.Type)
			if err := j.Start(Now, job.Lease{Token: fmt.Sprint(i), Length: time.Minute}); err != nil {
				return err
			}
			if err := tx.UpdateJob(j); err != nil {
				return err
			}
		}
		return nil
	})
	return names
}

func named(t *testing.T, queue, name string, priority int) *job.Job {
	return New(t, queue, func(j *job.Job) { j.Type, j.Priority = name, priority })
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func fifo(t *testing.T, s job.Store) {
	// Ids run backwards: the client's id must not decide.
	a, b, c := named(t, "q", "a", 0), named(t, "q", "b", 0), named(t, "q", "c", 0)
	a.ID, c.ID = c.ID, a.ID
	insert(t, s, a)
	insert(t, s, b, c)
	expect(t, "first", claim(t, s, []string{"q"}, 1), "a")
	expect(t, "rest", claim(t, s, []string{"q"}, 9), "b", "c")
	expect(t, "nothing is left", claim(t, s, []string{"q"}, 9))
}

func priority(t *testing.T, s job.Store) {
	insert(t, s, named(t, "q", "low", -5), named(t, "q", "mid.one", 0), named(t, "q", "high", 10), named(t, "q", "mid.two", 0))
	expect(t, "order", claim(t, s, []string{"q"}, 4), "high", "mid.one", "mid.two", "low")
}

func queueOrder(t *testing.T, s job.Store) {
	insert(t, s, named(t, "b", "b.one", 50), named(t, "a", "a.one", 0), named(t, "a", "a.two", 0))
	expect(t, "a before b, twice named counts once", claim(t, s, []string{"a", "a", "none", "b"}, 9), "a.one", "a.two", "b.one")
}

func reentry(t *testing.T, s job.Store) {
	first, second := named(t, "q", "first", 0), named(t, "q", "second", 0)
	insert(t, s, first, second)
	claim(t, s, []string{"q"}, 1)
	change(t, s, first.ID, func(j *job.Job) error { return j.Lose(Now, "visibility_timeout", 0) })
	expect(t, "lost goes last", claim(t, s, []string{"q"}, 2), "second", "first")
	change(t, s, second.ID, func(j *job.Job) error {
		return j.Fail(Now, job.Claim{ID: j.ID}, job.Failure{Requeue: true}, 0)
	})
	insert(t, s, named(t, "q", "third", 0))
	expect(t, "given back keeps its place", claim(t, s, []string{"q"}, 2), "second", "third")
}

func due(t *testing.T, s job.Store) {
	at := func(name string, d time.Duration) *job.Job {
		return New(t, "q", func(j *job.Job) { j.Type, j.ScheduledAt = name, Now.Add(d) })
	}
	insert(t, s, at("late", 3*time.Second), at("early", time.Second), at("middle", 2*time.Second), named(t, "q", "now", 0))
	update(t, s, func(tx job.Tx) error {
		var names []string
		jobs, err := tx.Due(job.Scheduled, Now.Add(2*time.Second), 10)
		for _, j := range jobs {
			names = append(names, j.Type)
		}
		expect(t, "due", names, "early", "middle")
		if one, _ := tx.Due(job.Scheduled, Now.Add(time.Hour), 1); len(one) != 1 || one[0].Type != "early" {
			t.Errorf("one of them: %v", one)
		}
		next, nerr := tx.NextDue(job.Scheduled)
		if nerr != nil || !next.Equal(Now.Add(time.Second)) {
			t.Errorf("next due: %s, %v", next, nerr)
		}
		if never, _ := tx.NextDue(job.Retryable); !never.IsZero() {
			t.Errorf("nothing is retryable, yet due at %s", never)
		}
		return err
	})
}

func deletion(t *testing.T, s job.Store) {
	j := New(t, "q", nil)
	insert(t, s, j)
	update(t, s, func(tx job.Tx) error {
		if err := tx.DeleteJob(j.ID); err != nil {
			return err
		}
		if _, err := tx.Job(j.ID); job.KindOf(err) != job.NotFound {
			t.Errorf("deleted in this transaction: %v", err)
		}
		return nil
	})
	if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(j.ID); return err }); job.KindOf(err) != job.NotFound {
		t.Errorf("deleted: %v", err)
	}
	insert(t, s, New(t, "q", func(n *job.Job) { n.ID = j.ID }))
}
