package sidecar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// cronTemplates are what a schedule of the model makes, each with how many jobs one after
// the other, or all at once, and whether those are a workflow.
var cronTemplates = []struct {
	template string
	jobs     int
	together bool
	flow     bool
}{
	{`{"type":"x.a","args":[],"options":{"queue":"mail"}}`, 1, true, false},
	{`{"workflow":{"type":"chain","steps":[{"type":"x.a"},{"type":"x.b"}],"options":{"queue":"mail"}}}`, 2, false, true},
	{`{"workflow":{"type":"group","jobs":[{"type":"x.a"},{"type":"x.b"},{"type":"x.c"}],"options":{"queue":"mail"}}}`, 3, true, true},
	{`{"type":"named","workflow":{"steps":[{"id":"a","type":"x.a"},{"id":"b","type":"x.b"}],"options":{"queue":"mail"}}}`, 2, true, true},
}

// modelRun is what the documents say of one run: whom it waits for, and how many of its
// jobs are still to end.
type modelRun struct {
	run    job.CronRun
	kind   int
	after  *modelRun // nil for nobody
	left   int
	failed bool
	end    string // empty while it goes on
}

func (r *modelRun) id() job.ID {
	if r.run.FlowID != "" {
		return r.run.FlowID
	}
	return r.run.JobID
}

// cronModel is the law of overlap, written from contract §4.16 alone.
type cronModel struct {
	overlap job.Overlap
	kind    int
	runs    []*modelRun
}

func (m *cronModel) of(id job.ID) *modelRun {
	for _, r := range m.runs {
		if r.id() == id {
			return r
		}
	}
	return nil
}

// ends ends a run. Those that waited for it go on, or wait for whom it has waited for.
func (m *cronModel) ends(r *modelRun, how string) {
	r.end = how
	for _, w := range m.runs {
		if w.after == r {
			w.after = r.after
		}
	}
	r.after = nil
}

// tick says whether a run is made now, and notes what follows for those before.
func (m *cronModel) tick() (made *modelRun) {
	made = &modelRun{kind: m.kind, left: cronTemplates[m.kind].jobs}
	if n := len(m.runs); n > 0 && m.runs[n-1].end == "" {
		switch last := m.runs[n-1]; m.overlap {
		case job.OverlapSkip:
			return nil
		case job.OverlapCancel:
			m.ends(last, "cancelled")
		case job.OverlapEnqueue:
			made.after = last
		}
	}
	m.runs = append(m.runs, made)
	return made
}

// did notes the end of one job of a run.
func (m *cronModel) did(r *modelRun, failed bool) {
	t := cronTemplates[r.kind]
	r.left--
	r.failed = r.failed || failed
	if r.left > 0 && (t.together || !failed) {
		return
	}
	how := "completed"
	switch {
	case r.failed && t.flow:
		how = "failed"
	case r.failed:
		how = "discarded"
	}
	m.ends(r, how)
}

// Schedules of jobs and of workflows, in turn under one name and one policy after another,
// make, skip, cancel and hold back what the model says, over restarts.
func TestCronsAreAsTheModelSays(t *testing.T) {
	t.Parallel()
	const plays, steps = 8, 60
	made := map[string]int{}
	for seed := range uint64(plays) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playCron(t, rand.New(rand.NewPCG(seed, 16)), steps, made) })
	}
	for _, end := range []string{"", "completed", "failed", "cancelled", "discarded", "skipped", "waited"} {
		if made[end] < 3 {
			t.Errorf("only %d runs %s", made[end], end)
		}
	}
}

func playCron(t *testing.T, r *rand.Rand, steps int, made map[string]int) {
	w := newWorld(t, Retention{})
	m := &cronModel{overlap: job.OverlapSkip}
	put := func() {
		if _, _, err := w.PutCron(t.Context(), job.CronSpec{Name: "c", Expression: "* * * * *", Overlap: m.overlap, Template: json.RawMessage(cronTemplates[m.kind].template)}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	note := func(what string, want *modelRun, got job.CronRun) {
		if (want == nil) != (got.Skipped != "") || want != nil && (got.FlowID != "") != cronTemplates[want.kind].flow {
			t.Fatalf("%s under %s made %+v, want %+v", what, m.overlap, got, want)
		}
		if want == nil {
			made["skipped"]++
			return
		}
		if want.run = got; want.after != nil {
			made["waited"]++
		}
	}
	for range steps {
		switch r.IntN(8) {
		case 0, 1:
			want := m.tick()
			w.later(time.Minute)
			runs := w.schedule("c").Runs
			note("a tick", want, runs[len(runs)-1])
		case 2:
			want := m.tick()
			got, err := w.TriggerCron(t.Context(), "c")
			if job.KindOf(err) == job.Conflict && err != nil {
				got.Skipped = job.SkippedOverlap
			} else if err != nil {
				t.Fatal(err)
			}
			note("a trigger", want, got.CronRun)
		case 3, 4, 5:
			workCron(t, w, m, r.IntN(4) == 0)
		case 6:
			m.overlap = []job.Overlap{job.OverlapSkip, job.OverlapAllow, job.OverlapCancel, job.OverlapEnqueue, job.OverlapEnqueue}[r.IntN(5)]
			m.kind = r.IntN(len(cronTemplates))
			put()
		case 7:
			if r.IntN(2) == 0 {
				w.restart()
				break
			}
			if n := len(m.runs); n > 0 {
				stopRun(t, w, m, m.runs[r.IntN(n)])
			}
		}
		checkRuns(t, w, m)
	}
	for _, run := range m.runs {
		made[run.end]++
	}
}

// workCron ends one job, which must be of a run that goes on and waits for nobody.
func workCron(t *testing.T, w *world, m *cronModel, fail bool) {
	jobs := w.fetch("w", 1, time.Hour)
	if len(jobs) == 0 {
		for _, r := range m.runs {
			if r.end == "" && r.after == nil {
				t.Fatalf("nothing is fetched, and run %s of %d jobs goes on", r.id(), r.left)
			}
		}
		return
	}
	j := jobs[0]
	id := j.ID
	if j.Flow != nil {
		id = j.Flow.Workflow
	}
	r := m.of(id)
	if r == nil || r.end != "" || r.after != nil {
		t.Fatalf("fetched %s of run %s, which is %+v", j.ID, id, r)
	}
	if fail {
		w.fail(j, job.Failure{Code: "DISCARD"})
	} else {
		w.ack(j)
	}
	m.did(r, fail)
}

// stopRun cancels a run by hand, if it goes on.
func stopRun(t *testing.T, w *world, m *cronModel, r *modelRun) {
	if r.end != "" {
		return
	}
	var err error
	if r.run.FlowID != "" {
		_, err = w.CancelWorkflow(t.Context(), r.run.FlowID)
	} else {
		_, err = w.Cancel(t.Context(), r.run.JobID, "", "")
	}
	if err != nil {
		t.Fatalf("cancel of a run that goes on: %v", err)
	}
	m.ends(r, "cancelled")
}

// checkRuns compares every run with the model.
func checkRuns(t *testing.T, w *world, m *cronModel) {
	t.Helper()
	for _, r := range m.runs {
		state, waits := "", 0
		jobs := []job.ID{r.run.JobID}
		if r.run.FlowID != "" {
			f, err := w.Workflow(t.Context(), r.run.FlowID)
			if err != nil {
				t.Fatal(err)
			}
			jobs = nil
			for _, s := range f.Steps {
				jobs = append(jobs, s.JobIDs...)
			}
			state = string(f.State)
		}
		for _, id := range jobs {
			j := w.read(id)
			if r.run.FlowID == "" {
				state = string(j.State)
			}
			if j.State == job.Pending {
				waits++
			}
			want := job.ID("")
			if r.after != nil {
				want = r.after.id()
			}
			if j.After != want && !j.State.Terminal() {
				t.Fatalf("job %s of run %s waits for %q, want %q", id, r.id(), j.After, want)
			}
		}
		goesOn := map[string]bool{"running": true, "available": true, "pending": true}[state]
		if goesOn != (r.end == "") || !goesOn && state != r.end || (waits > 0) != (r.after != nil) {
			t.Fatalf("run %s is %s with %d waiting jobs, want %+v", r.id(), state, waits, *r)
		}
	}
	if c := w.schedule("c"); c.RunCount != int64(len(m.runs)) {
		t.Fatalf("%d runs are counted, want %d", c.RunCount, len(m.runs))
	}
}
