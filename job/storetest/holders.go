package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

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
			want.Args, want.Meta, want.MaxAttempts, want.Attempt = args, meta, 77, 0
			if err := want.Activate(Now); err == nil { // a scheduled job is no pending one; nothing is told
				t.Error("a scheduled job was activated")
			}
			return tx.RewriteJob(want)
		})
		want.MaxAttempts = 3 // of the envelope's body only Args and Meta are saved
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

// holding has keys with a holder, with jobs beside it, and with no holder at all.
func holding(t *testing.T, s job.Store) {
	a, b, c := unique(t, "a", 3, job.Available, true), unique(t, "b", 2, job.Scheduled, true), unique(t, "c", 1, job.Completed, true)
	aside, older, newest := unique(t, "e", 5, job.Active, false), unique(t, "f", 8, job.Pending, false), unique(t, "f", 4, job.Retryable, false)
	last := unique(t, "g", 2, job.Available, false)
	insert(t, s, a, b, c, unique(t, "a", 9, job.Available, false), unique(t, "a", 0, job.Completed, false), unique(t, "c", 0, job.Cancelled, false),
		unique(t, "d", 0, job.Cancelled, false), New(t, "q", nil), aside, unique(t, "e", 1, job.Discarded, true), older, newest, unique(t, "f", 1, job.Completed, false),
		unique(t, "g", 6, job.Active, true), last)
	for _, tt := range []struct {
		f    job.Filter
		want []*job.Job
	}{
		{job.Filter{}, []*job.Job{a, b, c, aside, newest, last}}, {job.Filter{Type: "a"}, []*job.Job{a}}, {job.Filter{Queue: "none"}, nil},
		{job.Filter{States: []job.State{job.Scheduled, job.Completed}}, []*job.Job{b, c}}, {job.Filter{Type: "d"}, nil},
		{job.Filter{Type: "e"}, []*job.Job{aside}}, {job.Filter{Type: "f"}, []*job.Job{newest}}, {job.Filter{Type: "g"}, []*job.Job{last}},
		{job.Filter{Type: "f", States: []job.State{job.Pending}}, nil}, // it is not the newest with that key
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
	if len(got) != 6 || !slices.IsSortedFunc(got, func(a, b *job.Job) int { return strings.Compare(string(b.ID), string(a.ID)) }) {
		t.Errorf("in pages of two: %v, want the newest id first", ids(got...))
	}
	change(t, s, b.ID, func(j *job.Job) error { j.ReleaseKey(); return nil })
	change(t, s, newest.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	view(t, s, func(tx job.ReadTx) error {
		page, err := tx.Jobs(job.Filter{Holding: true, Limit: 9})
		if want := ids(a, c, aside, older, last); err != nil || page.Total != 5 || !slices.Equal(ids(page.Jobs...), want) {
			t.Errorf("after a release and an end: %v of %d, %v; want %v", ids(page.Jobs...), page.Total, err, want)
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
