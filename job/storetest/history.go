package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// historyOf is the types of a job's events, checked to be of this job and in order.
func historyOf(t *testing.T, tx job.ReadTx, id job.ID) (types []string) {
	t.Helper()
	es, err := tx.History(id)
	if err != nil {
		t.Errorf("history of %s: %v", id, err)
	}
	for i, e := range es {
		if e.JobID != id || i > 0 && e.Seq <= es[i-1].Seq {
			t.Errorf("event %d of %s: %+v", i, id, e)
		}
		types = append(types, e.Type)
	}
	return types
}

func history(t *testing.T, s job.Store) {
	a, b := New(t, "q", nil), New(t, "q", nil)
	insert(t, s, a, b) // in one commit, so that their events lie side by side
	for range 2 {
		claim(t, s, []string{"q"}, 2)
		for _, id := range []job.ID{a.ID, b.ID} {
			change(t, s, id, func(j *job.Job) error { return j.Lose(Now, "visibility_timeout", 0) })
		}
	}
	_ = s.Update(t.Context(), func(tx job.Tx) error {
		j, err := tx.Job(a.ID)
		if err != nil {
			return err
		}
		if err := j.Cancel(Now, "", ""); err != nil {
			return err
		}
		if err := tx.UpdateJob(j); err != nil {
			return err
		}
		return job.Errorf(job.Conflict, "told inside a call that failed: must never be heard")
	})
	once := []string{"job.started", "job.failed", "job.retrying", "job.enqueued"}
	want := append(append([]string{"job.enqueued"}, once...), once...)
	view(t, s, func(tx job.ReadTx) error {
		for _, id := range []job.ID{a.ID, b.ID} {
			expect(t, "history", historyOf(t, tx, id), want...)
			es, err := tx.History(id)
			all, aerr := tx.Events(job.EventFilter{JobID: id, Limit: 1000})
			if fmt.Sprint(es) != fmt.Sprint(all) || err != nil || aerr != nil {
				t.Errorf("history\n%v, %v\nlog\n%v, %v", es, err, all, aerr)
			}
		}
		if _, err := tx.History("0197f6a0-0000-7000-8000-00000000dead"); job.KindOf(err) != job.NotFound {
			t.Errorf("of a job that is not there: %v", err)
		}
		return nil
	})
}

// historyInside reads the history of what the same commit has changed.
func historyInside(t *testing.T, s job.Store) {
	old, fresh := New(t, "q", nil), New(t, "q", nil)
	insert(t, s, old)
	update(t, s, func(tx job.Tx) error {
		if err := tx.InsertJob(fresh); err != nil {
			return err
		}
		again := New(t, "q", func(j *job.Job) { j.ID = old.ID })
		if err := tx.InsertJob(again); job.KindOf(err) != job.Duplicate {
			t.Errorf("a taken id: %v", err)
		}
		for _, id := range []job.ID{old.ID, fresh.ID} {
			j, err := tx.Job(id)
			if err != nil {
				return err
			}
			if err := j.Cancel(Now, "", ""); err != nil {
				return err
			}
			if err := tx.UpdateJob(j); err != nil {
				return err
			}
			expect(t, "inside", historyOf(t, tx, id), "job.enqueued", "job.cancelled")
		}
		return nil
	})
	view(t, s, func(tx job.ReadTx) error {
		for _, id := range []job.ID{old.ID, fresh.ID} {
			expect(t, "afterwards", historyOf(t, tx, id), "job.enqueued", "job.cancelled")
		}
		if es, err := tx.Events(job.EventFilter{Limit: 10}); err != nil || len(es) != 4 {
			t.Errorf("%d events in the log, %v; the insert that was refused tells nothing", len(es), err)
		}
		return nil
	})
}

func historyBounds(t *testing.T, s job.Store) {
	j := New(t, "q", nil)
	insert(t, s, j)
	const rounds = job.HistoryLimit/2 + 10
	for i := range rounds { // each tells job.started and job.enqueued
		at := Now.Add(time.Duration(i) * time.Second)
		change(t, s, j.ID, func(j *job.Job) error { return j.Start(at, job.Lease{Token: "t", Length: time.Minute}) })
		change(t, s, j.ID, func(j *job.Job) error {
			return j.Fail(at, job.Claim{ID: j.ID}, job.Failure{Requeue: true}, 0)
		})
	}
	last := func() (n int, first, last time.Time) {
		view(t, s, func(tx job.ReadTx) error {
			es, err := tx.History(j.ID)
			if n = len(es); n > 0 {
				first, last = es[0].Time, es[n-1].Time
			}
			return err
		})
		return n, first, last
	}
	end := Now.Add((rounds - 1) * time.Second)
	if n, from, to := last(); n != job.HistoryLimit || !to.Equal(end) || !from.Equal(end.Add(-(job.HistoryLimit/2-1)*time.Second)) {
		t.Errorf("%d events from %s to %s", n, from, to)
	}
	prune := func(before time.Time) {
		update(t, s, func(tx job.Tx) error { _, err := tx.PruneEvents(before, 10_000); return err })
	}
	prune(end.Add(-4 * time.Second))
	if n, from, to := last(); n != 10 || !to.Equal(end) || !from.Equal(end.Add(-4*time.Second)) {
		t.Errorf("after a prune: %d events from %s to %s", n, from, to)
	}
	prune(end.Add(time.Hour))
	if n, _, _ := last(); n != 0 {
		t.Errorf("after a prune of all: %d events", n)
	}
	insert(t, s, New(t, "q", nil)) // whose event stands where the job's would be looked for
	change(t, s, j.ID, func(j *job.Job) error { return j.Cancel(end.Add(time.Minute), "", "") })
	if n, from, _ := last(); n != 1 || !from.Equal(end.Add(time.Minute)) {
		t.Errorf("after a prune of all and a change: %d events from %s", n, from)
	}
}

func tellings(t *testing.T, s job.Store) {
	insert(t, s, New(t, "q", nil))
	update(t, s, func(tx job.Tx) error { return tx.AddEvent(job.WorkerEvent(job.WorkerStarted, "w1", Now)) })
	_ = s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.AddEvent(job.WorkerEvent(job.WorkerStopped, "w1", Now)); err != nil {
			return err
		}
		return job.Errorf(job.Conflict, "told inside a call that failed: must never be heard")
	})
	insert(t, s, New(t, "q", nil))
	view(t, s, func(tx job.ReadTx) error {
		es, err := tx.Events(job.EventFilter{Limit: 10})
		if err != nil || len(es) != 3 || es[1].Type != job.WorkerStarted || string(es[1].Data) != `{"worker_id":"w1"}` || es[1].JobID != "" ||
			es[1].Seq != es[0].Seq+1 || es[2].Seq != es[1].Seq+1 {
			t.Errorf("%+v, %v", es, err)
		}
		return nil
	})
}

// manyTellings: a call with thousands of events leaves all of them or none, and
// neighbours in its group keep their order.
func manyTellings(t *testing.T, s job.Store) {
	const many = 2500
	tell := func(tx job.Tx, n int) error {
		for i := range n {
			if err := tx.AddEvent(job.WorkerEvent(job.WorkerStarted, fmt.Sprint("w", i), Now)); err != nil {
				return err
			}
		}
		return nil
	}
	insert(t, s, New(t, "q", nil))
	err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tell(tx, many); err != nil {
			return err
		}
		return job.Errorf(job.Conflict, "told inside a call that failed: must never be heard")
	})
	if job.KindOf(err) != job.Conflict {
		t.Error(err)
	}
	err = s.Update(t.Context(), func(tx job.Tx) error {
		before, after := New(t, "q", nil), New(t, "q", nil)
		for _, j := range []*job.Job{before, after} {
			if err := tx.InsertJob(j); err != nil {
				return err
			}
			if err := tell(tx, many); err != nil {
				return err
			}
		}
		for _, j := range []*job.Job{before, after} {
			if types := historyOf(t, tx, j.ID); !slices.Equal(types, []string{"job.enqueued"}) {
				t.Errorf("its events are %q", types)
			}
		}
		return job.Errorf(job.Conflict, "only to look")
	})
	if job.KindOf(err) != job.Conflict {
		t.Error(err)
	}
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if err := s.Update(t.Context(), func(tx job.Tx) error { return tell(tx, many) }); err != nil {
				t.Error(err)
			}
			insert(t, s, New(t, "q", nil))
		})
	}
	calls.Wait()
	view(t, s, func(tx job.ReadTx) error {
		first, last, enqueued, next := int64(0), int64(0), 0, 0
		for {
			es, err := tx.Events(job.EventFilter{After: last, Limit: 700})
			if err != nil || len(es) == 0 {
				if told := int(last - first + 1); told != 4*many+5 || enqueued != 5 {
					t.Errorf("%d events, %d of them of jobs, want %d and 5", told, enqueued, 4*many+5)
				}
				return err
			}
			for _, e := range es {
				if first == 0 {
					first, last = e.Seq, e.Seq-1
				}
				if e.Seq != last+1 {
					t.Fatalf("the event %d comes after %d", e.Seq, last)
				}
				last = e.Seq
				if e.Type != job.WorkerStarted {
					enqueued++
				} else if want := fmt.Sprintf(`{"worker_id":"w%d"}`, next); string(e.Data) != want {
					t.Fatalf("event %d is of %s, want %s", e.Seq, e.Data, want)
				} else {
					next = (next + 1) % many
				}
			}
		}
	})
}

func oldestDead(t *testing.T, s job.Store) {
	var ids []job.ID
	for i := range 4 {
		j := New(t, fmt.Sprint("q", i%2), func(j *job.Job) { j.Type = []string{"mail.a", "mail.b"}[i/2] })
		insert(t, s, j)
		claim(t, s, []string{j.Queue}, 1)
		change(t, s, j.ID, func(j *job.Job) error {
			return j.Fail(Now.Add(time.Duration(i)*time.Second), job.Claim{ID: j.ID}, job.Failure{Type: fmt.Sprint("E", i/3), Code: "DEAD_LETTER"}, 0)
		})
		ids = append(ids, j.ID)
	}
	plain := New(t, "q0", nil)
	insert(t, s, plain)
	update(t, s, func(tx job.Tx) error {
		for _, tt := range []struct {
			f    job.Filter
			n    int
			want []job.ID
		}{
			{job.Filter{}, 9, ids}, {job.Filter{}, 2, ids[:2]}, {job.Filter{Queue: "q1"}, 9, []job.ID{ids[1], ids[3]}},
			{job.Filter{Type: "mail.*"}, 9, ids}, {job.Filter{Type: "mail.b"}, 1, ids[2:3]}, {job.Filter{ErrorType: "E1"}, 9, ids[3:]},
			{job.Filter{Since: Now.Add(time.Second), Until: Now.Add(3 * time.Second)}, 9, ids[1:3]}, {job.Filter{Queue: "none"}, 9, nil},
		} {
			dead, err := tx.Dead(tt.f, tt.n)
			var got []job.ID
			for _, j := range dead {
				got = append(got, j.ID)
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%+v, %d: %v, %v; want %v", tt.f, tt.n, got, err, tt.want)
			}
		}
		dead, err := tx.Dead(job.Filter{}, 1)
		if err != nil {
			return err
		}
		if err := dead[0].Revive(Now.Add(time.Minute)); err != nil {
			return err
		}
		return tx.UpdateJob(dead[0]) // what it gives out can be changed
	})
	view(t, s, func(tx job.ReadTx) error {
		st, err := tx.DeadStats()
		if err != nil || st.Total != 3 {
			t.Errorf("%+v, %v", st, err)
		}
		return nil
	})
}

// historyBeside reads the history of a job that neighbours in the same commit
// have changed as well; some of them fail.
func historyBeside(t *testing.T, s job.Store) {
	j := New(t, "q", nil)
	insert(t, s, j)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			err := s.Update(t.Context(), func(tx job.Tx) error {
				got, err := tx.Job(j.ID)
				if err != nil {
					return err
				}
				if err := got.Start(Now, job.Lease{Token: "t", Length: time.Minute}); err != nil {
					return err
				}
				if err := got.Fail(Now, job.Claim{ID: j.ID}, job.Failure{Requeue: true}, 0); err != nil {
					return err
				}
				if err := tx.UpdateJob(got); err != nil {
					return err
				}
				if n := len(historyOf(t, tx, j.ID)); n != 1+2*got.Attempt {
					t.Errorf("%d events after %d attempts", n, got.Attempt)
				}
				if i%3 == 0 {
					return job.Errorf(job.Conflict, "leaves nothing")
				}
				return nil
			})
			if i%3 == 0 && job.KindOf(err) != job.Conflict || i%3 != 0 && err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	all.Wait()
	view(t, s, func(tx job.ReadTx) error {
		if n := len(historyOf(t, tx, j.ID)); n != 1+2*(64-22) {
			t.Errorf("%d events in the end", n)
		}
		return nil
	})
}
