package sidecar

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var flowRuns = flag.Int("workflows", 250, "random workflows that are compared with the model")

// modelStep is what contract §4.17 says of one element of a workflow, in the plainest
// form: a tree that is looked through from its root whenever a job may have ended. It
// takes from the server what became of the jobs and nothing else.
type modelStep struct {
	kind   job.WorkflowKind
	id     string // with those that it is in
	kids   []*modelStep
	needs  []int
	call   string
	ttl    bool
	once   bool
	begun  bool
	given  []string
	errs   bool // it is told what failed
	end    string
	result string
	calls  bool // the callbacks run
}

func (n *modelStep) steps() (plain, calls []*modelStep) {
	for _, k := range n.kids {
		if k.call == "" {
			plain = append(plain, k)
		} else {
			calls = append(calls, k)
		}
	}
	return plain, calls
}

func (n *modelStep) begin(given []string, errs bool) {
	n.begun, n.given, n.errs = true, given, errs
}

// resultOf is null for a step that did not complete.
func (n *modelStep) resultOf() string {
	if n.end == "completed" {
		return n.result
	}
	return "null"
}

func resultsOf(ks []*modelStep) (all []string) {
	for _, k := range ks {
		all = append(all, k.resultOf())
	}
	return all
}

func ofEnd(ks []*modelStep, end string) (n int) {
	for _, k := range ks {
		if k.end == end {
			n++
		}
	}
	return n
}

// look finds out what has become of an element that has begun.
func (n *modelStep) look(jobs map[string]*job.Job) {
	if !n.begun || n.end != "" {
		return
	}
	plain, calls := n.steps()
	switch n.kind {
	case job.KindJob:
		j := jobs[n.id]
		if j == nil || !j.State.Terminal() {
			return
		}
		n.end, n.result = "failed", "null"
		if j.State == job.Completed {
			n.end = "completed"
			if j.Result != nil {
				n.result = string(j.Result)
			}
		}
		return
	case job.KindChain:
		for i, k := range n.kids {
			if !k.begun {
				given := n.given
				if i > 0 {
					given = resultsOf(n.kids[:i])
				}
				k.begin(given, false)
			}
			if k.look(jobs); k.end == "" {
				return
			}
			if k.end != "completed" {
				n.end = "failed"
				for _, later := range n.kids[i+1:] {
					later.end = "cancelled"
				}
				return
			}
			n.result = k.result
		}
		n.end = "completed"
		return
	case job.KindGraph:
		for again := true; again && !n.calls; {
			again = false
			for _, k := range plain {
				if k.end != "" {
					continue
				}
				var before []*modelStep
				for _, d := range k.needs {
					before = append(before, n.kids[d])
				}
				switch {
				case ofEnd(before, "failed")+ofEnd(before, "cancelled") > 0 && !k.begun:
					k.end, again = "cancelled", true
				case ofEnd(before, "completed") == len(before):
					if !k.begun {
						again = true
						given := n.given
						if len(before) > 0 {
							given = resultsOf(before)
						}
						k.begin(given, false)
					}
					was := k.end
					k.look(jobs)
					again = again || k.end != was
				}
			}
		}
	default:
		for _, k := range plain {
			if !k.begun {
				k.begin(n.given, false)
			}
			k.look(jobs)
		}
	}
	if slices.ContainsFunc(plain, func(k *modelStep) bool { return k.end == "" }) {
		return
	}
	failed := ofEnd(plain, "failed") > 0
	if !n.calls {
		n.calls = true
		for _, c := range calls {
			if c.call == job.OnSuccess && failed || c.call == job.OnFailure && !failed {
				c.end = "cancelled"
				continue
			}
			order := plain
			if n.kind == job.KindGraph {
				order = nil
				for _, d := range c.needs {
					order = append(order, n.kids[d])
				}
			}
			c.begin(resultsOf(order), failed)
		}
	}
	lost := false
	for _, c := range calls {
		c.look(jobs)
		if c.end == "" {
			return
		}
		lost = lost || c.end == "failed"
	}
	n.end, n.result = "completed", "["+strings.Join(resultsOf(plain), ",")+"]"
	if lost || failed && n.kind != job.KindBatch {
		n.end = "failed"
	}
}

// cancel is what the end of the whole by hand does: what is active goes on.
func (n *modelStep) cancel(jobs map[string]*job.Job) {
	if n.end != "" {
		return
	}
	for _, k := range n.kids {
		k.cancel(jobs)
	}
	if j := jobs[n.id]; n.kind == job.KindJob && n.begun && j != nil && j.State == job.Active {
		return
	}
	n.end = "cancelled"
}

// each calls fn with every element and the one that it is in.
func (n *modelStep) each(fn func(k, in *modelStep)) {
	for _, k := range n.kids {
		fn(k, n)
		k.each(fn)
	}
}

// drawFlow makes a workflow, and its model.
func drawFlow(t *testing.T, r *rand.Rand, queue, above string, depth int) (*job.WorkflowSpec, *modelStep) {
	kinds := []job.WorkflowKind{job.KindChain, job.KindGroup, job.KindBatch, job.KindGraph}
	s := &job.WorkflowSpec{Kind: kinds[r.IntN(len(kinds))]}
	m := &modelStep{kind: s.Kind, id: above}
	name := func(id string) string {
		if above == "" {
			return id
		}
		return above + "." + id
	}
	leaf := func(k *modelStep) job.Checked {
		k.kind, k.ttl, k.once = job.KindJob, r.IntN(6) == 0, r.IntN(2) == 0
		e := job.Envelope{Type: "a.b", Queue: queue, Args: json.RawMessage(`[]`)}
		if k.ttl {
			e.TTL = time.Minute
		}
		if k.once {
			e.Retry = json.RawMessage(`{"max_attempts":1}`)
		}
		c, err := e.Check()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i := range 1 + r.IntN(4) {
		st := job.Step{ID: fmt.Sprintf("s%d", i)}
		k := &modelStep{id: name(st.ID)}
		if depth < 3 && r.IntN(4) == 0 {
			st.Workflow, k = drawFlow(t, r, queue, k.id, depth+1)
		} else {
			st.Job = leaf(k)
		}
		if s.Kind == job.KindGraph {
			for _, d := range r.Perm(i) {
				if r.IntN(2) == 0 {
					k.needs, st.DependsOn = append(k.needs, d), append(st.DependsOn, fmt.Sprintf("s%d", d))
				}
			}
		}
		s.Steps, m.kids = append(s.Steps, st), append(m.kids, k)
	}
	calls := []string{job.OnComplete, job.OnSuccess, job.OnFailure}
	r.Shuffle(3, func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	calls = calls[:1+r.IntN(3)]
	if s.Kind == job.KindGraph && r.IntN(3) > 0 {
		calls = nil
	}
	plain := len(m.kids)
	for _, call := range calls {
		if s.Kind != job.KindBatch && s.Kind != job.KindGraph {
			break
		}
		k := &modelStep{id: name(call), call: call}
		st := job.Step{Callback: call, Job: leaf(k)}
		m.kids = append(m.kids, k)
		if s.Kind == job.KindBatch {
			s.Callbacks = append(s.Callbacks, st)
			continue
		}
		st.ID = call
		for _, d := range r.Perm(plain) {
			k.needs, st.DependsOn = append(k.needs, d), append(st.DependsOn, fmt.Sprintf("s%d", d))
		}
		s.Steps = append(s.Steps, st)
	}
	return s, m
}

// flowPlay is one workflow and its model.
type flowPlay struct {
	w     *world
	r     *rand.Rand
	queue string
	id    job.ID
	model *modelStep
	jobs  map[string]*job.Job // by the step, as the server has them
	log   []string
}

func (p *flowPlay) said(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

// read looks at all jobs of the workflow.
func (p *flowPlay) read() {
	p.jobs = map[string]*job.Job{}
	page, err := p.w.Jobs(p.w.t.Context(), job.Filter{Queue: p.queue, Limit: 1000})
	if err != nil {
		p.w.t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if j.Flow == nil || j.Flow.Workflow != p.id {
			p.fail("job %s says that it is %+v", j.ID, j.Flow)
			continue
		}
		if p.jobs[j.Flow.Step] != nil {
			p.fail("step %s has two jobs", j.Flow.Step)
		}
		p.jobs[j.Flow.Step] = j
	}
}

func (p *flowPlay) fail(format string, args ...any) {
	p.w.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(p.log, "; "))
}

// compare brings the model up to date and holds the server to it.
func (p *flowPlay) compare() {
	p.w.t.Helper()
	p.read()
	p.model.look(p.jobs)
	p.model.each(func(k, _ *modelStep) {
		j := p.jobs[k.id]
		if k.kind != job.KindJob {
			return
		}
		if k.look(p.jobs); k.begun != (j != nil) {
			p.fail("step %s has begun: %t, and its job is %+v", k.id, k.begun, j)
		}
		if j == nil {
			return
		}
		if got, want := string(j.ParentResults), "["+strings.Join(k.given, ",")+"]"; got != want {
			p.fail("step %s was given %s, want %s", k.id, got, want)
		}
		if (j.ParentErrors != nil) != k.errs {
			p.fail("step %s was told of errors %s", k.id, j.ParentErrors)
		}
	})
	w, err := p.w.Workflow(p.w.t.Context(), p.id)
	if err != nil {
		p.fail("%v", err)
	}
	want := p.model.end
	if want == "" {
		want = "running"
	}
	counted, calls := p.model.steps()
	if p.model.kind == job.KindGraph {
		counted, calls = p.model.kids, nil
	}
	numbers := [...]int{len(counted), ofEnd(counted, "completed"), ofEnd(counted, "failed"), ofEnd(counted, "cancelled")}
	if got := [...]int{w.Total, w.Completed, w.Failed, w.Cancelled}; string(w.State) != want || got != numbers {
		p.fail("the workflow is %s with %v, want %s with %v", w.State, got, want, numbers)
	}
	if w.FinishedAt.IsZero() != (want == "running") || len(w.Steps) != len(counted) || len(w.Callbacks) != len(calls) {
		p.fail("it ended at %v, with %d steps and %d callbacks", w.FinishedAt, len(w.Steps), len(w.Callbacks))
	}
	for i, k := range slices.Concat(counted, calls) {
		got := slices.Concat(w.Steps, w.Callbacks)[i]
		want := k.end
		if j := p.jobs[k.id]; want == "" && k.kind != job.KindJob && k.begun || want == "" && j != nil && j.State == job.Active {
			want = "active"
		} else if want == "" && j != nil {
			want = "pending"
		} else if want == "" {
			want = "waiting"
		}
		if string(got.State) != want || got.ID != k.id {
			p.fail("step %s is %s, want %s %s", got.ID, got.State, k.id, want)
		}
	}
}

// some is one of the jobs in a state, nil for none.
func (p *flowPlay) some(states ...job.State) *job.Job {
	var all []*job.Job
	for _, id := range slices.Sorted(maps.Keys(p.jobs)) {
		if slices.Contains(states, p.jobs[id].State) {
			all = append(all, p.jobs[id])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[p.r.IntN(len(all))]
}

// step does one thing.
func (p *flowPlay) step() {
	ctx, w := p.w.t.Context(), p.w
	switch n := p.r.IntN(100); {
	case n < 40:
		jobs, err := w.Fetch(ctx, job.FetchRequest{Queues: []string{p.queue}, Count: 1 + p.r.IntN(2)})
		p.said("fetch: %d, %v", len(jobs), err)
	case n < 70:
		if j := p.some(job.Active); j != nil {
			var result json.RawMessage
			if p.r.IntN(4) > 0 {
				result = json.RawMessage(fmt.Sprintf(`{"of":%q}`, j.Flow.Step))
			}
			if p.r.IntN(3) == 0 {
				acked, jobs, err := w.Next(ctx, []job.AckRequest{{Claim: job.Claim{ID: j.ID, Token: j.Lease.Token}, Result: result}}, job.FetchRequest{Queues: []string{p.queue}, Count: 1})
				p.said("next %s: %v, %d, %v", j.Flow.Step, acked, len(jobs), err)
				return
			}
			_, err := w.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, result)
			p.said("ack %s: %v", j.Flow.Step, err)
		}
	case n < 80:
		if j := p.some(job.Active); j != nil {
			no := false
			f := job.Failure{Type: "E", Message: "m"}
			if p.r.IntN(2) == 0 {
				f.Retryable = &no
			}
			_, err := w.Fail(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, f)
			p.said("fail %s: %v", j.Flow.Step, err)
		}
	case n < 84:
		if j := p.some(job.Available, job.Active, job.Retryable); j != nil {
			_, err := w.Cancel(ctx, j.ID, "", "")
			p.said("cancel %s: %v", j.Flow.Step, err)
		}
	case n < 85:
		_, err := w.CancelWorkflow(ctx, p.id)
		p.said("cancel it: %v", err)
		if (err == nil) != (p.model.end == "") {
			p.fail("it was %q", p.model.end)
		}
		if err == nil {
			p.model.cancel(p.jobs)
		}
	case n < 89:
		if j := p.some(job.Discarded); j != nil && !j.Expired(w.time()) {
			p.revive(j)
		}
	case n < 93:
		w.pass(2 * time.Minute)
		p.said("2 minutes pass")
	case n < 94:
		w.pass(31 * time.Minute)
		p.said("31 minutes pass")
	case n < 95:
		w.restart()
		p.said("restart")
	default:
		w.pass(2 * time.Second)
		p.said("2 seconds pass")
	}
}

// revive takes a job back. Where its end still counts, it counts anew.
func (p *flowPlay) revive(j *job.Job) {
	_, err := p.w.Retry(p.w.t.Context(), j.ID)
	p.said("retry %s: %v", j.Flow.Step, err)
	if err != nil {
		return
	}
	p.model.each(func(k, in *modelStep) {
		if k.id == j.Flow.Step && in.begun && in.end == "" && (in.kind == job.KindGroup || in.kind == job.KindBatch) && in.calls == (k.call != "") {
			k.end = ""
		}
	})
}

// TestWorkflowsAreAsTheModelSays plays random workflows: each step runs when it must and
// never else, is given what the model says, and the counters are what the model counts.
func TestWorkflowsAreAsTheModelSays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const together = 100 // in one file
	for done := 0; done < *flowRuns; done += together {
		t.Run(fmt.Sprint(done), func(t *testing.T) { playFlows(t, r, min(together, *flowRuns-done)) })
	}
}

func playFlows(t *testing.T, r *rand.Rand, runs int) {
	w := newWorld(t, Retention{})
	for run := range runs {
		p := &flowPlay{w: w, r: r, queue: fmt.Sprintf("q%d", run)}
		spec, model := drawFlow(t, r, p.queue, "", 1)
		p.model = model
		made, existing, err := w.StartWorkflow(t.Context(), *spec)
		if err != nil || existing {
			t.Fatal(err)
		}
		p.id = made.ID
		model.begin(nil, false)
		p.said("%s", shapeOf(model))
		p.compare()
		for range 10 + r.IntN(60) {
			p.step()
			p.compare()
			if model.end != "" && r.IntN(4) == 0 {
				break
			}
		}
	}
}

// shapeOf is a workflow in short.
func shapeOf(n *modelStep) string {
	if n.kind == job.KindJob {
		return fmt.Sprint(n.id, n.needs)
	}
	var kids []string
	for _, k := range n.kids {
		kids = append(kids, shapeOf(k))
	}
	return fmt.Sprint(n.kind, n.needs, "(", strings.Join(kids, " "), ")")
}
