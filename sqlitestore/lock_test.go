package sqlitestore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/sqlitestore"
)

// refused opens a store that must not open, and answers why.
func refused(t *testing.T, path string) string {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err == nil {
		_ = s.Close()
		t.Errorf("%s was opened", path)
		return ""
	}
	return err.Error()
}

func opens(t *testing.T, path string) {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Whatever lies where a file of the store belongs and is not a plain file of one
// name is refused, and what it leads to stays as it was.
func TestPlantedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: links need rights there that few have")
	}
	const victim = "what somebody wants to keep"
	plant := map[string]func(victim, at string) error{
		"a link":             os.Symlink,
		"a link to nowhere":  func(_, at string) error { return os.Symlink(at+".nowhere", at) },
		"a second name":      os.Link,
		"a folder":           func(_, at string) error { return os.Mkdir(at, 0o700) },
		"a folder with more": func(_, at string) error { return os.MkdirAll(filepath.Join(at, "more"), 0o700) },
	}
	for _, suffix := range []string{".lock", "-wal", "-shm", "-journal"} {
		for kind, plant := range plant {
			for _, made := range []bool{false, true} {
				dir := t.TempDir()
				path, kept := filepath.Join(dir, "o.db"), filepath.Join(dir, "kept")
				if err := os.WriteFile(kept, []byte(victim), 0o600); err != nil {
					t.Fatal(err)
				}
				if made {
					opens(t, path)
					if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
				if err := plant(kept, path+suffix); err != nil {
					t.Fatal(err)
				}
				says := refused(t, path)
				if !strings.Contains(says, path+suffix) || !strings.Contains(says, "remove it") {
					t.Errorf("%s as %s: %s", kind, suffix, says)
				}
				if b, err := os.ReadFile(kept); err != nil || string(b) != victim {
					t.Errorf("%s as %s has changed what it leads to: %q, %v", kind, suffix, b, err)
				}
				if _, err := os.Lstat(path + suffix + ".nowhere"); err == nil {
					t.Errorf("%s as %s has made a file", kind, suffix)
				}
				if err := os.RemoveAll(path + suffix); err != nil {
					t.Fatal(err)
				}
				opens(t, path)
			}
		}
	}
}

// A half-made store that is a link is removed; what it leads to is not.
func TestPlantedHalfMadeFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: links need rights there that few have")
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		dir := t.TempDir()
		path, kept := filepath.Join(dir, "o.db"), filepath.Join(dir, "kept")
		if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(kept, path+".half-made"+suffix); err != nil {
			t.Fatal(err)
		}
		opens(t, path)
		if b, err := os.ReadFile(kept); err != nil || string(b) != "kept" {
			t.Errorf("%q: %q, %v", suffix, b, err)
		}
	}
}

// A name leads where the system says, also through ".." behind a link, and the
// lock lies beside the file.
func TestLinksAreFollowedAsTheSystemDoes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: links need rights there that few have")
	}
	dir := t.TempDir()
	real := filepath.Join(dir, "real", "deep")
	if err := os.MkdirAll(real, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"folder":      real,                // a link to a folder
		"dangling.db": "folder/a.db",       // to a file that comes to be
		"up.db":       "folder/../b.db",    // b.db lies in real, not beside folder
		"chain.db":    "folder/../next.db", // to a link that is relative to where it lies
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("c.db", filepath.Join(dir, "real", "next.db")); err != nil {
		t.Fatal(err)
	}
	for link, file := range map[string]string{"dangling.db": "real/deep/a.db", "up.db": "real/b.db", "chain.db": "real/c.db", "folder/d.db": "real/deep/d.db"} {
		link, file = filepath.Join(dir, link), filepath.Join(dir, file)
		s, err := sqlitestore.Open(t.Context(), link, sqlitestore.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range []string{file, file + ".lock"} {
			if _, err := os.Lstat(name); err != nil {
				t.Errorf("%s: %v", link, err)
			}
		}
		for _, name := range []string{link, file} {
			if says := refused(t, name); !strings.Contains(says, "is in use by another outrider") {
				t.Errorf("%s, opened as %s: %s", name, link, says)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
