package sqlitestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// pushed stores n jobs, each in a commit of its own.
func pushed(t *testing.T, s *Store, n int) (ids []job.ID) {
	t.Helper()
	for i := range n {
		j := big(t, i*1000)
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	return ids
}

// holds makes sure that a store has these jobs and is sound.
func holds(t *testing.T, s *Store, ids []job.ID) {
	t.Helper()
	for _, id := range ids {
		if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(id); return err }); err != nil {
			t.Errorf("an acknowledged job: %v", err)
		}
	}
	storetest.Audit(t, s)
}

// reopened closes a store and opens it again.
func reopened(t *testing.T, s *Store, path string) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Log("close:", err)
	}
	again, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// moveSome moves what the log holds, on a connection that is gone again.
func moveSome(t *testing.T, s *Store) {
	t.Helper()
	conn := another(t, s)
	if _, moved, err := checkpoint(conn, "PASSIVE"); err != nil || moved == 0 {
		t.Fatalf("%d pages were moved; %v", moved, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// After a failed flush nobody moves anything from the log, the close of the last
// connection neither: the files stay as they are for the next start, also for one
// in the same process, which trusts no mark of how much had been moved.
func TestAFailedStoreLeavesItsLogAlone(t *testing.T) {
	for _, at := range []string{"", "PASSIVE"} {
		t.Run("after "+at, func(t *testing.T) {
			s := opened(t)
			ids := pushed(t, s, 20)
			if at != "" {
				moveSome(t, s)
				ids = append(ids, pushed(t, s, 20)...)
			}
			_ = s.checkpoints.w.doubt(job.Errorf(job.Unavailable, "the disk failed"))
			s.w.finish.Store(true)
			db, log := contents(t, s.path), contents(t, s.path+"-wal")
			if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 1)) }); job.KindOf(err) != job.Unavailable {
				t.Errorf("a push: %v", err)
			}
			for _, mode := range []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"} {
				if _, _, err := s.w.move(s.w.conn, mode); err == nil {
					t.Errorf("%s is done", mode)
				}
			}
			if err := s.Close(); err != nil {
				t.Log("close:", err)
			}
			if !bytes.Equal(contents(t, s.path), db) || !bytes.Equal(contents(t, s.path+"-wal"), log) {
				t.Error("something was moved")
			}
			again := reopened(t, s, s.path)
			pages, moved, err := checkpoint(again.w.conn, "NOOP")
			if err != nil || moved != 0 || pages == 0 {
				t.Errorf("the next start takes %d of %d pages for moved; %v", moved, pages, err)
			}
			holds(t, again, ids)
		})
	}
}

// Another program that has the database open keeps the index of the log through a
// restart, and with it the count of the pages that were moved, perhaps without a
// flush that succeeded. The next start does not believe it either.
func TestAnIndexThatIsKeptIsNotBelieved(t *testing.T) {
	if path := os.Getenv("OUTRIDER_KEEP"); path != "" {
		c, err := newConnector(path, true)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := c.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := script(conn, "BEGIN; SELECT count(*) FROM jobs"); err != nil {
			t.Fatal(err)
		}
		fmt.Println("open")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	s := opened(t)
	ids := pushed(t, s, 20)
	other := exec.Command(os.Args[0], "-test.run", "^TestAnIndexThatIsKeptIsNotBelieved$", "-test.count", "1")
	other.Env = append(os.Environ(), "OUTRIDER_KEEP="+s.path)
	in, inErr := other.StdinPipe()
	out, outErr := other.StdoutPipe()
	if err := errors.Join(inErr, outErr, other.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), other.Wait()) }()
	if said := make([]byte, 5); func() error { _, err := io.ReadFull(out, said); return err }() != nil || string(said) != "open\n" {
		t.Fatalf("the other program says %q", said)
	}
	ids = append(ids, pushed(t, s, 20)...)
	moveSome(t, s) // up to what the other reads: the database is not flushed
	_ = s.w.doubt(job.Errorf(job.Unavailable, "the disk failed"))
	again := reopened(t, s, s.path)
	if pages, moved, err := checkpoint(again.w.conn, "NOOP"); err != nil || moved != 0 || pages == 0 {
		t.Errorf("the next start takes %d of %d pages for moved; %v", moved, pages, err)
	}
	holds(t, again, ids)
}

// A healthy store ends as one file.
func TestAHealthyStoreEndsWithoutALog(t *testing.T) {
	s := opened(t)
	ids := pushed(t, s, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(s.path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", suffix, err)
		}
	}
	holds(t, reopened(t, s, s.path), ids)
}

// Whatever file of a running store is removed, replaced or cut: nothing more is
// acknowledged, and what was acknowledged is kept, where it can be.
func TestLostFileIsNoticed(t *testing.T) {
	remove := func(_ *testing.T, path string) error { return os.Remove(path) }
	replace := func(t *testing.T, path string) error { return os.Rename(stranger(t, path), path) }
	copied := func(t *testing.T, path string) error {
		return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, contents(t, path+".away"), 0o600))
	}
	cut := func(length int64) func(*testing.T, string) error {
		return func(_ *testing.T, path string) error { return os.Truncate(path, length) }
	}
	for _, tt := range []struct {
		name, suffix, want string
		lose               func(*testing.T, string) error
		kept               bool // the next start has all
	}{
		{"the database removed", "", "was removed or replaced while it was in use", remove, false},
		{"the database replaced", "", "was removed or replaced while it was in use", replace, false},
		{"the log removed", "-wal", "-wal was removed or replaced while it was in use", remove, true},
		{"the log replaced", "-wal", "-wal was removed or replaced while it was in use", replace, true},
		{"the log replaced by its own copy", "-wal", "-wal was removed or replaced while it was in use", copied, true},
		{"the log emptied", "-wal", "-wal was cut while it was in use", cut(0), false},
		{"the log cut", "-wal", "-wal was cut while it was in use", cut(9000), false},
		{"the index removed", "-shm", "-shm was removed or replaced while it was in use", remove, true},
		{"the index replaced", "-shm", "-shm was removed or replaced while it was in use", replace, true},
	} {
		for _, moved := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: " after a part was moved"}[moved], func(t *testing.T) {
				s := opened(t)
				ids := pushed(t, s, 10)
				if moved {
					moveSome(t, s)
				}
				if err := tt.lose(t, s.path+tt.suffix); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10)) })
					if job.KindOf(err) != job.Unavailable {
						t.Errorf("a push: %v", err)
					}
				}
				gone(t, s)
				if err := s.Trouble(); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("told is %v", err)
				}
				if tt.kept {
					holds(t, reopened(t, s, s.path), ids)
				}
			})
		}
	}
}

// A log that is removed or replaced while nothing is written is seen by the close at
// the latest, and saved; also where the close comes while the store is failing.
func TestTheCloseSavesALostLog(t *testing.T) {
	for name, lose := range map[string]func(*Store) error{
		"unseen": func(s *Store) error { return os.Remove(s.path + "-wal") },
		"seen": func(s *Store) error {
			s.checkpoints.committed() // it is at work
			err := os.Remove(s.path + "-wal")
			s.w.present()
			return err
		},
		"replaced": func(s *Store) error { return os.Rename(stranger(t, s.path+"-wal"), s.path+"-wal") },
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				s := opened(t)
				ids := pushed(t, s, 10)
				if err := lose(s); err != nil {
					t.Fatal(err)
				}
				holds(t, reopened(t, s, s.path), ids)
			}
		})
	}
}

// gone waits until a store has failed and what can be saved is.
func gone(t *testing.T, s *Store) {
	t.Helper()
	for _, done := range []<-chan struct{}{s.Failed(), s.checkpoints.ended} {
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("it was not noticed")
		}
	}
}

// stranger makes a file that is no log and no database beside path.
func stranger(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path+".other", []byte("dear diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path + ".other"
}

// What somebody has put in the place of a file is not destroyed.
func TestWhatReplacesAFileIsKept(t *testing.T) {
	t.Run("of the log", func(t *testing.T) {
		s := opened(t)
		ids := pushed(t, s, 10)
		if err := os.Rename(stranger(t, s.path+"-wal"), s.path+"-wal"); err != nil {
			t.Fatal(err)
		}
		gone(t, s) // nobody calls, and it is seen all the same
		holds(t, reopened(t, s, s.path), ids)
		if got := contents(t, s.path+"-wal.set-aside"); string(got) != "dear diary" {
			t.Errorf("it holds %q", got)
		}
	})
	t.Run("of the database", func(t *testing.T) {
		fresh := opened(t)
		backup := pushed(t, fresh, 3)
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
		s := opened(t)
		ids := pushed(t, s, 10)
		away := filepath.Join(t.TempDir(), "away.db")
		if err := errors.Join(os.Rename(s.path, away), os.Rename(fresh.path, s.path)); err != nil {
			t.Fatal(err)
		}
		gone(t, s)
		restored := reopened(t, s, s.path)
		holds(t, restored, backup)
		if err := restored.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Job(ids[0]); return err }); job.KindOf(err) != job.NotFound {
			t.Errorf("a job of the old file in the new one: %v", err)
		}
		old, err := Open(t.Context(), away, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		holds(t, old, ids)
	})
}

// A log that another program has moved into the database, and begun anew, is not lost.
func TestAnotherProgramMayMoveTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		third := another(t, s)
		var ids []job.ID
		for _, mode := range []string{"TRUNCATE", "PASSIVE", "TRUNCATE", "RESTART"} {
			ids = slices.Concat(ids, pushed(t, s, 30))
			if _, _, err := checkpoint(third, mode); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, pushed(t, s, 3)...)
		}
		if err := s.Trouble(); err != nil {
			t.Error(err)
		}
		holds(t, s, ids)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What a commit costs, and how much of it are the looks at the files.
func BenchmarkCommit(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "o.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if err := s.Update(b.Context(), func(tx job.Tx) error {
				return tx.AddEvent(job.WorkerEvent(job.WorkerStarted, "w", storetest.Now))
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("looks", func(b *testing.B) {
		for b.Loop() {
			if err := errors.Join(s.w.before(), s.w.after()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
