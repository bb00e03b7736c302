package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// counted is what a store tells beside its jobs: all events, and a queue's counters.
func counted(t *testing.T, s job.Store, queue string) (text string) {
	t.Helper()
	view(t, s, func(tx job.ReadTx) error {
		es, err := tx.Events(job.EventFilter{Limit: 1000})
		if err != nil {
			return err
		}
		q, err := tx.Queue(queue)
		text = fmt.Sprintf("%+v\n%v dead %d", es, q.Counts, q.Dead)
		return err
	})
	return text
}

func failedCall(t *testing.T, s job.Store) {
	keep := New(t, "q", nil)
	insert(t, s, keep)
	before := counted(t, s, "q")
	mine := errors.New("changed my mind")
	j := New(t, "q", nil)
	err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.InsertJob(j); err != nil {
			return err
		}
		k, err := tx.Job(keep.ID)
		if err != nil {
			return err
		}
		if err := k.Cancel(Now, "", ""); err != nil {
			return err
		}
		if err := tx.UpdateJob(k); err != nil {
			return err
		}
		return job.Errorf(job.Conflict, "no: %w", mine)
	})
	if !errors.Is(err, mine) || job.KindOf(err) != job.Conflict {
		t.Errorf("the error did not come back: %v", err)
	}
	if got := read(t, s, keep.ID); got.State != job.Available {
		t.Errorf("an update stayed: %s", got.State)
	}
	if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(j.ID); return err }); job.KindOf(err) != job.NotFound {
		t.Errorf("an insert stayed: %v", err)
	}
	if after := counted(t, s, "q"); after != before {
		t.Errorf("events or counters stayed:\n%s\nbefore:\n%s", after, before)
	}
	// What was read and changed in the failed call must not be what the next one sees.
	update(t, s, func(tx job.Tx) error {
		if k, err := tx.Job(keep.ID); err != nil || k.State != job.Available {
			t.Errorf("the next call sees %v, %v", k, err)
		}
		return nil
	})
}

func panickingCall(t *testing.T, s job.Store) {
	insert(t, s, New(t, "q", nil))
	before := counted(t, s, "q")
	j := New(t, "q", nil)
	err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.InsertJob(j); err != nil {
			return err
		}
		panic("a fault in a rule")
	})
	if err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("got %v", err)
	}
	if after := counted(t, s, "q"); after != before {
		t.Errorf("events or counters stayed:\n%s\nbefore:\n%s", after, before)
	}
	insert(t, s, New(t, "q", nil))
	if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(j.ID); return err }); job.KindOf(err) != job.NotFound {
		t.Errorf("the insert stayed: %v", err)
	}
}

func leftCaller(t *testing.T, s job.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	err := s.Update(ctx, func(job.Tx) error { ran = true; return nil })
	if job.KindOf(err) != job.Unavailable || !errors.Is(err, context.Canceled) || ran {
		t.Errorf("ran %v, %v", ran, err)
	}
}

// failingNeighbour mixes calls that succeed with calls that fail after their
// write, from many goroutines, so that they share commits.
func failingNeighbour(t *testing.T, s job.Store) {
	const callers, each = 32, 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	want := map[job.ID]bool{}
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				j := New(t, fmt.Sprint("q", c%3), nil)
				bad := (c+i)%5 == 0
				err := s.Update(context.Background(), func(tx job.Tx) error {
					if err := tx.InsertJob(j); err != nil {
						return err
					}
					if bad {
						return job.Errorf(job.Conflict, "refused after the write")
					}
					return nil
				})
				if (err != nil) != bad {
					t.Errorf("bad %v, got %v", bad, err)
				}
				mu.Lock()
				want[j.ID] = !bad
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	view(t, s, func(tx job.ReadTx) error {
		for id, there := range want {
			if _, err := tx.Job(id); (err == nil) != there {
				t.Errorf("%s: there %v, want %v", id, err == nil, there)
			}
		}
		return nil
	})
}

func snapshot(t *testing.T, s job.Store) {
	j := New(t, "q", nil)
	insert(t, s, j)
	view(t, s, func(tx job.ReadTx) error {
		before, err := tx.Job(j.ID)
		if err != nil {
			return err
		}
		change(t, s, j.ID, func(j *job.Job) error { return j.Cancel(Now, "", "") })
		after, err := tx.Job(j.ID)
		if err != nil || after.State != before.State {
			t.Errorf("inside one view the job went from %s to %s, %v", before.State, after.State, err)
		}
		return nil
	})
	if got := read(t, s, j.ID); got.State != job.Cancelled {
		t.Errorf("the next view sees %s", got.State)
	}
}

func closed(t *testing.T, s job.Store) {
	insert(t, s, New(t, "q", nil))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Update(ctx, func(job.Tx) error { return nil }); job.KindOf(err) != job.Unavailable {
		t.Errorf("update: %v", err)
	}
	if err := s.View(ctx, func(job.ReadTx) error { return nil }); err == nil {
		t.Error("a view of a closed store succeeded")
	}
}
