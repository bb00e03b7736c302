package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

func counters(t *testing.T, s job.Store) {
	a := New(t, "mail", nil)
	later := New(t, "mail", func(j *job.Job) { j.ScheduledAt = Now.Add(time.Hour) })
	held := New(t, "mail", func(j *job.Job) { j.Hold = true })
	insert(t, s, a, later, held, New(t, "other", nil))
	Audit(t, s)
	claim(t, s, []string{"mail"}, 1)
	Audit(t, s)
	change(t, s, a.ID, func(j *job.Job) error {
		return j.Complete(Now, job.Claim{ID: j.ID}, json.RawMessage(`1`))
	})
	change(t, s, held.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
	view(t, s, func(tx job.ReadTx) error {
		q, err := tx.Queue("mail")
		if err != nil {
			return err
		}
		if q.Counts[job.Completed] != 1 || q.Counts[job.Scheduled] != 1 || q.Counts[job.Cancelled] != 1 || q.Depth() != 1 {
			t.Errorf("%+v", q)
		}
		if _, err := tx.Queue("never"); job.KindOf(err) != job.NotFound {
			t.Errorf("a queue that never was: %v", err)
		}
		qs, err := tx.Queues()
		if err != nil || len(qs) != 2 || qs[0].Name != "mail" || qs[1].Name != "other" {
			t.Errorf("queues %+v, %v", qs, err)
		}
		return nil
	})
}

func lists(t *testing.T, s job.Store) {
	for i := range 5 {
		insert(t, s, New(t, fmt.Sprint("q", i%2), func(j *job.Job) { j.Type = []string{"mail.send", "mail.sort", "report.run"}[i%3] }))
	}
	view(t, s, func(tx job.ReadTx) error {
		for _, tt := range []struct {
			f    job.Filter
			want int64
		}{
			{job.Filter{}, 5}, {job.Filter{Queue: "q0"}, 3}, {job.Filter{Type: "mail.send"}, 2}, {job.Filter{Type: "mail.*"}, 4},
			{job.Filter{States: []job.State{job.Active}}, 0}, {job.Filter{States: []job.State{job.Active, job.Available}}, 5},
			{job.Filter{Since: Now.Add(time.Millisecond)}, 0}, {job.Filter{Until: Now}, 0}, {job.Filter{Type: "mail%"}, 0},
		} {
			tt.f.Limit = 100
			page, err := tx.Jobs(tt.f)
			if err != nil || page.Total != tt.want || int64(len(page.Jobs)) != tt.want {
				t.Errorf("%+v: %d of %d, %v; want %d", tt.f, len(page.Jobs), page.Total, err, tt.want)
			}
		}
		f, got := job.Filter{Limit: 2}, 0
		for {
			page, err := tx.Jobs(f)
			if err != nil {
				return err
			}
			if got += len(page.Jobs); page.Next == "" {
				break
			}
			f.Cursor = page.Next
		}
		if got != 5 {
			t.Errorf("pages of two hold %d jobs, want 5", got)
		}
		if _, err := tx.Jobs(job.Filter{Limit: 1, Cursor: "1.x' OR 1=1"}); job.KindOf(err) != job.Invalid {
			t.Errorf("a made-up cursor: %v", err)
		}
		return nil
	})
}

func deadLetters(t *testing.T, s job.Store) {
	policy := json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`)
	var ids []job.ID
	for i := range 3 {
		j := New(t, "q", func(j *job.Job) { j.Type, j.Retry = fmt.Sprint("t", string(rune('a'+i))), policy })
		insert(t, s, j)
		claim(t, s, []string{"q"}, 1)
		change(t, s, j.ID, func(j *job.Job) error {
			return j.Fail(Now.Add(time.Duration(i)*time.Second), job.Claim{ID: j.ID}, job.Failure{Type: fmt.Sprint("E", i/2)}, 0)
		})
		ids = append(ids, j.ID)
	}
	insert(t, s, New(t, "q", nil))
	view(t, s, func(tx job.ReadTx) error {
		page, err := tx.Jobs(job.Filter{Dead: true, Limit: 2})
		if err != nil || page.Total != 3 || len(page.Jobs) != 2 || page.Jobs[0].ID != ids[2] || page.Jobs[1].ID != ids[1] {
			t.Errorf("newest first: %+v, %v", page, err)
		}
		page, err = tx.Jobs(job.Filter{Dead: true, Limit: 2, Cursor: page.Next})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != ids[0] || page.Next != "" {
			t.Errorf("second page: %+v, %v", page, err)
		}
		page, err = tx.Jobs(job.Filter{Dead: true, Limit: 9, ErrorType: "E0"})
		if err != nil || page.Total != 2 {
			t.Errorf("by error: %+v, %v", page, err)
		}
		st, err := tx.DeadStats()
		if err != nil || st.Total != 3 || st.ByErrorType["E0"] != 2 || st.ByQueue["q"] != 3 || !st.Oldest.Equal(Now) || !st.Newest.Equal(Now.Add(2*time.Second)) {
			t.Errorf("stats %+v, %v", st, err)
		}
		return nil
	})
	change(t, s, ids[0], func(j *job.Job) error { return j.Revive(Now.Add(time.Minute)) })
	update(t, s, func(tx job.Tx) error { return tx.DeleteJob(ids[1]) })
	view(t, s, func(tx job.ReadTx) error {
		if st, err := tx.DeadStats(); err != nil || st.Total != 1 {
			t.Errorf("after revive and delete: %+v, %v", st, err)
		}
		return nil
	})
}

func events(t *testing.T, s job.Store) {
	a, b := New(t, "qa", nil), New(t, "qb", nil)
	insert(t, s, a)
	insert(t, s, b)
	_ = s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.InsertJob(New(t, "qa", nil)); err != nil {
			return err
		}
		return job.Errorf(job.Conflict, "told inside a call that failed: must never be heard")
	})
	claim(t, s, []string{"qa"}, 1)
	change(t, s, a.ID, func(j *job.Job) error { return j.Complete(Now.Add(time.Second), job.Claim{ID: j.ID}, nil) })
	view(t, s, func(tx job.ReadTx) error {
		all, err := tx.Events(job.EventFilter{Limit: 100})
		if err != nil {
			return err
		}
		var types []string
		for i, e := range all {
			types = append(types, e.Type)
			if i > 0 && e.Seq <= all[i-1].Seq {
				t.Errorf("event %d has Seq %d after %d", i, e.Seq, all[i-1].Seq)
			}
		}
		expect(t, "events", types, "job.enqueued", "job.enqueued", "job.started", "job.completed")
		for _, tt := range []struct {
			f    job.EventFilter
			want int
		}{
			{job.EventFilter{Types: []string{"job.completed"}}, 1}, {job.EventFilter{Types: []string{"job.*"}}, 4},
			{job.EventFilter{Queues: []string{"qb"}}, 1}, {job.EventFilter{JobID: a.ID}, 3}, {job.EventFilter{After: all[1].Seq}, 2},
			{job.EventFilter{After: all[3].Seq}, 0}, {job.EventFilter{Since: Now.Add(time.Millisecond)}, 1}, {job.EventFilter{JobTypes: []string{"none"}}, 0},
		} {
			tt.f.Limit = 100
			if got, err := tx.Events(tt.f); err != nil || len(got) != tt.want {
				t.Errorf("%+v: %d events, %v; want %d", tt.f, len(got), err, tt.want)
			}
		}
		if got, _ := tx.Events(job.EventFilter{Limit: 3}); len(got) != 3 {
			t.Errorf("three of four: %d", len(got))
		}
		return nil
	})
}

func pruneEvents(t *testing.T, s job.Store) {
	span := func(want job.EventSpan) {
		t.Helper()
		view(t, s, func(tx job.ReadTx) error {
			if got, err := tx.EventSpan(); got != want || err != nil {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
			return nil
		})
	}
	span(job.EventSpan{First: 1})
	for range 5 {
		insert(t, s, New(t, "q", nil))
	}
	update(t, s, func(tx job.Tx) error {
		if more, err := tx.PruneEvents(Now, 10); more || err != nil {
			t.Errorf("nothing is old enough: %v, %v", more, err)
		}
		return nil
	})
	span(job.EventSpan{First: 1, Last: 5})
	update(t, s, func(tx job.Tx) error {
		if more, err := tx.PruneEvents(Now.Add(time.Second), 2); !more || err != nil {
			t.Errorf("two of five: %v, %v", more, err)
		}
		return nil
	})
	span(job.EventSpan{First: 3, Last: 5})
	update(t, s, func(tx job.Tx) error {
		if more, err := tx.PruneEvents(Now.Add(time.Second), 10); more || err != nil {
			t.Errorf("the rest: %v, %v", more, err)
		}
		return nil
	})
	span(job.EventSpan{First: 6, Last: 5})
	insert(t, s, New(t, "q", nil))
	view(t, s, func(tx job.ReadTx) error {
		es, err := tx.Events(job.EventFilter{Limit: 10})
		if err != nil || len(es) != 1 || es[0].Seq != 6 {
			t.Errorf("Seq goes on after a prune: %+v, %v", es, err)
		}
		return nil
	})
}

func workers(t *testing.T, s job.Store) {
	w := job.WorkerInfo{ID: "w1", Queues: []string{"q"}, Concurrency: 5, BeatAt: Now, StartedAt: Now, Labels: map[string]string{"a": "b"}}
	insert(t, s, New(t, "q", nil), New(t, "q", nil))
	update(t, s, func(tx job.Tx) error {
		jobs, err := tx.Available([]string{"q"}, 1)
		if err != nil {
			return err
		}
		if err := jobs[0].Start(Now, job.Lease{Token: "t", Worker: "w1", Length: time.Minute}); err != nil {
			return err
		}
		if err := tx.UpdateJob(jobs[0]); err != nil {
			return err
		}
		return tx.PutWorker(w)
	})
	w.Concurrency = 7
	update(t, s, func(tx job.Tx) error { return tx.PutWorker(w) })
	view(t, s, func(tx job.ReadTx) error {
		got, err := tx.Worker("w1")
		if err != nil || got.Concurrency != 7 || got.Labels["a"] != "b" || !got.BeatAt.Equal(Now) {
			t.Errorf("%+v, %v", got, err)
		}
		held, err := tx.Held("w1")
		if err != nil || len(held) != 1 || held[0].Lease.Worker != "w1" {
			t.Errorf("held %v, %v", held, err)
		}
		return nil
	})
	update(t, s, func(tx job.Tx) error { return tx.DeleteWorker("w1") })
	view(t, s, func(tx job.ReadTx) error {
		if _, err := tx.Worker("w1"); job.KindOf(err) != job.NotFound {
			t.Errorf("forgotten: %v", err)
		}
		ws, err := tx.Workers()
		if err != nil || len(ws) != 0 {
			t.Errorf("%v, %v", ws, err)
		}
		return nil
	})
}
