package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// inMounts starts the program in a mount namespace of its own, after a shell
// script that mounts. What is mounted there goes with the process.
func inMounts(t *testing.T, script string, args ...string) *process {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: only root may mount")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("skipped: there is no unshare(1)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-m", "--propagation", "private", "sh", "-ec", script + "\nexec \"$@\"", "sh", self}, args...)
	p := &process{exec.Command("unshare", args...), newLines(), newLines()}
	p.Env = append(bare(), asProgram)
	p.Stdout, p.Stderr = p.stdout, p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// refuses waits for a second server to give up, and answers what it said.
func (p *process) refuses(t *testing.T, what string) string {
	t.Helper()
	said := make(chan string, 1)
	go func() { said <- p.stderr.rest() }()
	go func() { p.stdout.rest() }()
	code := p.end(t, 20*time.Second)
	text := <-said
	want := exitFailed
	if strings.Contains(text, "is in use") {
		want = exitConflict
	}
	if code != want {
		t.Errorf("%s: the second server ends with %d and says %q, want %d", what, code, text, want)
	}
	return text
}

// TestASecondServerIsRefused: whatever way leads to the file of a running server,
// a second one ends and changes nothing, and names the first where it can.
func TestASecondServerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, other := filepath.Join(dir, "data"), filepath.Join(dir, "other")
	for _, name := range []string{data, other} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(data, "jobs.db")
	entry := filepath.Join(dir, "entry.db") // a link to a file that is not there yet
	if err := os.Symlink("data/jobs.db", entry); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", filepath.Join(dir, "folder")); err != nil {
		t.Fatal(err)
	}
	first := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", entry)
	url := readyURL(t, first.stdout)
	byNumber := fmt.Sprintf("is in use by another outrider (process %d)", first.Process.Pid)
	second := func(db string) *process { return startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db) }
	for what, tt := range map[string]struct {
		start func() *process
		says  string
	}{
		"by its name":                       {func() *process { return second(db) }, byNumber},
		"by the link that made it":          {func() *process { return second(entry) }, byNumber},
		"through a link to its folder":      {func() *process { return second(filepath.Join(dir, "folder", "jobs.db")) }, byNumber},
		"in a folder mounted a second time": {func() *process { return inMounts(t, "mount --bind "+data+" "+other, "serve", "--db", other+"/jobs.db") }, byNumber},
		"mounted by itself": {func() *process {
			return inMounts(t, "touch "+other+"/a.db; mount --bind "+db+" "+other+"/a.db", "serve", "--db", other+"/a.db")
		}, "other/a.db is mounted by itself"},
		"mounted by itself on its own name": {func() *process { return inMounts(t, "mount --bind "+db+" "+db, "serve", "--db", db) }, "jobs.db is mounted by itself"},
		"mounted by itself, through a link": {func() *process {
			return inMounts(t, "touch "+other+"/b.db; mount --bind "+db+" "+other+"/b.db; ln -s b.db "+other+"/c.db", "serve", "--db", other+"/c.db")
		}, "other/b.db is mounted by itself"},
		"in its folder mounted elsewhere, the lock file gone": {func() *process {
			return inMounts(t, "mount --bind "+data+" "+other+"; rm "+other+"/jobs.db.lock", "serve", "--db", other+"/jobs.db")
		}, byNumber},
	} {
		if text := tt.start().refuses(t, what); !strings.Contains(text, tt.says) {
			t.Errorf("%s: %q, want %q", what, text, tt.says)
		}
	}
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Enqueue(t.Context(), job.Envelope{Type: "a.b", Args: json.RawMessage("[]")}); err != nil {
		t.Errorf("the first server was disturbed: %v", err)
	}
	first.signal(t)
	if code := first.end(t, 20*time.Second); code != exitOK {
		t.Errorf("the first server ends with %d", code)
	}
}

// TestALoneMountIsRefused: a file that is mounted without its folder is refused
// also where nobody else has it, empty or not; its folder mounted is fine.
func TestALoneMountIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty, at := filepath.Join(dir, "empty.db"), filepath.Join(dir, "at")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	p := inMounts(t, "touch "+at+"/a.db; mount --bind "+empty+" "+at+"/a.db", "serve", "--db", at+"/a.db")
	if text := p.refuses(t, "an empty file"); !strings.Contains(text, "a.db is mounted by itself") || !strings.Contains(text, "mount the folder instead") {
		t.Errorf("an empty file: %q", text)
	}
	if st, err := os.Stat(empty); err != nil || st.Size() != 0 {
		t.Errorf("the file was changed: %v, %v", st.Size(), err)
	}
	p = inMounts(t, "mkdir "+dir+"/data; mount --bind "+dir+"/data "+at, "serve", "--listen", "127.0.0.1:0", "--db", at+"/a.db", "--shutdown-grace", "0s")
	readyURL(t, p.stdout)
	p.signal(t)
	if code := p.end(t, 20*time.Second); code != exitOK {
		t.Errorf("with its folder mounted it ends with %d", code)
	}
}

// pushing pushes until stop is called, which answers how many were acknowledged
// and what refused the last.
func pushing(t *testing.T, url string) (stop func() (acknowledged []job.ID, last error)) {
	t.Helper()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	var ids []job.ID
	var last error
	go func() {
		defer close(done)
		defer c.Close()
		for {
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
			var rs []job.Receipt
			if rs, last = c.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: "q", Args: json.RawMessage("[1]")}); last != nil {
				return
			}
			ids = append(ids, rs[0].ID)
		}
	}()
	return func() ([]job.ID, error) {
		close(quit)
		<-done
		return ids, last
	}
}

// TestARemovedLockFile: with its lock file gone under load a server keeps others
// out as before, and makes the lock file again, for those of older versions.
func TestARemovedLockFile(t *testing.T) {
	t.Parallel()
	db := tempDB(t)
	first := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s")
	stop := pushing(t, readyURL(t, first.stdout))
	byNumber := fmt.Sprintf("is in use by another outrider (process %d)", first.Process.Pid)
	for range 3 {
		if err := os.Remove(db + ".lock"); err != nil {
			t.Fatal(err)
		}
		second := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db)
		if text := second.refuses(t, "without its lock file"); !strings.Contains(text, byNumber) {
			t.Errorf("without its lock file: %q", text)
		}
		eventually(t, "the lock file is there again and held", time.Minute, func() bool { return heldByAnother(t, db+".lock") })
	}
	first.stderr.until(t, "the lock file was removed while the server was running")
	ids, err := stop()
	if err != nil {
		t.Errorf("a PUSH beside it: %v", err)
	}
	go func() { first.stderr.rest() }()
	first.signal(t)
	if code := first.end(t, 20*time.Second); code != exitOK {
		t.Errorf("the first server ends with %d", code)
	}
	t.Logf("%d pushes beside it", len(ids))
}

// heldByAnother reports whether a process has a lock file.
func heldByAnother(t *testing.T, name string) bool {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// TestAServerOfAnOlderVersion knows nothing but the lock file: it is kept out by
// that, and keeps others out with it. Where it got in after the file was removed,
// the server that was there acknowledges nothing more, and ends.
func TestAServerOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	db := tempDB(t)
	older := func() *os.File { // as those before this version do
		t.Helper()
		f, err := os.OpenFile(db+".lock", os.O_CREATE|os.O_RDONLY, 0o600)
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	held := older()
	if err := os.WriteFile(db+".lock", []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db)
	if text := p.refuses(t, "beside an older one"); !strings.Contains(text, "is in use by another outrider (process 4711)") {
		t.Errorf("beside an older one: %q", text)
	}
	if b, err := os.ReadFile(db + ".lock"); err != nil || string(b) != "4711\n" {
		t.Errorf("the lock file was changed: %q, %v", b, err)
	}
	held.Close()
	p = startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db)
	url := readyURL(t, p.stdout)
	if !heldByAnother(t, db+".lock") {
		t.Error("an older one would get in")
	}
	if err := os.Remove(db + ".lock"); err != nil {
		t.Fatal(err)
	}
	older()
	since := time.Now()
	for ; ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Post(url+"/ojs/v1/jobs", "application/json", strings.NewReader(`{"type": "a.b", "args": []}`))
		if err != nil {
			break // it has ended
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusInternalServerError {
			break
		}
		if time.Since(since) > 20*time.Second {
			t.Fatal("it goes on beside an older one")
		}
	}
	p.stderr.until(t, "was removed or replaced while this server ran, and another has it now")
	go func() { p.stderr.rest() }()
	if code := p.end(t, 20*time.Second); code != exitStore {
		t.Errorf("it ends with %d, want %d", code, exitStore)
	}
}
