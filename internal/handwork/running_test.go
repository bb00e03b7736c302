//go:build unix

package handwork

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

func TestCommandsAreToldOfTheirJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := []job.ID{
		w.push(t, job.Envelope{Type: "a.env", Queue: "mail", Meta: json.RawMessage("{\"k\":\n \"it's\"}"), Timeout: time.Hour, Retry: json.RawMessage(`{"max_attempts":7}`)}),
		w.push(t, job.Envelope{Type: "b.env"}),
	}
	chain, err := job.ParseWorkflow([]byte(`{"type":"chain","steps":[{"type":"c.env","args":[]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	flow, _, err := w.StartWorkflow(t.Context(), chain)
	if err != nil {
		t.Fatal(err)
	}
	w.work(t, Options{Mappings: execs(t, `*=env | grep -E '^(OJS|OUTRIDER|KEPT|EMPTY)' | sort`), Queues: []string{"mail", "default"}, Access: Access{URL: "http://127.0.0.1:1"},
		Environ: []string{"PATH=/usr/bin:/bin", "KEPT=a=b", "OUTRIDER_OUTBOX=postgres://u:secret@h/d", "OUTRIDER_WORK_SECRET=x", "OJS_AUTH_TOKEN=t", "OJS_WORKFLOW_ID=of another", "OJS_DEADLINE=yesterday"}})
	began := time.Now()
	for i, want := range []string{
		"KEPT=a=b OJS_ATTEMPT=1 OJS_DEADLINE=SOON OJS_JOB_ID=" + string(ids[0]) + " OJS_JOB_TYPE=a.env OJS_MAX_ATTEMPTS=7 OJS_META={\"k\":\"it's\"} OJS_QUEUE=mail OJS_URL=http://127.0.0.1:1 OUTRIDER_URL=http://127.0.0.1:1",
		"KEPT=a=b OJS_ATTEMPT=1 OJS_JOB_ID=" + string(ids[1]) + " OJS_JOB_TYPE=b.env OJS_MAX_ATTEMPTS=3 OJS_META={} OJS_QUEUE=default OJS_URL=http://127.0.0.1:1 OUTRIDER_URL=http://127.0.0.1:1",
	} {
		var got string
		if err := json.Unmarshal(w.await(t, ids[i], tried).Result, &got); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(got, "\n")
		for n, line := range lines {
			if v, ok := strings.CutPrefix(line, "OJS_DEADLINE="); ok {
				if at, err := time.Parse(time.RFC3339, v); err == nil && at.Sub(began).Round(time.Minute) == time.Hour {
					lines[n] = "OJS_DEADLINE=SOON"
				}
			}
		}
		if got := strings.Join(lines, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	all, err := w.Jobs(t.Context(), job.Filter{Type: "c.env"})
	if err != nil || len(all.Jobs) != 1 {
		t.Fatalf("%+v %v", all, err)
	}
	contains(t, "a step", string(w.await(t, all.Jobs[0].ID, tried).Result), "OJS_WORKFLOW_ID="+string(flow.ID))
}

func TestATokenIsPassedOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	j := &job.Job{Envelope: job.Envelope{ID: "x", Type: "a.b"}}
	for token, want := range map[string]bool{"": false, "t0ken": true} {
		env := strings.Join(environ(context.Background(), []string{"OJS_AUTH_TOKEN=other"}, Access{Token: token}, j), "\n")
		if got := strings.Contains(env, "OJS_AUTH_TOKEN=t0ken"); got != want || strings.Contains(env, "other") {
			t.Errorf("with %q:\n%s", token, env)
		}
	}
}

// TestACancelledJobEndsItsCommand: and its request. Nothing is reported of either.
func TestACancelledJobEndsItsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.push(t, job.Envelope{Type: "a.long"})
	lines, stop := w.work(t, Options{Mappings: execs(t, "a.long=sleep 1000 & sleep 1000")})
	w.await(t, id, func(j *job.Job) bool { return j.State == job.Active })
	if _, err := w.Cancel(t.Context(), id, "", ""); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(lines.String(), "cancelled, stopped after"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no line says it:\n%s", lines)
		}
	}
	if left := marked(t, w.marker); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if n := stop(); n.Dropped != 1 {
		t.Errorf("%+v", n)
	}
	if j := w.await(t, id, tried); j.State != job.Cancelled {
		t.Errorf("the job is %s", j.State)
	}
}

// TestAStopGivesJobsBack: after the grace, whatever their commands then exit with.
func TestAStopGivesJobsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	short := w.push(t, job.Envelope{Type: "a.short"})
	var ids []job.ID
	for _, kind := range []string{"a.dies", "a.fine", "a.deaf"} {
		ids = append(ids, w.push(t, job.Envelope{Type: kind}))
	}
	began := filepath.Join(t.TempDir(), "began")
	note := "echo x >> " + began + "; "
	lines, stop := w.work(t, Options{Grace: 700 * time.Millisecond, Mappings: execs(t, "a.short="+note+"sleep 0.3; echo 1", "a.dies="+note+"sleep 1000",
		"a.fine=trap 'exit 0' TERM; "+note+"sleep 1000 & wait", "a.deaf=trap '' TERM; "+note+"sleep 1000 & sleep 1000")})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if raw, _ := os.ReadFile(began); strings.Count(string(raw), "x") == 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not all have begun")
		}
	}
	if n := stop(); n.GivenBack != 3 || n.Completed != 1 {
		t.Errorf("%+v\n%s", n, lines)
	}
	if j := w.await(t, short, tried); j.State != job.Completed {
		t.Errorf("the short one is %s", j.State)
	}
	for _, id := range ids {
		if j, err := w.Job(t.Context(), id); err != nil || j.State != job.Available || j.Releases != 1 || j.Error != nil {
			t.Errorf("%s is %s, given back %d times, %s", j.Type, j.State, j.Releases, j.Error)
		}
	}
	if left := marked(t, w.marker); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// away is a server that can be cut off.
type away struct {
	job.Worker
	cut atomic.Bool
}

func (a *away) lost() error {
	if a.cut.Load() {
		return job.Errorf(job.Unavailable, "cannot reach it: %w", os.ErrDeadlineExceeded)
	}
	return nil
}

func (a *away) Fetch(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	if err := a.lost(); err != nil {
		return nil, err
	}
	f.Wait = min(f.Wait, 50*time.Millisecond)
	return a.Worker.Fetch(ctx, f)
}

func (a *away) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	if err := a.lost(); err != nil {
		return nil, err
	}
	return a.Worker.AckAll(ctx, acks)
}

func (a *away) Next(ctx context.Context, acks []job.AckRequest, f job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	if err := a.lost(); err != nil {
		return nil, nil, err
	}
	return a.Worker.Next(ctx, acks, f)
}

// TestAServerThatIsAwayIsToldOfOnce: and what ended meanwhile is reported when it is back.
func TestAServerThatIsAwayIsToldOfOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := &away{Worker: w}
	lines := &said{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	id := w.push(t, job.Envelope{Type: "a.b"})
	go func() {
		_, err := Run(ctx, a, Options{Mappings: execs(t, "a.b=sleep 0.5; echo 1"), Lines: lines, News: lines, Log: slog.New(slog.DiscardHandler), Environ: []string{"PATH=/usr/bin:/bin"}})
		done <- err
	}()
	w.await(t, id, func(j *job.Job) bool { return j.State == job.Active })
	a.cut.Store(true)
	awaitText(t, lines, "trying until it answers")
	time.Sleep(2 * time.Second) // in which it would say it again
	a.cut.Store(false)
	awaitText(t, lines, "the job server answers again, after ")
	awaitText(t, lines, "completed in ")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := strings.Count(lines.String(), "trying until"); n != 1 {
		t.Errorf("said %d times:\n%s", n, lines)
	}
	if j := w.await(t, id, tried); j.State != job.Completed {
		t.Errorf("the job is %s", j.State)
	}
}

func awaitText(t *testing.T, s fmt.Stringer, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(s.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q:\n%s", text, s)
		}
	}
}

// TestUntilEmpty: the worker ends by itself when there is nothing more to run now, and
// not while something is under way that may make more.
func TestUntilEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 30 {
		w.push(t, job.Envelope{Type: "a.b"})
	}
	slow := w.push(t, job.Envelope{Type: "a.slow"})
	w.push(t, job.Envelope{Type: "a.fails", Retry: json.RawMessage(later)})
	w.push(t, job.Envelope{Type: "z.others"})
	w.push(t, job.Envelope{Type: "a.b", Delay: time.Hour})
	lines := &said{}
	done := make(chan struct{})
	var n Tally
	var err error
	go func() {
		defer close(done)
		n, err = Run(t.Context(), w, Options{UntilEmpty: true, Concurrency: 4, Lines: lines, News: lines, Log: slog.New(slog.DiscardHandler),
			Environ: []string{"PATH=/usr/bin:/bin"}, Mappings: execs(t, "a.b=true", "a.slow=sleep 3", "a.fails=false")})
	}()
	w.await(t, slow, func(j *job.Job) bool { return j.State == job.Active })
	time.Sleep(1500 * time.Millisecond)
	w.push(t, job.Envelope{Type: "a.b"}) // as the slow one might do
	<-done
	if err != nil || n != (Tally{Completed: 32, Retried: 1}) {
		t.Errorf("%+v %v\n%s", n, err, lines)
	}
	if j := w.await(t, slow, tried); j.State != job.Completed {
		t.Errorf("the slow job is %s", j.State)
	}
	if got := strings.Count(lines.String(), "jobs of type z.others are left to other workers: no mapping names it; add --exec 'z.others=COMMAND'"); got != 1 {
		t.Errorf("said %d times of z.others:\n%s", got, lines)
	}
	a := &away{Worker: w}
	a.cut.Store(true)
	if _, err := Run(t.Context(), a, Options{UntilEmpty: true, Log: slog.New(slog.DiscardHandler), Mappings: execs(t, "a.b=true")}); job.KindOf(err) != job.Unavailable || err == nil {
		t.Errorf("without a server: %v", err)
	}
}

// TestAStepReadsWhatWasBeforeIt: of the whole job, on one line.
func TestAStepReadsWhatWasBeforeIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chain, err := job.ParseWorkflow([]byte(`{"type":"chain","steps":[{"type":"c.one","args":[ 1,
 2]},{"type":"c.two","args":[]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	flow, _, err := w.StartWorkflow(t.Context(), chain)
	if err != nil {
		t.Fatal(err)
	}
	w.work(t, Options{WholeJob: true, Mappings: execs(t, "c.one=read -r all; echo \"$all\"", "c.two=cat")})
	for deadline := time.Now().Add(patience); flow.State != job.WorkflowCompleted; time.Sleep(5 * time.Millisecond) {
		if flow, err = w.Workflow(t.Context(), flow.ID); err != nil || time.Now().After(deadline) {
			t.Fatalf("the workflow is %s: %v", flow.State, err)
		}
	}
	all, err := w.Jobs(t.Context(), job.Filter{Type: "c.two"})
	if err != nil || len(all.Jobs) != 1 {
		t.Fatalf("%+v %v", all, err)
	}
	var two struct {
		ID      job.ID
		Results []struct {
			Type string
			Args []int
		} `json:"parent_results"`
	}
	raw := w.await(t, all.Jobs[0].ID, tried).Result
	if err := json.Unmarshal(raw, &two); err != nil || two.ID != all.Jobs[0].ID || len(two.Results) != 1 || two.Results[0].Type != "c.one" || len(two.Results[0].Args) != 2 {
		t.Errorf("the second step read %s: %v", raw, err)
	}
	if strings.Contains(string(raw), "lease") {
		t.Errorf("the job shows its reservation: %s", raw)
	}
}
