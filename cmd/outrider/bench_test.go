package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/bench"
	"github.com/outrider-jobs/outrider/job"
)

// asBench lets bench start servers: the private ones are this binary once more.
func asBench(t *testing.T) {
	t.Setenv("TEST_AS_OUTRIDER", "1")
	t.Setenv("OUTRIDER_LISTEN", "0.0.0.0:1") // no setting of ours reaches them
}

// benchReport runs bench and reads its report, and has it printed for a person.
func benchReport(t *testing.T, flags string, more ...string) (rep bench.Report, table string) {
	t.Helper()
	args := append([]string{"bench", "-o", "json", "--dir", t.TempDir()}, strings.Fields(flags)...)
	o := try(t, nil, append(args, more...)...)
	if o.code != exitOK || o.stderr != "" {
		t.Fatalf("bench %s: got %+v", flags, o)
	}
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := printReport(&b, &rep); err != nil {
		t.Fatal(err)
	}
	return rep, b.String()
}

// TestBench runs every workload, briefly, against servers in processes of their own.
func TestBench(t *testing.T) {
	asBench(t)
	profiles := t.TempDir()
	rep, table := benchReport(t, "-n 40 --concurrency 4 --baseline --profile", profiles)
	var names []string
	for _, r := range rep.Results {
		names = append(names, r.Workload)
		if r.Jobs < 1 || r.Samples < 1 || r.P50 < 0 || r.P99 < r.P50 || r.What == "" {
			t.Errorf("got %+v", r)
		}
		profile, err := os.Stat(filepath.Join(profiles, r.Workload+"-4.pprof"))
		if app := strings.HasPrefix(r.Workload, "app-"); !app && (err != nil || profile.Size() == 0) {
			t.Errorf("profile of %s: got %v", r.Workload, err)
		}
		if r.Concurrency > 0 && (r.FileJobs < 40 || r.FileBytes/r.FileJobs != int64(r.BytesPerJob)) {
			t.Errorf("the file of %s: got %+v", r.Workload, r)
		}
		if own := strings.HasPrefix(r.Workload, "inprocess"); runtime.GOOS == "linux" && r.Concurrency > 0 && own == (r.Memory != nil) {
			t.Errorf("memory of %s: got %+v", r.Workload, r.Memory)
		}
	}
	want := []string{"push", "unique", "batch", "fetch", "ack", "cycle", "fetch10", "next10", "drain10", "pickup", "outbox", "app-one-row", "app-two-rows", "cron",
		"inprocess-push", "inprocess-unique", "inprocess-cycle"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if rep.Compared == nil || rep.Compared.Ratio <= 0 {
		t.Errorf("comparison: got %+v", rep.Compared)
	}
	if rep.Settings.First != 4 || rep.Settings.Payload != 300 || rep.Date.IsZero() || rep.Machine.GOMAXPROCS < 1 {
		t.Errorf("got %+v, %+v", rep.Settings, rep.Machine)
	}
	if !strings.Contains(table, "inprocess-cycle") || !strings.Contains(table, "a server that stores nothing") {
		t.Errorf("got\n%s", table)
	}
}

// TestBenchSweeps: each workload runs for each value that has a meaning for it.
func TestBenchSweeps(t *testing.T) {
	asBench(t)
	rep, table := benchReport(t, "-n 12 --concurrency 1,3 --rate 500,2000 --beside 5,20 --beside-state keys --workload push,inprocess")
	var got []string
	for _, r := range rep.Results {
		got = append(got, fmt.Sprintf("%s %d at %.0f beside %d %s", r.Workload, r.Concurrency, r.Offered, r.Beside, r.BesideState))
		if r.Jobs != 12 || r.Unsent != 0 || r.FileJobs < int64(r.Beside+r.Jobs) {
			t.Errorf("got %+v", r)
		}
	}
	var want []string
	for _, beside := range []int{5, 20} {
		for _, w := range [][]string{{"push"}, {"inprocess-push", "inprocess-unique", "inprocess-cycle"}} {
			for _, at := range []string{"1 at 500", "1 at 2000", "3 at 500", "3 at 2000"} {
				for _, name := range w {
					want = append(want, fmt.Sprintf("%s %s beside %d keys", name, at, beside))
				}
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !strings.Contains(table, "offered/s") || !strings.Contains(table, "beside") {
		t.Errorf("got\n%s", table)
	}
}

// TestBenchBeside: the jobs are in the state that was asked for, and in a server
// of the caller's they stay.
func TestBenchBeside(t *testing.T) {
	for state, want := range map[string]job.State{"waiting": job.Available, "keys": job.Available, "scheduled": job.Scheduled, "completed": job.Completed} {
		url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
		rep, _ := benchReport(t, "-n 4 --concurrency 2 --workload push --beside 7,30 --beside-state", state, "--url", url)
		if len(rep.Results) != 2 || rep.Results[1].Beside != 30 {
			t.Errorf("%s: got %+v", state, rep.Results)
		}
		c, err := client.New(url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		q, err := c.Queue(t.Context(), "bench-beside")
		if err != nil || q.Counts[want] != 30 {
			t.Errorf("%s: got %+v, %v", state, q.Counts, err)
		}
		keys, err := c.HeldKeys(t.Context(), job.Filter{Queue: "bench-beside", Limit: 100})
		if held := len(keys.Keys); err != nil || held != map[string]int{"keys": 30}[state] {
			t.Errorf("%s: got %d keys, %v", state, held, err)
		}
	}
}

// TestBenchOfAServerThatRuns: what it uses is known, as it is on this machine.
func TestBenchOfAServerThatRuns(t *testing.T) {
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t))
	rep, table := benchReport(t, "-n 20 --concurrency 2 --workload ack --url", readyURL(t, p.stdout))
	if len(rep.Results) != 1 || rep.Results[0].Jobs != 20 || !strings.Contains(table, "ack") {
		t.Fatalf("got %+v", rep.Results)
	}
	if runtime.GOOS == "linux" && (rep.Results[0].Memory == nil || rep.Server == nil || rep.Server.RSS <= 0) {
		t.Errorf("got %+v", rep.Results)
	}
}

// TestBenchCompares plays on two servers of ours in turn.
func TestBenchCompares(t *testing.T) {
	one, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	two, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	rep, table := benchReport(t, "-n 12 --concurrency 2 --url", one, "--compare", two)
	var names []string
	for _, m := range rep.Matches {
		names = append(names, m.Workload)
		if len(m.Sides) != 2 || m.Sides[0].Server != one || m.Sides[1].Server != two || m.Sides[0].Ratio != nil {
			t.Fatalf("%s: got %+v", m.Workload, m.Sides)
		}
		for i, s := range m.Sides {
			if s.Cannot != "" || s.PerSecond <= 0 || s.P50 <= 0 || len(s.Rounds) != 6 {
				t.Errorf("%s, side %d: got %+v", m.Workload, i, s)
			}
		}
		if r := m.Sides[1].Ratio; r == nil || r.Min <= 0 || r.Median < r.Min || r.Max < r.Median {
			t.Errorf("%s: got %+v", m.Workload, r)
		}
	}
	if want := []string{"push", "fetch", "ack", "cycle", "fetch10"}; !slices.Equal(names, want) || len(rep.Results) != 0 {
		t.Errorf("got %v and %+v, want %v", names, rep.Results, want)
	}
	if !strings.Contains(table, "times as fast") {
		t.Errorf("got\n%s", table)
	}
}

// TestBenchComparesWithAPlainServer: one that gives no tokens, writes JSON with
// spaces, and has neither batches nor waiting FETCHes.
func TestBenchComparesWithAPlainServer(t *testing.T) {
	asBench(t)
	other := httptest.NewServer(plainServer())
	defer other.Close()
	rep, table := benchReport(t, "-n 12 --concurrency 2 --workload push,batch,fetch,ack,cycle,fetch10,pickup --compare", other.URL)
	for _, m := range rep.Matches {
		cannot := m.Workload == "batch" || m.Workload == "pickup"
		if s := m.Sides[1]; (s.Cannot != "") != cannot || !cannot && len(s.Rounds) != 6 {
			t.Errorf("%s: got %+v", m.Workload, s)
		}
	}
	for _, told := range []string{"cannot play this: the server answered /ojs/v1/jobs/batch with 404", "no job came to a waiting worker"} {
		if !strings.Contains(table, told) {
			t.Errorf("%q is not told:\n%s", told, table)
		}
	}
	if m := rep.Matches[0]; runtime.GOOS == "linux" && (m.Sides[0].Process == nil || m.Sides[1].Process != nil) {
		t.Errorf("processes: got %+v", m.Sides) // the other server is in this one
	}
}

// plainServer is the least of an OJS server: one queue, in memory.
func plainServer() http.Handler {
	var mu sync.Mutex // guards what is below
	waiting, n, active := map[string][]string{}, 0, map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ojs/v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var j struct{ Queue string }
		_ = json.NewDecoder(r.Body).Decode(&j)
		n++
		waiting[j.Queue] = append(waiting[j.Queue], fmt.Sprint("job-", n))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"job": {"id": "job-%d"}}`, n)
	})
	mux.HandleFunc("POST /ojs/v1/workers/fetch", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var f struct {
			Queues []string
			Count  int
		}
		_ = json.NewDecoder(r.Body).Decode(&f)
		queue := waiting[f.Queues[0]]
		got := queue[:min(f.Count, len(queue))]
		waiting[f.Queues[0]] = queue[len(got):]
		var jobs []string
		for _, id := range got {
			active[id] = true
			jobs = append(jobs, fmt.Sprintf(`{"type": "bench.job", "id": %q}`, id))
		}
		fmt.Fprintf(w, `{"jobs": [%s]}`, strings.Join(jobs, ", "))
	})
	mux.HandleFunc("POST /ojs/v1/workers/ack", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var a map[string]string
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil || len(a) != 1 || !active[a["job_id"]] {
			http.Error(w, fmt.Sprint("not active: ", a), http.StatusConflict)
			return
		}
		delete(active, a["job_id"])
		fmt.Fprint(w, `{"acknowledged": true}`)
	})
	return mux
}

func TestBenchOfNoServer(t *testing.T) {
	o := try(t, nil, "bench", "--url", "http://127.0.0.1:1", "--workload", "push")
	if o.code != exitUnreachable || !strings.Contains(o.stderr, "outrider serve") {
		t.Errorf("got %+v", o)
	}
}
