package sqlitestore

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// grow opens a store and stores a few jobs in it, and returns its lineage then
// and the Seq of the last event.
func grow(t *testing.T, path string, jobs int, then func()) (l job.Lineage, seq int64) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l = s.Lineage()
	seq = l.Now().After
	for range jobs {
		j := big(t, 10)
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
			t.Fatal(err)
		}
		seq = j.LastEvent
	}
	if then != nil {
		then()
	}
	return l, seq
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + end)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+end, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A store knows its openings and where each began, and so a copy of it is known
// to hold what was stored before it was made and nothing that came after.
func TestLineage(t *testing.T) {
	dir := t.TempDir()
	path, live, cold := filepath.Join(dir, "jobs.db"), filepath.Join(dir, "live.db"), filepath.Join(dir, "cold.db")
	first, a := grow(t, path, 3, nil)
	if len(first) != 1 || first[0].After != 0 || len(first[0].ID) != 16 {
		t.Fatalf("a new store has %v", first)
	}
	copied(t, path, cold)
	var b int64
	second, c := grow(t, path, 2, func() {
		copied(t, path, live)
		s, after := grow(t, filepath.Join(dir, "other.db"), 1, nil) // of no kin
		if s.Holds(first[0].ID, 0) || after == 0 {
			t.Errorf("another store has %v", s)
		}
	})
	b = c // what the live copy has
	third, d := grow(t, path, 4, nil)
	if len(third) != 3 || third[0] != first[0] || third[1] != second[1] || third[1].After != a || third[2].After != c {
		t.Errorf("the lineage is %v after %d, %d, %d", third, a, c, d)
	}
	grow(t, live, 50, nil) // it goes its own way
	ofLive, _ := grow(t, live, 1, nil)
	ofCold, _ := grow(t, cold, 50, nil)
	for _, is := range []struct {
		name string
		of   job.Lineage
		at   job.Epoch
		seq  int64
		want bool
	}{
		{"itself", third, third[2], d, true},
		{"its first", third, first[0], a, true},
		{"what its first never had", third, first[0], a + 1, false},
		{"nobody's", third, job.Epoch{ID: "none"}, 0, false},
		{"a copy, before it was made", ofLive, second[1], b, true},
		{"a copy, of the same process later", ofLive, second[1], b + 1, false},
		{"a copy, of a process later", ofLive, third[2], d, false},
		{"an older copy, before it was made", ofCold, first[0], a, true},
		{"an older copy, of a process later", ofCold, second[1], c, false},
		{"the original, of what its copy did", third, ofLive.Now(), ofLive.Now().After, false},
		{"none, of nobody", nil, job.Epoch{}, 0, false},
	} {
		if got := is.of.Holds(is.at.ID, is.seq); got != is.want {
			t.Errorf("%s: got %v", is.name, got)
		}
	}
}

// A store that is opened very often remembers the newest openings, in their order.
func TestLineageIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	first, _ := grow(t, path, 1, nil)
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = script(s.w.conn, `WITH RECURSIVE n(i) AS (VALUES (3) UNION ALL SELECT i + 1 FROM n WHERE i < 998)
INSERT INTO marks (name, value) SELECT printf('epoch %012d %016x', i, i), 1 FROM n`)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n := 999; n < 1004; n++ {
		l, _ := grow(t, path, 1, nil)
		if len(l) != min(n, job.MaxEpochs) || l.Now().After != int64(n-998) {
			t.Errorf("opening %d: it knows %d, the last of them after event %d", n, len(l), l.Now().After)
		}
		if got := l.Holds(first[0].ID, 0); got != (n <= job.MaxEpochs) {
			t.Errorf("opening %d: it knows its first: %v", n, got)
		}
		if !l.Aging(first[0].ID) || l.Aging(l[len(l)-job.MaxEpochs/2].ID) || !l.Aging(l[len(l)-job.MaxEpochs/2-1].ID) {
			t.Errorf("opening %d: what will be forgotten is not told", n)
		}
	}
}

// A store on a full disk opens, as what is in it can still be read and done. Its
// opening is noted by nobody, so what it takes counts as another's later.
func TestLineageOnAFullDisk(t *testing.T) {
	s := opened(t)
	if _, err := one(s.w.conn, "PRAGMA max_page_count = 1"); err != nil { // as many as there are
		t.Fatal(err)
	}
	var told bytes.Buffer
	log := slog.New(slog.NewTextHandler(&told, nil))
	for n := 0; told.Len() == 0; n++ {
		if s.lineage = nil; n == 1000 {
			t.Fatal("the disk was never full")
		}
		if err := s.date(log); err != nil {
			t.Fatal(err)
		}
	}
	noted, err := number(s.w.conn, `SELECT count(*) FROM marks WHERE name LIKE '%`+s.lineage.Now().ID+`'`)
	if err != nil || noted != 0 || !strings.Contains(told.String(), "disk is full") {
		t.Errorf("it is noted %d times, %v, told %q", noted, err, told.String())
	}
	if _, err := one(s.w.conn, "PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10)) }); err != nil {
		t.Error(err)
	}
}
