package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// write commits n jobs of some size, each in a transaction of its own.
func write(t *testing.T, s *Store, n int) {
	t.Helper()
	for range n {
		err := s.Update(t.Context(), func(tx job.Tx) error {
			for range 20 {
				j := storetest.New(t, "q", nil)
				j.Args = fmt.Appendf(nil, `[%q]`, strings.Repeat("x", 12_000))
				if err := tx.InsertJob(j); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// another is a connection of the test's own.
func another(t *testing.T, s *Store) driver.Conn {
	t.Helper()
	c, err := newConnector(s.path, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The log does not grow with what is written, and the pages that have been moved
// by the checkpointer are whole.
func TestTheLogBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		third := another(t, s)
		for last, began, n := int64(0), 0, 0; began < 2; n++ {
			write(t, s, 10)
			time.Sleep(logPause) // the checkpointer looks
			synctest.Wait()
			pages, _, err := checkpoint(third, "NOOP")
			if err != nil || pages > 2*logPages || n > 500 {
				t.Fatalf("round %d: the log has %d pages, and has begun anew %d times; %v", n, pages, began, err)
			}
			if pages < last {
				began++
			}
			last = pages
		}
		if ok, err := one(third, "PRAGMA integrity_check"); ok != "ok" || err != nil {
			t.Errorf("integrity: %v, %v", ok, err)
		}
		storetest.Audit(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A log that has grown because somebody read what it held begins anew soon after,
// although not much of it is left to be moved and little more is written.
func TestAGrownLogBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		third, reader := another(t, s), another(t, s)
		look := func() (pages, moved int64) {
			t.Helper()
			time.Sleep(2 * logPause)
			synctest.Wait()
			pages, moved, err := checkpoint(third, "NOOP")
			if err != nil {
				t.Fatal(err)
			}
			return pages, moved
		}
		grow := func(to int64) {
			for pages := int64(0); pages < to; pages, _ = look() {
				write(t, s, 10)
			}
		}
		read := func(sql string) {
			t.Helper()
			if err := script(reader, sql); err != nil {
				t.Fatal(err)
			}
		}
		read("BEGIN; SELECT count(*) FROM jobs")
		grow(logPages + 6000)
		read("COMMIT; BEGIN; SELECT count(*) FROM jobs")
		grow(2*logPages + 1)
		if pages, moved := look(); moved < logPages || pages-moved >= logPages {
			t.Fatalf("%d of %d pages are moved, which proves nothing", moved, pages)
		}
		read("COMMIT")
		for range 3 {
			write(t, s, 1)
			look()
		}
		if pages, moved := look(); pages > logPages {
			t.Errorf("the log has %d pages, of which %d are moved", pages, moved)
		}
	})
}

// What was written while the checkpointer worked is moved by the writer.
func TestTheWriterMovesTheRest(t *testing.T) {
	s := opened(t)
	third := another(t, s)
	write(t, s, 2)
	s.w.finish.Store(true)
	write(t, s, 1)
	if pages, moved, err := checkpoint(third, "NOOP"); err != nil || pages == 0 || moved != pages {
		t.Errorf("the log has %d pages, and %d have been moved; %v", pages, moved, err)
	}
	if s.w.finish.Load() {
		t.Error("it would be done again")
	}
}

// Close ends a checkpointer in the middle of its pause.
func TestCloseDoesNotWaitForALook(t *testing.T) {
	s := opened(t)
	write(t, s, 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-s.checkpoints.ended:
	default:
		t.Error("the checkpointer works on")
	}
}
