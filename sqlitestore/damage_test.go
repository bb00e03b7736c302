package sqlitestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// files are those of a store as a process that is killed leaves them, by suffix.
type files map[string][]byte

func readFiles(t *testing.T, path string) files {
	t.Helper()
	all := files{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if b, err := os.ReadFile(path + suffix); err == nil {
			all[suffix] = b
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return all
}

// put writes them into a folder of their own.
func (f files) put(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o.db")
	for suffix, b := range f {
		if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// killed is a store with so many jobs, each stored by itself, some of them large.
func killed(t *testing.T, jobs int) files {
	t.Helper()
	s := opened(t)
	for i := range jobs {
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10+i%7*2000)) }); err != nil {
			t.Fatal(err)
		}
	}
	return readFiles(t, s.path)
}

func jobsStored(t *testing.T, s *Store) int64 {
	t.Helper()
	var n int64
	if err := s.readers.QueryRow("SELECT count(*) FROM jobs").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// refused opens the store, which has to fail with a DamageError that says want,
// and to leave the files as they were.
func refused(t *testing.T, path string, want ...string) {
	t.Helper()
	before := readFiles(t, path)
	s, err := Open(t.Context(), path, Options{})
	if err == nil {
		_ = s.Close()
	}
	var damage *DamageError
	if !errors.As(err, &damage) || job.KindOf(err) != job.Unavailable {
		t.Fatalf("opened: %v", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in %q", w, err)
		}
	}
	if after := readFiles(t, path); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Error("the files were changed")
	}
}

// One bit anywhere in the log of a store that was killed is told before anything
// is changed; so is a log that is cut off, or gone.
func TestADamagedLogIsRefused(t *testing.T) {
	whole := killed(t, 25)
	log := whole["-wal"]
	got := surveyed(t, whole)
	end := logHeader + got.committed*(frameHeader+4096)
	if got.damaged() || got.committed < 100 || end > len(log) {
		t.Fatalf("%d frames of a log of %d bytes, %q", got.committed, len(log), got.why)
	}
	for name, change := range map[string]func(files){
		"a bit in the middle":        func(f files) { f["-wal"][end/2] ^= 8 },
		"a bit of the header":        func(f files) { f["-wal"][17] ^= 1 },
		"a bit of the last frame":    func(f files) { f["-wal"][end-1] ^= 1 },
		"cut off in the middle":      func(f files) { f["-wal"] = f["-wal"][:end/2] },
		"cut off by a byte":          func(f files) { f["-wal"] = f["-wal"][:end-1] },
		"empty":                      func(f files) { f["-wal"] = nil },
		"gone":                       func(f files) { delete(f, "-wal") },
		"zeros":                      func(f files) { clear(f["-wal"]) },
		"its first block is zeros":   func(f files) { clear(f["-wal"][:4096]) },
		"a bit, without the index":   func(f files) { f["-wal"][end/2] ^= 8; delete(f, "-shm") },
		"header, without the index":  func(f files) { f["-wal"][17] ^= 1; delete(f, "-shm") },
		"block, without the index":   func(f files) { clear(f["-wal"][:4096]); delete(f, "-shm") },
		"a bit, with an index of no": func(f files) { f["-wal"][end/2] ^= 8; clear(f["-shm"]) },
	} {
		t.Run(name, func(t *testing.T) {
			f := files{}
			for suffix, b := range whole {
				f[suffix] = bytes.Clone(b)
			}
			change(f)
			path := f.put(t)
			refused(t, path, path+"-wal is damaged at byte ", "acknowledged", "accept the damage", path+"-shm")
		})
	}
}

func surveyed(t *testing.T, f files) survey {
	t.Helper()
	got, err := surveyLog(f.put(t), 4096)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// What the survey takes is what SQLite takes, and every bit of it counts.
func TestTheSurveyAgreesWithSQLite(t *testing.T) {
	whole := killed(t, 12)
	want := surveyed(t, whole)
	path := whole.put(t)
	rw, err := newConnector(path, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rw.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if pages, _, err := checkpoint(conn, "NOOP"); err != nil || int(pages) != want.committed {
		t.Errorf("SQLite takes %d frames, the survey %d, %v", pages, want.committed, err)
	}
	if !want.index.known || want.index.frames != want.committed || want.index.page != 4096 {
		t.Errorf("the index is read as %+v", want.index)
	}
	for range 40 {
		f := files{"": whole[""], "-wal": bytes.Clone(whole["-wal"]), "-shm": whole["-shm"]}
		at := rand.IntN(logHeader + want.committed*(frameHeader+4096))
		f["-wal"][at] ^= 1 << rand.IntN(8)
		if got := surveyed(t, f); !got.damaged() {
			t.Errorf("byte %d of %d", at, len(f["-wal"]))
		}
	}
}

// Damage that is accepted is told, the files are kept, and it is not met again.
func TestAcceptedDamage(t *testing.T) {
	whole := killed(t, 20)
	for name, at := range map[string]int{"in the middle": len(whole["-wal"]) / 2, "in the header": 20} {
		t.Run(name, func(t *testing.T) {
			whole["-wal"][at] ^= 1
			defer func() { whole["-wal"][at] ^= 1 }()
			path := whole.put(t)
			refused(t, path)
			var told bytes.Buffer
			o := Options{AcceptDamage: true, Log: slog.New(slog.NewTextHandler(&told, nil))}
			s, err := Open(t.Context(), path, o)
			if err != nil {
				t.Fatal(err)
			}
			if n := jobsStored(t, s); n >= 20 {
				t.Errorf("%d jobs are there", n)
			}
			if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10)) }); err != nil {
				t.Error(err)
			}
			n := jobsStored(t, s)
			left := readFiles(t, path)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if log := told.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "is damaged at byte") || !strings.Contains(log, path+".damaged-") {
				t.Errorf("told was %s", log)
			}
			kept, err := filepath.Glob(path + ".damaged-*Z")
			if err != nil || len(kept) != 1 {
				t.Fatal(kept, err)
			}
			if got := readFiles(t, kept[0]); !maps.EqualFunc(got, whole, bytes.Equal) {
				t.Error("the copies are not what was there")
			}
			for _, name := range []string{kept[0], kept[0] + "-wal", kept[0] + "-shm"} {
				if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", name, st.Mode(), err)
				}
			}
			again, err := Open(t.Context(), left.put(t), Options{}) // after another kill
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if got := jobsStored(t, again); got != n {
				t.Errorf("%d jobs, there were %d", got, n)
			}
		})
	}
}

// moveLog moves what is in the log into the file.
func moveLog(t *testing.T, s *Store) {
	t.Helper()
	from, err := newConnector(s.path, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := from.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if pages, moved, err := checkpoint(conn, "PASSIVE"); err != nil || moved != pages {
		t.Fatalf("%d of %d pages were moved, %v", moved, pages, err)
	}
}

// What the database file has and the log has lost is not overwritten by what is
// left of the log.
func TestAcceptedDamageOfWhatWasMoved(t *testing.T) {
	s := opened(t)
	for range 10 {
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 10)) }); err != nil {
			t.Fatal(err)
		}
	}
	moveLog(t, s)
	f := readFiles(t, s.path)
	f["-wal"][logHeader+12*(frameHeader+4096)] ^= 1
	path := f.put(t)
	refused(t, path)
	again, err := Open(t.Context(), path, Options{AcceptDamage: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n := jobsStored(t, again); n != 10 {
		t.Errorf("%d jobs of 10, all of which were in the file", n)
	}
}

// A database file that is no database, or has lost its end, is refused.
func TestADamagedDatabaseIsRefused(t *testing.T) {
	s := opened(t)
	for range 50 {
		if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(big(t, 3000)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := readFiles(t, s.path)[""]
	noise := make([]byte, len(whole))
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for name, b := range map[string][]byte{
		"cut off in the middle":    whole[:len(whole)/2],
		"cut off by a byte":        whole[:len(whole)-1],
		"cut off by a page":        whole[:len(whole)-4096],
		"its first page":           whole[:4096],
		"its header":               whole[:100],
		"half its header":          whole[:50],
		"random bytes":             noise,
		"random behind the header": slices.Concat(whole[:100], noise[100:]),
		"zeros":                    make([]byte, len(whole)),
		"no database":              []byte("To whom it may concern: this is not a database, and is long enough to be taken for the header of one, if nobody looks.\n"),
	} {
		t.Run(name, func(t *testing.T) { refused(t, files{"": b}.put(t)) })
	}
	if app := binary.BigEndian.Uint32(whole[68:]); app != applicationID {
		t.Fatalf("application_id %#x", app)
	}
	if s, err := Open(t.Context(), (files{"": whole}).put(t), Options{}); err != nil {
		t.Errorf("the whole one: %v", err)
	} else {
		_ = s.Close()
	}
}
