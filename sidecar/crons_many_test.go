package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// many is how many schedules of one instant the tests have.
const many = 400

// manyOf runs a sidecar with n schedules of every minute, in a bubble that begins
// at a whole minute, until a second before they are due.
func manyOf(t *testing.T, n int, test func(t *testing.T, s *Sidecar)) {
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := New(store, Options{})
		for i := range n {
			_, _, err := s.PutCron(t.Context(), job.CronSpec{Name: fmt.Sprint("c", i), Expression: "* * * * *",
				Template: json.RawMessage(`{"type":"report.generate","args":[],"options":{"queue":"mail"}}`)})
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(59 * time.Second)
		test(t, s)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		storetest.Audit(t, store)
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// waiting is how many jobs anybody can see.
func waiting(t *testing.T, s *Sidecar) int64 {
	t.Helper()
	page, err := s.Jobs(t.Context(), job.Filter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return page.Total
}

func TestManySchedulesOfOneInstant(t *testing.T) {
	manyOf(t, many, func(t *testing.T, s *Sidecar) {
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		if n := waiting(t, s); n != 0 {
			t.Errorf("%d jobs before their time", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := waiting(t, s); n != many {
			t.Errorf("%d jobs at their time, want %d", n, many)
		}
		jobs, err := s.Fetch(t.Context(), job.FetchRequest{Queues: []string{"mail"}, Count: 1})
		if err != nil || len(jobs) != 1 || !jobs[0].CreatedAt.Equal(time.Now()) {
			t.Errorf("got %v, %v", jobs, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := waiting(t, s); n != many { // they skip: nothing has ended
			t.Errorf("%d jobs a minute later, want %d", n, many)
		}
	})
}

// Nothing is held open before the instant: whoever writes then waits for nobody.
func TestManySchedulesHoldUpNobody(t *testing.T) {
	manyOf(t, many, func(t *testing.T, s *Sidecar) {
		time.Sleep(time.Second - 3*time.Millisecond)
		before := time.Now()
		e := job.Envelope{Type: "email.send", Queue: "other", Args: json.RawMessage(`[]`)}
		if _, err := s.Enqueue(t.Context(), e); err != nil {
			t.Error(err)
		}
		if d := time.Since(before); d > 2*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		if n := waiting(t, s); n != 1 {
			t.Errorf("%d jobs, want the one that was pushed", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := waiting(t, s); n != many+1 {
			t.Errorf("%d jobs after their time, want %d", n, many+1)
		}
		for _, name := range []string{"c0", fmt.Sprint("c", many-1)} {
			if c, err := s.Cron(t.Context(), name); err != nil || c.RunCount != 1 {
				t.Errorf("%+v, %v", c, err)
			}
		}
	})
}

// What is due at one instant is stored in transactions of bounded size, so that
// others get their turn between them.
func TestManySchedulesAreStoredInSlices(t *testing.T) {
	t.Parallel()
	w, f := fickleWorld(t, Options{})
	const n = 2500
	err := w.store.Update(t.Context(), func(tx job.Tx) error {
		for i := range n {
			c := &job.Cron{CreatedAt: genesis, UpdatedAt: genesis, AnchorAt: genesis, SeenAt: genesis, NextRunAt: genesis.Add(time.Minute), CronSpec: job.CronSpec{
				Name: fmt.Sprint("c", i), Expression: "* * * * *", Timezone: "UTC", Overlap: job.OverlapSkip, Template: []byte(`{"type":"a.b","args":[]}`)}}
			if err := tx.PutCron(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.set(genesis.Add(time.Minute))
	var sizes []int
	f.fail = func() error { sizes = append(sizes, 0); return nil }
	f.insert = func(js []*job.Job) error { sizes[len(sizes)-1] += len(js); return nil }
	w.tock()
	if got := waiting(t, w.Sidecar); got != n {
		t.Errorf("%d jobs, want %d", got, n)
	}
	if len(sizes) < 3 || slices.Max(sizes) > 1000 {
		t.Errorf("stored in transactions of %v", sizes)
	}
}
