package sqlitestore

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// recordLocks counts the locks that SQLite has on a file in this process, as the
// kernel lists them.
func recordLocks(t *testing.T, path string) (n int) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		t.Skip("skipped: this system lists no locks:", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text()) // 1: POSIX ADVISORY READ 4711 fe:00:12345 1073741826 1073742335
		if len(fields) > 5 && fields[1] == "POSIX" && fields[4] == fmt.Sprint(os.Getpid()) &&
			strings.HasSuffix(fields[5], fmt.Sprintf(":%d", st.Sys().(*syscall.Stat_t).Ino)) {
			n++
		}
	}
	return n
}

// A second Open in one process, which is refused, takes nothing from the first:
// without SQLite's locks another program would take the database for its own and
// delete the log when it closes.
func TestRefusedOpenLeavesTheLocks(t *testing.T) {
	s := opened(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(s.path, link); err != nil {
		t.Fatal(err)
	}
	if recordLocks(t, s.path) == 0 {
		t.Fatal("SQLite has no lock on an open database")
	}
	for _, path := range []string{s.path, link} {
		if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), "is in use by another outrider") {
			t.Errorf("a second Open: %v", err)
		}
		if recordLocks(t, s.path) == 0 {
			t.Fatalf("a second Open of %s, which was refused, has taken the locks of the first", path)
		}
	}
}

// The lock of the database is on what the file is, and beside SQLite's own.
func TestDatabaseIsLocked(t *testing.T) {
	s := opened(t)
	second := &fileLock{path: s.path}
	st, err := os.Stat(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.hold(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is in use by another outrider (process %d)", os.Getpid())) {
		t.Errorf("a second claim: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if who := lockedBy(st); who != "" {
		t.Errorf("a closed store is locked by process %s", who)
	}
}

// What an Open that fails has opened is closed.
func TestFailedOpenKeepsNothingOpen(t *testing.T) {
	s := opened(t)
	path := s.path
	if err := script(s.w.conn, "DROP TABLE marks"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Fatal("a store without marks was opened")
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, path) {
			t.Errorf("%s is open still", to)
		}
	}
}

// On kernels that do not tell it by statx(2), the table of mounts does.
func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "a b\\c.db")
	plain := filepath.Join(dir, "plain.db")
	for _, name := range []string{odd, plain} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := func(at string) string { return "77 66 254:0 /x/o.db " + at + " rw,relatime - ext4 /dev/vda rw\n" }
	for table, want := range map[string]bool{
		line("/"):                         false,
		line(dir):                         false,
		line(dir + `/a\040b\134c.db`):     true,
		line("/") + line(dir+"/other.db"): false,
		"":                                false,
		"77 66 254:0\n":                   false,
	} {
		if got := mountPoint(table, odd); got != want {
			t.Errorf("%q: %v", table, got)
		}
	}
	if !mountPoint(line("/")+line(plain), plain) {
		t.Error("a plain name is not found")
	}
	if mounted(plain) {
		t.Error("a file that lies in its folder counts as mounted")
	}
}
