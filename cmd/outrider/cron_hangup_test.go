//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSIGHUPReadsTheCronFileAgain in a process of its own, which then ends as ever.
func TestSIGHUPReadsTheCronFileAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crons.yaml")
	writeFile(t, file, cronsAtFirst)
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--cron-file", file)
	url := readyURL(t, p.stdout)
	writeFile(t, file, cronsLater)
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.stdout.until(t, "~ nightly: expression")
	p.stdout.until(t, "2 changed, 1 removed")
	if o := try(t, []string{"OUTRIDER_URL=" + url}, "cron", "ls"); o.code != exitOK || !strings.Contains(o.stdout, "30 4 * * *") || strings.Contains(o.stdout, "often") {
		t.Errorf("got %+v", o)
	}
	p.signal(t)
	if code := p.end(t, 20*time.Second); code != exitOK {
		t.Errorf("got exit %d, want 0", code)
	}
}
