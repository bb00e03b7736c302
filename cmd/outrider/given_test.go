package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestASettingFromAFile: the variable with _FILE behind its name names a file
// that holds the value, one line feed at its end aside.
func TestASettingFromAFile(t *testing.T) {
	dir := t.TempDir()
	file := func(content string) string {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	for _, s := range settings { // there is none without
		if s.flag == "url" || s.flag == "to" {
			continue // serve does not know them
		}
		if _, err := configured(t, []string{s.env + "_FILE=" + filepath.Join(dir, "none")}); err == nil || !strings.Contains(err.Error(), s.env+"_FILE: there is no file "+dir) {
			t.Errorf("%s: %v", s.env, err)
		}
	}
	c, err := configured(t, []string{"OUTRIDER_OUTBOX_FILE=" + file("sqlite:a.db,postgres://ada:pw@h/b\n"), "OUTRIDER_DB_FILE=" + file("c.db"),
		"OUTRIDER_HOST_FILE=" + file("d,e\r\n"), "OUTRIDER_LOG_LEVEL_FILE="})
	if err != nil || len(c.outboxes) != 2 || c.outboxes[1].PG().Password != "pw" || c.db != "c.db" || strings.Join(c.hosts, " ") != "d e" {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := configured(t, []string{"OUTRIDER_DB_FILE=" + file("c.db"), "OUTRIDER_DB=d.db"}, "--db", "flag.db"); err != nil || c.db != "flag.db" {
		t.Errorf("a flag does not beat both: %q, %v", c.db, err)
	}
	folder := t.TempDir()
	for _, tt := range []struct{ env, want string }{
		{"OUTRIDER_DB=x.db\nOUTRIDER_DB_FILE=y", "OUTRIDER_DB and OUTRIDER_DB_FILE are both set"},
		{"OUTRIDER_OUTBOX_FILE=" + folder, "OUTRIDER_OUTBOX_FILE: " + folder + " is a folder"},
		{"OUTRIDER_OUTBOX_FILE=" + file(""), "is empty"},
		{"OUTRIDER_OUTBOX_FILE=" + file("\n"), "is empty"},
		{"OUTRIDER_OUTBOX_FILE=" + file("sqlite:a.db\nhunter2"), "does not hold one line"},
		{"OUTRIDER_DB_FILE=" + file("SQLite format 3\x00hunter2"), "does not hold one line"},
		{"OUTRIDER_DB_FILE=" + file(strings.Repeat("hunter2", 10_000)), "longer than 65536 bytes"},
		{"OUTRIDER_LOG_LEVEL_FILE=" + file("hunter2"), "OUTRIDER_LOG_LEVEL_FILE must be debug"},
		{"OUTRIDER_OUTBOX_FILE=postgres://ada:hunter2@h/x", "OUTRIDER_OUTBOX_FILE: must name a file"},
		{"OUTRIDER_OUTBOX_FILE=" + file("postgres://ada:hun@ter2hunter2@h/x"), "OUTRIDER_OUTBOX_FILE is ambiguous"},
	} {
		o := try(t, strings.Split(tt.env, "\n"), "serve")
		if o.code != exitUsage || !strings.Contains(o.stderr, tt.want) || strings.Contains(o.stderr, "hunter2") {
			t.Errorf("%s: exit %d: %s", tt.env, o.code, o.stderr)
		}
	}
	if o := try(t, []string{"OUTRIDER_OUTBX_FILE=x"}, "version"); !strings.Contains(o.stderr, "did you mean OUTRIDER_OUTBOX_FILE?") {
		t.Errorf("a slip in the name: %s", o.stderr)
	}
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}} {
		if o := try(t, nil, args...); !strings.Contains(o.stdout, "_FILE") {
			t.Errorf("%v does not tell of files: %s", args, o.stdout)
		}
	}
}
