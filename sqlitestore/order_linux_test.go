package sqlitestore

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The order of SQLite's writes and flushes, on which docs/durability.md rests: seen
// from outside, by strace, for each way of moving pages. A SQLite that does it in
// another order must be judged anew.
func TestOrderOfFlushes(t *testing.T) {
	if dir := os.Getenv("OUTRIDER_ORDER_IN"); dir != "" {
		moveInEveryWay(t, dir)
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("skipped: strace, which shows the calls of the system, is not here")
	}
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	cmd := exec.Command(strace, "-f", "-y", "-s", "0", "-o", trace, "-e", "trace=pwrite64,write,fsync,fdatasync,ftruncate,unlink,unlinkat",
		os.Args[0], "-test.run", "^TestOrderOfFlushes$", "-test.count", "1")
	cmd.Env = append(os.Environ(), "OUTRIDER_ORDER_IN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const (
		begins = "log written, log flushed, log written, log flushed" // its header first
		moves  = "log flushed, database written, database cut, database flushed"
	)
	want := []string{
		"commit: " + begins,
		"commit again: log written, log flushed",
		"passive: " + moves,
		"commit anew: " + begins,
		// Up to what a reader still needs: the pages are counted as moved without a
		// flush of the database. It comes with the rest, and if it fails, it is these
		// pages, too, that are lost, and which nobody would move again.
		"partial: log flushed, database written",
		"the rest: " + moves,
		"full: " + moves,
		"restart: " + moves,
		"truncate: " + moves + ", log cut",
		"the last close: log removed",
	}
	if got := stepsOf(contents(t, trace)); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A start that cannot flush the log moves nothing of it into the database on its way
// out: what the system shows of the log may not be on the disk.
func TestAStartThatCannotFlushTheLog(t *testing.T) {
	if path := os.Getenv("OUTRIDER_OPEN"); path != "" {
		runtime.LockOSThread() // strace counts the calls of each thread
		if s, err := Open(t.Context(), path, Options{}); err == nil {
			t.Errorf("it starts, and closes with %v", s.Close())
		} else if !strings.Contains(err.Error(), "nothing was changed") {
			t.Error(err)
		}
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("skipped: strace, which makes a flush fail, is not here")
	}
	left := killed(t, 5)
	path := left.put(t)
	// The first flush is that of what a process left that was killed, the second that of the last transaction.
	cmd := exec.Command(strace, "-f", "-o", os.DevNull, "-P", path+"-wal", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=2",
		os.Args[0], "-test.run", "^TestAStartThatCannotFlushTheLog$", "-test.count", "1")
	cmd.Env = append(os.Environ(), "OUTRIDER_OPEN="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	now := readFiles(t, path)
	for _, suffix := range []string{"", "-wal"} {
		if !bytes.Equal(now[suffix], left[suffix]) {
			t.Errorf("o.db%s has %d bytes and had %d, or others", suffix, len(now[suffix]), len(left[suffix]))
		}
	}
}

// moveInEveryWay makes commits and moves them in every way, with a mark before each step:
// the attempt to remove a file that is not there.
func moveInEveryWay(t *testing.T, dir string) {
	path := filepath.Join(dir, "o.db")
	open := func() driver.Conn {
		c, err := newConnector(path, false)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := c.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	writer, mover, reader := open(), open(), open()
	do := func(conn driver.Conn, sql string) {
		t.Helper()
		if err := script(conn, sql); err != nil {
			t.Fatal(err)
		}
	}
	const insert = "INSERT INTO t VALUES (randomblob(20000))"
	step := func(name string) { _ = os.Remove("step " + name) }
	by := func(mode string, wantPages, wantMoved func(pages, moved int64) bool) {
		t.Helper()
		if pages, moved, err := checkpoint(mover, mode); err != nil || !wantPages(pages, moved) || !wantMoved(pages, moved) {
			t.Fatalf("%s: %d of %d pages, %v", mode, moved, pages, err)
		}
	}
	some := func(pages, _ int64) bool { return pages > 0 }
	all := func(pages, moved int64) bool { return moved == pages }

	step("commit")
	do(writer, "CREATE TABLE t (x)")
	step("commit again")
	do(writer, insert)
	step("passive")
	by("PASSIVE", some, all)
	step("commit anew")
	do(writer, insert)
	do(reader, "BEGIN; SELECT count(*) FROM t")
	step("")
	do(writer, insert)
	step("partial")
	by("PASSIVE", some, func(pages, moved int64) bool { return moved > 0 && moved < pages })
	step("")
	do(reader, "COMMIT")
	step("the rest")
	by("PASSIVE", some, all)
	for _, mode := range []string{"full", "restart", "truncate"} {
		step("")
		do(writer, insert)
		step(mode)
		by(strings.ToUpper(mode), func(int64, int64) bool { return true }, all)
	}
	step("")
	for _, conn := range []driver.Conn{mover, reader} {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	step("the last close")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	step("")
}

var traced = regexp.MustCompile(`(?m)^\d+ +(\w+)\((?:\d+<[^>]*/o\.db(-wal)?>|"[^"]*/o\.db(-wal)"|AT_FDCWD<[^>]*>, "step (.*?)", 0)`)

// stepsOf are the calls of a trace by the marks in it, those of one kind together.
func stepsOf(trace []byte) (all []string) {
	did := map[string]string{"pwrite64": "written", "fsync": "flushed", "fdatasync": "flushed", "ftruncate": "cut", "unlink": "removed"}
	name, calls := "", []string{}
	for _, m := range traced.FindAllStringSubmatch(string(trace), -1) {
		if m[1] == "unlinkat" {
			if name != "" {
				all = append(all, name+": "+strings.Join(calls, ", "))
			}
			name, calls = m[4], nil
			continue
		}
		what := "database"
		if m[2]+m[3] != "" {
			what = "log"
		}
		if call := fmt.Sprint(what, " ", did[m[1]]); len(calls) == 0 || calls[len(calls)-1] != call {
			calls = append(calls, call)
		}
	}
	return all
}
