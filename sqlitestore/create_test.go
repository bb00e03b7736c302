package sqlitestore_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"

	outrider "github.com/outrider-jobs/outrider"
)

// scripted opens a database that has no store in it, and runs statements on its one connection.
func scripted(t *testing.T, path string, script ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test may have closed it
	db.SetMaxOpenConns(1)
	for _, q := range script {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return db
}

// live is a database of which a copy is taken while it is open, as a process
// that is killed leaves it.
func live(t *testing.T, script ...string) map[string][]byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.db")
	db := scripted(t, path, script...)
	defer db.Close()
	files := map[string][]byte{}
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if b, err := os.ReadFile(path + suffix); err == nil {
			files[suffix] = b
		}
	}
	return files
}

// hot is a database whose first tables were written, and whose journal still says
// that they are to be undone.
func hot(t *testing.T) map[string][]byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hot.db")
	db := scripted(t, path)
	files := map[string][]byte{}
	for _, step := range []struct{ sql, keep string }{
		{sql: "PRAGMA auto_vacuum = INCREMENTAL; VACUUM; PRAGMA synchronous = OFF"},
		{"BEGIN; CREATE TABLE orders (id)", "-journal"},
		{"COMMIT", ""},
	} {
		if _, err := db.Exec(step.sql); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path + step.keep)
		if err != nil {
			t.Fatal(err)
		}
		files[step.keep] = b
	}
	return files
}

// Wherever a start was cut off, of this version or of one that made the store in
// its place, the next one has a whole store, and nothing of what was left is in it.
func TestAStartThatWasCutOff(t *testing.T) {
	wal := []string{"PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0"}
	vacuumed := append(slices.Clone(wal), "PRAGMA auto_vacuum = INCREMENTAL", "VACUUM")
	halfway := append(slices.Clone(vacuumed), "PRAGMA cache_size = 1", "BEGIN IMMEDIATE", outrider.Schema)
	for name, left := range map[string]map[string][]byte{
		"nothing":                       {},
		"an empty file":                 {"": nil},
		"the header, in WAL mode":       live(t, wal...),
		"an empty log":                  {"": live(t, wal...)[""], "-wal": nil},
		"a log with an empty database":  live(t, vacuumed...),
		"a schema that never committed": live(t, halfway...),
		"a commit that was not ended":   hot(t),
		"under the other name":          {".half-made": []byte("SQLite"), ".half-made-wal": []byte("x"), ".half-made-shm": nil, ".half-made-journal": []byte("y")},
		"after the other name was made": {"": nil, ".half-made": live(t, append(vacuumed, outrider.Schema)...)[""]},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "o.db")
			for suffix, b := range left {
				if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !s.Fresh() {
				t.Error("the store says that it was there before")
			}
			if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(storetest.New(t, "q", nil)) }); err != nil {
				t.Error(err)
			}
			storetest.Audit(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if names := names(t, path); !slices.Equal(names, []string{"o.db", "o.db.lock"}) {
				t.Errorf("a closed store is %v", names)
			}
			integrity(t, path)
		})
	}
}

// A store of a version that made it in its place, all of which is still in its log.
func TestAStoreThatIsAllInItsLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.db")
	left := live(t, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "PRAGMA auto_vacuum = INCREMENTAL", "VACUUM",
		"BEGIN IMMEDIATE", outrider.Schema, "PRAGMA application_id = 0x4f555452", "PRAGMA user_version = 6",
		"INSERT INTO marks (name, value) VALUES ('identity', 255)", "COMMIT")
	for suffix, b := range left {
		if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Fresh() || s.Identity() != "00000000000000ff" {
		t.Errorf("fresh %v, identity %s: another store was put in its place", s.Fresh(), s.Identity())
	}
}

// A log without its database is the only copy of what is in it.
func TestALogWithoutItsDatabase(t *testing.T) {
	log := live(t, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "CREATE TABLE orders (id)")["-wal"]
	for name, database := range map[string][]byte{"missing": nil, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "o.db")
			if database != nil {
				if err := os.WriteFile(path, database, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(path+"-wal", log, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "is missing or empty, but its log") {
				t.Errorf("opened: %v", err)
			}
			if after, err := os.ReadFile(path + "-wal"); err != nil || len(after) != len(log) {
				t.Errorf("the log has %d bytes of %d, %v", len(after), len(log), err)
			}
		})
	}
}

// A link is followed before the lock is taken, also to a file that does not exist yet.
func TestALinkToNoFileYet(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path, link, far := filepath.Join(dir, "a", "o.db"), filepath.Join(dir, "b", "link.db"), filepath.Join(dir, "b", "far.db")
	for at, to := range map[string]string{link: "../a/o.db", far: link, filepath.Join(dir, "loop.db"): filepath.Join(dir, "loop.db")} {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlitestore.Open(t.Context(), far, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range []string{path, link, far} {
		if _, err := sqlitestore.Open(t.Context(), p, sqlitestore.Options{}); err == nil || !strings.Contains(err.Error(), "is in use by another outrider") {
			t.Errorf("a second holder by %s: %v", p, err)
		}
	}
	if _, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "loop.db"), sqlitestore.Options{}); err == nil || !strings.Contains(err.Error(), "is a link that leads to itself") {
		t.Errorf("a link to itself: %v", err)
	}
	if names := names(t, link); !slices.Equal(names, []string{"far.db", "link.db"}) {
		t.Errorf("beside the links lie %v", names)
	}
}

// The rights that somebody gave an empty file stay.
func TestRightsOfAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.db")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// A file that somebody put beside the store, as a copy that is to take its place, stays.
func TestACopyBesideTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o.db")
	for _, suffix := range []string{".new", ".tmp", ".bak", ".old", "-new"} {
		if err := os.WriteFile(path+suffix, []byte("all orders"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, suffix := range []string{".new", ".tmp", ".bak", ".old", "-new"} {
		if b, err := os.ReadFile(path + suffix); err != nil || string(b) != "all orders" {
			t.Errorf("%s: %q, %v", suffix, b, err)
		}
	}
}

// A database without tables in which another program works is not replaced: what
// that writes would go into a file that has no name.
func TestADatabaseThatIsInUse(t *testing.T) {
	for name, script := range map[string][]string{
		"in WAL mode, without tables": {"PRAGMA journal_mode = WAL", "PRAGMA user_version"},
		"in WAL mode, writing":        {"PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE", "CREATE TABLE orders (id)"},
		"writing":                     {"BEGIN IMMEDIATE", "CREATE TABLE orders (id)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "o.db")
			db := scripted(t, path, script...)
			if s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{}); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "another program") {
				t.Errorf("opened: %v", err)
				if err == nil {
					_ = s.Close()
				}
			}
			end := "COMMIT"
			if !slices.Contains(script, "BEGIN IMMEDIATE") {
				end = "CREATE TABLE orders (id)"
			}
			if _, err := db.Exec(end); err != nil {
				t.Error(err)
			}
			_ = db.Close()
			db = scripted(t, path)
			var n int
			if err := db.QueryRow("SELECT count(*) FROM orders").Scan(&n); err != nil {
				t.Errorf("what it wrote is lost: %v", err)
			}
			for _, name := range names(t, path) {
				if strings.Contains(name, "half-made") {
					t.Error("there lies", name)
				}
			}
		})
	}
}

// names are the files in the folder of path.
func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
