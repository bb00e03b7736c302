package sqlitestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// guarded opens a store whose guard looks only when it is asked, and keeps its log.
func guarded(t *testing.T) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), Options{Log: slog.New(slog.NewTextHandler(&log, nil)), alone: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, &log
}

// proof is the mark of the last probe that was stored.
func proof(t *testing.T, s *Store) int64 {
	t.Helper()
	var n int64
	if err := s.readers.Get(&n, "SELECT coalesce(max(value), 0) FROM marks WHERE name = 'probe'"); err != nil {
		t.Fatal(err)
	}
	return n
}

// rested makes the last write, and the last probe, long ago.
func rested(s *Store) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.w.gauge.started = s.w.gauge.started.Add(-time.Hour)
	s.guard.looked = time.Time{}
	if s.guard.probing != nil {
		s.guard.probing.began = time.Time{}
	}
}

// Whoever asks how the store is costs it one small write a second at most, and
// none where something else was written.
func TestAProbeIsShared(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	var all sync.WaitGroup
	turns := s.w.gauge.turns.Load()
	for range 50 {
		all.Go(func() {
			if err := s.Probe(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.w.gauge.turns.Load() - turns; n != 4 || proof(t, s) == 0 { // lock, work, commit, rest
		t.Errorf("the writer took %d steps, and the mark is %d", n, proof(t, s))
	}
	rested(s)
	before := proof(t, s)
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10)) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(t.Context()); err != nil || proof(t, s) != before {
		t.Errorf("beside a job that was just stored: %v, a probe was written: %v", err, proof(t, s) != before)
	}
	rested(s)
	if err := s.Update(t.Context(), func(job.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(t.Context()); err != nil || proof(t, s) == before {
		t.Errorf("a transaction that wrote nothing was taken for a proof: %v", err)
	}
}

// Space that ends is told before a write fails, once, and once when there is
// enough again, which is a little more.
func TestSpaceIsToldBeforeItEnds(t *testing.T) {
	t.Parallel()
	s, log := guarded(t)
	free, total := uint64(1<<30), uint64(1<<34)
	s.guard.size = func(string) (uint64, uint64, error) { return free, total, nil }
	for _, step := range []struct {
		free, total uint64
		well        bool
	}{{1 << 30, 1 << 34, true}, {16 << 20, 1 << 34, true}, {16<<20 - 1, 1 << 34, false}, {0, 1 << 34, false}, {16 << 20, 1 << 34, false}, {20 << 20, 1 << 34, true}, {17 << 20, 1 << 34, true},
		{1 << 20, 16 << 20, true}, {1<<20 - 1, 16 << 20, false}, {2 << 20, 16 << 20, true}} {
		rested(s)
		free, total = step.free, step.total
		if err := s.Probe(t.Context()); (err == nil) != step.well || err != nil && !strings.Contains(err.Error(), megabytes(step.free)+" are free") {
			t.Errorf("%s of %s: %v", megabytes(step.free), megabytes(step.total), err)
		}
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10)) }); err != nil {
			t.Errorf("%s of %s: a job that fits: %v", megabytes(step.free), megabytes(step.total), err)
		}
	}
	if w, i := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=INFO msg=\"there is room"); w != 2 || i != 2 {
		t.Errorf("%d warnings and %d ends for two troubles:\n%s", w, i, log)
	}
	free, total = 0, 0
	s.guard.size = func(string) (uint64, uint64, error) { return 0, 0, errors.ErrUnsupported }
	rested(s)
	if err := s.Probe(t.Context()); err != nil {
		t.Errorf("a system that does not tell: %v", err)
	}
}

// What the log holds needs room in the file: that counts as used.
func TestTheLogNeedsRoomInTheFile(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 900_000)) }); err != nil {
		t.Fatal(err)
	}
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	if n := s.guard.room(1 << 20); n < 890_000 || n > 2_000_000 {
		t.Errorf("a job of 900 KB in the log needs %d bytes of the file", n)
	}
	if n := s.guard.room(1 << 30); n != 0 {
		t.Errorf("where there is room enough, a log of 900 KB was looked at closer: it needs %d bytes", n)
	}
}

// A write for which there was no room is told, and forgotten with the next that is stored.
func TestARefusedWriteIsTold(t *testing.T) {
	t.Parallel()
	s, log := guarded(t)
	limit := func(pages int) {
		t.Helper()
		if _, err := one(s.w.conn, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(100)
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 900_000)) }); job.KindOf(err) != job.Unavailable {
		t.Fatalf("a job that does not fit: %v", err)
	}
	s.guard.look()
	if err := s.Trouble(); err == nil || !strings.Contains(err.Error(), "are free") {
		t.Errorf("after a write that did not fit: %v", err)
	}
	limit(1 << 20)
	if err := s.Probe(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if w, i := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=INFO"); w != 1 || i != 1 {
		t.Errorf("%d warnings and %d ends:\n%s", w, i, log)
	}
	storetest.Audit(t, s)
}

// A writer that waits is told by how long it has waited while this process ran,
// and by what it waits for.
func TestAWriterThatWaitsIsTold(t *testing.T) {
	t.Parallel()
	for at, want := range map[step]string{locking: "holds the lock", committing: "is slow or stuck", working: "", resting: ""} {
		s, _ := guarded(t)
		g := s.guard
		s.w.gauge.step.Store(int32(at))
		wait := func(ticks int, of time.Duration) {
			for range ticks {
				g.mu.Lock()
				g.ticked = time.Now().Add(-of)
				g.mu.Unlock()
				g.look()
			}
		}
		wait(2, time.Hour) // as a process that was stopped sees it
		if err := s.Trouble(); err != nil {
			t.Errorf("step %d, stopped for two hours: %v", at, err)
		}
		wait(8, guardTick)
		if err := s.Trouble(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("step %d, after two seconds: %v, want %q", at, err, want)
		}
		if degraded := errors.Is(s.Trouble(), job.ErrDegraded); degraded != (at == committing) {
			t.Errorf("step %d: degraded is %v", at, degraded)
		}
		s.w.gauge.step.Store(int32(resting))
	}
}
