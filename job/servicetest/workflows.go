package servicetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// flowing are the cases of job.WorkflowService.
var flowing = []verdict{
	{"a chain runs step by step, each with the results of those before it", flowChain},
	{"a failed step ends a chain", flowChainFails},
	{"a group ends with its last job, failed if one failed", flowGroup},
	{"a batch calls back once, and completes also after a failure", flowBatch},
	{"a graph releases a step when all that it depends on have completed", flowGraph},
	{"a callback of a graph runs when all others have ended", flowGraphCalls},
	{"a nested workflow is one step", flowNested},
	{"the next step can be fetched as soon as the ACK answers, also by who waits, and by NEXT", flowAtOnce},
	{"a cancelled workflow lets active jobs finish and releases nothing", flowCancel},
	{"a workflow that has ended cannot be cancelled", flowCancelEnded},
	{"a failed job of a group that is taken back counts again, one of a chain does not", flowRevive},
	{"a workflow with an id is started once", flowTwice},
	{"a bad workflow stores nothing", flowBad},
	{"a step that meets a unique job refuses the workflow, and later fails", flowUnique},
	{"the first steps of a workflow are let into a queue as a batch is, later ones always", flowRoom},
	{"a step that takes the place of another of its workflow fails that", flowReplaces},
	{"results that are too large for the next step refuse the ACK alone", flowTooLarge},
	{"results that are too large and come together without an ACK fail the step that they are of", flowTooLargeLate},
	{"workflows are listed by state and in pages", flowList},
	{"what a request says of a workflow is dropped", flowReserved},
	{"a dead letter of a running workflow is not removed", flowDead},
	{"a workflow is answered as it is, also where what it replaces strikes back", flowStruckBack},
	{"what a running workflow needs is neither purged nor deleted, in bulk or with its queue", flowNeeds},
	{"the events of a workflow are told in order", flowEvents},
}

func do(id string, change func(*job.Envelope)) job.Step { return job.Do(id, envelope(change)) }

// final makes the first failure of a job its last.
func final(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":1}`) }

func (k *kit) start(s job.WorkflowSpec) *job.Workflow {
	k.t.Helper()
	w, existing, err := k.s.StartWorkflow(k.ctx(), s)
	if err != nil || existing || w.State != job.WorkflowRunning || !w.FinishedAt.IsZero() || w.CreatedAt.IsZero() {
		k.t.Fatalf("start: %+v, %t, %v", w, existing, err)
	}
	if read := k.flow(w.ID); !reflect.DeepEqual(read, w) {
		k.t.Errorf("it is read as\n%+v, and was answered as\n%+v", read, w)
	}
	return w
}

func (k *kit) flow(id job.ID) *job.Workflow {
	k.t.Helper()
	w, err := k.s.Workflow(k.ctx(), id)
	if err != nil {
		k.t.Fatalf("read workflow %s: %v", id, err)
	}
	return w
}

// flows compares the state of a workflow and of its steps.
func (k *kit) flows(id job.ID, state job.WorkflowState, steps ...job.StepState) *job.Workflow {
	k.t.Helper()
	w := k.flow(id)
	var got []job.StepState
	counts := map[job.StepState]int{}
	for i, s := range w.Steps {
		got = append(got, s.State)
		counts[s.State]++
		if s.Index != i {
			k.t.Errorf("step %d has the index %d", i, s.Index)
		}
	}
	if w.State != state || !slices.Equal(got, steps) {
		k.t.Errorf("the workflow is %s with %v, want %s with %v", w.State, got, state, steps)
	}
	if w.Total != len(steps) || w.Completed != counts[job.StepCompleted] || w.Failed != counts[job.StepFailed] || w.Cancelled != counts[job.StepCancelled] {
		k.t.Errorf("it counts %d, %d, %d and %d", w.Total, w.Completed, w.Failed, w.Cancelled)
	}
	if w.FinishedAt.IsZero() != (state == job.WorkflowRunning) {
		k.t.Errorf("it is %s and ended at %v", state, w.FinishedAt)
	}
	return w
}

// step fetches one job, which must be that of a step, with these results.
func (k *kit) step(name, given string) *job.Job {
	k.t.Helper()
	j := k.take()
	if j.Flow == nil || j.Flow.Step != name || string(j.ParentResults) != given {
		k.t.Errorf("fetched %s with %s, want step %s with %s", text(j), j.ParentResults, name, given)
	}
	k.shows(j, "workflow_step", fmt.Sprintf("%q", name))
	k.shows(j, "parent_results", given)
	return j
}

func flowChain(k *kit) {
	w := k.start(job.Chain("order", do("charge", nil), do("", nil), do("mail", nil)))
	k.flows(w.ID, job.WorkflowRunning, job.StepPending, job.StepWaiting, job.StepWaiting)
	a := k.step("charge", `[]`)
	k.flows(w.ID, job.WorkflowRunning, job.StepActive, job.StepWaiting, job.StepWaiting)
	k.none()
	k.ack(a, `{"paid": 1e2}`)
	b := k.step("step-1", `[{"paid": 1e2}]`)
	k.ack(b, "")
	c := k.step("mail", `[{"paid": 1e2},null]`)
	k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepCompleted, job.StepActive)
	k.ack(c, `7`)
	got := k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted, job.StepCompleted, job.StepCompleted)
	if string(got.Steps[0].Result) != `{"paid": 1e2}` || !slices.Equal(got.Steps[2].JobIDs, []job.ID{c.ID}) || got.Name != "order" || got.Kind != job.KindChain {
		k.t.Errorf("got %+v", got)
	}
	k.none()
}

func flowChainFails(k *kit) {
	w := k.start(job.Chain("", do("", nil), do("", final), do("", nil)))
	k.ack(k.step("step-0", `[]`), `1`)
	b := k.step("step-1", `[1]`)
	k.fail(b, job.Failure{Message: "no"})
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCancelled)
	k.none()
	// The job alone is run again; the workflow is not.
	if _, err := k.s.Retry(k.ctx(), b.ID); err != nil {
		k.t.Fatal(err)
	}
	k.ack(k.take(), `2`)
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCancelled)
	k.none()
}

func flowGroup(k *kit) {
	w := k.start(job.Group("", do("", nil), do("", final), do("", nil)))
	a, b, c := k.step("step-0", `[]`), k.step("step-1", `[]`), k.step("step-2", `[]`)
	k.fail(b, job.Failure{Message: "no"})
	k.ack(c, "")
	k.flows(w.ID, job.WorkflowRunning, job.StepActive, job.StepFailed, job.StepCompleted)
	k.ack(a, "")
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCompleted)
	w = k.start(job.Group("", do("x", nil)))
	// What will be tried again has not failed.
	j := k.step("x", `[]`)
	k.fail(j, job.Failure{Message: "later"})
	k.flows(w.ID, job.WorkflowRunning, job.StepPending)
	if _, err := k.s.Cancel(k.ctx(), j.ID, "", ""); err != nil {
		k.t.Fatal(err)
	}
	k.flows(w.ID, job.WorkflowFailed, job.StepFailed)
}

func flowBatch(k *kit) {
	all := func(e *job.Envelope) { e.Queue = "calls" }
	call := func() *job.Job { return k.one(job.FetchRequest{Queues: []string{"calls"}}) }
	w := k.start(job.Batch("", do("", nil), do("", final)).On(job.OnSuccess, envelope(all)).On(job.OnComplete, envelope(all)).On(job.OnFailure, envelope(all)))
	k.ack(k.take(), `{"n":1}`)
	if jobs := k.fetch(job.FetchRequest{Queues: []string{"calls"}}); len(jobs) > 0 {
		k.t.Errorf("called back too early: %s", text(jobs[0]))
	}
	k.fail(k.take(), job.Failure{Type: "E", Message: "no"})
	got := map[string]*job.Job{}
	for range 2 {
		j := call()
		got[j.Flow.Step] = j
		if string(j.ParentResults) != `[{"n":1},null]` || string(j.ParentErrors) != `[null,{"type":"E","message":"no"}]` {
			k.t.Errorf("%s was given %s and %s", j.Flow.Step, j.ParentResults, j.ParentErrors)
		}
	}
	if got[job.OnComplete] == nil || got[job.OnFailure] == nil {
		k.t.Fatalf("called back %v", got)
	}
	k.ack(got[job.OnComplete], "")
	k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepFailed)
	k.ack(got[job.OnFailure], "")
	end := k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted, job.StepFailed)
	var states []string
	for _, c := range end.Callbacks {
		states = append(states, c.Callback+" "+string(c.State))
	}
	slices.Sort(states)
	if got := strings.Join(states, ", "); got != "on_complete completed, on_failure completed, on_success cancelled" {
		k.t.Errorf("callbacks: %s", got)
	}
	// A callback that is discarded fails the batch; one that does not run does nothing.
	w = k.start(job.Batch("", do("", nil)).On(job.OnSuccess, envelope(final)))
	k.ack(k.take(), `1`)
	j := k.step(job.OnSuccess, `[1]`)
	if j.ParentErrors != nil {
		k.t.Errorf("nothing failed, and it is told of %s", j.ParentErrors)
	}
	k.fail(j, job.Failure{Message: "no"})
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted)
	w = k.start(job.Batch("", do("", nil)).On(job.OnFailure, envelope(nil)))
	k.ack(k.take(), "")
	k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted)
	k.none()
}

func flowGraph(k *kit) {
	w := k.start(job.Graph("", do("a", nil), do("b", final), do("c", nil).After("b", "a"), do("d", nil).After("a"), do("e", nil).After("c")))
	k.ack(k.step("a", `[]`), `"a"`)
	b := k.step("b", `[]`)
	k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepActive, job.StepWaiting, job.StepPending, job.StepWaiting)
	d := k.step("d", `["a"]`)
	k.fail(b, job.Failure{Message: "no"})
	k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepFailed, job.StepCancelled, job.StepActive, job.StepCancelled)
	k.ack(d, "")
	got := k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCancelled, job.StepCompleted, job.StepCancelled)
	if !slices.Equal(got.Steps[2].DependsOn, []string{"b", "a"}) {
		k.t.Errorf("c depends on %v", got.Steps[2].DependsOn)
	}
	k.none()
	k.start(job.Graph("", do("a", nil), do("b", nil), do("c", nil).After("b", "a")))
	a, b := k.take(), k.take()
	k.ack(a, `1`)
	k.none()
	k.ack(b, `2`)
	k.step("c", `[2,1]`)
}

func flowGraphCalls(k *kit) {
	w := k.start(job.Graph("", do("a", final), do("b", nil)).On(job.OnComplete, envelope(nil)).On(job.OnSuccess, envelope(nil)))
	k.fail(k.step("a", `[]`), job.Failure{Message: "no"})
	k.ack(k.step("b", `[]`), `1`)
	j := k.step("on_complete", `[null,1]`)
	k.flows(w.ID, job.WorkflowRunning, job.StepFailed, job.StepCompleted, job.StepActive, job.StepCancelled)
	k.ack(j, "")
	k.flows(w.ID, job.WorkflowFailed, job.StepFailed, job.StepCompleted, job.StepCompleted, job.StepCancelled)
}

func flowNested(k *kit) {
	both := job.Group("", do("x", nil), do("y", nil))
	w := k.start(job.Chain("", do("a", nil), job.Inside("both", both), job.Inside("deep", job.Chain("", do("p", nil), do("q", final))), do("z", nil)))
	k.ack(k.step("a", `[]`), `1`)
	x, y := k.step("both.x", `[1]`), k.step("both.y", `[1]`)
	k.ack(y, `"y"`)
	k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepActive, job.StepWaiting, job.StepWaiting)
	k.ack(x, `"x"`)
	k.ack(k.step("deep.p", `[1,["x","y"]]`), `2`)
	q := k.step("deep.q", `[2]`)
	got := k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepCompleted, job.StepActive, job.StepWaiting)
	if !slices.Equal(got.Steps[1].JobIDs, []job.ID{x.ID, y.ID}) {
		k.t.Errorf("both has the jobs %v", got.Steps[1].JobIDs)
	}
	k.ack(q, `3`)
	k.ack(k.step("z", `[1,["x","y"],3]`), "")
	k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted, job.StepCompleted, job.StepCompleted, job.StepCompleted)
}

func flowAtOnce(k *kit) {
	k.start(job.Chain("", do("a", nil), do("b", nil), do("c", nil)))
	a := k.step("a", `[]`)
	got := make(chan []*job.Job, 1)
	go func() {
		jobs, _ := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Wait: patience})
		got <- jobs
	}()
	k.pause(blink)
	k.ack(a, `1`)
	jobs := <-got
	if len(jobs) != 1 || jobs[0].Flow.Step != "b" {
		k.t.Fatalf("who waited got %d jobs", len(jobs))
	}
	acked, jobs, err := k.s.Next(k.ctx(), []job.AckRequest{{Claim: claimOf(jobs[0]), Result: json.RawMessage(`2`)}}, job.FetchRequest{Queues: []string{queue}})
	if err != nil || len(acked) != 1 || acked[0].Err != nil || len(jobs) != 1 || string(jobs[0].ParentResults) != `[1,2]` {
		k.t.Errorf("NEXT: %+v, %d jobs, %v", acked, len(jobs), err)
	}
}

func flowCancel(k *kit) {
	later := func(e *job.Envelope) { e.ScheduledAt = time.Now().Add(time.Hour) }
	w := k.start(job.Batch("", do("a", nil), do("b", nil), do("c", later), job.Inside("d", job.Chain("", do("e", later), do("f", nil))), do("g", nil)).On(job.OnComplete, envelope(nil)))
	k.ack(k.step("a", `[]`), "")
	b := k.step("b", `[]`)
	got, err := k.s.CancelWorkflow(k.ctx(), w.ID)
	if err != nil || got.State != job.WorkflowCancelled || got.Cancelled != 3 || got.Completed != 1 {
		k.t.Fatalf("cancel: %+v, %v", got, err)
	}
	k.flows(w.ID, job.WorkflowCancelled, job.StepCompleted, job.StepActive, job.StepCancelled, job.StepCancelled, job.StepCancelled)
	k.stands(k.read(got.Steps[2].JobIDs[0]), job.Cancelled)
	k.ack(b, `1`)
	k.flows(w.ID, job.WorkflowCancelled, job.StepCompleted, job.StepCompleted, job.StepCancelled, job.StepCancelled, job.StepCancelled)
	k.none()
}

func flowCancelEnded(k *kit) {
	w := k.start(job.Chain("", do("a", nil)))
	k.ack(k.take(), "")
	_, err := k.s.CancelWorkflow(k.ctx(), w.ID)
	k.is("cancel of a completed workflow", err, job.Conflict)
	_, err = k.s.CancelWorkflow(k.ctx(), "01980000-0000-7000-8000-000000000001")
	k.is("cancel of no workflow", err, job.NotFound)
	_, err = k.s.Workflow(k.ctx(), "../x")
	k.is("a name that is no id", err, job.NotFound)
}

func flowRevive(k *kit) {
	w := k.start(job.Group("", do("a", final), do("b", nil)))
	a, b := k.step("a", `[]`), k.step("b", `[]`)
	k.fail(a, job.Failure{Message: "no"})
	if _, err := k.s.Retry(k.ctx(), a.ID); err != nil {
		k.t.Fatal(err)
	}
	k.flows(w.ID, job.WorkflowRunning, job.StepPending, job.StepActive)
	k.ack(b, "")
	k.flows(w.ID, job.WorkflowRunning, job.StepPending, job.StepCompleted)
	k.ack(k.step("a", `[]`), "")
	k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted, job.StepCompleted)
}

func flowTwice(k *kit) {
	s := job.Chain("order", do("a", nil), do("b", nil))
	s.ID = "01980000-0000-7000-8000-000000000001"
	w := k.start(s)
	again, existing, err := k.s.StartWorkflow(k.ctx(), s)
	if err != nil || !existing || again.ID != w.ID || w.ID != s.ID {
		k.t.Fatalf("again: %+v, %t, %v", again, existing, err)
	}
	k.ack(k.step("a", `[]`), "")
	if again, _, err = k.s.StartWorkflow(k.ctx(), s); err != nil || again.Completed != 1 {
		k.t.Errorf("later: %+v, %v", again, err)
	}
	s.Name = "other"
	_, _, err = k.s.StartWorkflow(k.ctx(), s)
	k.is("another content", err, job.Duplicate)
	k.ack(k.step("b", `[null]`), "")
	k.none()
}

func flowBad(k *kit) {
	_, _, err := k.s.StartWorkflow(k.ctx(), job.Graph("", do("charge", nil), do("ship", nil).After("chrage")))
	e := k.is("a slip", err, job.Invalid)
	if !strings.Contains(e.Message, `steps[1].depends_on[0]: no step "chrage"; did you mean "charge"?`) {
		k.t.Errorf("it says %q", e.Message)
	}
	page, err := k.s.Workflows(k.ctx(), job.WorkflowFilter{})
	if err != nil || page.Total != 0 {
		k.t.Errorf("there are %+v, %v", page, err)
	}
	k.none()
}

func flowUnique(k *kit) {
	unique := func(e *job.Envelope) { e.Type, e.Unique = "only.one", json.RawMessage(`{"keys":["type"]}`) }
	held := k.push(unique)
	_, _, err := k.s.StartWorkflow(k.ctx(), job.Group("", do("a", nil), do("b", unique)))
	if e := k.is("a step that is refused", err, job.Duplicate); !strings.Contains(e.Message, `"b"`) {
		k.t.Errorf("it says %q", e.Message)
	}
	w := k.start(job.Chain("", do("a", func(e *job.Envelope) { e.Priority = 9 }), do("b", unique), do("c", nil)))
	k.ack(k.step("a", `[]`), "")
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCancelled)
	k.ack(k.take(), "")
	k.stands(k.read(held.ID), job.Completed)
	k.none()
}

func flowRoom(k *kit) {
	a := k.named("first.job")
	k.configure(a.Queue, `{"max_size":2,"overflow_policy":"reject"}`)
	_, _, err := k.s.StartWorkflow(k.ctx(), job.Group("", do("a", nil), do("b", nil)))
	k.is("two jobs where there is room for one", err, job.QueueFull)
	w := k.start(job.Graph("", do("a", nil), do("b", nil).After("a"), do("c", nil).After("a")))
	k.ack(k.take(), "")
	k.ack(k.step("a", `[]`), "1")
	k.flows(w.ID, job.WorkflowRunning, job.StepCompleted, job.StepPending, job.StepPending)
	_, _, err = k.s.StartWorkflow(k.ctx(), job.Chain("", do("a", nil)))
	k.is("one more where there is no room", err, job.QueueFull)
}

func flowReplaces(k *kit) {
	alone := func(e *job.Envelope) { e.Unique = json.RawMessage(`{"key":"one","on_conflict":"replace"}`) }
	w := k.start(job.Group("", do("a", alone), do("b", alone)))
	k.flows(w.ID, job.WorkflowRunning, job.StepFailed, job.StepPending)
	k.ack(k.step("b", `[]`), "")
	k.flows(w.ID, job.WorkflowFailed, job.StepFailed, job.StepCompleted)
}

func flowTooLarge(k *kit) {
	w := k.start(job.Chain("", do("a", nil), do("b", nil), do("c", nil)))
	other := k.named("other.job")
	half := `"` + strings.Repeat("x", job.MaxParentBytes/2) + `"`
	k.ack(k.step("a", `[]`), half)
	o := k.take()
	if o.ID != other.ID {
		k.t.Fatalf("fetched %s", o.Type)
	}
	b := k.take()
	_, err := k.s.Ack(k.ctx(), claimOf(b), json.RawMessage(half))
	e := k.is("too much", err, job.TooLarge)
	if !strings.Contains(e.Message, string(w.ID)) {
		k.t.Errorf("it says %q", e.Message)
	}
	k.stands(k.read(b.ID), job.Active)
	acked, err := k.s.AckAll(k.ctx(), []job.AckRequest{{Claim: claimOf(b), Result: json.RawMessage(half)}, {Claim: claimOf(o)}})
	if err != nil || len(acked) != 2 || job.KindOf(acked[0].Err) != job.TooLarge || acked[1].Err != nil {
		k.t.Errorf("several: %+v, %v", acked, err)
	}
	k.ack(b, `"small"`)
	k.ack(k.step("c", `[`+half+`,"small"]`), half)
	k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted, job.StepCompleted, job.StepCompleted)
}

// flowTooLargeLate ends a batch by a FAIL, and its result has no place beside another.
func flowTooLargeLate(k *kit) {
	large := `"` + strings.Repeat("x", job.MaxParentBytes*3/5) + `"`
	inner := job.Inside("b", job.Batch("", do("x", nil), do("y", final)).On(job.OnSuccess, envelope(nil)))
	play := func(given string) {
		k.t.Helper()
		k.ack(k.step("a", `[]`), large)
		k.ack(k.step("b.x", given), large)
		k.fail(k.step("b.y", given), job.Failure{Message: "no"})
	}
	w := k.start(job.Graph("", do("a", nil), inner, do("c", nil).After("a", "b")))
	play(`[]`)
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCancelled)
	w = k.start(job.Chain("", do("a", nil), inner, do("c", nil)))
	play(`[` + large + `]`)
	k.flows(w.ID, job.WorkflowFailed, job.StepCompleted, job.StepFailed, job.StepCancelled)
	w = k.start(job.Batch("", do("a", nil), inner).On(job.OnComplete, envelope(nil)))
	play(`[]`)
	c := k.step("on_complete", `[`+large+`,null]`)
	if !strings.Contains(string(c.ParentErrors), "workflow_failed") {
		k.t.Errorf("it is told %s", c.ParentErrors)
	}
	k.ack(c, "")
	k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted, job.StepFailed)
}

func flowList(k *kit) {
	var ids []job.ID
	for range 5 {
		ids = append(ids, k.start(job.Chain("n", do("a", nil))).ID)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	if _, err := k.s.CancelWorkflow(k.ctx(), ids[1]); err != nil {
		k.t.Fatal(err)
	}
	list := func(f job.WorkflowFilter) (got []job.ID, p job.WorkflowPage) {
		k.t.Helper()
		p, err := k.s.Workflows(k.ctx(), f)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, w := range p.Workflows {
			got = append(got, w.ID)
			if w.Name != "n" || w.Kind != job.KindChain || w.Total != 1 || w.Steps != nil || w.CreatedAt.IsZero() {
				k.t.Errorf("got %+v", w)
			}
		}
		return got, p
	}
	if got, p := list(job.WorkflowFilter{}); !slices.Equal(got, ids) || p.Total != 5 || p.Next != "" {
		k.t.Errorf("got %v, %+v", got, p)
	}
	if got, p := list(job.WorkflowFilter{State: job.WorkflowCancelled}); !slices.Equal(got, ids[1:2]) || p.Total != 1 || p.Workflows[0].Cancelled != 1 {
		k.t.Errorf("cancelled: got %v, %+v", got, p)
	}
	var all []job.ID
	for f := (job.WorkflowFilter{Limit: 2}); ; {
		got, p := list(f)
		all = append(all, got...)
		if f.Cursor = p.Next; f.Cursor == "" || len(all) > 5 {
			break
		}
	}
	if !slices.Equal(all, ids) {
		k.t.Errorf("in pages: %v", all)
	}
	if got, _ := list(job.WorkflowFilter{Limit: 2, Offset: 3}); !slices.Equal(got, ids[3:]) {
		k.t.Errorf("from the fourth on: %v", got)
	}
}

func flowReserved(k *kit) {
	w := k.start(job.Chain("", do("a", nil)))
	j := k.take()
	e, err := job.ParseEnvelope(j.AppendJSON(nil, job.View{}))
	if err != nil || e.Envelope().Extra != nil {
		k.t.Errorf("what is sent again keeps %s, %v", e.Envelope().Extra, err)
	}
	k.ack(j, "")
	k.flows(w.ID, job.WorkflowCompleted, job.StepCompleted)
}

func flowDead(k *kit) {
	bury := func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`)
	}
	w := k.start(job.Group("", do("a", bury), do("b", nil)))
	a, b := k.step("a", `[]`), k.step("b", `[]`)
	k.fail(a, job.Failure{Message: "no"})
	k.is("removal of a step", k.s.DeleteDead(k.ctx(), a.ID), job.Conflict)
	if n, err := k.s.PurgeDead(k.ctx(), time.Now().Add(time.Hour)); n != 0 || err != nil {
		k.t.Errorf("purged %d, %v", n, err)
	}
	k.ack(b, "")
	k.flows(w.ID, job.WorkflowFailed, job.StepFailed, job.StepCompleted)
	if err := k.s.DeleteDead(k.ctx(), a.ID); err != nil {
		k.t.Error(err)
	}
	k.flows(w.ID, job.WorkflowFailed, job.StepFailed, job.StepCompleted)
}

func flowStruckBack(k *kit) {
	taking := func(e *job.Envelope) { e.Unique = json.RawMessage(`{"keys":["queue"],"on_conflict":"replace"}`) }
	a := k.start(job.Batch("", do("a", taking)).On(job.OnFailure, envelope(taking)))
	w, _, err := k.s.StartWorkflow(k.ctx(), job.Group("", do("b", taking))) // its job cancels that of a, whose callback cancels it
	if err != nil || w.State != job.WorkflowFailed {
		k.t.Fatalf("%+v, %v", w, err)
	}
	if read := k.flow(w.ID); !reflect.DeepEqual(read, w) {
		k.t.Errorf("it is read as\n%+v, and was answered as\n%+v", read, w)
	}
	k.ack(k.take(), "")
	if got := k.flow(a.ID); got.State != job.WorkflowCompleted {
		k.t.Errorf("the other is %s", got.State)
	}
}

func flowNeeds(k *kit) {
	w := k.start(job.Chain("", do("a", nil), do("b", nil)))
	a := k.step("a", `[]`)
	k.ack(a, `1`)
	for _, dry := range []bool{true, false} {
		purge := job.Purge{States: []job.State{job.Completed}, DryRun: dry}
		if n, err := k.s.PurgeQueue(k.ctx(), a.Queue, purge); n != 0 || err != nil {
			k.t.Errorf("purged %d, %v", n, err)
		}
		r, err := k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkDelete, IDs: []job.ID{a.ID}, DryRun: dry})
		if err != nil || len(r.Items) != 1 {
			k.t.Fatalf("%+v, %v", r, err)
		}
		e := k.is("deletion of a step", r.Items[0].Err, job.Conflict)
		if !strings.Contains(e.Message, string(w.ID)) {
			k.t.Errorf("it says %q", e.Message)
		}
	}
	for _, d := range []job.QueueDeletion{{}, {Strategy: job.DeleteDiscard}, {Strategy: job.DeleteMove, Target: "other"}} {
		_, err := k.s.DeleteQueue(k.ctx(), a.Queue, d)
		k.is("deletion of its queue", err, job.Conflict)
	}
	k.ack(k.step("b", `[1]`), "")
	for _, dry := range []bool{true, false} {
		purge := job.Purge{States: []job.State{job.Completed}, DryRun: dry}
		if n, err := k.s.PurgeQueue(k.ctx(), a.Queue, purge); n != 2 || err != nil {
			k.t.Errorf("purged %d, %v", n, err)
		}
	}
}

func flowEvents(k *kit) {
	w := k.start(job.Chain("order", do("a", nil), do("b", final)))
	a := k.step("a", `[]`)
	k.ack(a, "")
	k.fail(k.take(), job.Failure{Message: "no"})
	es, err := k.s.Events(k.ctx(), job.EventFilter{Types: []string{"workflow.*"}})
	var got []string
	for _, e := range es {
		got = append(got, e.Type)
		k.expect(e.Data, "workflow_id", `"`+string(w.ID)+`"`)
		k.expect(e.Data, "workflow_type", `"chain"`)
		k.expect(e.Data, "name", `"order"`)
	}
	if want := "workflow.started workflow.step_completed workflow.step_failed workflow.failed"; err != nil || strings.Join(got, " ") != want {
		k.t.Fatalf("told %v, %v, want %s", got, err, want)
	}
	k.expect(es[1].Data, "step", `"a"`)
	if es[1].JobID != a.ID { // over HTTP it is a member of the event
		k.expect(es[1].Data, "job_id", `"`+string(a.ID)+`"`)
	}
	k.start(job.Group("", do("a", nil)))
	k.ack(k.take(), "")
	es, err = k.s.Events(k.ctx(), job.EventFilter{Types: []string{"workflow.*"}, After: es[3].Seq})
	got = nil
	for _, e := range es {
		got = append(got, e.Type)
	}
	if want := "workflow.started workflow.job_completed workflow.completed"; err != nil || strings.Join(got, " ") != want {
		k.t.Errorf("told %v, %v, want %s", got, err, want)
	}
}
