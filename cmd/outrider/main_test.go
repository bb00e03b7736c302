package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// asProgram makes the test binary behave as outrider itself, for tests that need a real process.
const asProgram = "TEST_AS_OUTRIDER=1"

func TestMain(m *testing.M) {
	if os.Getenv("TEST_AS_OUTRIDER") == "1" || len(os.Args) > 1 && os.Args[1] == guardWord { // of a worker in this process
		if at, err := time.Parse(time.RFC3339, os.Getenv("TEST_OUTRIDER_CLOCK")); err == nil {
			a := &app{env: environment(os.Environ()), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, clock: func() time.Time { return at }}
			os.Exit(a.run(signalled(context.Background()), os.Args[1:]))
		}
		main()
	}
	testscript.Main(m, map[string]func(){"outrider": main}) // what scripts call outrider
}

// outcome is what a run of the program leaves.
type outcome struct {
	code           int
	stdout, stderr string
}

// try runs the program to its end in this process.
func try(t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	return tryWith(t, "", environ, args...)
}

// tryWith is try with something on standard input.
func tryWith(t *testing.T, stdin string, environ []string, args ...string) outcome {
	t.Helper()
	return tryAt(t, time.Now, stdin, environ, args...)
}

// tryAt is tryWith by another clock.
func tryAt(t *testing.T, clock func() time.Time, stdin string, environ []string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := &app{env: environment(environ), stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, clock: clock}
	code := a.run(ctx, args)
	return outcome{code, stdout.String(), stderr.String()}
}

// lines hands out what is written, line by line.
type lines struct {
	*io.PipeWriter
	ch chan string
}

func newLines() *lines {
	r, w := io.Pipe()
	l := &lines{w, make(chan string, 1000)}
	go func() {
		defer close(l.ch)
		for s := bufio.NewScanner(r); s.Scan(); {
			l.ch <- s.Text()
		}
	}()
	return l
}

// until waits for a line that holds text and returns it.
func (l *lines) until(t *testing.T, text string) string {
	t.Helper()
	var seen []string
	for deadline := time.After(30 * time.Second); ; {
		select {
		case line, ok := <-l.ch:
			if strings.Contains(line, text) {
				return line
			}
			seen = append(seen, line)
			if !ok {
				t.Fatalf("the output ended without %q:\n%s", text, strings.Join(seen, "\n"))
			}
		case <-deadline:
			t.Fatalf("no line with %q came:\n%s", text, strings.Join(seen, "\n"))
		}
	}
}

// rest is all that is still to come.
func (l *lines) rest() string {
	var all []string
	for line := range l.ch {
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// readyURL is where the server says it listens.
func readyURL(t *testing.T, stdout *lines) string {
	t.Helper()
	line := stdout.until(t, "outrider: listening on ")
	url, _, _ := strings.Cut(strings.TrimPrefix(line, "outrider: listening on "), " ")
	return url
}

// inProcess starts serve in this process and returns its URL, and what stops it and gives its exit code.
func inProcess(t *testing.T, args ...string) (url string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stdout, stderr := newLines(), newLines()
	code := make(chan int, 1)
	go func() {
		c := run(ctx, append([]string{"serve"}, args...), nil, strings.NewReader(""), stdout, stderr)
		stdout.Close()
		stderr.Close()
		code <- c
	}()
	told := make(chan struct{})
	go func() {
		defer close(told)
		t.Logf("log of the server:\n%s", stderr.rest())
	}()
	done := -1
	stop = func() int {
		if done < 0 {
			cancel()
			done = <-code
			<-told
		}
		return done
	}
	t.Cleanup(func() { stop() })
	return readyURL(t, stdout), stop
}

// process is the program as a process of its own.
type process struct {
	*exec.Cmd
	stdout, stderr *lines
}

// startProcess starts the program; the test's end kills it if it still runs.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return begin(t, self, args...)
}

// begin starts a command that is the program, or becomes it; the test's end kills
// it if it still runs.
func begin(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{exec.Command(name, args...), newLines(), newLines()}
	p.Env = append(os.Environ(), asProgram)
	p.Stdout, p.Stderr = p.stdout, p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// end waits for the process and gives its exit code.
func (p *process) end(t *testing.T, limit time.Duration) int {
	t.Helper()
	kill := time.AfterFunc(limit, func() { _ = p.Process.Kill() })
	_ = p.Wait() // the code says how it went
	p.stdout.Close()
	p.stderr.Close()
	if !kill.Stop() {
		t.Errorf("the process did not end within %v", limit)
	}
	return p.ProcessState.ExitCode()
}

func tempDB(t *testing.T) string { return filepath.Join(t.TempDir(), "outrider.db") }
