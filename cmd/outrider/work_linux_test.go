package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// yard is a server as a process, and workers of it, whose commands can be found by what
// stands in their environment.
type yard struct {
	*client.Client
	url, dir, marker string
}

func openYard(t *testing.T) *yard {
	t.Helper()
	dir := t.TempDir()
	at := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(dir, "o.db"))
	s := &yard{url: readyURL(t, at.stdout), dir: dir, marker: "WORK_TEST=" + strconv.FormatUint(rand.Uint64(), 36)}
	var err error
	if s.Client, err = client.New(s.url, client.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// script makes an executable file and returns its path.
func (s *yard) script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// work starts a worker and waits until it says that it works.
func (s *yard) work(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, "env", append([]string{s.marker, "OUTRIDER_OUTBOX=secret", self, "work", "--url", s.url}, args...)...)
	p.stdout.until(t, "outrider: working as ")
	return p
}

func (s *yard) push(t *testing.T, es ...job.Envelope) []job.ID {
	t.Helper()
	rs, err := s.Enqueue(t.Context(), es...)
	if err != nil {
		t.Fatal(err)
	}
	var ids []job.ID
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	return ids
}

// left are the processes of this yard's workers and all that they have started.
func (s *yard) left(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(files) == 0 {
		t.Fatalf("no process in /proc: %v", err)
	}
	var found []string
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && bytes.Contains(env, []byte(s.marker)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // only shown
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}

// gone waits until no process is left.
func (s *yard) gone(t *testing.T, limit time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		left := s.left(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v processes are left:\n%s", limit, strings.Join(left, "\n"))
		}
	}
}

// until waits for something that comes to be true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// lines are the lines of a file that scripts write, none if it is not there yet.
func fileLines(path string) []string {
	raw, _ := os.ReadFile(path) // what is not there has no lines
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// TestWorkLosesNothing: 500 jobs, one of ten fails once, scripts that hang and heed no
// SIGTERM, and a worker that is stopped in the middle.
func TestWorkLosesNothing(t *testing.T) {
	t.Parallel()
	const jobs = 500
	s := openYard(t)
	log := filepath.Join(s.dir, "log")
	step := s.script(t, "step.sh", `read -r args
n=${args#[}; n=${n%]}
echo "begin $n $OJS_ATTEMPT" >> `+log+`
case $n in *0) [ -e `+log+`.$n ] || { touch `+log+`.$n; echo "not yet" >&2; exit 1; };; esac
sleep 0.02
echo "end $n $OJS_ATTEMPT" >> `+log+`
echo "{\"n\":$n}"
`)
	hang := s.script(t, "hang.sh", "trap '' TERM\n(sleep 1000; sleep 1000) &\nsleep 1000\nsleep 1000\n")
	var es []job.Envelope
	for n := 1; n <= jobs; n++ {
		es = append(es, job.Envelope{Type: "w.step", Args: json.RawMessage(fmt.Sprintf("[%d]", n)), Retry: json.RawMessage(`{"max_attempts":3,"initial_interval":"PT0.1S"}`)})
		if n%200 == 1 {
			es = append(es, job.Envelope{Type: "w.hang", Args: json.RawMessage("[]"), Timeout: 2 * time.Second, Retry: json.RawMessage(`{"max_attempts":1}`)})
		}
	}
	s.push(t, es...)
	mapped := []string{"--exec", "w.step=" + step, "--exec", "w.hang=" + hang, "--concurrency", "8", "--grace", "0s"}
	first := s.work(t, mapped...)
	for range 100 {
		first.stdout.until(t, "completed in ")
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.end(t, 30*time.Second); code != exitOK {
		t.Errorf("the stopped worker ended with %d:\n%s", code, first.stderr.rest())
	}
	if left := s.left(t); len(left) > 0 {
		t.Errorf("the stopped worker left %q", left)
	}
	back := strings.Count(first.stdout.rest(), "given back after ")
	second := s.work(t, mapped...)
	of := func(kind string, state job.State) int64 {
		p, err := s.Jobs(t.Context(), job.Filter{Type: kind, States: []job.State{state}, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return int64(p.Total)
	}
	until(t, "all jobs have ended", func() bool {
		return of("w.step", job.Completed) == jobs && of("w.hang", job.Discarded) == 3
	})
	if err := second.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := second.end(t, 30*time.Second); code != exitOK {
		t.Errorf("the second worker ended with %d", code)
	}
	if left := s.left(t); len(left) > 0 {
		t.Errorf("the second worker left %q", left)
	}
	runs, ends := map[string]int{}, map[string]int{}
	for _, line := range fileLines(log) {
		f := strings.Fields(line)
		if runs[f[1]]++; f[0] == "end" {
			runs[f[1]]--
			ends[f[1]]++
		}
	}
	more := 0
	for n := 1; n <= jobs; n++ {
		name, least := strconv.Itoa(n), 1
		if n%10 == 0 {
			least = 2
		}
		if ends[name] < 1 || runs[name] < least {
			t.Errorf("job %d was begun %d times and ended %d times", n, runs[name], ends[name])
		}
		more += runs[name] - least
	}
	if more > back {
		t.Errorf("%d executions more than there are failures, but only %d jobs were given back", more, back)
	}
	t.Logf("%d jobs, %d given back by the stop, %d executions twice", jobs, back, more)
}

// TestPickUp prints how long after the answer to a PUSH the command runs, at a worker
// that waits.
func TestPickUp(t *testing.T) {
	t.Parallel()
	s := openYard(t)
	path := filepath.Join(s.dir, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	s.work(t, "--exec", "w.tick=echo $OJS_JOB_ID > "+path)
	const jobs = 200
	var took []time.Duration
	buf := make([]byte, 64)
	for i := range jobs + 1 {
		id := s.push(t, job.Envelope{Type: "w.tick", Args: json.RawMessage("[]")})[0]
		pushed := time.Now()
		if err := fifo.SetReadDeadline(pushed.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := fifo.Read(buf)
		if err != nil || strings.TrimSpace(string(buf[:n])) != string(id) {
			t.Fatalf("job %s: %q %v", id, buf[:n], err)
		}
		if i > 0 { // the first found a worker that was starting
			took = append(took, time.Since(pushed))
		}
		until(t, "the job is completed", func() bool {
			j, err := s.Job(t.Context(), id)
			return err == nil && j.State == job.Completed
		})
	}
	slices.Sort(took)
	t.Logf("from the answer to PUSH to the first line of the command, %d jobs: p50 %v, p95 %v, most %v", jobs, took[jobs/2], took[jobs*95/100], took[jobs-1])
}

// TestAKilledWorkerLeavesNoCommand: also those that a command has started, and that heed
// no signal, end with the worker, and its jobs are done by another.
func TestAKilledWorkerLeavesNoCommand(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*process){
		"killed": func(p *process) { _ = p.Process.Kill() },
		"signalled twice": func(p *process) {
			_ = p.Process.Signal(syscall.SIGTERM)
			time.Sleep(50 * time.Millisecond)
			_ = p.Process.Signal(syscall.SIGTERM)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openYard(t)
			log := filepath.Join(s.dir, "log")
			hang := s.script(t, "hang.sh", "trap '' TERM INT HUP\necho begun >> "+log+"\n(sleep 1000; sleep 1000) &\nsleep 1000\n")
			for range 4 {
				s.push(t, job.Envelope{Type: "w.hang", Args: json.RawMessage("[]")})
			}
			p := s.work(t, "--exec", "w.hang="+hang+" | cat")
			until(t, "all commands run", func() bool { return len(fileLines(log)) == 4 })
			if n := len(s.left(t)); n < 4*5 {
				t.Errorf("only %d processes were found of 4 commands: the search is blind", n)
			}
			end(p)
			if code := p.end(t, 30*time.Second); code == exitOK {
				t.Errorf("exit code %d", code)
			}
			s.gone(t, 5*time.Second)
		})
	}
}

// TestCtrlCDoesNotReachCommands: the terminal sends it to the whole group of the worker,
// which goes on with what it has.
func TestCtrlCDoesNotReachCommands(t *testing.T) {
	t.Parallel()
	s := openYard(t)
	log := filepath.Join(s.dir, "log")
	id := s.push(t, job.Envelope{Type: "w.slow", Args: json.RawMessage("[]")})[0]
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := begin(t, "setsid", "env", s.marker, self, "work", "--url", s.url, "--exec", "w.slow=echo begun >> "+log+"; sleep 0.7; echo 1")
	until(t, "the command runs", func() bool { return fileLines(log)[0] == "begun" })
	if err := syscall.Kill(-p.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, 20*time.Second); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if j, err := s.Job(t.Context(), id); err != nil || j.State != job.Completed {
		t.Errorf("the job is %s: %s %v", j.State, j.Error, err)
	}
	s.gone(t, 5*time.Second)
}
