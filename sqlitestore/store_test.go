package sqlitestore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
	_ "modernc.org/sqlite"
)

// open opens a store in a new folder and checks the file when the test is over.
func open(t *testing.T) *sqlitestore.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o?% #.db")
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close() // the test's own Close is the one that is judged
		integrity(t, path)
	})
	return s
}

// integrity runs SQLite's own check over a file that nobody holds.
func integrity(t *testing.T, path string) {
	t.Helper()
	name := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	db, err := sql.Open("sqlite", "file:"+name+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: %s, %v", verdict, err)
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) job.Store { return open(t) })
}

// What was answered is there after the process and its store are gone.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.db")
	var ids []job.ID
	for range 3 {
		s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		j := storetest.New(t, "q", nil)
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
			t.Fatal(err)
		}
		if j.Seq != int64(len(ids)+1) {
			t.Errorf("place %d after %d jobs: the line must go on over a restart", j.Seq, len(ids))
		}
		ids = append(ids, j.ID)
		storetest.Audit(t, s)
		if err := s.View(t.Context(), func(tx job.ReadTx) error {
			for _, id := range ids {
				if _, err := tx.Job(id); err != nil {
					return err
				}
			}
			es, err := tx.Events(job.EventFilter{Limit: 10})
			if err == nil && len(es) != len(ids) {
				t.Errorf("%d events, want %d", len(es), len(ids))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(path + "-wal"); len(left) > 0 {
		if st, _ := os.Stat(left[0]); st.Size() > 0 {
			t.Errorf("a closed store leaves %d bytes in its log", st.Size())
		}
	}
}

// Each refusal is one sentence with what to do, and leaves the file as it was.
func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, script ...string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, q := range script {
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	written := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newer := filepath.Join(dir, "newer.db")
	s, err := sqlitestore.Open(t.Context(), newer, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	made("newer.db", "PRAGMA user_version = 999")
	const ours = "PRAGMA application_id = 0x4f555452"

	for name, tt := range map[string]struct{ path, says string }{
		"newer schema":          {newer, "has schema 999, this outrider knows 6; start a newer outrider"},
		"no schema":             {made("none.db", ours, "CREATE TABLE jobs (id)"), "has schema 0, so it was written by a build of outrider from before the first release, this one reads schema 1 to 6; start with a new file, this one was not changed"},
		"another program's":     {made("theirs.db", "PRAGMA application_id = 7", "CREATE TABLE t (x)"), "is a SQLite database of another program"},
		"an app's":              {made("shop.db", "CREATE TABLE orders (id)"), "is a SQLite database of another program"},
		"no database":           {written("notes.txt", strings.Repeat("plain text ", 20)), "is not a SQLite database; choose another file"},
		"shorter than a header": {written("short.db", "SQLite"), "is not a SQLite database"},
		"two names":             {linked(t, dir), "is one file with 2 names (hard links)"},
		"a device":              {os.DevNull, "is not a plain file"},
		"no name":               {"", "a database needs a file"},
		"in memory":             {":memory:", "a database needs a file"},
		"an app's log":          {unflushed(t, dir), "is a SQLite database of another program"},
		"no folder":             {filepath.Join(dir, "none", "o.db"), "the folder of the database"},
		"folder is a file":      {filepath.Join(dir, "notes.txt", "o.db"), "notes.txt"},
	} {
		before, _ := os.ReadFile(tt.path)
		s, err := sqlitestore.Open(t.Context(), tt.path, sqlitestore.Options{})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(tt.path); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// A file that another process has made and left before its schema is taken up.
func TestHalfMadeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "half.db")
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 0"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

func TestSecondHolderIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.db")
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		_, err = sqlitestore.Open(t.Context(), p, sqlitestore.Options{})
		want := fmt.Sprintf("is in use by another outrider (process %d); stop that one first", os.Getpid())
		if job.KindOf(err) != job.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("second holder of %s: %v", p, err)
		}
	}
	_ = s.Close()
	s, err = sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	_ = s.Close()
	for _, name := range []string{path, path + ".lock"} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}

// linked is an empty file with two names.
func linked(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "one.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, filepath.Join(dir, "two.db")); err != nil {
		t.Fatal(err)
	}
	return path
}

// unflushed is another program's database all of which is still in its log.
func unflushed(t *testing.T, dir string) string {
	t.Helper()
	from, to := filepath.Join(dir, "live.db"), filepath.Join(dir, "crashed.db")
	db, err := sql.Open("sqlite", from+"?_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (id)"); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// What a caller of another process is told of an error names none of the store's files,
// whether it wrote or read.
func TestNoErrorNamesTheFilesOutside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bad := job.Errorf(job.Unavailable, "the database %s and its log %s-wal in %s are gone", path, path, filepath.Dir(path))
	for name, err := range map[string]error{"write": s.Update(t.Context(), func(job.Tx) error { return bad }), "read": s.View(t.Context(), func(job.ReadTx) error { return bad })} {
		var e *job.Error
		if !errors.As(err, &e) || e.Error() != bad.Error() || e.Outside() != "the database and its log in its folder are gone" {
			t.Errorf("%s: %v, outside %q", name, err, e.Outside())
		}
	}
}
