package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// cronWorld is a server whose clock stands still, and the commands that ask it.
type cronWorld struct {
	url  string
	dir  string
	now  time.Time
	side *sidecar.Sidecar
}

func newCronWorld(t *testing.T) *cronWorld {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), tempDB(t), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &cronWorld{dir: t.TempDir(), now: time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)}
	var ids atomic.Int64
	w.side = sidecar.New(store, sidecar.Options{Now: func() time.Time { return w.now }, NewID: func() job.ID {
		return job.ID(fmt.Sprintf("01970000-0000-7000-8000-%012d", ids.Add(1)))
	}})
	server := httptest.NewServer(httpapi.New(w.side, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// run runs a command, with files in the folder of the world.
func (w *cronWorld) run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{env: environment([]string{"OUTRIDER_URL=" + w.url}), stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr,
		clock: func() time.Time { return w.now }}
	code := a.run(t.Context(), append([]string{"cron"}, args...))
	tidy := strings.NewReplacer(w.dir+string(filepath.Separator), "", w.url, "http://server")
	return outcome{code, tidy.Replace(stdout.String()), tidy.Replace(stderr.String())}
}

const (
	cronsAtFirst = `crons:
  - name: nightly
    cron: "30 2 * * *"
    timezone: Europe/Berlin
    type: report.generate
    args: [1]
  - name: often
    cron: "* 3 * * *"
    type: a.b
  - name: poll
    cron: "@every 90s"
    enabled: false
    type: a.b
  - name: wrong
    cron: "0 3 32 * *"
    type: a.b
`
	cronsLater = `crons:
  - name: nightly
    cron: "30 4 * * *"
    overlap_policy: allow
    description: "the\u001b[31m report"
    type: report.generate
    args: [2]
  - name: poll
    cron: "@every 90s"
    enabled: true
    type: a.b
`
	cronsNameless = "crons:\n  - {name: poll, cron: \"@every 90s\", type: a.b}\n  - {cron: \"0 3 * * *\", type: a.b}\n"
)

// TestCron holds what the commands about schedules print, word for word.
func TestCron(t *testing.T) {
	w := newCronWorld(t)
	for name, text := range map[string]string{"first.yaml": cronsAtFirst, "later.yaml": cronsLater, "nameless.yaml": cronsNameless} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	do := func(line string) {
		t.Helper()
		fmt.Fprintf(&b, "$ outrider cron %s\n", line)
		args := strings.Fields(line)
		for i, a := range args {
			if strings.HasSuffix(a, ".yaml") {
				args[i] = filepath.Join(w.dir, a)
			}
		}
		o := w.run(t, "{\"crons\": []}", args...)
		fmt.Fprintf(&b, "%s%sexit %d\n\n", o.stdout, o.stderr, o.code)
	}
	for _, line := range []string{"ls", "ls -o json", "get nightly", "diff -f first.yaml", "apply -f first.yaml", "apply -f first.yaml -v", "diff -f first.yaml -o json"} {
		do(line)
	}
	if _, _, err := w.side.PutCron(t.Context(), job.CronSpec{Name: "by-hand", Expression: "@daily", Template: json.RawMessage(`{"type":"a.b","args":[]}`)}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(90 * time.Minute)
	for _, line := range []string{
		"ls", "get nightly", "get poll", "get by-hand -o json", "trigger nightly", "trigger nightly", "trigger often -o json", "history nightly", "history nightly -o json",
		"history by-hand", "pause nightly", "diff -f later.yaml", "diff -f later.yaml --prune", "apply -f later.yaml", "apply -f later.yaml --prune -o json", "apply -f later.yaml --prune -v",
		"ls", "resume nightly", "pause poll -o json", "diff -f later.yaml", "apply -f nameless.yaml --prune", "rm nightly", "rm by-hand", "rm by-hand",
		"get pol", "get something-else", "pause pol -o json", "apply -f - --prune", "ls", "trigger poll",
		"get", "get a b", "ls all", "ls -o xml", "history poll -n 0", "history poll -n 21", "apply", "diff -f missing.yaml", "apply first.yaml", "lst",
	} {
		do(line)
	}
	golden(t, "testdata/cron_ask.golden", b.String())
}

// TestCronWithoutAServer: who does not answer has an exit code of its own.
func TestCronWithoutAServer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	for _, line := range []string{"ls", "ls -o json", "get a", "trigger a", "pause a", "resume a", "rm a", "history a", "diff -f -", "apply -f -"} {
		o := tryWith(t, "crons: []", nil, append([]string{"cron", "--url", server.URL}[:1:1], append(strings.Fields(line), "--url", server.URL)...)...)
		if o.code != exitUnreachable || o.stdout != "" || !strings.Contains(o.stderr, "outrider serve") {
			t.Errorf("%s: got %+v", line, o)
		}
	}
}

// TestCronRefusedByTheServer: a fault that only the server finds is shown with
// its mark, and the entry beside it is applied.
func TestCronRefusedByTheServer(t *testing.T) {
	put := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, `{"crons":[],"cron_jobs":[],"count":0,"total":0,"pagination":{"total":0}}`)
		case strings.Contains(string(body), `"a"`):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":"invalid_request","message":"cron expression: hour 3 is not for sale","details":`+
				`{"field":"expression","position":2,"length":1,"suggestion":"0 4 * * *","hint":"later"}}}`)
		default:
			put++
			_, _ = io.WriteString(w, `{"cron":{"name":"b","expression":"0 3 * * *","timezone":"UTC","enabled":true,"overlap_policy":"skip","job_template":{"type":"a.b","args":[]},`+
				`"created_at":"2026-03-28T00:00:00.000Z","updated_at":"2026-03-28T00:00:00.000Z"}}`)
		}
	}))
	defer server.Close()
	o := tryWith(t, "crons:\n- {name: a, cron: \"0 3 * * *\", type: a.b}\n- {name: b, cron: \"0 3 * * *\", type: a.b}\n", nil, "cron", "apply", "-f", "-", "--url", server.URL)
	want := "! a: standard input:2: the server refuses it: cron expression: hour 3 is not for sale\n    0 3 * * *\n      ^ here\n    help: did you mean `0 4 * * *` (later)?\n+ b"
	if o.code != exitFailed || !strings.HasPrefix(o.stdout, want) || put != 1 {
		t.Errorf("got %+v", o)
	}
}
