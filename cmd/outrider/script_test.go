package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
)

// TestScripts types what stands in testdata/script/*.txtar, as a person would at a
// terminal that is none (but for those of screens_test.go). Beside the commands of
// package testscript a script has:
//
//	server [FLAG...]   starts a server of its own; the commands that follow ask it, at $ADDRESS
//	stop               has that server end, as SIGTERM does, and waits for it
//	masked FILE        writes to FILE what the last command printed, with ID1, ID2 …
//	                   for ids, AGO for times that depend on the clock, and DIR
//	firstid NAME       sets $NAME to the first id that the last command printed
//	works QUEUE HOW    fetches the next job of a queue and ends it; see scriptWorks
//	until ARG...       runs a command of ours until it does not fail, at most 20 s
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "")
			env.Setenv("HOME", env.WorkDir)
			env.Values["server"] = &scripted{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": scriptServer, "stop": scriptStop, "masked": scriptMasked, "until": scriptUntil,
			"works": scriptWorks, "firstid": scriptFirstID,
		},
	})
}

// scripted is the server of a script.
type scripted struct {
	cmd   *exec.Cmd
	logs  *bytes.Buffer
	ended chan struct{} // closed when it has
}

func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("server").(*scripted)
	self, err := os.Executable()
	ts.Check(err)
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--db", ts.MkAbs("outrider.db")}, args...)
	*s = scripted{cmd: exec.Command(self, args...), logs: &bytes.Buffer{}, ended: make(chan struct{})}
	stdout := newLines()
	s.cmd.Env = append(os.Environ(), asProgram)
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Stdout, s.cmd.Stderr = stdout, s.logs
	ts.Check(s.cmd.Start())
	go func() {
		_ = s.cmd.Wait() // a script that wants its code looks at the log
		stdout.Close()
		close(s.ended)
	}()
	ts.Defer(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	select {
	case line := <-stdout.ch:
		url, ready := strings.CutPrefix(line, "outrider: listening on ")
		if !ready {
			<-s.ended
			ts.Fatalf("the server does not start:\n%s", s.logs)
		}
		url, _, _ = strings.Cut(url, " ")
		ts.Setenv("OUTRIDER_URL", url)
		ts.Setenv("ADDRESS", strings.TrimPrefix(url, "http://"))
	case <-time.After(30 * time.Second):
		ts.Fatalf("the server does not start")
	}
	go func() {
		for range stdout.ch { // so that it never waits for a reader
		}
	}()
}

func scriptStop(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("server").(*scripted)
	ts.Check(s.cmd.Process.Signal(os.Interrupt))
	<-s.ended
	ts.Check(os.WriteFile(ts.MkAbs("server.log"), s.logs.Bytes(), 0o600))
}

// anID is an id of a job or a workflow; ago are times that the clock makes.
var (
	anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ago  = regexp.MustCompile(`\b(\d+s ago|in \d+s|now)\b *|\d{4}-\d{2}-\d{2}T[0-9:.]+Z`)
)

func scriptMasked(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: masked file")
	}
	text := strings.ReplaceAll(ts.ReadFile("stdout")+ts.ReadFile("stderr"), ts.MkAbs("."), "DIR")
	ids := map[string]string{}
	text = anID.ReplaceAllStringFunc(text, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("ID%d", len(ids)+1)
		}
		return ids[id]
	})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ago.ReplaceAllString(text, "AGO ")), 0o600))
}

func scriptFirstID(ts *testscript.TestScript, neg bool, args []string) {
	id := anID.FindString(ts.ReadFile("stdout"))
	if len(args) != 1 || id == "" {
		ts.Fatalf("firstid NAME: the last command printed no id")
	}
	ts.Setenv(args[0], id)
}

func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	for over := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := ts.Exec("outrider", args...)
		if (err == nil) != neg {
			return
		}
		if time.Now().After(over) {
			ts.Fatalf("outrider %s: still %v", strings.Join(args, " "), err)
		}
	}
}

// TestHelp keeps what every command says of itself, a file for each. No
// line is longer than a narrow terminal is wide.
func TestHelp(t *testing.T) {
	kept := map[string]bool{}
	eachCommand((&app{}).root(), func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		o := try(t, nil, args...)
		if o.code != exitOK || o.stderr != "" {
			t.Errorf("%s: exit %d, %q", strings.Join(args, " "), o.code, o.stderr)
		}
		file := filepath.Join("testdata/help", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".golden")
		kept[file] = true
		golden(t, file, o.stdout)
		for line := range strings.Lines(o.stdout) {
			if term.Width(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("%s --help: a line is longer than 80 columns: %s", cmd.CommandPath(), line)
			}
		}
	})
	files, err := filepath.Glob("testdata/help/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !kept[f] {
			t.Errorf("%s is of no command", f)
		}
	}
}

// TestEveryCommand: each is typed by some script, and each refuses a flag that it does
// not have in one line, before it does anything.
func TestEveryCommand(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(raw)
	}
	eachCommand((&app{}).root(), func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Parent() == nil {
			return
		}
		typed := regexp.MustCompile(`(?m)\b` + cmd.CommandPath() + `\b`)
		if !cmd.HasSubCommands() && !typed.MatchString(scripts.String()) && cmd.Name() != "serve" { // server is serve
			t.Errorf("no script types %s", cmd.CommandPath())
		}
		o := try(t, nil, append(strings.Fields(cmd.CommandPath())[1:], "--frobnicate")...)
		if o.code != exitUsage || o.stdout != "" || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, "--frobnicate") {
			t.Errorf("%s --frobnicate: %+v", cmd.CommandPath(), o)
		}
	})
}
