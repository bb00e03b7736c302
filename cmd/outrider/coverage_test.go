package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// asking are calls of every command that asks a server.
var asking = []string{
	"enqueue --file DIR/job.json", "cron apply -f DIR/crons.yaml", "cron diff -f DIR/crons.yaml", "cron ls", "cron get nightly", "cron history nightly", "cron pause nightly", "cron resume nightly",
	"cron trigger nightly", "cron rm nightly", "unique explain DIR/job.json", "unique ls", "unique release KEY", "unique release 01970000-0000-7000-8000-000000000000",
	"workers ls", "workers quiet w1", "workers terminate w1", "workers resume w1", "workers quiet --all", "outbox poke",
	"work --until-empty --exec a.b=true",
	"doctor",
	"job ls", "job get JOB", "job history JOB", "job activate JOB", "job retry JOB", "job cancel JOB", "job watch JOB", "job rm JOB --yes", "job cancel --queue no --yes",
	"enqueue --batch DIR/jobs.ndjson",
	"queue ls", "queue ls -o json", "queue get q", "queue get q -o json", "queue pause q", "queue resume q", "queue drain q", "queue purge q --yes", "queue limit q --concurrency 2", "queue limit q -o json",
	"dead ls", "dead get JOB", "dead retry JOB", "dead retry --all --yes", "dead rm JOB --yes", "dead purge --yes", "dead purge --before 1h --yes",
	"workflow ls", "workflow get 01970000-0000-7000-8000-000000000000", "workflow draw 01970000-0000-7000-8000-000000000000", "workflow cancel 01970000-0000-7000-8000-000000000000 --yes", "events", "top --once",
}

// TestWhatTheCommandsAsk runs every command that asks a server, and keeps in
// testdata/coverage.golden which endpoints it asks. The endpoints come from the table
// of routes, so that the list names those, too, which no command asks.
func TestWhatTheCommandsAsk(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "crons.yaml"), "crons:\n  - {name: nightly, cron: \"0 3 * * *\", type: a.b}\n")
	writeFile(t, filepath.Join(dir, "job.json"), duplicate)
	writeFile(t, filepath.Join(dir, "jobs.ndjson"), `{"type":"a.b","args":[]}`)
	store, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	side := sidecar.New(store, sidecar.Options{})
	if _, err := side.Register(t.Context(), job.WorkerInfo{ID: "w1"}); err != nil {
		t.Fatal(err)
	}
	flow := job.Chain("nightly", job.Do("", job.Envelope{Type: "a.b", Args: []byte("[]")}))
	flow.ID = "01970000-0000-7000-8000-000000000000"
	if _, _, err := side.StartWorkflow(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	made, err := side.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: "q", Args: []byte("[]")})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	api := httpapi.New(side, httpapi.Options{Log: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.EscapedPath())
		mu.Unlock()
		api.ServeHTTP(w, r)
	}))
	defer server.Close()

	table := httpapi.Routes()
	by := map[string][]string{}
	ran := map[string]bool{}
	for _, line := range asking {
		asked = nil
		args := strings.Fields(strings.NewReplacer("DIR", dir, "KEY", strings.Repeat("0", 64), "JOB", string(made[0].ID)).Replace(line))
		try(t, []string{"OUTRIDER_URL=" + server.URL}, args...)
		cmd, _, err := (&app{}).root().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "outrider ")
		ran[name] = true
		if len(asked) == 0 {
			t.Errorf("outrider %s asks nothing", line)
		}
		for _, endpoint := range asked {
			i := slices.IndexFunc(table, func(r httpapi.Route) bool { return isOf(r, endpoint) })
			if i < 0 {
				t.Errorf("outrider %s asks %s, which is no endpoint", line, endpoint)
				continue
			}
			if of := table[i].String(); !slices.Contains(by[of], name) {
				by[of] = append(by[of], name)
			}
		}
	}
	eachCommand((&app{}).root(), func(cmd *cobra.Command) {
		if name := strings.TrimPrefix(cmd.CommandPath(), "outrider "); cmd.Flags().Lookup("url") != nil && !ran[name] && name != "bench" && !strings.HasPrefix(name, "config ") && !cmd.Hidden { // bench plays load, and config shows what others would ask
			t.Errorf("outrider %s asks a server, and is not run here", name)
		}
	})
	var b strings.Builder
	for _, r := range table {
		fmt.Fprintf(&b, "%-60s %s\n", r, strings.Join(by[r.String()], ", "))
	}
	golden(t, "testdata/coverage.golden", strings.ReplaceAll(b.String(), " \n", "\n"))
}

// isOf reports whether an endpoint is of a route: fixed words beat parameters, and stand
// in front of them in the table or have another number of words.
func isOf(r httpapi.Route, endpoint string) bool {
	method, path, _ := strings.Cut(endpoint, " ")
	want, got := strings.Split(r.Path, "/"), strings.Split(path, "/")
	if method != r.Method || len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], ":") {
			return false
		}
	}
	return true
}

func eachCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	fn(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, fn)
	}
}
