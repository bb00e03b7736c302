package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gathered is the log of a server, which may be read while it is written.
type gathered struct {
	mu   sync.Mutex
	text strings.Builder
}

func (g *gathered) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *gathered) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// count is how many lines hold all of the words.
func (g *gathered) count(words ...string) (n int) {
next:
	for line := range strings.Lines(g.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		n++
	}
	return n
}

// watchedServer is a server as a process of its own, whose log is kept.
type watchedServer struct {
	*process
	url, db string
	log     *gathered
}

// watched starts a server on a database; before are words in front of the program.
func watchedAt(t *testing.T, db string, before ...string) *watchedServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(before, self, "serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s")
	s := &watchedServer{process: &process{exec.Command(args[0], args[1:]...), newLines(), newLines()}, db: db, log: &gathered{}}
	s.Env = append(os.Environ(), asProgram)
	s.Stdout, s.Stderr = s.stdout, s.log
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
		s.stdout.Close()
		if t.Failed() {
			t.Logf("the log of the server:\n%s", s.log)
		}
	})
	s.url = readyURL(t, s.stdout)
	return s
}

func (s *watchedServer) get(t *testing.T, path string) int {
	t.Helper()
	status, _ := ask(t, http.DefaultClient, "GET", s.url+path, "")
	return status
}

func (s *watchedServer) push(t *testing.T, bytes int) int {
	t.Helper()
	status, _ := ask(t, http.DefaultClient, "POST", s.url+pathPush, `{"type":"a.b","args":["`+strings.Repeat("x", bytes)+`"]}`)
	return status
}

// becomes waits until health answers so.
func (s *watchedServer) becomes(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); s.get(t, "/ojs/v1/health") != want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("health has not become %d", want)
		}
	}
}

// told fails unless a trouble and its end were told once each.
func (s *watchedServer) told(t *testing.T, begin, end string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); s.log.count("level=INFO", end) == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	if warned, well := s.log.count("level=WARN", begin), s.log.count("level=INFO", end); warned != 1 || well != 1 {
		t.Errorf("the log tells %d times of %q and %d times of %q, want once each", warned, begin, well, end)
	}
}

// mounted is a file system in memory of so many bytes.
func mounted(t *testing.T, bytes int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: only root may mount a file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("skipped: nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the space that a file system has.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// A full disk: health reports it while nobody pushes, the log says it once, jobs can
// still be read, and the report ends as soon as there is room.
func TestHealthTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	for _, size := range []int{6 << 20, 64 << 20} {
		t.Run(fmt.Sprintf("of %d MB", size>>20), func(t *testing.T) {
			t.Parallel()
			dir := mounted(t, size)
			s := watchedAt(t, filepath.Join(dir, "o.db"))
			if got := s.push(t, 100); got != 201 {
				t.Fatalf("push: %d", got)
			}
			if got := s.get(t, "/ojs/v1/health"); got != 200 {
				t.Fatalf("before: health %d", got)
			}
			fill(t, filepath.Join(dir, "filling"))
			for n := range 30 { // nobody pushes
				if got := s.get(t, "/ojs/v1/health"); got != 503 && n > 0 {
					t.Errorf("full: health %d", got)
				}
				if n == 0 {
					s.becomes(t, 503)
				}
			}
			if ready, live, jobs := s.get(t, "/readyz"), s.get(t, "/livez"), s.get(t, "/ojs/v1/jobs"); ready != 503 || live != 200 || jobs != 200 {
				t.Errorf("full: ready %d, live %d, list %d", ready, live, jobs)
			}
			if got := s.push(t, 500_000); got != 503 {
				t.Errorf("full: push %d", got)
			}
			if err := os.Remove(filepath.Join(dir, "filling")); err != nil {
				t.Fatal(err)
			}
			s.becomes(t, 200)
			if got := s.push(t, 100); got != 201 {
				t.Errorf("with room again: push %d", got)
			}
			s.told(t, "free", "there is room")
		})
	}
}

// Who is told to free some is told what comes of it then: a server that has ended
// does not go on by itself, and what it had acknowledged is there at the next start.
func TestAFullDiskAtTheStopAndAtTheStart(t *testing.T) {
	t.Parallel()
	dir := mounted(t, 4<<20)
	s := watchedAt(t, filepath.Join(dir, "o.db"))
	kept := 0
	for s.push(t, 100_000) == 201 { // the log grows, and the database has no room for what it holds
		kept++
	}
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := s.end(t, patience); code != exitFailed || s.log.count("error: close", "its log is kept, with all that was acknowledged; free some and start again") != 1 {
		t.Errorf("stopped on a full disk: exit %d\n%s", code, s.log)
	}
	fill(t, filepath.Join(dir, "filling"))
	if o := try(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(dir, "new.db")); o.code != exitFailed ||
		!strings.Contains(o.stderr, "there is no space left for the database; free some and start again") {
		t.Errorf("started on a full disk: %+v", o)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	s = watchedAt(t, s.db)
	if _, body := ask(t, http.DefaultClient, "GET", s.url+"/ojs/v1/queues/default/stats", ""); !strings.Contains(body, fmt.Sprintf(`"available":%d`, kept)) {
		t.Errorf("of %d jobs that were acknowledged there are: %s", kept, body)
	}
}

// foreign opens the database of a server in this process, as another program would.
func foreign(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return conn
}

func run1(t *testing.T, conn *sql.Conn, query string) {
	t.Helper()
	if _, err := conn.ExecContext(context.Background(), query); err != nil {
		t.Fatal(err)
	}
}

// Another program holds the lock of the database, as sqlite3 does with an open
// transaction: it is named, and nobody says that the server was stopped.
func TestAForeignHolderIsNamed(t *testing.T) {
	t.Parallel()
	s := watchedAt(t, tempDB(t))
	conn := foreign(t, s.db)
	run1(t, conn, "BEGIN IMMEDIATE")
	s.becomes(t, 503)
	if got := s.push(t, 10); got != 503 {
		t.Errorf("held: push %d", got)
	}
	if got := s.get(t, "/livez"); got != 200 {
		t.Errorf("held: live %d", got)
	}
	run1(t, conn, "ROLLBACK")
	s.becomes(t, 200)
	if got := s.push(t, 10); got != 201 {
		t.Errorf("free again: push %d", got)
	}
	s.told(t, fmt.Sprintf("process %d (outrider.test)", os.Getpid()), "has given the lock of the database back")
	if n := s.log.count("was stopped"); n != 0 {
		t.Errorf("it says %d times that it was stopped, which it was not", n)
	}
}

// A server that may open no more files says so, and again when it may.
func TestAFullTableOfFilesIsTold(t *testing.T) {
	t.Parallel()
	s := watchedAt(t, tempDB(t), "sh", "-c", `ulimit -n 40; exec "$0" "$@"`)
	held := dialMany(t, strings.TrimPrefix(s.url, "http://"), 60)
	for deadline := time.Now().Add(20 * time.Second); s.log.count("level=WARN", "no more connections") == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	for _, c := range held {
		c.Close()
	}
	s.becomes(t, 200)
	s.told(t, "no more connections", "connections are accepted again")
	if s.log.count("level=WARN", "open_files=40") != 1 {
		t.Errorf("the start does not tell of the limit")
	}
}

func dialMany(t *testing.T, addr string, n int) (held []net.Conn) {
	t.Helper()
	for range n {
		c, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		held = append(held, c)
	}
	return held
}

// A disk takes seconds for each flush: the server works, and health says degraded.
func TestASlowDiskIsTold(t *testing.T) {
	t.Parallel()
	s := watchedAt(t, tempDB(t))
	heal := slowed(t, s.Process.Pid, 2500*time.Millisecond)
	if got := s.push(t, 10); got != 201 {
		t.Errorf("slow: push %d", got)
	}
	status, body := ask(t, http.DefaultClient, "GET", s.url+"/ojs/v1/health", "")
	if status != 200 || !strings.Contains(body, `"status":"degraded"`) {
		t.Errorf("slow: health %d %s", status, body)
	}
	if got := s.get(t, "/livez"); got != 200 {
		t.Errorf("slow: live %d", got)
	}
	heal()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, body := ask(t, http.DefaultClient, "GET", s.url+"/ojs/v1/health", ""); strings.Contains(body, `"status":"ok"`) {
			break
		}
	}
	s.told(t, "the disk is slow", "the disk is fast enough again")
	if n := s.log.count("was stopped"); n != 0 {
		t.Errorf("it says %d times that it was stopped, which it was not", n)
	}
}

// slowed makes every flush of a process late, until heal is called.
func slowed(t *testing.T, pid int, by time.Duration) (heal func()) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("skipped: there is no strace here")
	}
	said := newLines()
	trace := exec.Command("strace", "-f", "-p", fmt.Sprint(pid), "-e", "trace=fsync,fdatasync",
		"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", by.Microseconds()), "-o", os.DevNull)
	trace.Stderr = said
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	heal = sync.OnceFunc(func() {
		_ = trace.Process.Signal(os.Interrupt)
		_ = trace.Wait() // it was interrupted
		said.Close()
	})
	t.Cleanup(heal)
	said.until(t, "attached")
	go func() { said.rest() }()
	return heal
}
