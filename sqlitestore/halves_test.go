package sqlitestore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// A job of which a page has lost one row is told to whoever asks for it, given to
// nobody, and hides none of the others.
func TestHalfAJob(t *testing.T) {
	for _, table := range []string{"job_bodies", "job_states"} {
		t.Run("without its row of "+table, func(t *testing.T) {
			s := opened(t)
			var ids []job.ID
			for range 5 {
				j := storetest.New(t, "q", nil)
				ids = append(ids, j.ID)
				if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
					t.Fatal(err)
				}
			}
			s.w.forget() // as a start does
			run(t, s.w.conn, "DELETE FROM "+table+" WHERE n = 2")
			half := func(what string, err error) {
				t.Helper()
				if job.KindOf(err) != job.Unavailable {
					t.Errorf("%s: %v", what, err)
				}
			}
			ask := func(what string, fn func(job.Tx) error) error {
				t.Helper()
				err := s.Update(t.Context(), fn)
				if err != nil && job.KindOf(err) == job.Internal {
					t.Errorf("%s: %v", what, err)
				}
				return err
			}
			var claimed []job.ID
			if err := ask("claim", func(tx job.Tx) error {
				ready, err := tx.Available([]string{"q"}, 10)
				claimed = idsOf(ready)
				return err
			}); err != nil || slices.Contains(claimed, ids[1]) || len(claimed) != 4 {
				t.Errorf("claimed %v, %v, of %v", claimed, err, ids)
			}
			if table == "job_states" { // else there is nothing left of its id
				half("read", s.View(t.Context(), func(r job.ReadTx) error { _, err := r.Job(ids[1]); return err }))
				half("its history", s.View(t.Context(), func(r job.ReadTx) error { _, err := r.History(ids[1]); return err }))
				half("a list", s.View(t.Context(), func(r job.ReadTx) error { _, err := r.Jobs(job.Filter{Limit: 10}); return err }))
				half("read by the writer", ask("read", func(tx job.Tx) error { _, err := tx.Job(ids[1]); return err }))
				again := storetest.New(t, "q", func(j *job.Job) { j.ID = ids[1] })
				if err := ask("insert", func(tx job.Tx) error { return tx.InsertJob(again) }); err == nil {
					t.Error("its id is given to another")
				}
			}
			for _, id := range []job.ID{ids[0], ids[2], ids[4]} {
				if err := s.View(t.Context(), func(r job.ReadTx) error { _, err := r.Job(id); return err }); err != nil {
					t.Errorf("another: %v", err)
				}
			}
			for deadline := time.Now().Add(5 * time.Second); s.Trouble() == nil && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			if s.Trouble() == nil {
				t.Error("nobody is told")
			}
			if err := s.Relax(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
