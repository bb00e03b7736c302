package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
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
	// Of those created at one instant the last id is the newest.
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

func rewriting(t *testing.T, s job.Store) {
	scheduled := func() *job.Job {
		j := New(t, "q", func(j *job.Job) {
			j.Unique, j.ScheduledAt, j.Meta = everyState, Now.Add(time.Hour), json.RawMessage(`{"old":1}`)
			j.Type = fmt.Sprint("t", serial.Add(1))
		})
		insert(t, s, j)
		return j
	}
	for _, meta := range []json.RawMessage{json.RawMessage(`{"new":2}`), nil} {
		j := scheduled()
		args := json.RawMessage(`[ {"a":1.10} ]`)
		var want *job.Job
		update(t, s, func(tx job.Tx) (err error) {
			if want, err = tx.Job(j.ID); err != nil {
				return err
			}
			want.Args, want.Meta, want.Priority, want.Attempt = args, meta, 77, 0
			if err := want.Activate(Now); err == nil { // a scheduled job is no pending one; nothing is told
				t.Error("a scheduled job was activated")
			}
			return tx.RewriteJob(want)
		})
		want.Priority = 0 // only Args and Meta of the envelope are saved
		both(t, s, func(where string, tx job.ReadTx) error {
			got, err := tx.Job(j.ID)
			if err == nil && (string(got.Args) != string(args) || string(got.Meta) != string(meta)) {
				t.Errorf("%s: args %s, meta %s", where, got.Args, got.Meta)
			}
			return err
		})
		got := read(t, s, j.ID)
		same(t, got, want)
		// An UpdateJob behind it leaves them alone, and so does one before it save none.
		change(t, s, j.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
		if got := read(t, s, j.ID); string(got.Args) != string(args) || got.State != job.Cancelled {
			t.Errorf("after an update: %s, %s", got.Args, got.State)
		}
	}
	j := scheduled()
	undone := errors.New("undone")
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		got, err := tx.Job(j.ID)
		if err != nil {
			return err
		}
		if got.Args = json.RawMessage(`[9]`); tx.RewriteJob(got) != nil {
			t.Error("it was not rewritten")
		}
		return undone
	}); !errors.Is(err, undone) {
		t.Errorf("undone: %v", err)
	}
	both(t, s, func(where string, tx job.ReadTx) error {
		got, err := tx.Job(j.ID)
		if err == nil && string(got.Args) != string(j.Args) {
			t.Errorf("%s: a call that failed has left the args %s", where, got.Args)
		}
		return err
	})
	err := s.Update(t.Context(), func(tx job.Tx) error { return tx.RewriteJob(New(t, "q", nil)) })
	if err == nil {
		t.Error("a job was rewritten that was never read")
	}
}

func holding(t *testing.T, s job.Store) {
	a, b, c := unique(t, "a", 3, job.Available, true), unique(t, "b", 2, job.Scheduled, true), unique(t, "c", 1, job.Completed, true)
	insert(t, s, a, b, c, unique(t, "a", 0, job.Available, false), unique(t, "d", 0, job.Cancelled, false), New(t, "q", nil))
	for _, tt := range []struct {
		f    job.Filter
		want []*job.Job
	}{
		{job.Filter{}, []*job.Job{a, b, c}}, {job.Filter{Type: "a"}, []*job.Job{a}}, {job.Filter{Queue: "none"}, nil},
		{job.Filter{States: []job.State{job.Scheduled, job.Completed}}, []*job.Job{b, c}}, {job.Filter{Type: "d"}, nil},
	} {
		tt.f.Holding, tt.f.Limit = true, 100
		both(t, s, func(where string, tx job.ReadTx) error {
			page, err := tx.Jobs(tt.f)
			if err != nil || page.Total != int64(len(tt.want)) || !slices.Equal(ids(page.Jobs...), ids(tt.want...)) {
				t.Errorf("%+v, in a %s: %v of %d, %v; want %v", tt.f, where, ids(page.Jobs...), page.Total, err, ids(tt.want...))
			}
			return nil
		})
	}
	var got []*job.Job
	f := job.Filter{Holding: true, Limit: 2}
	view(t, s, func(tx job.ReadTx) error {
		for {
			page, err := tx.Jobs(f)
			if err != nil {
				return err
			}
			if got = append(got, page.Jobs...); page.Next == "" {
				return nil
			}
			f.Cursor = page.Next
		}
	})
	if len(got) != 3 || got[0].ID < got[1].ID || got[1].ID < got[2].ID {
		t.Errorf("in pages of two: %v, want the newest id first", ids(got...))
	}
	change(t, s, a.ID, func(j *job.Job) error { j.ReleaseKey(); return nil })
	view(t, s, func(tx job.ReadTx) error {
		if page, err := tx.Jobs(job.Filter{Holding: true, Limit: 9}); err != nil || page.Total != 2 {
			t.Errorf("after a release %d hold a key, %v", page.Total, err)
		}
		return nil
	})
}

// doubleKeys is the net under the rules: what they must never ask for is an
// Internal error, and nothing of the call stays.
func doubleKeys(t *testing.T, s job.Store) {
	held, custom := unique(t, "a", 0, job.Available, true), New(t, "q", func(j *job.Job) { j.CustomID = "c" })
	idle := unique(t, "a", 9, job.Available, false)
	insert(t, s, held, custom, idle)
	second, same := unique(t, "a", 0, job.Scheduled, true), New(t, "q", func(j *job.Job) { j.CustomID = "c" })
	beside := New(t, "fresh", nil)
	story := func() (n int) {
		view(t, s, func(tx job.ReadTx) error {
			es, err := tx.Events(job.EventFilter{Limit: 1000})
			n = len(es)
			return err
		})
		return n
	}
	told := story()
	for what, bad := range map[string]func(job.Tx) error{
		"a second holder":        func(tx job.Tx) error { return tx.InsertJob(second) },
		"a second custom id":     func(tx job.Tx) error { return tx.InsertJob(same) },
		"a holder by an update":  func(tx job.Tx) error { return takeKey(tx, idle.ID, tx.UpdateJob) },
		"a holder by rewriting":  func(tx job.Tx) error { return takeKey(tx, idle.ID, tx.RewriteJob) },
		"an ignored second name": func(tx job.Tx) error { _ = tx.InsertJob(same); return nil },
		"an ignored second key":  func(tx job.Tx) error { _ = tx.InsertJob(second); return nil },
	} {
		err := s.Update(t.Context(), func(tx job.Tx) error {
			if err := tx.InsertJob(beside); err != nil {
				return err
			}
			return bad(tx)
		})
		if job.KindOf(err) != job.Internal || err == nil {
			t.Errorf("%s: %v, want Internal", what, err)
		}
		both(t, s, func(where string, tx job.ReadTx) error {
			for _, j := range []*job.Job{second, same, beside} {
				if _, err := tx.Job(j.ID); job.KindOf(err) != job.NotFound {
					t.Errorf("%s, in a %s: a job has stayed, %v", what, where, err)
				}
			}
			if got, err := tx.Job(idle.ID); err != nil || got.Holds != 0 || string(got.Args) != string(idle.Args) {
				t.Errorf("%s, in a %s: an update has stayed: %+v, %v", what, where, got, err)
			}
			if _, err := tx.Queue("fresh"); job.KindOf(err) != job.NotFound {
				t.Errorf("%s, in a %s: a queue has stayed, %v", what, where, err)
			}
			return nil
		})
		if n := story(); n != told {
			t.Errorf("%s: %d events have stayed", what, n-told)
		}
	}
	// The other way round, in one call, it is right.
	update(t, s, func(tx job.Tx) error {
		j, err := tx.Job(held.ID)
		if err != nil {
			return err
		}
		if j.Holds = 0; tx.UpdateJob(j) != nil {
			t.Error("the key was not taken off")
		}
		return tx.InsertJob(second)
	})
	insert(t, s, New(t, "other", func(j *job.Job) { j.CustomID = "c" }))
}

func takeKey(tx job.Tx, id job.ID, save func(*job.Job) error) error {
	j, err := tx.Job(id)
	if err != nil {
		return err
	}
	j.Args, j.Holds = json.RawMessage(`["changed"]`), job.SetOf(job.States...)
	return save(j)
}
