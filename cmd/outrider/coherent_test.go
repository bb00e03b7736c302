package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestOneOutboxNamedTwice is a mistake in the use of any command.
func TestOneOutboxNamedTwice(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "shop.db")
	for _, args := range [][]string{{"serve"}, {"relay", "--to", "http://127.0.0.1:1"}, {"outbox", "check"}} {
		o := try(t, nil, append(args, "--outbox", "sqlite:shop.db", "--outbox", "sqlite:"+file)...)
		if o.code != exitUsage || !strings.Contains(o.stderr, "given twice") {
			t.Errorf("%v: got %+v", args, o)
		}
	}
	if o := try(t, nil, "outbox", "check", "sqlite:shop.db", "sqlite:./shop.db"); o.code != exitUsage || !strings.Contains(o.stderr, "given twice") {
		t.Errorf("arguments: got %+v", o)
	}
}

// TestKeepBesideOnComplete is refused with a word on what to do.
func TestKeepBesideOnComplete(t *testing.T) {
	for _, environ := range [][]string{nil, {"OUTRIDER_OUTBOX_KEEP=24h", "OUTRIDER_OUTBOX_RELEASE=on_complete"}} {
		args := []string{"serve", "--db", tempDB(t)}
		if environ == nil {
			args = append(args, "--outbox-keep", "24h", "--outbox-release", "on_complete")
		}
		o := try(t, environ, args...)
		if o.code != exitUsage || !strings.Contains(o.stderr, "leave out --outbox-keep") || !strings.Contains(o.stderr, "on_relay") {
			t.Errorf("got %+v", o)
		}
	}
}
