//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/term"
)

// screens are the commands that are used most; DSN is the outbox of the world,
// FLOW its workflow and DEAD its dead letter.
var screens = []string{
	"job-ls: job ls", "job-get: job get DEAD", "queue-ls: queue ls", "dead-ls: dead ls",
	"workflow-draw: workflow draw FLOW", "workflow-ls: workflow ls", "unique-ls: unique ls", "worker-ls: worker ls", "cron-ls: cron ls", "events: events --limit 15",
	"outbox-status: outbox status DSN", "top: top", "help: --help",
}

// TestScreens keeps what a person sees of the commands that are used most, as a real
// terminal has it: tmux runs each, at 80 and at 120 columns, and gives back its screen
// with the colours. Without colours, by NO_COLOR or TERM=dumb, the same words stand in
// the same places. What goes into a pipe is kept, too. All of it holds on a light and on
// a dark ground, because nothing sets a ground, white, black or a shade of grey: only
// colours that the theme of the terminal makes readable are used.
func TestScreens(t *testing.T) {
	terminal := newTmux(t)
	w := newWorld(t)
	for _, line := range screens {
		name, command, _ := strings.Cut(line, ": ")
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(w.names.Replace(command))
			narrow := terminal.screen(t, w, 80, 24, args, "TERM=tmux-256color")
			wide := terminal.screen(t, w, 120, 40, args, "TERM=tmux-256color")
			for _, painted := range []string{narrow, wide} {
				if err := readable(painted); err != nil {
					t.Error(err)
				}
			}
			for _, environ := range [][]string{{"TERM=tmux-256color", "NO_COLOR=1"}, {"TERM=dumb"}} {
				if name == "top" && environ[0] == "TERM=dumb" {
					continue // it cannot draw there, and prints a frame: see below
				}
				if got, want := terminal.screen(t, w, 80, 24, args, environ...), plain(narrow); got != want {
					t.Errorf("with %s the screen is another:\n%s\nwith colours it is:\n%s", environ, got, want)
				}
			}
			piped := w.pipe(t, args)
			golden(t, "testdata/screens/"+name+".golden", fmt.Sprintf("-- 80 columns --\n%s-- 120 columns --\n%s-- a pipe --\n%s",
				marked(narrow), marked(wide), piped))
		})
	}
}

// TestTopOnADumbTerminal holds that top prints one frame where nothing can be drawn anew.
func TestTopOnADumbTerminal(t *testing.T) {
	terminal := newTmux(t)
	got := terminal.screen(t, newWorld(t), 80, 24, []string{"top"}, "TERM=dumb")
	if strings.Contains(got, "\x1b") || !strings.HasPrefix(got, "outrider top ") || strings.Contains(got, "q leave") {
		t.Errorf("got:\n%s", got)
	}
}

// TestTopLeavesTheTerminal holds that the terminal is as it was behind top, whatever ends it.
func TestTopLeavesTheTerminal(t *testing.T) {
	terminal := newTmux(t)
	w := newWorld(t)
	for _, end := range []string{"q", "C-c", "SIGTERM"} {
		s := terminal.start(t, w, 80, 24, []string{"sh", "-c", `echo before; sh -c 'echo $$ >PID; exec "$OUTRIDER" top'; echo it ended with $?; stty -a`}, "TERM=tmux-256color")
		s.until(t, "q leave")
		s.keys(t, "s", "p")
		s.until(t, "by active")
		s.until(t, "p go on")
		if end == "SIGTERM" {
			s.terminate(t)
		} else {
			s.keys(t, end)
		}
		s.until(t, "it ended with 0")
		got := s.until(t, "echoctl")
		for _, want := range []string{"before", " icanon", " echo ", " isig", " opost"} {
			if !strings.Contains(strings.ReplaceAll(got, "\n", " "), want) {
				t.Errorf("after %s there is no %q on the terminal:\n%s", end, want, got)
			}
		}
		if strings.Contains(got, "QUEUE") {
			t.Errorf("after %s top is still on the screen:\n%s", end, got)
		}
		if cursor := s.tmux(t, "display-message", "-p", "-t", s.name, "#{cursor_flag}#{alternate_on}"); cursor != "10\n" {
			t.Errorf("after %s the cursor and the screen of its own are %q, want 10", end, cursor)
		}
		s.end(t)
	}
}

// TestTopFollowsTheTerminal holds that top fits a terminal that becomes smaller, and
// shows there that the server is gone beside what it knew.
func TestTopFollowsTheTerminal(t *testing.T) {
	terminal := newTmux(t)
	w := newWorld(t)
	s := terminal.start(t, w, 80, 24, []string{w.self(), "top", "--every", "100ms"}, "TERM=tmux-256color")
	s.until(t, "q leave")
	s.tmux(t, "resize-window", "-t", s.name, "-x", "50", "-y", "10")
	s.until(t, "… and ")
	w.server.Close()
	got := s.until(t, "no answer: ")
	if !strings.Contains(got, "QUEUE") || !strings.Contains(got, "q leave") {
		t.Errorf("what was known is gone:\n%s", got)
	}
	for line := range strings.Lines(got) {
		if term.Width(strings.TrimSuffix(line, "\n")) > 50 {
			t.Errorf("a line is longer than the screen is wide: %s", line)
		}
	}
	s.end(t)
}

// sinceNow is a time that the clock of an app's database makes.
var sinceNow = regexp.MustCompile(`for ([0-9]+[hm])*[0-9.]+m?s\b`)

// tmuxes is one tmux of our own, with a socket of its own.
type tmuxes struct{ socket string }

func newTmux(t *testing.T) *tmuxes {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skipf("skipped: no tmux: %v", err)
	}
	dir, err := os.MkdirTemp("", "tmux") // that of t may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	tm := &tmuxes{socket: filepath.Join(dir, "s")}
	tm.tmux(t, "new-session", "-d", "-s", "stay", "sleep 600") // tmux ends with its last session
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", tm.socket, "kill-server").Run() // it has ended where it has no session
		_ = os.RemoveAll(dir)
	})
	return tm
}

func (tm *tmuxes) tmux(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", tm.socket, "-f", "/dev/null"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// session is a program in a terminal.
type session struct {
	*tmuxes
	name, pid string
}

// start runs a command in a terminal of a size. What is in its environment but for
// environ is where the server is, and what time it is.
func (tm *tmuxes) start(t *testing.T, w *world, width, height int, args []string, environ ...string) *session {
	t.Helper()
	s := &session{tm, fmt.Sprintf("s%d", time.Now().UnixNano()), filepath.Join(t.TempDir(), "pid")}
	var command []string
	for _, a := range append(append([]string{"env", "-i", "PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "LANG=C.UTF-8"}, w.environ...), append(environ, args...)...) {
		command = append(command, quoted(strings.ReplaceAll(a, ">PID", ">"+s.pid)))
	}
	s.tmux(t, "new-session", "-d", "-s", s.name, "-c", w.dir, "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), strings.Join(command, " ")+`; echo "- the end -"; sleep 600`)
	return s
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (s *session) keys(t *testing.T, keys ...string) {
	t.Helper()
	s.tmux(t, append([]string{"send-keys", "-t", s.name}, keys...)...)
}

func (s *session) end(t *testing.T) {
	t.Helper()
	s.tmux(t, "kill-session", "-t", s.name)
}

// terminate sends SIGTERM to the program that has told its pid.
func (s *session) terminate(t *testing.T) {
	t.Helper()
	told, err := os.ReadFile(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(told)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// until waits until a text is on the screen, and returns the screen.
func (s *session) until(t *testing.T, text string) string {
	t.Helper()
	for over := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := s.tmux(t, "capture-pane", "-p", "-t", s.name)
		if strings.Contains(got, text) {
			return got
		}
		if time.Now().After(over) {
			t.Fatalf("there is no %q on the screen:\n%s", text, got)
		}
	}
}

// screen is what a command leaves on the screen and above it, or has on it where it goes on.
func (tm *tmuxes) screen(t *testing.T, w *world, width, height int, args []string, environ ...string) string {
	t.Helper()
	s := tm.start(t, w, width, height, append([]string{w.self()}, args...), environ...)
	defer s.end(t)
	end := "- the end -"
	if args[0] == "top" && environ[0] != "TERM=dumb" {
		end = "q leave"
	}
	s.until(t, end)
	text := painted(s.tmux(t, "capture-pane", "-p", "-e", "-S", "-", "-t", s.name))
	text, _, _ = strings.Cut(text, "- the end -")
	return sinceNow.ReplaceAllString(strings.TrimRight(text, "\n")+"\n", "for AGO")
}
