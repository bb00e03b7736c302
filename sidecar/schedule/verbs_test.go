package schedule

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// hosted makes schedules over a store of their own; change may be nil.
func hosted(t *testing.T, change func(*Host)) *Schedules {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := Host{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
		NewID: func() job.ID { return job.ID(uuid.Must(uuid.NewV7()).String()) }, View: store.View,
		Update: host{Store: store, fail: func() error { return nil }}.update,
		Admit:  func(context.Context, *job.Checked) error { return nil }, Show: func(...*job.Job) {}}
	if change != nil {
		change(&h)
	}
	return New(h, nil)
}

// put stores a schedule that fires each second.
func put(t *testing.T, s *Schedules, name string) {
	t.Helper()
	if _, _, err := s.PutCron(t.Context(), job.CronSpec{Name: name, Expression: "* * * * * *", Overlap: job.OverlapAllow, Template: json.RawMessage(`{"type":"a.b","args":[]}`)}); err != nil {
		t.Fatal(err)
	}
}

// A schedule that is removed leaves the store and the timetable under one lock: a
// PutCron of its name that came in between would be stored and never fire.
func TestDeletedInStoreAndTimetableAtOnce(t *testing.T) {
	t.Parallel()
	stored := make(chan struct{}, 2)
	s := hosted(t, func(h *Host) {
		update := h.Update
		h.Update = func(ctx context.Context, fn func(Tx) error) error {
			defer func() { stored <- struct{}{} }()
			return update(ctx, fn)
		}
	})
	put(t, s, "c")
	<-stored
	s.table.mu.Lock() // what was removed from the store cannot leave the timetable
	deleted := make(chan error, 1)
	go func() {
		_, err := s.DeleteCron(t.Context(), "c")
		deleted <- err
	}()
	<-stored
	for range 50 {
		if s.verbs.TryLock() {
			s.verbs.Unlock()
			t.Error("another verb may change the schedule while it is in the timetable, and not in the store")
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.table.mu.Unlock()
	if err := <-deleted; err != nil || s.table.byName["c"] != nil {
		t.Errorf("%v, and %v in the timetable", err, s.table.byName["c"])
	}
}

// A clock that is set back while schedules fail does not make the loop sleep until
// it stands again where it stood.
func TestClockSetBackWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		s := hosted(t, func(h *Host) {
			now, update := h.Now, h.Update
			h.Now = func() time.Time { return now().Add(-back) }
			h.Update = func(ctx context.Context, fn func(Tx) error) error {
				if ctx.Value(aFiring{}) != nil {
					back = time.Hour
					return unavailable()
				}
				return update(ctx, fn)
			}
		})
		put(t, s, "c")
		began := s.host.Now()
		ctx, stop := context.WithCancel(context.WithValue(t.Context(), aFiring{}, true))
		defer stop()
		go s.Run(ctx)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if back == 0 || !s.looked.Before(began) {
			t.Errorf("the clock stands %s behind, and was last looked at when it said %s", back, s.looked)
		}
	})
}

// aFiring marks the context of what Run does.
type aFiring struct{}
