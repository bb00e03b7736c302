package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/bench"
)

// TestBench runs every workload, briefly, against a server in a process of its own.
func TestBench(t *testing.T) {
	t.Setenv("TEST_AS_OUTRIDER", "1") // the private server is this binary once more
	t.Setenv("OUTRIDER_LISTEN", "0.0.0.0:1")
	o := try(t, nil, "bench", "-n", "40", "--concurrency", "4", "--baseline", "-o", "json", "--dir", t.TempDir())
	if o.code != exitOK {
		t.Fatalf("got %+v", o)
	}
	var rep bench.Report
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rep.Results {
		names = append(names, r.Workload)
		if r.Jobs < 1 || r.Samples < 1 || r.P50 < 0 || r.P99 < r.P50 || r.What == "" {
			t.Errorf("got %+v", r)
		}
	}
	want := []string{"push", "unique", "batch", "fetch", "ack", "cycle", "fetch10", "pickup", "outbox", "app-one-row", "app-two-rows", "cron", "inprocess-push", "inprocess-cycle"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if rep.Compared == nil || rep.Compared.Ratio <= 0 {
		t.Errorf("comparison: got %+v", rep.Compared)
	}
	var table strings.Builder
	if err := printReport(&table, &rep); err != nil || !strings.Contains(table.String(), "inprocess-cycle") {
		t.Errorf("table: %v\n%s", err, &table)
	}
}

func TestBenchOfAServerThatRuns(t *testing.T) {
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	o := try(t, nil, "bench", "--url", url, "-n", "20", "--concurrency", "2", "--workload", "ack")
	if o.code != exitOK || !strings.Contains(o.stdout, "ack") {
		t.Errorf("got %+v", o)
	}
}

func TestBenchOfNoServer(t *testing.T) {
	o := try(t, nil, "bench", "--url", "http://127.0.0.1:1", "--workload", "push")
	if o.code != exitUnreachable || !strings.Contains(o.stderr, "outrider serve") {
		t.Errorf("got %+v", o)
	}
}
