package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// waiting lets jobs wait for another, move behind a third, go on and be deleted,
// also in calls that fail and in ones that ask before they are stored.
func waiting(t *testing.T, s job.Store) {
	first, third := New(t, "q", nil), New(t, "q", nil)
	behind := func(other *job.Job) *job.Job {
		j := New(t, "q", func(j *job.Job) { j.Hold = true })
		j.After = other.ID
		return j
	}
	a, b := behind(first), behind(first)
	b.Queue = "other"
	is := func(tx job.Tx, what string, of *job.Job, want ...*job.Job) error {
		got, err := tx.Waiting(of.ID)
		if !slices.Equal(ids(got...), ids(want...)) {
			t.Errorf("%s: %v wait, want %v", what, ids(got...), ids(want...))
		}
		return err
	}
	no := errors.New("no")
	for _, fails := range []error{no, nil} {
		err := s.Update(t.Context(), func(tx job.Tx) error {
			_, err := tx.InsertJobs([]*job.Job{first.Clone(), third.Clone(), a.Clone(), b.Clone()})
			return errors.Join(is(tx, "in the call that stores them", first, a, b), err, fails)
		})
		if !errors.Is(err, fails) {
			t.Fatal(err)
		}
	}
	update(t, s, func(tx job.Tx) error {
		j, err := tx.Job(a.ID)
		if err != nil {
			return err
		}
		if !j.DueAt.IsZero() || j.After != first.ID {
			t.Errorf("it waits for %s, and is due at %s", j.After, j.DueAt)
		}
		if err := j.Follow(third.ID, Now); err != nil {
			return err
		}
		return errors.Join(tx.RewriteJob(j), is(tx, "after one has moved", first, b), is(tx, "behind the third", third, a))
	})
	update(t, s, func(tx job.Tx) error {
		j, err := tx.Job(b.ID)
		if err != nil {
			return err
		}
		if err := j.Follow("", Now); err != nil {
			return err
		}
		return errors.Join(tx.UpdateJob(j), is(tx, "after one went on", first))
	})
	update(t, s, func(tx job.Tx) error {
		return errors.Join(is(tx, "later", third, a), tx.DeleteJob(a.ID), is(tx, "after one was deleted", third))
	})
	update(t, s, func(tx job.Tx) error { return is(tx, "in the end", third) })
}
