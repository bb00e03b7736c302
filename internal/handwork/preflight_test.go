//go:build unix

package handwork

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandsAreLookedAtBeforeTheyRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "plain.sh": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for command, why := range map[string]string{
		"DIR/run.sh":               "",
		"DIR/run.sh --flag 'x y'":  "",
		"DIR/run.sh|cat":           "",
		"true":                     "",
		"cat | tr a b":             "",
		"cd /; :":                  "",
		"if true; then echo 1; fi": "",
		"X=1 whatever":             "",
		"$HOME/x.sh":               "",
		"(cat)":                    "",
		"! true":                   "",
		"'quoted program'":         "",
		"DIR/none.sh":              "there is no file DIR/none.sh",
		"DIR/plain.sh --flag":      "DIR/plain.sh may not be executed; type: chmod +x DIR/plain.sh",
		"DIR":                      "DIR is a folder, and no command",
		"no-such-program-here x":   "there is no command no-such-program-here; for a file in this folder write a.b=./no-such-program-here",
		"echo 'open":               "the shell cannot read the command of a.b: ",
		"if true; then":            "the shell cannot read the command of a.b: ",
		"./none-at-all.sh":         "there is no file ./none-at-all.sh in /",
	} {
		in := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
		err := Mapping{Pattern: "a.b", Command: in(command)}.Preflight(t.Context())
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), in(why)) {
			t.Errorf("%s: got %v, want %q", command, err, why)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command was run")
	}
	if err := (Mapping{Pattern: "a.b", URL: "http://nowhere.invalid"}).Preflight(t.Context()); err != nil {
		t.Errorf("a URL: %v", err)
	}
}
