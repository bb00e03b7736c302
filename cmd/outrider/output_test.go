//go:build unix

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// full is a file on a disk without room.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

// TestAFullDiskIsTold: what cannot be printed is an error, in every command and
// also when only the end of the output is missing.
func TestAFullDiskIsTold(t *testing.T) {
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"crons":[],"outboxes":[],"unique_jobs":[],"pagination":{},"cron":{"name":"a","expression":"@daily"},"runs":[]}`))
	}))
	t.Cleanup(empty.Close)
	shop := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	if o := try(t, nil, "outbox", "init", shop); o.code != exitOK {
		t.Fatal(o)
	}
	crons := filepath.Join(t.TempDir(), "crons.yaml")
	writeFile(t, crons, "crons:\n  - {name: a, cron: \"@daily\", type: a.b}\n")
	for _, args := range []string{"--help", "outbox", "serve --help", "version", "outbox sql", "outbox sql --db postgres --function", "outbox init " + shop, "outbox check " + shop,
		"outbox status " + shop, "outbox ls " + shop, "outbox status -o json " + shop, "cron preview @daily", "cron preview @daily -o json",
		"cron ls --url " + empty.URL, "cron ls -o json --url " + empty.URL, "unique ls --url " + empty.URL, "cron diff -f " + crons + " --url " + empty.URL, "completion bash"} {
		words := strings.Fields(args)
		whole := try(t, nil, words...)
		if len(whole.stdout) == 0 {
			t.Errorf("%s: it prints nothing: %+v", args, whole)
		}
		for _, room := range []int{0, len(whole.stdout) - 1} {
			var stderr strings.Builder
			code := run(t.Context(), words, nil, strings.NewReader(""), &full{room}, &stderr)
			if code != exitFailed || !strings.Contains(stderr.String(), "no space left on device") {
				t.Errorf("%s with room for %d: exit %d, %q", args, room, code, stderr.String())
			}
		}
	}
}

// TestAReaderThatHasGone: a closed pipe ends a command as it ends any other of
// Unix, by SIGPIPE and without a word.
func TestAReaderThatHasGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var stderr strings.Builder
	cmd := exec.Command(os.Args[0], "outbox", "sql")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram), w, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
		t.Errorf("got %v, %q", exit, stderr.String())
	}
}
