package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// TestWorkOutlivesItsServer: a server that is killed while a command runs, and comes back,
// hears how it ended. The worker says once that it was away, however long.
func TestWorkOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := &yard{dir: t.TempDir(), marker: "WORK_TEST=" + t.Name()}
	s.url = "unix://" + filepath.Join(s.dir, "s.sock")
	serve := func() *process {
		p := startProcess(t, "serve", "--listen", s.url, "--db", filepath.Join(s.dir, "o.db"))
		readyURL(t, p.stdout)
		return p
	}
	server := serve()
	var err error
	if s.Client, err = client.New(s.url, client.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := filepath.Join(s.dir, "log")
	worker := s.work(t, "--exec", "w.slow=echo begun >> "+log+"; sleep 1; echo 1", "--exec", "w.quick=echo 2")
	slow := s.push(t, job.Envelope{Type: "w.slow", Args: json.RawMessage("[]")})[0]
	until(t, "the command runs", func() bool { return fileLines(log)[0] == "begun" })
	_ = server.Process.Kill()
	server.end(t, 10*time.Second)
	worker.stderr.until(t, "trying until it answers")
	time.Sleep(1500 * time.Millisecond) // the command ends, and several attempts to tell it fail
	serve()
	worker.stderr.until(t, "the job server answers again, after ")
	quick := s.push(t, job.Envelope{Type: "w.quick", Args: json.RawMessage("[]")})[0]
	for id, want := range map[job.ID]string{slow: "1", quick: "2"} {
		until(t, "the job is completed", func() bool {
			j, err := s.Job(t.Context(), id)
			return err == nil && j.State == job.Completed && string(j.Result) == want
		})
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := worker.end(t, 30*time.Second); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if rest := worker.stderr.rest(); strings.Contains(rest, "trying until") {
		t.Errorf("said more than once:\n%s", rest)
	}
}
