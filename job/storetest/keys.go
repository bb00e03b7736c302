package storetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// everyState is a policy under which a job holds its key as long as it is stored.
var everyState = json.RawMessage(`{"keys":["type"],"states":["scheduled","available","pending","active","completed","retryable","cancelled","discarded"]}`)

// unique is a job with a policy, so many seconds older than Now, in a state, and
// with a type that is its key.
func unique(t *testing.T, typ string, age int, state job.State, holds bool) *job.Job {
	t.Helper()
	j := New(t, "q", func(j *job.Job) {
		j.Type, j.Unique = typ, everyState
		if state == job.Scheduled {
			j.ScheduledAt = Now.Add(time.Hour)
		}
		j.Hold = state == job.Pending
	})
	j.CreatedAt = Now.Add(-time.Duration(age) * time.Second)
	lease := job.Lease{Token: string(j.ID), Length: time.Minute}
	var err error
	switch state {
	case job.Scheduled, job.Available, job.Pending:
	case job.Cancelled:
		err = j.Cancel(Now, "", "")
	default:
		err = j.Start(Now, lease)
	}
	if err == nil {
		switch c := (job.Claim{ID: j.ID, Token: lease.Token}); state {
		case job.Completed:
			err = j.Complete(Now, c, nil)
		case job.Retryable:
			err = j.Fail(Now, c, job.Failure{Type: "E"}, 0)
		case job.Discarded:
			err = j.Fail(Now, c, job.Failure{Type: "E", Code: "DISCARD"}, 0)
		}
	}
	if err != nil || j.State != state {
		t.Fatalf("made a job that is %s, want %s: %v", j.State, state, err)
	}
	if !holds {
		j.Holds = 0
	}
	return j
}

// ids are the ids of jobs in order, and a mark for none.
func ids(jobs ...*job.Job) []string {
	var out []string
	for _, j := range jobs {
		if j == nil {
			out = append(out, "none")
			continue
		}
		out = append(out, string(j.ID))
	}
	slices.Sort(out)
	return out
}

// both runs a check in an Update and in a View.
func both(t *testing.T, s job.Store, check func(where string, tx job.ReadTx) error) {
	t.Helper()
	update(t, s, func(tx job.Tx) error { return check("update", tx) })
	view(t, s, func(tx job.ReadTx) error { return check("view", tx) })
}

func keysRoundTrip(t *testing.T, s job.Store) {
	for _, with := range []func(*job.Job){
		func(j *job.Job) { j.Unique = everyState },
		func(j *job.Job) { j.Unique = json.RawMessage(`{"period":"PT1H","states":["completed"]}`) },
		func(j *job.Job) { j.Unique, j.ScheduledAt = json.RawMessage(`{}`), Now.Add(time.Hour) },
		func(j *job.Job) { j.Deduplication = json.RawMessage(`{"id":"d"}`) },
		func(j *job.Job) { j.Deduplication = json.RawMessage(`{"id":"d","ttl":0.0015}`) },
		func(j *job.Job) { j.CustomID = "my own name" },
		func(j *job.Job) {
			j.Unique, j.Deduplication, j.CustomID = everyState, json.RawMessage(`{"id":"d","ttl":9,"replace":true}`), "another"
			j.Meta, j.Extra, j.Priority = json.RawMessage(`{"a":1}`), json.RawMessage(`{"tags":["x"]}`), 3
		},
	} {
		j := New(t, "q", with)
		j.Type = "round.trip"
		insert(t, s, j)
		same(t, read(t, s, j.ID), j)
		verbs := []func(*job.Job) error{
			func(j *job.Job) error { return j.Cancel(Now.Add(time.Second), "", "") },
		}
		if j.Deduplication != nil {
			verbs = append(verbs, func(j *job.Job) error { j.ReleaseDedup(); return nil })
		}
		if j.Unique != nil {
			verbs = append(verbs, func(j *job.Job) error { j.ReleaseKey(); return nil })
		}
		slices.Reverse(verbs) // the releases come while the job is alive
		for _, verb := range verbs {
			changed := change(t, s, j.ID, verb)
			same(t, read(t, s, j.ID), changed)
			update(t, s, func(tx job.Tx) error {
				got, err := tx.Job(j.ID)
				if err == nil {
					same(t, got, changed)
				}
				return err
			})
		}
		update(t, s, func(tx job.Tx) error { return tx.DeleteJob(j.ID) })
	}
}

func twins(t *testing.T, s job.Store) {
	var want []*job.Job
	holder := unique(t, "a", 50, job.Available, true)
	insert(t, s, holder, unique(t, "b", 0, job.Available, true))
	want = append(want, holder)
	key := holder.Fingerprint
	for i, st := range job.States {
		newest := unique(t, "a", 10+i, st, false)
		insert(t, s, unique(t, "a", 20+i, st, false), newest, unique(t, "a", 30+i, st, false), unique(t, "b", i, st, false))
		want = append(want, newest)
	}
	none := New(t, "q", func(j *job.Job) { j.Type = "a" })
	insert(t, s, none)
	expectTwins := func(what string, want ...*job.Job) {
		t.Helper()
		both(t, s, func(where string, tx job.ReadTx) error {
			got, err := tx.Twins(key, "")
			if err != nil || !slices.Equal(ids(got...), ids(want...)) {
				t.Errorf("%s, in a %s: %v, %v; want %v", what, where, ids(got...), err, ids(want...))
			}
			return nil
		})
	}
	expectTwins("the holder, and the newest of each state", want...)
	both(t, s, func(where string, tx job.ReadTx) error {
		for _, k := range []string{"", "00", "no key", key[:62], key + "00", "'"} {
			if got, err := tx.Twins(k, ""); len(got) != 0 || err != nil {
				t.Errorf("%s: %q has the twins %v, %v", where, k, ids(got...), err)
			}
		}
		return nil
	})
	// Of those created at one instant the one that was stored last is the newest.
	equal := unique(t, "a", 10, job.Scheduled, false)
	insert(t, s, equal)
	want[1] = equal
	expectTwins("two of one instant", want...)
	change(t, s, holder.ID, func(j *job.Job) error { j.Holds = 0; return nil })
	expectTwins("nobody holds it, and the holder is older than another", want[1:]...)
	change(t, s, equal.ID, func(j *job.Job) error { j.ReleaseKey(); return nil })
	update(t, s, func(tx job.Tx) error { return tx.DeleteJob(want[2].ID) })
	update(t, s, func(tx job.Tx) error {
		got, err := tx.Twins(key, "")
		if err != nil || slices.Contains(ids(got...), string(equal.ID)) || slices.Contains(ids(got...), string(want[2].ID)) || len(got) != 8 {
			t.Errorf("after a release and a removal: %v, %v", ids(got...), err)
		}
		// What this call has done is seen by it at once.
		mine := unique(t, "a", 0, job.Pending, true)
		if err := tx.InsertJob(mine); err != nil {
			return err
		}
		if got, err = tx.Twins(key, ""); err != nil || !slices.Contains(ids(got...), string(mine.ID)) {
			t.Errorf("in the call that stored it: %v, %v", ids(got...), err)
		}
		return nil
	})
}

// insertFirst is about an optional power; see job.FirstInserter.
func insertFirst(t *testing.T, s job.Store) {
	fresh := func(change func(*job.Job)) *job.Job {
		return New(t, "q", func(j *job.Job) {
			j.Unique = json.RawMessage(`{"key":"` + string(j.ID) + `"}`)
			if change != nil {
				change(j)
			}
		})
	}
	held, left := fresh(nil), fresh(nil)
	insert(t, s, held, left)
	change(t, s, left.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	twin := func(of *job.Job) *job.Job {
		return New(t, "q", func(j *job.Job) { j.Unique, j.Args = of.Unique, of.Args })
	}
	for name, tt := range map[string]struct {
		job    *job.Job
		stored bool
	}{
		"no other":                           {fresh(nil), true},
		"no other, and it asks for more":     {fresh(func(j *job.Job) { j.Priority, j.Timeout, j.ExpiresAt = 3, time.Second, Now.Add(time.Hour) }), true},
		"another has its id":                 {fresh(func(j *job.Job) { j.ID = held.ID }), false},
		"another holds its key":              {twin(held), false},
		"another has held its key and ended": {twin(left), false},
	} {
		if tt.job.Holds == 0 {
			t.Fatalf("%s: the job holds no key", name)
		}
		var can, stored bool
		update(t, s, func(tx job.Tx) (err error) {
			first, ok := tx.(job.FirstInserter)
			if can = ok; ok {
				stored, err = first.InsertFirst(tt.job)
			}
			return err
		})
		if !can {
			return
		}
		if stored != tt.stored {
			t.Errorf("%s: stored %v, want %v", name, stored, tt.stored)
		}
		if tt.stored {
			same(t, read(t, s, tt.job.ID), tt.job)
		}
	}
}
