package sidecar

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var (
	flowRuns = flag.Int("workflows", 250, "random workflows that are compared with the model")
	flowSeed = flag.Uint64("workflow-seed", 0, "of them; 0 is the clock")
)

// modelStep is what contract §4.17 says of one element of a workflow, in the plainest
// form: a tree that is looked through from its root whenever a job may have ended. It
// takes from the server what became of the jobs and nothing else.
type modelStep struct {
	kind   job.WorkflowKind
	id     string // with those that it is in
	kids   []*modelStep
	needs  []int
	call   string
	plan   map[string]any // of a job, its options with those above it
	begun  bool
	given  []string
	errs   []bool // it is told which of those failed
	end    string
	result string
	out    bool // it was not let in
	again  bool // it had failed, and was taken back
	calls  bool // the callbacks run
}

// key is the key by which the job meets others, and whether the newer of two stays out.
func (n *modelStep) key() (key string, out bool) {
	if u, ok := n.plan["unique"].(map[string]any); ok {
		return u["key"].(string), u["on_conflict"] != "replace"
	}
	if d, ok := n.plan["deduplication"].(map[string]any); ok {
		return d["id"].(string), true
	}
	return "", false
}

// first are the jobs that run at once.
func (n *modelStep) first() (all []*modelStep) {
	plain, _ := n.steps()
	switch {
	case n.kind == job.KindJob:
		return []*modelStep{n}
	case n.kind == job.KindChain:
		plain = plain[:1]
	}
	for _, k := range plain {
		if len(k.needs) == 0 {
			all = append(all, k.first()...)
		}
	}
	return all
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

func (n *modelStep) begin(given []string, errs []bool) {
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

// errorsOf says which of them did not complete, if that is told at all.
func errorsOf(ks []*modelStep, told bool) (all []bool) {
	for _, k := range ks {
		if told {
			all = append(all, k.end != "completed")
		}
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
		if key, out := n.key(); j == nil && key != "" && out {
			n.end, n.out = "failed", true // compare asks whether that was right
			return
		}
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
				k.begin(given, nil)
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
						k.begin(given, nil)
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
				k.begin(n.given, nil)
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
			c.begin(resultsOf(order), errorsOf(order, failed))
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

// flowDraw draws workflows for one play.
type flowDraw struct {
	*rand.Rand
	queue  string
	depth  int
	keys   string // the member that keys are asked for with, empty: there are none
	bare   bool   // of jobs that ask for nothing, and of one level
	number int
}

func (d *flowDraw) one(in int) bool { return d.IntN(in) == 0 }

// options are some of what a job may ask for.
func (d *flowDraw) options(rarely int) map[string]any {
	o := map[string]any{}
	if d.bare {
		return o
	}
	put := func(in int, name string, v any) {
		if d.one(in * rarely) {
			o[name] = v
		}
	}
	put(3, "priority", d.IntN(4))
	put(8, "ttl_ms", 60_000)
	put(10, "delay_ms", 90_000)
	put(2, "retry", map[string]any{"max_attempts": 1 + d.IntN(2), "initial_interval": "PT1S", "on_exhaustion": []string{"discard", "dead_letter"}[d.IntN(2)]})
	put(20, "pending", true)
	put(12, "timeout", 60)
	put(16, "rate_limit", map[string]any{"key": d.queue, "concurrency": 1, "on_limit": []string{"wait", "drop", "reschedule"}[d.IntN(3)]})
	if d.keys != "deduplication" { // the key of that is one of a queue
		put(12, "queue", d.queue+"b")
	}
	key := d.IntN(3)
	switch d.keys {
	case "unique":
		put(3, "unique", map[string]any{"key": fmt.Sprint(d.queue, key), "on_conflict": []string{"reject", "ignore", "replace"}[key]})
	case "deduplication":
		put(3, "deduplication", map[string]any{"id": fmt.Sprint(d.queue, key)})
	}
	return o
}

// under are the options of a step with those of what it is in.
func under(own, above map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, above)
	maps.Copy(all, own)
	return all
}

// job draws a step that is a job, as it is sent.
func (d *flowDraw) job(m *modelStep, above map[string]any) map[string]any {
	own := d.options(1)
	m.kind, m.plan = job.KindJob, under(own, above)
	sent := map[string]any{"type": "a." + d.queue}
	if d.one(2) {
		sent["args"] = []any{d.number}
	}
	d.number++
	if d.one(4) { // beside the type, as a core client sends them
		maps.Copy(sent, own)
	} else if len(own) > 0 || d.one(2) {
		sent["options"] = own
	}
	return sent
}

// flow draws a workflow as it is sent, and its model.
func (d *flowDraw) flow(name string, above map[string]any, depth int) (map[string]any, *modelStep) {
	kinds := []job.WorkflowKind{job.KindChain, job.KindGroup, job.KindBatch, job.KindGraph}
	if d.bare {
		kinds = append(kinds, job.KindBatch, job.KindBatch)
	}
	m := &modelStep{kind: kinds[d.IntN(len(kinds))], id: name}
	sent := map[string]any{"type": m.kind}
	if m.kind == job.KindGraph && d.one(2) {
		delete(sent, "type")
	}
	own := map[string]any{}
	if d.one(3) {
		own = d.options(4)
	}
	if name == "" {
		own["queue"] = d.queue
	}
	if above = under(own, above); len(own) > 0 {
		sent["options"] = own
	}
	in := func(id string) string {
		if name == "" {
			return id
		}
		return name + "." + id
	}
	var list []any
	add := func(st map[string]any, k *modelStep) {
		list, m.kids = append(list, st), append(m.kids, k)
	}
	most := 4
	if d.bare {
		most = 2
	}
	for i := range 1 + d.IntN(most) {
		id := fmt.Sprintf("s%d", i)
		k := &modelStep{id: in(id)}
		var st map[string]any
		if depth < d.depth && d.one(max(2, 6-d.depth)) {
			st, k = d.flow(k.id, above, depth+1)
		} else {
			st = d.job(k, above)
		}
		st["id"] = id
		if m.kind == job.KindGraph {
			var on []string
			for _, before := range d.Perm(i) {
				if d.one(2) {
					k.needs, on = append(k.needs, before), append(on, fmt.Sprintf("s%d", before))
				}
			}
			if len(on) > 0 || d.one(2) {
				st["depends_on"] = on
			}
		}
		add(st, k)
	}
	calls := []string{job.OnComplete, job.OnSuccess, job.OnFailure}
	d.Shuffle(3, func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	if !d.bare {
		calls = calls[:1+d.IntN(3)]
	}
	plain := len(m.kids)
	switch {
	case m.kind == job.KindBatch:
		sentCalls := map[string]any{}
		for _, call := range []string{job.OnComplete, job.OnSuccess, job.OnFailure} { // the order in which they run
			if slices.Contains(calls, call) {
				k := &modelStep{id: in(call), call: call}
				sentCalls[call] = d.job(k, above)
				m.kids = append(m.kids, k)
			}
		}
		sent["callbacks"] = sentCalls
	case m.kind == job.KindGraph && d.one(3):
		// A step that is named as a callback and does not depend on all is one like others.
		odd := plain > 1 && d.one(4)
		if odd {
			k := &modelStep{id: in(calls[0]), needs: []int{d.IntN(plain)}}
			st := d.job(k, above)
			st["id"], st["depends_on"] = calls[0], []string{fmt.Sprintf("s%d", k.needs[0])}
			add(st, k)
			calls = calls[1:]
			plain++
		}
		for _, call := range calls {
			k := &modelStep{call: call}
			st := d.job(k, above)
			id := call
			switch d.IntN(3) {
			case 0:
				id = strings.Replace(call, "_", "-", 1)
			case 1:
				id = "c" + call
				o, _ := st["options"].(map[string]any)
				st["options"] = under(map[string]any{"callback_type": call}, o)
			}
			k.id = in(id)
			var on []string
			for _, before := range d.Perm(plain) {
				k.needs, on = append(k.needs, before), append(on, list[before].(map[string]any)["id"].(string))
			}
			st["id"], st["depends_on"] = id, on
			add(st, k)
		}
	}
	if m.kind == job.KindGroup || m.kind == job.KindBatch {
		sent["jobs"] = list
	} else {
		sent["steps"] = list
	}
	return sent, m
}

// flowRun is one workflow of a play and its model.
type flowRun struct {
	id    job.ID
	sent  []byte
	model *modelStep
	jobs  map[string]*job.Job // by the step, as the server has them
	gone  bool                // it has ended, and its jobs may have been removed
}

// flowPlay is a sequence of random verbs over one or two workflows and jobs beside them.
type flowPlay struct {
	w       *world
	r       *flowDraw
	flows   []*flowRun
	jobs    map[job.ID]*job.Job // all of them
	was     map[job.ID]*job.Job // before the last verb
	claims  map[job.ID]job.Claim
	twice   map[string]bool // keys that two jobs may have: one was taken back by hand
	weights []int
	after   int64 // the last event before it
	old     bool  // events may have been removed
	bounded bool  // a queue has a bound
	log     []string
}

func (p *flowPlay) said(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

func (p *flowPlay) fail(format string, args ...any) {
	p.w.t.Helper()
	for _, f := range p.flows {
		p.said("sent %s", f.sent)
	}
	p.w.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(p.log, "; "))
}

// read looks at all jobs.
func (p *flowPlay) read() {
	p.jobs = map[job.ID]*job.Job{}
	for _, f := range p.flows {
		f.jobs = map[string]*job.Job{}
	}
	page, err := p.w.Jobs(p.w.t.Context(), job.Filter{Type: "a." + p.r.queue, Limit: 1000})
	if err != nil {
		p.w.t.Fatal(err)
	}
	for _, j := range page.Jobs {
		p.jobs[j.ID] = j
		if j.Flow == nil {
			continue
		}
		i := slices.IndexFunc(p.flows, func(f *flowRun) bool { return f.id == j.Flow.Workflow })
		if i < 0 {
			p.fail("job %s says that it is %+v", j.ID, j.Flow)
		}
		if p.flows[i].jobs[j.Flow.Step] != nil {
			p.fail("step %s has two jobs", j.Flow.Step)
		}
		p.flows[i].jobs[j.Flow.Step] = j
	}
}

// holders are how many of some jobs hold a key.
func holders(key string, jobs map[job.ID]*job.Job) (n int) {
	for _, j := range jobs {
		if !j.State.Terminal() && keyOfJob(j) == key {
			n++
		}
	}
	return n
}

func keyOfJob(j *job.Job) string {
	var u struct{ Key, ID string }
	_ = json.Unmarshal(j.Unique, &u)
	_ = json.Unmarshal(j.Deduplication, &u)
	return u.Key + u.ID
}

// compare brings the models up to date and holds the server to them.
func (p *flowPlay) compare() {
	p.w.t.Helper()
	p.was = p.jobs
	p.read()
	for id, j := range p.jobs {
		if before := p.was[id]; before != nil && before.State == job.Discarded && j.State != job.Discarded {
			p.reopened(j)
		} else if before != nil && before.State.Terminal() && before.State != j.State {
			p.fail("job %s was %s and is %s", id, before.State, j.State)
		}
	}
	for key := range 3 {
		if key := fmt.Sprint(p.r.queue, key); holders(key, p.jobs) > 1 && !p.twice[key] {
			p.fail("%d jobs hold %s", holders(key, p.jobs), key)
		}
	}
	for _, f := range p.flows {
		if !f.gone {
			p.compareFlow(f)
		}
	}
}

// reopened takes note of a job that was taken back. Where its end still counts, it counts
// anew.
func (p *flowPlay) reopened(j *job.Job) {
	p.twice[keyOfJob(j)] = true
	for _, f := range p.flows {
		f.model.each(func(k, in *modelStep) {
			if j.Flow != nil && f.id == j.Flow.Workflow && k.id == j.Flow.Step && in.begun && in.end == "" && (in.kind == job.KindGroup || in.kind == job.KindBatch) && in.calls == (k.call != "") {
				k.end, k.again = "", true
			}
		})
	}
}

func (p *flowPlay) compareFlow(f *flowRun) {
	p.w.t.Helper()
	f.model.look(f.jobs)
	f.model.each(func(k, _ *modelStep) {
		if k.kind == job.KindJob {
			k.look(f.jobs)
			p.compareJob(k, f.jobs[k.id])
		}
	})
	w, err := p.w.Workflow(p.w.t.Context(), f.id)
	if err != nil {
		p.fail("%v", err)
	}
	want := f.model.end
	if want == "" {
		want = "running"
	}
	counted, calls := f.model.steps()
	if f.model.kind == job.KindGraph {
		counted, calls = f.model.kids, nil
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
		if j := f.jobs[k.id]; want == "" && k.kind != job.KindJob && k.begun || want == "" && j != nil && j.State == job.Active {
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

// compareJob holds the job of a step, nil for none, to what the model says.
func (p *flowPlay) compareJob(k *modelStep, j *job.Job) {
	p.w.t.Helper()
	if k.begun && !k.out != (j != nil) {
		p.fail("step %s has begun: %t, and its job is %+v", k.id, k.begun, j)
	}
	if key, _ := k.key(); k.out && k.given != nil && holders(key, p.jobs)+holders(key, p.was) == 0 {
		p.fail("step %s was not let in, and nobody holds %s", k.id, key)
	}
	if k.out {
		k.given = nil // that was asked once
	}
	if j == nil {
		return
	}
	if got, want := string(j.ParentResults), "["+strings.Join(k.given, ",")+"]"; got != want {
		p.fail("step %s was given %s, want %s", k.id, got, want)
	}
	var errs []*struct{ Type, Message string }
	if j.ParentErrors != nil {
		if err := json.Unmarshal(j.ParentErrors, &errs); err != nil {
			p.fail("%v", err)
		}
	}
	if !slices.EqualFunc(errs, k.errs, func(e *struct{ Type, Message string }, bad bool) bool {
		return (e != nil) == bad && (e == nil || e.Type != "" && e.Message != "")
	}) {
		p.fail("step %s was told of errors %s, want %v", k.id, j.ParentErrors, k.errs)
	}
	number := func(name string, otherwise int) int {
		if n, ok := k.plan[name].(int); ok {
			return n
		}
		return otherwise
	}
	if name, _ := k.plan["queue"].(string); j.Queue != name {
		p.fail("step %s is in the queue %s, want %s", k.id, j.Queue, name)
	}
	if want := number("priority", 0); j.Priority != want {
		p.fail("step %s has the priority %d, want %d", k.id, j.Priority, want)
	}
	if want := time.Duration(number("ttl_ms", 0)) * time.Millisecond; want > 0 != !j.ExpiresAt.IsZero() || want > 0 && j.ExpiresAt.Sub(j.CreatedAt) != want {
		p.fail("step %s expires at %s", k.id, j.ExpiresAt)
	}
	if retry, _ := k.plan["retry"].(map[string]any); retry != nil && j.MaxAttempts != retry["max_attempts"] {
		p.fail("step %s has %d attempts, want %v", k.id, j.MaxAttempts, retry)
	}
	if want := number("delay_ms", 0) > 0; want != !j.ScheduledAt.IsZero() && j.Attempt == 0 && k.plan["rate_limit"] == nil {
		p.fail("step %s is scheduled at %s", k.id, j.ScheduledAt)
	}
}

// some are up to n of the jobs in a state, in a random order.
func (p *flowPlay) some(n int, states ...job.State) (all []*job.Job) {
	for _, id := range slices.Sorted(maps.Keys(p.jobs)) {
		if slices.Contains(states, p.jobs[id].State) {
			all = append(all, p.jobs[id])
		}
	}
	p.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

func stepName(j *job.Job) string {
	if j.Flow == nil {
		return "a job beside it"
	}
	return j.Flow.Step
}

// the verbs and how often they are played.
var flowVerbs = []struct {
	often int
	play  func(*flowPlay)
}{
	{40, (*flowPlay).fetch}, {30, (*flowPlay).ack}, {10, (*flowPlay).nack}, {4, (*flowPlay).cancel}, {1, (*flowPlay).stop},
	{5, (*flowPlay).retry}, {3, (*flowPlay).activate}, {2, (*flowPlay).late}, {2, (*flowPlay).bulk}, {3, (*flowPlay).push}, {1, (*flowPlay).again},
	{1, (*flowPlay).purge}, {1, (*flowPlay).crash}, {1, func(p *flowPlay) { p.w.restart(); p.said("restart") }},
	{6, func(p *flowPlay) { p.pass(2 * time.Second) }}, {4, func(p *flowPlay) { p.pass(2 * time.Minute) }}, {1, func(p *flowPlay) { p.pass(31 * time.Minute) }},
}

func (p *flowPlay) step() {
	sum := 0
	for _, n := range p.weights {
		sum += n
	}
	n := p.r.IntN(sum)
	for i, w := range p.weights {
		if n -= w; n < 0 {
			flowVerbs[i].play(p)
			return
		}
	}
}

func (p *flowPlay) pass(d time.Duration) {
	long := p.r.one(100)
	if long {
		d = 8 * 24 * time.Hour
		p.old = true
		p.ended()
	}
	p.w.pass(d)
	p.said("%s pass", d)
	for _, f := range p.flows { // it may have ended meanwhile
		if long && !f.gone {
			w, err := p.w.Workflow(p.w.t.Context(), f.id)
			if err != nil && job.KindOf(err) != job.NotFound {
				p.fail("%v", err)
			}
			f.gone = err != nil || w.State.Terminal()
		}
	}
}

// ended takes note that the jobs of what has ended may be removed.
func (p *flowPlay) ended() {
	for _, f := range p.flows {
		f.gone = f.gone || f.model.end != ""
	}
}

func (p *flowPlay) queues() []string { return []string{p.r.queue, p.r.queue + "b"} }

func (p *flowPlay) claimed(jobs []*job.Job) {
	for _, j := range jobs {
		p.claims[j.ID] = job.Claim{ID: j.ID, Token: j.Lease.Token}
	}
}

func (p *flowPlay) fetch() {
	jobs, err := p.w.Fetch(p.w.t.Context(), job.FetchRequest{Queues: p.queues(), Count: 1 + p.r.IntN(2)})
	p.said("fetch: %d, %v", len(jobs), err)
	p.claimed(jobs)
}

func (p *flowPlay) ack() {
	var acks []job.AckRequest
	for _, j := range p.some(1+p.r.IntN(3), job.Active) {
		a := job.AckRequest{Claim: p.claims[j.ID]}
		if p.r.IntN(4) > 0 {
			a.Result = json.RawMessage(fmt.Sprintf(`{"of":%q}`, stepName(j)))
		}
		p.said("ack %s", stepName(j))
		acks = append(acks, a)
	}
	if len(acks) == 0 {
		return
	}
	ctx, w := p.w.t.Context(), p.w
	switch p.r.IntN(3) {
	case 0:
		_, jobs, err := w.Next(ctx, acks, job.FetchRequest{Queues: p.queues(), Count: 1})
		p.said("next: %d, %v", len(jobs), err)
		p.claimed(jobs)
	case 1:
		_, err := w.AckAll(ctx, acks)
		p.said("together: %v", err)
	default:
		_, err := w.Ack(ctx, acks[0].Claim, acks[0].Result)
		p.said("the first: %v", err)
	}
}

func (p *flowPlay) nack() {
	for _, j := range p.some(1, job.Active) {
		f := job.Failure{Type: "E", Message: "m", Requeue: p.r.one(6)}
		final := false
		if p.r.bare || p.r.one(2) {
			f.Retryable = &final
		}
		if p.r.one(3) {
			f.Code = []string{"DISCARD", "DEAD_LETTER", "RETRY"}[p.r.IntN(3)]
		}
		_, err := p.w.Fail(p.w.t.Context(), p.claims[j.ID], f)
		p.said("fail %s: %v", stepName(j), err)
	}
}

func (p *flowPlay) cancel() {
	for _, j := range p.some(1, job.Available, job.Active, job.Retryable, job.Scheduled, job.Pending) {
		_, err := p.w.Cancel(p.w.t.Context(), j.ID, "", "")
		p.said("cancel %s: %v", stepName(j), err)
	}
}

func (p *flowPlay) stop() {
	f := p.flows[p.r.IntN(len(p.flows))]
	if f.gone {
		return
	}
	_, err := p.w.CancelWorkflow(p.w.t.Context(), f.id)
	p.said("cancel it: %v", err)
	if (err == nil) != (f.model.end == "") {
		p.fail("it was %q", f.model.end)
	}
	if err == nil {
		f.model.cancel(f.jobs)
	}
}

// retry takes discarded jobs back, each with its own request or all dead letters.
func (p *flowPlay) retry() {
	if p.r.one(4) {
		n, err := p.w.ReviveDead(p.w.t.Context(), job.Filter{Type: "a." + p.r.queue})
		p.said("retry %d dead: %v", n, err)
		return
	}
	for _, j := range p.some(1, job.Discarded) {
		_, err := p.w.Retry(p.w.t.Context(), j.ID)
		p.said("retry %s: %v", stepName(j), err)
	}
}

func (p *flowPlay) activate() {
	for _, j := range p.some(1, job.Pending) {
		_, err := p.w.Activate(p.w.t.Context(), j.ID)
		p.said("activate %s: %v", stepName(j), err)
	}
}

// late is the ACK of somebody who may have lost the job, or has ended it before.
func (p *flowPlay) late() {
	for _, j := range p.some(1, job.Available, job.Retryable, job.Completed, job.Discarded, job.Cancelled) {
		c, known := p.claims[j.ID]
		if !known {
			continue
		}
		_, err := p.w.Ack(p.w.t.Context(), c, json.RawMessage(`"late"`))
		p.said("late ack %s: %v", stepName(j), err)
		if err == nil && j.State.Terminal() {
			p.fail("it was %s", j.State)
		}
	}
}

// bulk does something to several jobs in one request. Jobs of a workflow that runs are not
// removed by it.
func (p *flowPlay) bulk() {
	a := job.BulkAct{Action: []string{job.BulkCancel, job.BulkRetry, job.BulkDelete}[p.r.IntN(3)]}
	for _, j := range p.some(1+p.r.IntN(4), job.Available, job.Active, job.Retryable, job.Scheduled, job.Pending, job.Discarded, job.Completed) {
		if a.Action != job.BulkDelete || p.runs(j) {
			a.IDs = append(a.IDs, j.ID)
			p.said("%s %s", a.Action, stepName(j))
		}
	}
	if len(a.IDs) > 0 {
		_, err := p.w.Bulk(p.w.t.Context(), a)
		p.said("that was %v", err)
	}
}

// runs reports whether a job is one of a workflow that has not ended.
func (p *flowPlay) runs(j *job.Job) bool {
	return slices.ContainsFunc(p.flows, func(f *flowRun) bool { return j.Flow != nil && f.id == j.Flow.Workflow && f.model.end == "" })
}

// push stores a job that is of no workflow.
func (p *flowPlay) push() {
	sent := p.r.job(&modelStep{}, map[string]any{"queue": p.r.queue})
	if o, _ := sent["options"].(map[string]any); sent["queue"] == nil && o["queue"] == nil {
		sent["queue"] = p.r.queue
	}
	if sent["args"] == nil {
		sent["args"] = []any{}
	}
	raw, _ := json.Marshal(sent)
	c, err := job.ParseChecked(raw)
	if err != nil {
		p.fail("%s: %v", raw, err)
	}
	_, err = p.w.EnqueueChecked(p.w.t.Context(), c)
	p.said("push %s: %v", raw, err)
}

// again sends a workflow once more.
func (p *flowPlay) again() {
	f := p.flows[p.r.IntN(len(p.flows))]
	if f.gone {
		return
	}
	spec := p.parse(f.sent)
	if spec.ID == "" {
		return
	}
	made, existing, err := p.w.StartWorkflow(p.w.t.Context(), spec)
	if p.said("again: %v", err); err != nil || !existing || made.ID != f.id {
		p.fail("it was made anew: %v, %v", made, err)
	}
}

func (p *flowPlay) purge() {
	p.ended()
	n, err := p.w.PurgeQueue(p.w.t.Context(), p.r.queue, job.Purge{States: []job.State{job.Completed, job.Cancelled, job.Discarded}})
	p.said("purge %d: %v", n, err)
}

// crash goes on with the files as they lie there.
func (p *flowPlay) crash() {
	p.w.crash()
	p.said("kill")
}

func (p *flowPlay) parse(raw []byte) job.WorkflowSpec {
	spec, err := job.ParseWorkflow(slices.Clone(raw))
	if err != nil {
		p.fail("%s: %v", raw, err)
	}
	return spec
}

// start draws a workflow and begins it. One whose first jobs meet others by their keys is
// refused.
func (p *flowPlay) start() {
	sent, model := p.r.flow("", map[string]any{}, 1)
	if p.r.one(2) {
		sent["id"] = p.w.o.NewID()
	}
	raw, err := json.Marshal(sent)
	if err != nil {
		p.w.t.Fatal(err)
	}
	keys, refused := map[string]int{}, false
	for _, k := range model.first() {
		if key, out := k.key(); key != "" && out {
			keys[key]++
			refused = refused || holders(key, p.jobs)+keys[key] > 1
		}
	}
	made, existing, err := p.w.StartWorkflow(p.w.t.Context(), p.parse(raw))
	p.said("%s: %v", shapeOf(model), err)
	if job.KindOf(err) == job.Duplicate && err != nil && refused || job.KindOf(err) == job.QueueFull && err != nil && p.bounded {
		return
	}
	if err != nil || existing || refused {
		p.fail("%s: %v, %v, refused is %t", raw, existing, err, refused)
	}
	if read, err := p.w.Workflow(p.w.t.Context(), made.ID); err != nil || !reflect.DeepEqual(read, made) {
		p.fail("it was answered as %+v, and is %+v, %v", made, read, err)
	}
	f := &flowRun{id: made.ID, sent: raw, model: model}
	model.begin(nil, nil)
	p.flows = append(p.flows, f)
}

// told compares the events of the workflows with what has become of their steps.
func (p *flowPlay) told() {
	seen := map[string]int{}
	for {
		es, err := p.w.Events(p.w.t.Context(), job.EventFilter{Types: []string{"workflow.*"}, After: p.after, Limit: 1000})
		if err != nil {
			p.w.t.Fatal(err)
		}
		for _, e := range es {
			var data struct {
				WorkflowID string `json:"workflow_id"`
				Step       string
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				p.w.t.Fatal(err)
			}
			_, what, _ := strings.Cut(strings.TrimPrefix(e.Type, "workflow."), "_")
			if what == "" {
				what = strings.TrimPrefix(e.Type, "workflow.")
			}
			seen[data.WorkflowID+" "+data.Step+" "+what]++
			p.after = e.Seq
		}
		if len(es) < 1000 {
			break
		}
	}
	for _, f := range p.flows {
		if f.gone || p.old {
			continue
		}
		count := func(step, what string) int { return seen[string(f.id)+" "+step+" "+what] }
		ends := count("", "completed") + count("", "failed") + count("", "cancelled")
		if f.model.end != "" && (count("", f.model.end) != 1 || ends != 1) || f.model.end == "" && ends != 0 || count("", "started") != 1 {
			p.fail("events of the whole: %v, want %q", seen, f.model.end)
		}
		f.model.each(func(k, _ *modelStep) {
			completed, failed := count(k.id, "completed"), count(k.id, "failed")
			if k.end == "completed" != (completed == 1) || completed > 1 || k.end == "failed" && failed == 0 || k.end == "cancelled" && completed+failed > 0 && !k.again {
				p.fail("events of %s, which is %q: %d completed, %d failed", k.id, k.end, completed, failed)
			}
		})
	}
}

// TestWorkflowsAreAsTheModelSays plays random workflows: each step runs when it must and
// never else, is given what the model says, and the counters are what the model counts.
func TestWorkflowsAreAsTheModelSays(t *testing.T) {
	seed := *flowSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const together = 100 // in one file
	for done := 0; done < *flowRuns; done += together {
		t.Run(fmt.Sprint(done), func(t *testing.T) { playFlows(t, r, min(together, *flowRuns-done)) })
	}
}

func playFlows(t *testing.T, r *rand.Rand, runs int) {
	w := newWorld(t, Retention{})
	after := int64(0)
	for run := range runs {
		d := &flowDraw{Rand: r, queue: fmt.Sprintf("q%d", run), depth: 3, keys: []string{"", "", "unique", "deduplication"}[r.IntN(4)]}
		if d.one(20) {
			d.depth = job.MaxWorkflowDepth
		}
		p := &flowPlay{w: w, r: d, claims: map[job.ID]job.Claim{}, twice: map[string]bool{}, after: after}
		for _, v := range flowVerbs { // some plays know few verbs, and some have one again and again
			p.weights = append(p.weights, v.often*[]int{0, 1, 1, 4}[r.IntN(4)])
		}
		p.weights[0], p.weights[1] = max(p.weights[0], 20), max(p.weights[1], 20)
		if d.one(4) { // the order in which jobs fail, are taken back and complete is all
			d.bare, d.depth, d.keys = true, 1, ""
			p.weights = []int{20, 20, 20, 0, 0, 30}
		}
		if d.one(6) {
			if _, err := w.SetQueueConfig(t.Context(), d.queue, json.RawMessage(`{"max_size":6,"overflow_policy":"drop_oldest"}`), false); err != nil {
				t.Fatal(err)
			}
			p.bounded = true
		}
		for i := range 10 + r.IntN(70) {
			if i == 0 || len(p.flows) < 2 && d.one(20) {
				p.start()
				p.compare()
			}
			if len(p.flows) == 0 {
				continue
			}
			p.step()
			p.compare()
			if !slices.ContainsFunc(p.flows, func(f *flowRun) bool { return f.model.end == "" }) && d.one(6) {
				break
			}
		}
		p.told()
		after = p.after
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
