package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// TestWorkKeepsItsSecrets: a command is not given the token of its worker unless that is
// asked for, and may then enqueue.
func TestWorkKeepsItsSecrets(t *testing.T) {
	file, made := roleFile(t, "worker,producer", "read-only")
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--token-file", file)
	own := filepath.Join(t.TempDir(), "token")
	writeFile(t, own, made["worker,producer"]+"\n")
	c, err := client.New(url, client.Options{Token: made["worker,producer"]})
	if err != nil {
		t.Fatal(err)
	}
	read, err := client.New(url, client.Options{Token: made["read-only"]})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, passes, exit string
		env                []string
		flags              []string
	}{
		{"in a variable", "", "exit_1", []string{tokenVariable + "=" + made["worker,producer"]}, nil},
		{"in a file", "", "exit_1", nil, []string{"--token-file", own}},
		{"passed from a file", made["worker,producer"], "", nil, []string{"--token-file", own, "--pass-token"}},
		{"passed from a variable", made["worker,producer"], "", []string{tokenVariable + "=" + made["worker,producer"]}, []string{"--pass-token"}},
	} {
		rs, err := c.Enqueue(t.Context(), job.Envelope{Type: "w.first", Args: json.RawMessage("[]"), Retry: json.RawMessage(`{"max_attempts":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		line := `w.first=printf %s "$OJS_AUTH_TOKEN$OUTRIDER_TOKEN_FILE"; ` + asProgram + " " + self + ` enqueue w.next '["'$OJS_JOB_ID'"]' >&2`
		env := append([]string{"OUTRIDER_URL=" + url, "OUTRIDER_TOKEN_FILE=", "PATH=" + os.Getenv("PATH")}, tt.env...)
		o := try(t, env, append([]string{"work", "--until-empty", "--exec", line, "--exec", "w.next=true"}, tt.flags...)...)
		if o.code != exitOK {
			t.Errorf("%s: %+v", tt.name, o)
		}
		j, err := read.Job(t.Context(), rs[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		var passed string
		_ = json.Unmarshal(j.Result, &passed) // nothing is nothing
		if passed != tt.passes || j.ErrorType() != tt.exit {
			t.Errorf("%s: the command was given %q and is %s: %s\n%s%s", tt.name, passed, j.State, j.Error, o.stdout, o.stderr)
		}
		next, err := read.Jobs(t.Context(), job.Filter{Type: "w.next", States: []job.State{job.Completed}})
		if err != nil || strings.Contains(o.stdout+o.stderr, made["worker,producer"]) {
			t.Errorf("%s: %v\n%s%s", tt.name, err, o.stdout, o.stderr)
		}
		done := slices.ContainsFunc(next.Jobs, func(n *job.Job) bool { return string(n.Args) == `["`+string(j.ID)+`"]` })
		if done != (tt.passes != "") {
			t.Errorf("%s: the job that the command enqueued was done: %v\n%s%s", tt.name, done, o.stdout, o.stderr)
		}
	}
}

// TestTheSecretOfRequests comes from a flag, else from a variable, else from the file that
// one names.
func TestTheSecretOfRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flag, named := filepath.Join(dir, "flag"), filepath.Join(dir, "named")
	writeFile(t, flag, "of the flag\n")
	writeFile(t, named, "of the file\r\n")
	for name, tt := range map[string]struct {
		file      string
		env       map[string]string
		want, why string
	}{
		"none":            {"", nil, "", ""},
		"flag":            {flag, nil, "of the flag", ""},
		"variable":        {"", map[string]string{workSecret: "of the variable"}, "of the variable", ""},
		"file":            {"", map[string]string{workSecret + "_FILE": named}, "of the file", ""},
		"flag and others": {flag, map[string]string{workSecret: "v", workSecret + "_FILE": named}, "of the flag", ""},
		"both":            {"", map[string]string{workSecret: "v", workSecret + "_FILE": named}, "", "are both set"},
		"no file":         {filepath.Join(dir, "none"), nil, "", "--secret-file: there is no file"},
		"no named file":   {"", map[string]string{workSecret + "_FILE": filepath.Join(dir, "none")}, "", workSecret + "_FILE: there is no file"},
	} {
		got, err := (&workFlags{secretFile: tt.file}).secret(tt.env)
		if (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) || err == nil && got.Reveal() != tt.want {
			t.Errorf("%s: got %q, %v", name, got.Reveal(), err)
		}
	}
}

// TestWorkIsDocumented: docs/work.md has each flag, but those that every command has.
func TestWorkIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "work.md"))
	if err != nil {
		t.Fatal(err)
	}
	(&app{}).workCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"url", "token-file", "config", "help"}, f.Name) && !strings.Contains(string(page), "`--"+f.Name) && !strings.Contains(string(page), "--"+f.Name+" '") {
			t.Errorf("docs/work.md does not say what --%s does", f.Name)
		}
	})
}
