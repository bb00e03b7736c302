package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// storeOf makes a store with so many jobs, and closes it.
func storeOf(t *testing.T, path string, jobs int) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range jobs {
		if err := s.Update(t.Context(), func(tx job.Tx) error {
			return tx.InsertJob(storetest.New(t, fmt.Sprint("q", n%3), nil))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// crashed leaves the store at path as a process that was killed does, with a log that holds jobs.
func crashed(t *testing.T, path string, jobs int) {
	t.Helper()
	s, err := Open(t.Context(), path+".live", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range jobs {
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(storetest.New(t, "q", nil)) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + ".live" + suffix)
		if err == nil {
			err = os.WriteFile(path+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// jobsAt is how many jobs the store at path holds, as a server that opens it finds.
func jobsAt(t *testing.T, path string) (n int64) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.Audit(t, s)
	if err := s.View(t.Context(), func(tx job.ReadTx) error {
		qs, err := tx.Queues()
		for _, q := range qs {
			n += q.Depth()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBackupAndRestoreOfAStoreAtRest(t *testing.T) {
	dir := t.TempDir()
	db, copied := filepath.Join(dir, "o.db"), filepath.Join(dir, "b", "copy.db")
	storeOf(t, db, 7)
	if err := os.Mkdir(filepath.Dir(copied), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied+".part", []byte("left by one that was killed"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Backup(t.Context(), db, copied, BackupOptions{})
	if err != nil || f.Jobs != 7 || f.Queues != 3 || f.Events != 7 {
		t.Fatalf("a backup holds %+v, %v; want 7 jobs", f, err)
	}
	if st, err := os.Stat(copied); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("its file is %v, %v; want 0600", st.Mode(), err)
	}
	if names, _ := filepath.Glob(copied + "?*"); len(names) > 0 {
		t.Errorf("%v lie beside the backup", names)
	}
	if _, err := Backup(t.Context(), db, copied, BackupOptions{}); job.KindOf(err) != job.Conflict {
		t.Errorf("a second one: %v, want a Conflict", err)
	}
	for _, suffix := range []string{"", ".lock"} {
		if _, err := Backup(t.Context(), db, db+suffix, BackupOptions{Overwrite: true}); job.KindOf(err) != job.Conflict {
			t.Errorf("a backup over %q of the store: %v, want a Conflict", suffix, err)
		}
	}
	storeOf(t, db, 2)
	if _, err := Restore(t.Context(), copied, db, RestoreOptions{}); job.KindOf(err) != job.Conflict {
		t.Errorf("a restore over a store: %v, want a Conflict", err)
	}
	r, err := Restore(t.Context(), copied, db, RestoreOptions{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, kept := jobsAt(t, db), jobsAt(t, r.Kept); got != 7 || kept != 9 {
		t.Errorf("restored are %d jobs and kept %d, want 7 and 9", got, kept)
	}
	if st, err := os.Stat(db); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the restored file is %v, %v; want 0600", st.Mode(), err)
	}
}

// Wherever a restore is cut off, the store that is opened next is the whole of the one before or the whole of the
// backup, and the log of the one is never applied to the other.
func TestARestoreIsCutOffAnywhere(t *testing.T) {
	errCutOff := errors.New("cut off")
	var steps []string
	for cut := 0; cut <= len(steps); cut++ {
		dir := t.TempDir()
		db, from, copied := filepath.Join(dir, "o.db"), filepath.Join(dir, "from.db"), filepath.Join(dir, "copy.db")
		storeOf(t, from, 5)
		crashed(t, db, 11)
		if _, err := Backup(t.Context(), from, copied, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		n := 0
		restoreStep = func(name string) error {
			if n++; n > len(steps) {
				steps = append(steps, name)
			}
			if n == cut {
				return errCutOff
			}
			return nil
		}
		_, err := Restore(t.Context(), copied, db, RestoreOptions{Replace: true})
		restoreStep = func(string) error { return nil }
		if cut > 0 && !errors.Is(err, errCutOff) || cut == 0 && err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if got := jobsAt(t, db); got != 5 {
			t.Errorf("cut at %v: the store holds %d jobs, want the 5 of the backup", steps[:cut], got)
		}
		kept, _ := filepath.Glob(db + ".replaced-*")
		kept = slices.DeleteFunc(kept, func(name string) bool { return strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-shm") })
		if len(kept) != 1 {
			t.Fatalf("cut at %v: kept is %v, want one store", steps[:cut], kept)
		}
		if got := jobsAt(t, kept[0]); got != 11 {
			t.Errorf("cut at %v: the store that was replaced holds %d jobs, want 11: those in its log, too", steps[:cut], got)
		}
	}
	if len(steps) != 5 {
		t.Errorf("a restore has the steps %v", steps)
	}
}

func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	db, copied := filepath.Join(dir, "o.db"), filepath.Join(dir, "copy.db")
	storeOf(t, db, 300)
	if _, err := Backup(t.Context(), db, copied, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	before := mustRead(t, db)
	whole := mustRead(t, copied)
	for name, bad := range map[string][]byte{
		"cut":               whole[:len(whole)/2],
		"flipped":           flipPages(whole),
		"no file of SQLite": []byte("an archive of something else, and longer than a header of SQLite is, which has a hundred bytes in all"),
	} {
		if err := os.WriteFile(copied, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		if _, err := Restore(t.Context(), copied, db, RestoreOptions{Replace: true}); !errors.As(err, &damage) {
			t.Errorf("%s: %v, want damage", name, err)
		}
		if _, err := Verify(t.Context(), copied); !errors.As(err, &damage) {
			t.Errorf("verify %s: %v, want damage", name, err)
		}
	}
	if string(mustRead(t, db)) != string(before) {
		t.Error("a restore that was refused has changed the store")
	}
	if left, _ := filepath.Glob(db + ".re*"); len(left) > 0 {
		t.Errorf("%v were left", left)
	}
	if _, err := Restore(t.Context(), filepath.Join(dir, "none.db"), db, RestoreOptions{Replace: true}); job.KindOf(err) != job.NotFound {
		t.Errorf("no backup: %v, want NotFound", err)
	}
	if err := os.WriteFile(copied, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Restore(t.Context(), copied, db, RestoreOptions{Replace: true}); job.KindOf(err) != job.Conflict {
		t.Errorf("while a server has the store: %v, want a Conflict", err)
	}
}

// What SQLite's own check passes over is found: a counter and a row that tell different things.
func TestVerifyCounts(t *testing.T) {
	for _, harm := range []string{
		"UPDATE queues SET available = available + 1 WHERE name = 'q1'",
		"DELETE FROM job_states WHERE n = 3",
		"DELETE FROM job_bodies WHERE n = 3",
		"UPDATE job_states SET told = 4000 WHERE n = 2",
		"UPDATE job_states SET seq = 1, queue = 'q0' WHERE n = 4",
		"UPDATE job_states SET lease_token = 'x' WHERE n = 4",
		"UPDATE job_bodies SET retry = '{' WHERE n = 4",
		"UPDATE events SET packed = x'01ff' WHERE first = 2",
		"DROP INDEX jobs_due",
	} {
		db := filepath.Join(t.TempDir(), "o.db")
		storeOf(t, db, 9)
		if _, err := Verify(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		conn, err := connect(context.Background(), db, "")
		if err == nil {
			err = script(conn, harm)
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		if f, err := Verify(t.Context(), db); !errors.As(err, &damage) {
			t.Errorf("%s: %+v, %v; want damage", harm, f, err)
		}
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flipPages turns bits in the pages behind the first.
func flipPages(whole []byte) []byte {
	b := slices.Clone(whole)
	for at := pageSize; at < len(b); at += 600 {
		b[at] ^= 0x5a
	}
	return b
}
