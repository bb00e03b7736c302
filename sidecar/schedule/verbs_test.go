package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
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

// A verb whose reading of the schedules panics, as a handler may survive, leaves the
// others their turn.
func TestAPanicLeavesTheSchedulesFree(t *testing.T) {
	t.Parallel()
	broken := true
	s := hosted(t, func(h *Host) {
		view := h.View
		h.View = func(ctx context.Context, fn func(job.ReadTx) error) error {
			if broken {
				panic("a row that nobody foresaw")
			}
			return view(ctx, fn)
		}
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _, _ = s.PutCron(t.Context(), job.CronSpec{Name: "c", Expression: "* * * * *", Template: json.RawMessage(`{"type":"a.b","args":[]}`)})
	}()
	broken = false
	if !s.verbs.TryLock() {
		t.Fatal("the schedules are locked for ever")
	}
	s.verbs.Unlock()
	put(t, s, "c")
}

// aFiring marks the context of what Run does.
type aFiring struct{}

// badRows is a transaction in which some jobs cannot be read.
type badRows struct {
	Tx
	bad func(job.ID) bool
}

func (t badRows) Job(id job.ID) (*job.Job, error) {
	if t.bad(id) {
		return nil, job.Errorf(job.Unavailable, "job %s cannot be read", id)
	}
	return t.Tx.Job(id)
}

// A schedule whose last job cannot be read does not hold up the others, wherever it
// stands among them; neither do several.
func TestDamagedLastJobHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, damaged := range map[string][]int{"the first": {0}, "the last": {19}, "some": {0, 1, 7, 8, 12}, "many in front": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.UnixMilli(1_800_000_000_000).UTC()
			bad := map[job.ID]bool{}
			s := hosted(t, func(h *Host) {
				update := h.Update
				h.Now = func() time.Time { return now }
				h.Update = func(ctx context.Context, fn func(Tx) error) error {
					return update(ctx, func(tx Tx) error { return fn(badRows{tx, func(id job.ID) bool { return bad[id] }}) })
				}
			})
			names := make([]string, 20)
			for i := range names {
				names[i] = fmt.Sprintf("c%02d", i)
				if _, _, err := s.PutCron(t.Context(), job.CronSpec{Name: names[i], Expression: "* * * * *", Overlap: job.OverlapCancel, Template: json.RawMessage(`{"type":"a.b","args":[]}`)}); err != nil {
					t.Fatal(err)
				}
			}
			runs := func(i int) int64 {
				c, err := s.Cron(t.Context(), names[i])
				if err != nil {
					t.Fatal(err)
				}
				return c.RunCount
			}
			now = now.Add(time.Minute)
			s.Fire(t.Context())
			for _, i := range damaged {
				bad[s.table.byName[names[i]].cron.LastJob] = true
			}
			for range 63 { // the next tick, and some seconds
				now = now.Add(time.Second)
				s.Fire(t.Context())
			}
			for i := range names {
				want := int64(2)
				if slices.Contains(damaged, i) {
					want = 1
				}
				if got := runs(i); got != want {
					t.Errorf("%s has run %d times, want %d", names[i], got, want)
				}
			}
			clear(bad)
			now = now.Add(time.Minute)
			s.Fire(t.Context())
			for i := range names {
				if got := runs(i); got < 2 {
					t.Errorf("%s has not run after its job could be read again", names[i])
				}
			}
		})
	}
}

// While nothing at all can be stored, schedules do not try one after the other, and
// all of them fire once that is over.
func TestStoreThatFailsIsNotAskedForEachSchedule(t *testing.T) {
	t.Parallel()
	now, down, asked := time.UnixMilli(1_800_000_000_000).UTC(), false, 0
	s := hosted(t, func(h *Host) {
		update := h.Update
		h.Now = func() time.Time { return now }
		h.Update = func(ctx context.Context, fn func(Tx) error) error {
			asked++
			return update(ctx, func(tx Tx) error {
				err := fn(tx)
				if err == nil && down { // as where the commit fails
					err = unavailable()
				}
				return err
			})
		}
	})
	for i := range 200 {
		put(t, s, fmt.Sprint("c", i))
	}
	down, asked = true, 0
	now = now.Add(time.Second)
	if wait := s.Fire(t.Context()); asked > 30 || wait != pause {
		t.Errorf("the store was asked %d times for 200 schedules, and is again in %s", asked, wait)
	}
	down = false
	now = now.Add(pause)
	s.Fire(t.Context())
	all, err := s.Crons(t.Context(), job.CronFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Crons {
		if c.RunCount == 0 {
			t.Errorf("%s has not run", c.Name)
		}
	}
}

// A stored schedule that cannot be read does not keep the others from being loaded,
// and is told once.
func TestUnreadableScheduleHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	now, told := time.UnixMilli(1_800_000_000_000).UTC(), bytes.Buffer{}
	first := hosted(t, func(h *Host) { h.Now = func() time.Time { return now } })
	put(t, first, "bad")
	put(t, first, "good")
	h := first.host
	h.Log = slog.New(slog.NewTextHandler(&told, nil))
	h.View = func(ctx context.Context, fn func(job.ReadTx) error) error {
		return first.host.View(ctx, func(tx job.ReadTx) error { return fn(oneUnreadable{tx}) })
	}
	s := New(h, nil)
	for range 3 {
		now = now.Add(time.Second)
		s.Fire(t.Context())
	}
	c, err := s.Cron(t.Context(), "good")
	if err != nil || c.RunCount != 3 {
		t.Errorf("%+v, %v; want 3 runs", c, err)
	}
	if n := strings.Count(told.String(), "bad"); n != 1 {
		t.Errorf("told %d times: %s", n, &told)
	}
}

// oneUnreadable lists all schedules but one that cannot be read.
type oneUnreadable struct{ job.ReadTx }

func (t oneUnreadable) Crons() ([]*job.Cron, error) {
	all, err := t.ReadTx.Crons()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c *job.Cron) bool { return c.Name == "bad" }), job.Errorf(job.Unavailable, "the schedule bad cannot be read")
}
