package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// typed are the commands of a block, without comments, a command on several lines as one.
func typed(text string) (commands []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if line, _, _ = strings.Cut(line, "   #"); strings.TrimSpace(line) != "" {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// checkout copies the repository as somebody has it who has just cloned it.
func checkout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "outrider")
	for _, name := range []string{"cmd", "internal", "job", "client", "sidecar", "sqlitestore", "outbox", "adapters", "cronsched", "cronfile", "once", "examples"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("../..", name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "doc.go", "schema.go", "schema.sql"} {
		raw, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(raw))
	}
	return dir
}

// TestThePathOfREADME types the commands of README from a clone to a transactional job
// that a script has worked on. There are six at most.
func TestThePathOfREADME(t *testing.T) {
	t.Parallel()
	commands := typed(block(t, "A job from a transaction", "sh"))
	if len(commands) > 6 {
		t.Errorf("the path has %d commands: %q", len(commands), commands)
	}
	if !strings.HasPrefix(commands[0], "git clone ") || commands[1] != "go install ./cmd/outrider" {
		t.Fatalf("the path begins with %q", commands[:2])
	}
	commands[0] = "true" // the clone is there
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	bin := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	script := "set -e\ntrap 'kill $(jobs -p); wait' EXIT\n" + strings.Join(commands, "\n") + `
for i in $(seq 200); do
	outrider job ls --state completed -o ndjson >done.json 2>/dev/null && [ -s done.json ] && break
	sleep 0.1
done
sleep 0.2
cat done.json
`
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = checkout(t)
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"OUTRIDER_LISTEN="+address, "OUTRIDER_URL=http://"+address)
	cmd.WaitDelay = 5 * time.Second
	raw, err := cmd.CombinedOutput()
	out := string(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"type":"order.confirm"`, `"state":"completed"`, `"mailed":"ada@example.com"`, "committed: order.confirm becomes job"} {
		if !strings.Contains(strings.ReplaceAll(out, `": "`, `":"`), want) {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
	if !strings.Contains(out, "order.confirm") || !strings.Contains(out, "completed in") {
		t.Errorf("the worker shows no job that it has done:\n%s", out)
	}
}

// TestTheTerminalOfREADME types what README shows of the terminal.
func TestTheTerminalOfREADME(t *testing.T) {
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "outrider")); err != nil {
		t.Fatal(err)
	}
	server, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	outputs := map[string]string{}
	for _, command := range typed(block(t, "At the terminal", "sh")) {
		if strings.HasPrefix(command, "outrider doctor") {
			command += " --listen 127.0.0.1:0"
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "OUTRIDER_URL="+server, "COLUMNS=80")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		outputs[command] = string(out)
	}
	for command, want := range map[string]string{"outrider job ls --queue mail": "available", "outrider job ls --state completed --since 1h": "email.send", "outrider queue ls": "mail"} {
		if !strings.Contains(outputs[command], want) {
			t.Errorf("%s does not say %q:\n%s", command, want, fmt.Sprint(outputs[command]))
		}
	}
}
