//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// fiveKinds are workflows of each kind, in turn, and of several sizes. Their steps name
// themselves in their args.
func fiveKinds(n int) job.WorkflowSpec {
	do := func(id string) job.Step {
		return job.Do(id, job.Envelope{Type: "a.b", Queue: "q", Args: json.RawMessage(fmt.Sprintf("[%q]", id)), Priority: n % 3,
			Retry: json.RawMessage(`{"max_attempts":20,"initial_interval":"PT0.05S","backoff_coefficient":1}`)})
	}
	call := job.Envelope{Type: "a.call", Queue: "q", Args: json.RawMessage(`[]`)}
	var many []job.Step
	for _, id := range stepsOf(n) {
		many = append(many, do(id))
	}
	var s job.WorkflowSpec
	switch n % 5 {
	case 0:
		s = job.Chain("", many...)
	case 1:
		s = job.Group("", many...)
	case 2:
		s = job.Batch("", many...).On(job.OnComplete, call).On(job.OnSuccess, call).On(job.OnFailure, call)
	case 3:
		s = job.Graph("", do("a"), do("b"), do("c").After("a", "b"), do("d").After("a"), do("e").After("c", "d"))
	default:
		s = job.Chain("", do("a"), job.Inside("b", job.Batch("", do("x"), job.Inside("y", job.Group("", many...))).On(job.OnComplete, call)), do("c"))
	}
	s.ID = job.ID(uuid.Must(uuid.NewV7()).String())
	return s
}

// stepsOf are the steps of the part of a workflow that has several sizes.
func stepsOf(n int) []string {
	return strings.Split("p q r s t u v", " ")[:2+n/5%6]
}

// fromEnv is a number from the environment, or the one that is used without it.
func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestWorkflowsOutliveKills: a server is killed again and again under workflows of five
// kinds. Each comes to its end; every step that it needs has completed, in its order and
// with the results before it; none has two jobs; and what was answered stays answered.
// OUTRIDER_WORKFLOWS and OUTRIDER_KILLS say how many, 60 and 4 by themselves.
func TestWorkflowsOutliveKills(t *testing.T) {
	t.Parallel()
	many, kills := fromEnv(t, "OUTRIDER_WORKFLOWS", 60), fromEnv(t, "OUTRIDER_KILLS", 4)
	db := tempDB(t)
	var specs []job.WorkflowSpec
	for n := range many {
		specs = append(specs, fiveKinds(n))
	}
	started := make([]bool, many)
	var mu sync.Mutex
	acked := map[job.ID]bool{} // the answer was a success
	failed := map[job.ID]bool{}
	begin := func() (*process, *client.Client) {
		p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s")
		s, err := client.New(readyURL(t, p.stdout), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p, s
	}
	work := func(ctx context.Context, s *client.Client) {
		for ctx.Err() == nil {
			jobs, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{"q"}, Count: 2, Visibility: 1500 * time.Millisecond, Wait: 300 * time.Millisecond})
			if err != nil {
				return
			}
			for _, j := range jobs {
				c := job.Claim{ID: j.ID, Token: j.Lease.Token}
				switch rand.IntN(50) {
				case 0, 1:
					if _, err := s.Fail(ctx, c, job.Failure{Message: "no", Code: "DISCARD"}); err == nil {
						mu.Lock()
						failed[j.ID] = true
						mu.Unlock()
					}
				case 2, 3: // it is tried again
					_, _ = s.Fail(ctx, c, job.Failure{Message: "not now"})
				case 4: // nobody hears of it until its reservation ends
				default:
					if _, err := s.Ack(ctx, c, json.RawMessage(fmt.Sprintf("%q", j.Flow.Step))); err == nil {
						mu.Lock()
						acked[j.ID] = true
						mu.Unlock()
					}
				}
			}
		}
	}
	run := func(p *process, s *client.Client, until func() bool) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { work(ctx, s) })
		}
		for end := time.Now().Add(time.Minute + time.Duration(many)*100*time.Millisecond); !until() && time.Now().Before(end); {
			for n, spec := range specs {
				if !started[n] {
					_, _, err := s.StartWorkflow(ctx, spec)
					if started[n] = err == nil; err != nil {
						break
					}
					break
				}
			}
			if started[many-1] {
				time.Sleep(5 * time.Millisecond)
			}
		}
		stop()
		if p != nil {
			_ = p.Process.Kill()
		}
		wg.Wait()
	}
	answers := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acked) + len(failed)
	}
	for range kills {
		p, s := begin()
		enough := answers() + 4*many/(kills+1)*3/4 + rand.IntN(25) // about four steps each
		run(p, s, func() bool { return answers() >= enough })
		_ = p.Wait() // it was killed
		s.Close()
	}
	p, s := begin()
	run(nil, s, func() bool {
		for _, ok := range started {
			if !ok {
				return false
			}
		}
		page, err := s.Workflows(t.Context(), job.WorkflowFilter{State: job.WorkflowRunning, Limit: 1})
		return err == nil && page.Total == 0
	})
	all := map[job.ID]map[string]*job.Job{}
	for f := (job.Filter{Queue: "q", Limit: 200}); ; {
		page, err := s.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			steps := all[j.Flow.Workflow]
			if steps == nil {
				steps = map[string]*job.Job{}
				all[j.Flow.Workflow] = steps
			}
			if steps[j.Flow.Step] != nil {
				t.Errorf("step %s of %s has two jobs", j.Flow.Step, j.Flow.Workflow)
			}
			steps[j.Flow.Step] = j
			if acked[j.ID] && j.State != job.Completed || failed[j.ID] && j.State != job.Discarded {
				t.Errorf("what was answered is gone: %s is %s", j.ID, j.State)
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	ends := map[job.WorkflowState]int{}
	for n, spec := range specs {
		w, err := s.Workflow(t.Context(), spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		ends[w.State]++
		judgeFlow(t, n, w, all[spec.ID])
	}
	t.Logf("%d kills, %v, %d ACKs and %d FAILs were answered", kills, ends, len(acked), len(failed))
	s.Close()
	p.signal(t)
	p.end(t, 20*time.Second)
	store, err := sqlitestore.Open(t.Context(), db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Audit(t, store)
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	sound(t, db)
}

// judgeFlow holds the end of a workflow of fiveKinds to its jobs.
func judgeFlow(t *testing.T, n int, w *job.Workflow, jobs map[string]*job.Job) {
	t.Helper()
	ok := func(step string) bool { return jobs[step] != nil && jobs[step].State == job.Completed }
	bad := func(step string) bool { return jobs[step] != nil && jobs[step].State == job.Discarded }
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("workflow %d is %s: %s", n%5, w.State, fmt.Sprintf(format, args...))
	}
	given := func(step, want string) {
		t.Helper()
		if j := jobs[step]; j != nil && string(j.ParentResults) != want {
			wrong("%s was given %s, want %s", step, j.ParentResults, want)
		}
	}
	result := func(step string) string {
		if ok(step) {
			return `"` + step + `"`
		}
		return "null"
	}
	results := func(steps []string) string {
		var all []string
		for _, step := range steps {
			all = append(all, result(step))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	many, completed := stepsOf(n), w.State == job.WorkflowCompleted
	if w.State == job.WorkflowRunning {
		wrong("it has not ended")
	}
	failures := 0
	for _, j := range jobs {
		if !j.State.Terminal() {
			wrong("%s is %s", j.Flow.Step, j.State)
		}
		if j.State == job.Discarded {
			failures++
		}
	}
	switch n % 5 {
	case 0:
		for i, step := range many {
			if i > 0 && ok(many[i-1]) != (jobs[step] != nil) {
				wrong("%s after %s", step, many[i-1])
			}
			given(step, results(many[:i]))
		}
		if last := many[len(many)-1]; completed != ok(last) {
			wrong("%s completed: %t", last, ok(last))
		}
	case 1:
		if len(jobs) != len(many) || completed != (failures == 0) {
			wrong("%d jobs, %d failed", len(jobs), failures)
		}
	case 2:
		broken := slices.ContainsFunc(many, bad)
		if jobs["on_complete"] == nil || (jobs["on_failure"] != nil) != broken || (jobs["on_success"] != nil) != !broken {
			wrong("failed: %t, callbacks %v %v %v", broken, jobs["on_complete"], jobs["on_success"], jobs["on_failure"])
		}
		given("on_complete", results(many))
		if completed != !(bad("on_complete") || bad("on_failure") || bad("on_success")) {
			wrong("its callbacks say otherwise")
		}
	case 3:
		if (jobs["c"] != nil) != (ok("a") && ok("b")) || (jobs["d"] != nil) != ok("a") || (jobs["e"] != nil) != (ok("c") && ok("d")) || completed != ok("e") {
			wrong("%v", jobs)
		}
		given("e", `["c","d"]`)
	default:
		if (jobs["b.x"] != nil) != ok("a") || (jobs["b.on_complete"] != nil) != ok("a") || (jobs["c"] != nil) != ok("b.on_complete") || completed != ok("c") {
			wrong("%v", jobs)
		}
		inner, within := "null", []string{}
		for _, step := range many {
			within = append(within, "b.y."+step)
		}
		if !slices.ContainsFunc(within, bad) {
			inner = results(within)
		}
		given("c", `["a",[`+result("b.x")+`,`+inner+`]]`)
	}
}
