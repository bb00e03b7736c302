package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// debounced is a job with a deduplication key, pushed so long after Now.
func debounced(t *testing.T, queue, id string, ttl string, after time.Duration) *job.Job {
	t.Helper()
	j := New(t, queue, func(j *job.Job) { j.Deduplication = json.RawMessage(fmt.Sprintf(`{"id":%q%s}`, id, ttl)) })
	if j.CreatedAt = Now.Add(after); !j.DedupUntil.IsZero() {
		j.DedupUntil = j.DedupUntil.Add(after)
		j.Keep = j.DedupUntil
	}
	return j
}

func dedupOwner(t *testing.T, s job.Store) {
	owner := func(what, queue, id string, at time.Duration, want *job.Job) {
		t.Helper()
		both(t, s, func(where string, tx job.ReadTx) error {
			if got, err := tx.DedupOwner(queue, id, Now.Add(at)); err != nil || !slices.Equal(ids(got), ids(want)) {
				t.Errorf("%s, in a %s: %v, %v; want %v", what, where, ids(got), err, ids(want))
			}
			return nil
		})
	}
	owner("nobody has come", "q", "x", 0, nil)
	forever := debounced(t, "q", "x", "", 0)
	insert(t, s, forever, debounced(t, "other", "x", "", 0), debounced(t, "q", "y", "", 0), New(t, "q", nil))
	owner("without a window", "q", "x", 1000*time.Hour, forever)
	owner("an id is not a prefix", "q", "", 0, nil)
	short := debounced(t, "q", "x", `,"ttl":10`, time.Second)
	insert(t, s, short)
	owner("the newest of two", "q", "x", time.Second, short)
	owner("one tick before the window ends", "q", "x", 11*time.Second-time.Millisecond, short)
	owner("when it ends", "q", "x", 11*time.Second, forever)
	for _, st := range []struct {
		what string
		verb func(*job.Job) error
	}{
		{"at work", func(j *job.Job) error { return j.Start(Now, job.Lease{Token: "t", Length: time.Minute}) }},
		{"retryable", func(j *job.Job) error { return j.Fail(Now, job.Claim{ID: j.ID}, job.Failure{Type: "E"}, 0) }},
	} {
		change(t, s, forever.ID, st.verb)
		change(t, s, short.ID, st.verb)
		owner(st.what, "q", "x", time.Second, short)
		owner(st.what+", without a window", "q", "x", time.Hour, forever)
	}
	for _, j := range []*job.Job{forever, short} {
		change(t, s, j.ID, func(j *job.Job) error { return j.Ready(Now.Add(time.Hour)) })
		change(t, s, j.ID, func(j *job.Job) error { return j.Start(Now, job.Lease{Token: "t", Length: time.Minute}) })
		change(t, s, j.ID, func(j *job.Job) error { return j.Complete(Now, job.Claim{ID: j.ID}, nil) })
	}
	owner("completed inside its window", "q", "x", time.Second, short)
	owner("completed without a window", "q", "x", time.Hour, nil)
	change(t, s, short.ID, func(j *job.Job) error { j.ReleaseDedup(); return nil })
	owner("released", "q", "x", time.Second, nil)
	third := debounced(t, "q", "x", `,"ttl":10`, 2*time.Second)
	insert(t, s, third)
	owner("after a release", "q", "x", 2*time.Second, third)
	update(t, s, func(tx job.Tx) error { return tx.DeleteJob(third.ID) })
	owner("removed", "q", "x", 2*time.Second, nil)
}

func customID(t *testing.T, s job.Store) {
	named := func(queue, name string) *job.Job { return New(t, queue, func(j *job.Job) { j.CustomID = name }) }
	find := func(what, queue, name string, want *job.Job) {
		t.Helper()
		both(t, s, func(where string, tx job.ReadTx) error {
			got, err := tx.Custom(queue, name)
			if err != nil || !slices.Equal(ids(got), ids(want)) || got != nil && got.CustomID != name {
				t.Errorf("%s, in a %s: %v, %v; want %v", what, where, ids(got), err, ids(want))
			}
			return nil
		})
	}
	find("nobody has come", "q", "x", nil)
	a, b := named("q", "x"), named("other", "x")
	insert(t, s, a, b, New(t, "q", nil), New(t, "q", nil))
	find("in this queue", "q", "x", a)
	find("in the other", "other", "x", b)
	find("another case", "q", "X", nil)
	find("no name", "q", "", nil)
	change(t, s, a.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	find("in any state", "q", "x", a)
	update(t, s, func(tx job.Tx) error { return tx.DeleteJob(a.ID) })
	find("removed", "q", "x", nil)
	again := named("q", "x")
	insert(t, s, again)
	find("and again", "q", "x", again)
}
