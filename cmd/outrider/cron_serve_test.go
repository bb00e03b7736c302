package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
)

// served starts a server in this process with a file of schedules, or with none.
func served(t *testing.T, cfg config) (s *server, log, out *bytes.Buffer) {
	t.Helper()
	log, out = new(bytes.Buffer), new(bytes.Buffer)
	cfg.listen, cfg.out = netguard.Address{Network: "tcp", Where: "127.0.0.1:0"}, out
	s, err := start(t.Context(), cfg, cfg.logger(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s, log, out
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func cronNames(t *testing.T, from job.CronService) string {
	t.Helper()
	page, err := from.Crons(t.Context(), job.CronFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range page.Crons {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// TestServeKeepsACronFile: the file is applied at the start and when it is read
// again; what is wrong in it stays as it was, and what is gone from it goes.
func TestServeKeepsACronFile(t *testing.T) {
	cfg := config{db: tempDB(t), cronFile: filepath.Join(t.TempDir(), "crons.yaml")}
	writeFile(t, cfg.cronFile, cronsAtFirst)
	s, log, out := served(t, cfg)
	if got := cronNames(t, s.side); got != "nightly often poll" || !strings.Contains(out.String(), "+ nightly  30 2 * * *  Europe/Berlin\n    ") ||
		!strings.Contains(out.String(), "        ^^ here") || !strings.Contains(log.String(), "was refused") {
		t.Errorf("got %s, output\n%s%s", got, out, log)
	}
	ctx := t.Context()
	off := false
	if _, err := s.side.ChangeCron(ctx, "nightly", job.CronPatch{Enabled: &off}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.side.PutCron(ctx, job.CronSpec{Name: "by-hand", Expression: "@daily", Template: []byte(`{"type":"a.b","args":[]}`)}); err != nil {
		t.Fatal(err)
	}
	before, err := s.side.Crons(ctx, job.CronFilter{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, cfg.cronFile, strings.Replace(cronsAtFirst, "0 3 32", "0 3 33", 1))
	s.applyCronFile(ctx)
	after, err := s.side.Crons(ctx, job.CronFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range after.Crons {
		was := before.Crons[i]
		if c.Name != was.Name || !c.UpdatedAt.Equal(was.UpdatedAt) || !c.NextRunAt.Equal(was.NextRunAt) || c.On() != was.On() {
			t.Errorf("an unchanged file made %+v of %+v", c, was)
		}
	}
	for _, step := range []struct{ text, names, log string }{
		{"crons: [", "by-hand nightly often poll", "not valid YAML"},
		{"", "by-hand nightly often poll", "has no crons"},
		{cronsNameless, "by-hand nightly often poll", "no schedule was removed"},
		{"crons:\n  - {name: often, cron: \"* * * *\", type: a.b}\n", "by-hand often", "fields"},
		{"crons: []\n", "by-hand", "removed=1"},
	} {
		writeFile(t, cfg.cronFile, step.text)
		log.Reset()
		s.applyCronFile(ctx)
		if got := cronNames(t, s.side); got != step.names || !strings.Contains(log.String(), step.log) {
			t.Errorf("%q left %q, want %q with %q in the log:\n%s", step.text, got, step.names, step.log, log)
		}
	}
}

// TestServeNeedsItsCronFile: a file that is not there stops the start, before
// anything is made; one that goes later, or is not given any more, leaves its
// schedules.
func TestServeNeedsItsCronFile(t *testing.T) {
	cfg := config{db: tempDB(t), cronFile: filepath.Join(t.TempDir(), "crons.yaml")}
	o := try(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", cfg.db, "--cron-file", cfg.cronFile)
	if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, "--cron-file "+cfg.cronFile) || !strings.Contains(o.stderr, "no such file") {
		t.Errorf("got %+v", o)
	}
	if _, err := os.Stat(cfg.db); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made its database: %v", err)
	}
	if o := try(t, []string{"OUTRIDER_CRON_FILE=" + t.TempDir()}, "serve", "--listen", "127.0.0.1:0", "--db", cfg.db); o.code != exitFailed {
		t.Errorf("a folder was taken: %+v", o)
	}
	writeFile(t, cfg.cronFile, cronsLater)
	s, log, _ := served(t, cfg)
	if err := os.Remove(cfg.cronFile); err != nil {
		t.Fatal(err)
	}
	s.applyCronFile(t.Context())
	if got := cronNames(t, s.side); got != "nightly poll" || !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), cfg.cronFile) {
		t.Errorf("got %s, log %s", got, log)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	cfg.cronFile = ""
	s, log, _ = served(t, cfg)
	if got := cronNames(t, s.side); got != "nightly poll" || !strings.Contains(log.String(), "no --cron-file is given now") || !strings.Contains(log.String(), "schedules=2") {
		t.Errorf("got %s, log %s", got, log)
	}
}

// TestTwoServersShareTheTicks: with --cron-coordination outbox the schedule of two
// servers makes one job for each tick.
func TestTwoServersShareTheTicks(t *testing.T) {
	path := shop(t)
	if o := try(t, nil, "outbox", "init", "sqlite:"+path); o.code != exitOK {
		t.Fatalf("got %+v", o)
	}
	file := filepath.Join(t.TempDir(), "crons.yaml")
	writeFile(t, file, "crons:\n  - {name: second, cron: \"* * * * * *\", overlap_policy: allow, type: a.b}\n")
	var all []*client.Client
	for range 2 {
		url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--outbox", "sqlite:"+path, "--cron-file", file, "--cron-coordination", "outbox")
		c, err := client.New(url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticks := map[string]job.ID{}
	for look := time.Tick(100 * time.Millisecond); len(ticks) < 4; {
		select {
		case <-ctx.Done():
			t.Fatalf("got the ticks %v only", ticks)
		case <-look:
		}
		for _, c := range all {
			page, err := c.Jobs(ctx, job.Filter{Type: "a.b", Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Jobs {
				_, at, _ := strings.Cut(string(j.Meta), `"cron_scheduled_at":"`)
				at, _, _ = strings.Cut(at, `"`)
				if first, ok := ticks[at]; ok && first != j.ID {
					t.Fatalf("the tick %s made the jobs %s and %s", at, first, j.ID)
				}
				ticks[at] = j.ID
			}
		}
	}
}
