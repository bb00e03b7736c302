package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// aName is a word that a server knows of.
var aName = regexp.MustCompile(`\b(ID|NAME|JOB_ID|TYPE)\b`)

// TestEveryNameIsCompleted holds that no command that takes a name is without its
// completion, and that each completion is of a command and a flag that there is.
func TestEveryNameIsCompleted(t *testing.T) {
	wired := map[string]bool{}
	eachCommand((&app{}).root(), func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "outrider ")
		wired[path] = true
		for flag := range completesOwn {
			if of, name, _ := strings.Cut(flag, " --"); of == path && cmd.Flags().Lookup(name) != nil {
				wired[flag] = true
			}
		}
		_, words, _ := strings.Cut(cmd.Use, " ")
		if aName.MatchString(words) && !cmd.Hidden && completes[path] == nil && path != "outbox add" { // its first word is a DSN
			t.Errorf("outrider %s takes %s, and completes nothing", path, words)
		}
	})
	for path := range completes {
		if !wired[path] {
			t.Errorf("there is no command outrider %s", path)
		}
	}
	for flag := range completesOwn {
		if !wired[flag] {
			t.Errorf("there is no outrider %s", flag)
		}
	}
}

// TestCompletionWaitsForNobody holds that a server that takes a connection and never
// answers costs a finger on the key no more than its bounded time.
func TestCompletionWaitsForNobody(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, line := range []string{"unique ls --queue", "unique ls --type", "cron get", "worker quiet", "workflow get", "job get", "queue get", "dead get"} {
		began := time.Now()
		o := try(t, []string{"OUTRIDER_URL=http://" + silent.Addr().String()}, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if o.code != exitOK || o.stdout != ":36\n" || strings.Contains(o.stderr, "error") {
			t.Errorf("%s: exit %d, %q, %q", line, o.code, o.stdout, o.stderr)
		}
		if took := time.Since(began); took < completeTime || took > completeTime+3*time.Second {
			t.Errorf("%s took %v; a server gets %v", line, took, completeTime)
		}
	}
}

// TestCompletionInBash loads the script into a real bash, and completes there.
func TestCompletionInBash(t *testing.T) {
	script := shellScript(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "outrider")); err != nil {
		t.Fatal(err)
	}
	complete := exec.CommandContext(ctx, "bash", "--norc", "-c", `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
compopt() { :; } # there is no completion under way but ours
source "$1"
for line in "outrider workf" "outrider workflow dr" "outrider unique ls -o n"; do
	COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9 COMP_KEY=9 COMP_WORDS=($line)
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
	__start_outrider
	echo "${COMPREPLY[*]}"
done`, "bash", script)
	complete.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), asProgram}
	out, err := complete.CombinedOutput()
	if want := "workflow\ndraw\nndjson\n"; err != nil || string(out) != want {
		t.Errorf("got %q, want %q, %v", out, want, err)
	}
}

// TestCompletionScriptsAreValid has each shell that is here read its script.
func TestCompletionScriptsAreValid(t *testing.T) {
	check := map[string][]string{"bash": {"bash", "-n"}, "zsh": {"zsh", "-n"}, "fish": {"fish", "--no-execute"}}
	for _, shell := range shells {
		script := shellScript(t, shell)
		if c := check[shell]; c != nil {
			if _, err := exec.LookPath(c[0]); err != nil {
				continue // what the script holds is in testdata/script/completion.txtar
			}
			if out, err := exec.Command(c[0], append(c[1:], script)...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", shell, err, out)
			}
		}
	}
}

func shellScript(t *testing.T, shell string) string {
	t.Helper()
	o := try(t, nil, "completion", shell)
	if o.code != exitOK || o.stderr != "" || len(o.stdout) < 1000 {
		t.Fatalf("completion %s: exit %d, %q", shell, o.code, o.stderr)
	}
	script := filepath.Join(t.TempDir(), "outrider."+shell)
	writeFile(t, script, o.stdout)
	return script
}
