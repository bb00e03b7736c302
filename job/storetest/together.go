package storetest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// crowd is n jobs, most of them plain, some of every other sort between them.
func crowd(t *testing.T, n int) (js []*job.Job) {
	for i := range n {
		js = append(js, New(t, "q", func(j *job.Job) {
			switch i % 50 {
			case 41:
				j.Delay = time.Minute
			case 42:
				j.Unique = json.RawMessage(`{"key":"k` + string(rune('a'+i/50)) + `"}`)
			case 43:
				j.Hold = true
			}
		}))
	}
	return js
}

// together stores many jobs in one call: each comes back as it was stored, in
// their order, with its events and its counters.
func together(t *testing.T, s job.Store) {
	js := crowd(t, 170)
	var stored []bool
	update(t, s, func(tx job.Tx) (err error) {
		stored, err = tx.InsertJobs(js)
		return err
	})
	if len(stored) != len(js) || slices.Contains(stored, false) {
		t.Fatalf("stored %v", stored)
	}
	for i, j := range js {
		same(t, read(t, s, j.ID), j)
		if i > 0 && j.Seq <= js[i-1].Seq {
			t.Errorf("job %d has the place %d, behind %d", i, j.Seq, js[i-1].Seq)
		}
		view(t, s, func(tx job.ReadTx) error {
			es, err := tx.History(j.ID)
			if err == nil && (len(es) != 1 && j.State != job.Pending || len(es) > 0 && es[len(es)-1].Seq != j.LastEvent) {
				t.Errorf("job %d, %s, has told %d events, the newest is not %d", i, j.State, len(es), j.LastEvent)
			}
			return err
		})
	}
	update(t, s, func(tx job.Tx) error {
		_, err := tx.InsertJobs(nil)
		return err
	})
}

// togetherTaken stores many jobs of which some have an ID that is taken: those
// are left as they are, and the others are stored as if nothing were.
func togetherTaken(t *testing.T, s job.Store) {
	js := crowd(t, 120)
	was := New(t, "other", func(j *job.Job) { j.ID = js[50].ID })
	insert(t, s, was)
	again := New(t, "q", func(j *job.Job) { j.ID = js[3].ID })
	js = append(js[:110:110], append([]*job.Job{again}, js[110:]...)...)
	var stored []bool
	update(t, s, func(tx job.Tx) (err error) {
		stored, err = tx.InsertJobs(js)
		return err
	})
	seq := int64(0)
	for i, j := range js {
		if free := i != 50 && i != 110; stored[i] != free {
			t.Errorf("job %d: stored %v", i, stored[i])
			continue
		} else if !free {
			continue
		}
		same(t, read(t, s, j.ID), j)
		if j.Seq <= seq {
			t.Errorf("job %d has the place %d, behind %d", i, j.Seq, seq)
		}
		seq = j.Seq
		view(t, s, func(tx job.ReadTx) error {
			_, err := tx.History(j.ID)
			return err
		})
	}
	same(t, read(t, s, was.ID), was)
}

// togetherUndone fails behind many jobs.
func togetherUndone(t *testing.T, s job.Store) {
	js := crowd(t, 100)
	err := s.Update(t.Context(), func(tx job.Tx) error {
		if _, err := tx.InsertJobs(js); err != nil {
			return err
		}
		return job.Errorf(job.Conflict, "no")
	})
	if job.KindOf(err) != job.Conflict {
		t.Error(err)
	}
	view(t, s, func(tx job.ReadTx) error {
		page, err := tx.Jobs(job.Filter{Limit: 1})
		if page.Total != 0 {
			t.Errorf("%d jobs stayed", page.Total)
		}
		return err
	})
}
