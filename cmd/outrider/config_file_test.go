package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTheDocumentedFileOfSettings reads what docs/operations.md and the help show.
func TestTheDocumentedFileOfSettings(t *testing.T) {
	raw, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	_, help, _ := strings.Cut((&app{}).configCommand().Long, "is YAML:\n\n")
	for _, text := range []string{block, strings.ReplaceAll(help, "\n  ", "\n")} {
		c, err := parseConfig("x.yaml", []byte(strings.TrimPrefix(text, "  ")))
		if err != nil || len(c.values) != strings.Count(strings.TrimSpace(text), "\n")+1 {
			t.Errorf("%v, %v:\n%s", c, err, text)
		}
	}
}

// TestAFileSaysWhatTheFlagsSay gives any settings by flags, by variables and by a
// file: what comes of them is the same, right or wrong.
func TestAFileSaysWhatTheFlagsSay(t *testing.T) {
	texts := map[string][]string{
		"listen": {"127.0.0.1:9000", "unix:///tmp/x", "loud"}, "db": {"x.db", "postgres://x"}, "outbox": {"sqlite:a.db", "postgres://u:p@h/d", "mysql://u@h"},
		"outbox-release": {"on_relay", "on_complete", "never"}, "outbox-keep": {"0s", "24h"}, "outbox-batch": {"", "7", "0"}, "host": {"a", "b.example"},
		"allow-remote": {"true", "false"}, "log-level": {"debug", "loud"}, "on-exhaustion": {"discard", "mail=dead_letter", "x"}, "max-requeues": {"0", "08", "-1"},
		"memory-limit": {"1GB", "1"}, "shutdown-grace": {"0s", "2m", "5"},
	}
	var names []string
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		var args, env []string
		var file strings.Builder
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(rt, "names") {
			s := settings[slices.IndexFunc(settings, func(s setting) bool { return s.flag == name })]
			most := 1
			if s.list {
				most = 3
			}
			values := rapid.SliceOfN(rapid.SampledFrom(texts[name]), 1, most).Draw(rt, name)
			key := name
			if rapid.Bool().Draw(rt, "underscores") {
				key = s.name()
			}
			quoted := make([]string, len(values))
			for i, v := range values {
				args = append(args, "--"+name+"="+v)
				if quoted[i] = v; v == "" || rapid.Bool().Draw(rt, "quotes") {
					quoted[i] = fmt.Sprintf("%q", v)
				}
			}
			env = append(env, s.env+"="+strings.Join(values, ","))
			switch {
			case len(values) > 1 && rapid.Bool().Draw(rt, "lines"):
				fmt.Fprintf(&file, "%s:\n  - %s\n", key, strings.Join(quoted, "\n  - "))
			case len(values) > 1:
				fmt.Fprintf(&file, "%s: [%s]\n", key, strings.Join(quoted, ", "))
			default:
				fmt.Fprintf(&file, "%s: %s # said here\n", key, quoted[0])
			}
		}
		name := filepath.Join(dir, "x.yaml")
		writeFile(t, name, file.String())
		byFlag, wrong := configured(t, nil, args...)
		byEnv, wrongEnv := configured(t, env)
		byFile, wrongFile := configured(t, []string{"OUTRIDER_CONFIG=" + name})
		if (wrong == nil) != (wrongFile == nil) || (wrong == nil) != (wrongEnv == nil) {
			rt.Fatalf("flags: %v\nvariables: %v\nfile: %v\n%s", wrong, wrongEnv, wrongFile, file.String())
		}
		if wrong != nil {
			return
		}
		show := func(c config) string {
			outboxes := fmt.Sprint(c.outboxes)
			c.told, c.outboxes = nil, nil // the one says where it comes from, the other has addresses in memory
			return outboxes + fmt.Sprintf("%+v", c)
		}
		if show(byFlag) != show(byFile) || show(byFlag) != show(byEnv) {
			rt.Fatalf("by flags:\n%s\nby variables:\n%s\nby a file:\n%s\nof\n%s", show(byFlag), show(byEnv), show(byFile), file.String())
		}
	})
}
