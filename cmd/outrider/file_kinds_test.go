//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// brief runs the program as a process of its own, which must end soon, with
// files as its descriptors from 3 on.
func brief(t *testing.T, environ []string, files []*os.File, args ...string) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = append(append(os.Environ(), asProgram), environ...), &stdout, &stderr, files
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // the code says how it went
	if !kill.Stop() {
		t.Errorf("%s %s: it did not end", environ, args)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestWhatIsNoFileHoldsNothingUp: a pipe without a writer, a folder, a device
// and a socket in the place of a file are refused, and not waited for.
func TestWhatIsNoFileHoldsNothingUp(t *testing.T) {
	dir := t.TempDir()
	fifo, folder, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "folder"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, tt := range []struct {
		file, want string
		code       int
		env, args  string
	}{
		{fifo, "is a pipe, and must be a plain file, because SIGHUP reads it again", exitFailed, "", "serve --listen 127.0.0.1:0 --db DB --cron-file FILE"},
		{folder, "is a folder", exitFailed, "", "serve --listen 127.0.0.1:0 --db DB --cron-file FILE"},
		{socket, "is a socket", exitFailed, "", "serve --listen 127.0.0.1:0 --db DB --cron-file FILE"},
		{"/dev/zero", "is a device", exitFailed, "", "serve --listen 127.0.0.1:0 --db DB --cron-file FILE"},
		{fifo, "is a pipe without a writer", exitFailed, "", "cron apply -f FILE"},
		{folder, "is a folder", exitFailed, "", "cron apply -f FILE"},
		{socket, "is a socket", exitFailed, "", "cron diff -f FILE"},
		{fifo, "is a pipe without a writer", exitFailed, "", "unique explain FILE"},
		{folder, "is a folder", exitFailed, "", "unique explain FILE"},
		{fifo, "is a pipe without a writer", exitUsage, "OUTRIDER_URL_FILE", "cron ls"},
		{folder, "is a folder", exitUsage, "OUTRIDER_URL_FILE", "cron ls"},
		{socket, "is a socket", exitUsage, "OUTRIDER_URL_FILE", "cron ls"},
		{"/dev/zero", "is a device", exitUsage, "OUTRIDER_OUTBOX_FILE", "serve --listen 127.0.0.1:0 --db DB"},
		{fifo, "is a pipe without a writer", exitUsage, "OUTRIDER_OUTBOX_FILE", "serve --listen 127.0.0.1:0 --db DB"},
		{fifo, "is not a plain file", exitFailed, "", "serve --listen 127.0.0.1:0 --db DB --outbox sqlite:FILE"},
		{folder, "is not a plain file", exitFailed, "", "outbox check sqlite:FILE"},
		{fifo, "is not a plain file", exitFailed, "", "outbox init sqlite:FILE"},
		{fifo, "is not a plain file", exitFailed, "", "serve --listen 127.0.0.1:0 --db FILE"},
	} {
		var environ []string
		if tt.env != "" {
			environ = []string{tt.env + "=" + tt.file}
		}
		args := strings.Fields(strings.NewReplacer("FILE", tt.file, "DB", tempDB(t)).Replace(tt.args))
		o := brief(t, environ, nil, args...)
		if o.code != tt.code || o.stdout != "" || !strings.Contains(o.stderr, tt.want) || !strings.Contains(o.stderr, tt.file) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%s %s: exit %d, %s%s", tt.env, args, o.code, o.stdout, o.stderr)
		}
	}
}

// TestAPipeIsReadOnce: what a shell makes of <(…) is a pipe, and it is taken
// where it is read only once: by a command, and as the value of a setting.
func TestAPipeIsReadOnce(t *testing.T) {
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	piped := func(text string, late bool) []*os.File {
		w, r := pipe(t)
		write := func() {
			_, _ = w.WriteString(text)
			w.Close()
		}
		if late {
			time.AfterFunc(300*time.Millisecond, write)
		} else {
			write()
		}
		return []*os.File{r}
	}
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("skipped: no /dev/fd here")
	}
	for _, late := range []bool{false, true} {
		env := []string{"OUTRIDER_URL=" + url}
		if o := brief(t, env, piped(cronsNameless[:strings.LastIndex(cronsNameless, "  -")], late), "cron", "apply", "-f", "/dev/fd/3"); o.code != exitOK {
			t.Errorf("apply: %+v", o)
		}
		if o := brief(t, env, piped(duplicate, late), "unique", "explain", "/dev/fd/3"); o.code != exitOK || !strings.Contains(o.stdout, "fingerprint") {
			t.Errorf("explain: %+v", o)
		}
		if o := brief(t, []string{"OUTRIDER_URL_FILE=/dev/fd/3"}, piped(url+"\n", late), "cron", "ls"); o.code != exitOK || !strings.Contains(o.stdout, "poll") {
			t.Errorf("setting: %+v", o)
		}
	}
}

// TestASettingIsNotAwaitedForEver: of a pipe into which nobody writes.
func TestASettingIsNotAwaitedForEver(t *testing.T) {
	_, r := pipe(t)
	if o := brief(t, []string{"OUTRIDER_OUTBOX_FILE=/dev/fd/3"}, []*os.File{r}, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t)); o.code != exitUsage || !strings.Contains(o.stderr, "nobody wrote to it") {
		t.Errorf("got %+v", o)
	}
}
