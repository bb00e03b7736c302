package servicetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var cronFlowing = []verdict{
	{"a tick makes one workflow as the template says, and each of its jobs knows the tick", flowTick},
	{"overlap looks at the state of the workflow before", flowOverlap},
	{"overlap enqueue waits for the end of the workflow before", flowEnqueue},
	{"a waiting workflow that is cancelled lets none start beside the one that runs", flowMiddle},
	{"a job waits for a workflow, and a workflow for a job", flowMixed},
	{"a trigger makes a workflow now, and says so", flowTrigger},
	{"a bad workflow in a template is refused with its path, and not stored", flowTemplateBad},
	{"a template becomes a workflow, and a job again", flowChanged},
	{"a workflow that meets a unique job is skipped whole, and no other schedule of its instant", flowDuplicate},
	{"after an outage there is one workflow, and what waits goes on", flowOutage},
}

// flowTemplate is the template of a schedule of workflows in the queue of the tests.
func flowTemplate(body string) json.RawMessage {
	return json.RawMessage(`{"workflow":` + strings.ReplaceAll(body, "Q", `"options":{"queue":"mail"}`) + `}`)
}

const twoSteps = `{"type":"chain","steps":[{"id":"a","type":"report.build","args":[1.0],"meta":{"k":"v","cron_name":"mine"}},{"id":"b","type":"report.mail"}],Q}`

// flowed makes a schedule one of workflows.
func flowed(body string) func(*job.CronSpec) {
	return func(s *job.CronSpec) { s.Template = flowTemplate(body) }
}

// flowsMade are the workflows that are there, the one that was made first in front.
func (k *kit) flowsMade() []*job.Workflow {
	k.t.Helper()
	page, err := k.s.Workflows(k.ctx(), job.WorkflowFilter{Limit: 200})
	if err != nil {
		k.t.Fatal(err)
	}
	slices.Reverse(page.Workflows)
	return page.Workflows
}

// flowStates compares the states of all workflows, the first first.
func (k *kit) flowStates(when string, want ...job.WorkflowState) []*job.Workflow {
	k.t.Helper()
	var got []job.WorkflowState
	all := k.flowsMade()
	for _, w := range all {
		got = append(got, w.State)
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("%s: it is %s, and the workflows are %v, want %v", when, job.FormatTime(k.now()), got, want)
	}
	return all
}

func (k *kit) cancelFlow(id job.ID) {
	k.t.Helper()
	if _, err := k.s.CancelWorkflow(k.ctx(), id); err != nil {
		k.t.Fatalf("cancel workflow %s: %v", id, err)
	}
}

func flowTick(k *kit) {
	k.put(flowed(twoSteps))
	k.reach(at(1, 0).Add(time.Second))
	w := k.flowStates("at the tick", job.WorkflowRunning)[0]
	if w.Name != "nightly" || w.Kind != job.KindChain || w.Total != 2 {
		k.t.Errorf("made was %+v", w)
	}
	c := k.cron("nightly")
	if c.RunCount != 1 || c.LastFlow != w.ID || c.LastJob != "" || !c.LastRunAt.Equal(at(1, 0)) {
		k.t.Errorf("the schedule is\n%s, last workflow %s of %s", looks(c), c.LastFlow, w.ID)
	}
	for _, step := range []string{"a", "b"} {
		j := k.take()
		if j.Flow == nil || j.Flow.Workflow != w.ID || j.Flow.Step != step {
			k.t.Errorf("fetched %s, want step %s", text(j), step)
		}
		for name, want := range map[string]string{"cron_name": `"nightly"`, "cron_scheduled_at": `"` + job.FormatTime(at(1, 0)) + `"`,
			"cron_triggered_at": `"` + job.FormatTime(w.CreatedAt) + `"`, "cron_after": "", "k": map[string]string{"a": `"v"`}[step]} {
			k.expect(j.Meta, name, want)
		}
		if h := k.runs("nightly", 0); len(h) != 1 || h[0].FlowID != w.ID || h[0].JobID != "" || h[0].Job != nil || h[0].Flow == nil || h[0].Flow.State != job.WorkflowRunning || !h[0].At.Equal(at(1, 0)) {
			k.t.Errorf("it remembers %+v", h)
		}
		k.ack(j, "")
	}
	if h := k.runs("nightly", 0); len(h) != 1 || h[0].Flow == nil || h[0].Flow.State != job.WorkflowCompleted || h[0].Flow.FinishedAt.IsZero() || h[0].Flow.Steps != nil {
		k.t.Errorf("it remembers %+v", h)
	}
	es := k.cronTold()
	if len(es) != 1 || es[0].Type != job.CronTriggered || es[0].JobID != "" {
		k.t.Fatalf("told is %+v", es)
	}
	k.expect(es[0].Data, "workflow_id", `"`+string(w.ID)+`"`)
	k.reach(at(2, 1))
	if all := k.flowStates("at the next tick", job.WorkflowCompleted, job.WorkflowRunning); all[1].ID == w.ID {
		k.t.Errorf("both have the id %s", w.ID)
	}
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	k.ack(k.take(), "")
	k.ack(k.take(), "")
	k.reach(at(5, 1))
	k.flowStates("paused", job.WorkflowCompleted, job.WorkflowCompleted)
	k.change("nightly", job.CronPatch{Enabled: ptr(true)})
	k.reach(at(6, 1))
	k.flowStates("resumed", job.WorkflowCompleted, job.WorkflowCompleted, job.WorkflowRunning)
}

func flowOverlap(k *kit) {
	k.put(several(minutely, flowed(twoSteps)))
	k.pass(time.Minute)
	k.pass(time.Minute)
	k.flowStates("while its first job waits", job.WorkflowRunning)
	k.ack(k.take(), "")
	k.pass(time.Minute)
	k.flowStates("between its steps", job.WorkflowRunning)
	j := k.holdLong()
	k.pass(time.Minute)
	first := k.flowStates("while its last job is active", job.WorkflowRunning)[0]
	for _, r := range k.runs("nightly", 3) {
		if r.Skipped != job.SkippedOverlap || r.FlowID != "" || r.Flow != nil {
			k.t.Errorf("%+v", r)
		}
	}
	_, err := k.s.TriggerCron(k.ctx(), "nightly")
	e := k.is("a trigger", err, job.Conflict)
	if e != nil && e.Details["workflow_id"] != string(first.ID) {
		k.t.Errorf("a trigger: %v with %v", e, e.Details)
	}
	k.ack(j, "")
	k.pass(time.Minute)
	k.flowStates("when it has ended", job.WorkflowCompleted, job.WorkflowRunning)

	k.change("nightly", job.CronPatch{Overlap: ptr(job.OverlapCancel)})
	held := k.holdLong()
	k.pass(time.Minute)
	k.flowStates("cancelled by the next", job.WorkflowCompleted, job.WorkflowCancelled, job.WorkflowRunning)
	k.stands(k.read(held.ID), job.Active) // it may finish, and nothing follows
	k.change("nightly", job.CronPatch{Overlap: ptr(job.OverlapAllow)})
	k.ack(held, "")
	k.pass(time.Minute)
	k.flowStates("allowed", job.WorkflowCompleted, job.WorkflowCancelled, job.WorkflowRunning, job.WorkflowRunning)
}

func flowEnqueue(k *kit) {
	k.put(several(queueing("{}"), flowed(`{"type":"group","jobs":[{"type":"x.a"},{"type":"x.b"}],Q}`)))
	k.pass(2 * time.Minute)
	all := k.flowStates("two", job.WorkflowRunning, job.WorkflowRunning)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	k.flows(all[1].ID, job.WorkflowRunning, job.StepPending, job.StepPending)
	a, b := k.take(), k.take()
	k.none()
	k.ack(a, "")
	k.none()
	for _, j := range k.all() {
		if j.State == job.Pending {
			k.expect(j.Meta, "cron_after", `"`+string(all[0].ID)+`"`)
		}
	}
	k.begin(k.now()) // the wait is stored
	k.ack(b, "")
	c, d := k.take(), k.take()
	if c.Flow.Workflow != all[1].ID || d.Flow.Workflow != all[1].ID {
		k.t.Errorf("fetched %s and %s", text(c), text(d))
	}
	k.ack(c, "")
	k.fail(d, job.Failure{Code: "DISCARD"})
	k.flowStates("both have run", job.WorkflowCompleted, job.WorkflowFailed)
}

func flowMiddle(k *kit) {
	k.put(several(queueing("{}"), flowed(twoSteps)))
	k.pass(4 * time.Minute)
	all := k.flowStates("four", job.WorkflowRunning, job.WorkflowRunning, job.WorkflowRunning, job.WorkflowRunning)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	k.cancelFlow(all[1].ID)
	k.cancelFlow(all[2].ID)
	a := k.take()
	k.none()
	k.ack(a, "")
	k.lastStep("between the steps of the first", all[0].ID)
	k.flowStates("the first has ended", job.WorkflowCompleted, job.WorkflowCancelled, job.WorkflowCancelled, job.WorkflowRunning)
	if j := k.take(); j.Flow.Workflow != all[3].ID {
		k.t.Errorf("fetched %s", text(j))
	}
}

// lastStep takes the last job of a workflow, makes sure that there is no other, and ends it.
func (k *kit) lastStep(when string, id job.ID) {
	k.t.Helper()
	j := k.take()
	if j.Flow == nil || j.Flow.Workflow != id {
		k.t.Errorf("%s: fetched %s", when, text(j))
	}
	k.none()
	k.ack(j, "")
}

func flowMixed(k *kit) {
	k.put(several(queueing(`{"queue":"mail"}`)))
	k.pass(time.Minute)
	k.change("nightly", job.CronPatch{Template: json.RawMessage(`{"type":null,"args":null,"options":null,"workflow":{"type":"chain","steps":[{"type":"x.a"}],"options":{"queue":"mail"}}}`)})
	k.pass(time.Minute)
	k.change("nightly", job.CronPatch{Template: json.RawMessage(`{"type":"x.b","args":[],"workflow":null,"options":{"queue":"mail"}}`)})
	k.pass(time.Minute)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	for _, want := range []string{"report.build", "x.a", "x.b"} {
		j := k.take()
		if k.none(); j.Type != want {
			k.t.Errorf("fetched %s, want %s", j.Type, want)
		}
		k.ack(j, "")
	}
	if c := k.cron("nightly"); c.LastFlow != "" || c.LastJob == "" || c.RunCount != 3 {
		k.t.Errorf("the schedule is\n%s, last job %q, last workflow %q", looks(c), c.LastJob, c.LastFlow)
	}
}

func flowTrigger(k *kit) {
	before := k.put(several(flowed(twoSteps), func(s *job.CronSpec) { s.Enabled = ptr(false) }))
	r, err := k.s.TriggerCron(k.ctx(), "nightly")
	if err != nil || r.Job != nil || r.JobID != "" || r.Flow == nil || r.FlowID != r.Flow.ID || r.Flow.State != job.WorkflowRunning || len(r.Flow.Steps) != 2 || len(r.Flow.Steps[0].JobIDs) != 1 {
		k.t.Fatalf("triggered: %+v, %v", r, err)
	}
	k.flows(r.FlowID, job.WorkflowRunning, job.StepPending, job.StepWaiting)
	c := k.cron("nightly")
	if c.RunCount != 1 || c.LastFlow != r.FlowID || !c.UpdatedAt.Equal(before.UpdatedAt) || !c.LastRunAt.Equal(k.now()) {
		k.t.Errorf("triggered it is\n%s", looks(c))
	}
	if h := k.runs("nightly", 0); len(h) != 1 || h[0].FlowID != r.FlowID || h[0].Flow == nil {
		k.t.Errorf("it remembers %+v", h)
	}
	k.says("a trigger", "triggered")
}

func flowTemplateBad(k *kit) {
	const path = "job_template.workflow"
	for body, want := range map[string]string{
		`{"workflow":[]}`:                                     path,
		`{"workflow":{}}`:                                     path + ".steps",
		`{"workflow":{"type":"list","steps":[]}}`:             path + ".type",
		`{"workflow":{"type":"batch","jobs":[{"type":"a"}]}}`: path + ".callbacks",
		`{"workflow":{"steps":[{"id":"a","type":"a"},{"id":"b","type":"b"},{"id":"c","type":"c","depends_on":["bb"]}]}}`:       path + ".steps[2].depends_on[0]",
		`{"workflow":{"type":"chain","steps":[{"type":"group","jobs":[{"type":"No"}]}]}}`:                                      path + ".steps[0].jobs[0].type",
		`{"workflow":{"id":"019b0000-0000-7000-8000-000000000001","type":"chain","steps":[{"type":"a"}]}}`:                     path + ".id",
		`{"workflow":{"type":"chain","steps":[{"type":"a","meta":{"k":"` + strings.Repeat("x", job.MaxMetaBytes-20) + `"}}]}}`: path + ".steps[0]",
		`{"workflow":{"type":"chain","steps":[{"type":"a"}]},"args":[1]}`:                                                      "job_template.args",
		`{"workflow":{"type":"chain","steps":[{"type":"a"}]},"queue":"q"}`:                                                     "job_template.queue",
		`{"workflow":{"type":"chain","steps":[{"type":"a"}]},"options":{"queue":"q"}}`:                                         "job_template.options",
		`{"workflow":{"type":"chain","steps":[{"type":"a"}]},"type":1}`:                                                        "job_template.type",
	} {
		_, _, err := k.s.PutCron(k.ctx(), schedule(func(s *job.CronSpec) { s.Template = json.RawMessage(body) }))
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Invalid && e.Kind != job.TooLarge || !strings.HasPrefix(e.Message, want) {
			k.t.Errorf("%.200s: got %v, want %s", body, err, want)
			continue
		}
		if field, _ := e.Details["field"].(string); !strings.HasPrefix(field, want) {
			k.t.Errorf("%.200s: the field is %s, want %s", body, field, want)
		}
		if faults := fmt.Sprint(e.Details["validation_errors"]); strings.Contains(want, "[2]") && !strings.Contains(faults, want) {
			k.t.Errorf("%s: the faults are %s", body, faults)
		}
	}
	if names, _ := k.list(job.CronFilter{}); len(names) > 0 {
		k.t.Errorf("stored were %v", names)
	}
	was := looks(k.put(flowed(twoSteps)))
	if _, err := k.s.ChangeCron(k.ctx(), "nightly", job.CronPatch{Template: json.RawMessage(`{"workflow":{"type":"chain","steps":[]}}`)}); err == nil || !strings.HasPrefix(err.Error(), path+".steps") {
		k.t.Errorf("a bad change: %v", err)
	}
	if now := looks(k.cron("nightly")); now != was {
		k.t.Errorf("after a bad change it is\n%s", now)
	}
}

func flowChanged(k *kit) {
	k.put(func(s *job.CronSpec) { s.Overlap = job.OverlapAllow })
	c := k.change("nightly", job.CronPatch{Template: json.RawMessage(`{"type":"the.name","args":null,"options":null,"workflow":{"type":"group","jobs":[{"type":"x.a"}],"options":{"queue":"mail"}}}`)})
	if got := k.template(c, "type"); got != `"the.name"` {
		k.t.Errorf("changed it is\n%s", looks(c))
	}
	k.reach(at(1, 1))
	if w := k.flowStates("a workflow", job.WorkflowRunning)[0]; w.Name != "the.name" || k.total() != 1 {
		k.t.Errorf("made was %+v, and there are %d jobs", w, k.total())
	}
	k.change("nightly", job.CronPatch{Template: json.RawMessage(`{"workflow":null,"args":[2],"options":{"queue":"mail"}}`)})
	k.reach(at(2, 1))
	k.flowStates("a job", job.WorkflowRunning)
	if j := k.latest(); j.Type != "the.name" || string(j.Args) != "[2]" || j.Flow != nil {
		k.t.Errorf("made was %s", text(j))
	}
}

func flowDuplicate(k *kit) {
	const body = `{"type":"group","jobs":[{"type":"x.a"},{"type":"x.b","options":{"unique":{"keys":["type"]}}}],Q}`
	k.put(several(minutely, allowing, flowed(body)))
	for _, name := range []string{"a", "z"} { // before and behind it, of the same instant
		k.put(several(minutely, allowing, func(s *job.CronSpec) { s.Name = name }))
	}
	k.pass(time.Minute)
	k.pass(time.Minute)
	k.flowStates("two ticks", job.WorkflowRunning)
	if n := k.total(); n != 2+4 {
		k.t.Errorf("there are %d jobs, want those of one workflow and of four other runs", n)
	}
	if h := k.runs("nightly", 0); len(h) != 2 || h[0].Skipped != job.SkippedDuplicate || h[0].FlowID != "" || h[1].FlowID == "" {
		k.t.Errorf("it remembers %+v", h)
	}
	if _, err := k.s.TriggerCron(k.ctx(), "nightly"); job.KindOf(err) != job.Duplicate {
		k.t.Errorf("a trigger: %v", err)
	}
	if n := k.total(); n != 2+4 {
		k.t.Errorf("after a trigger there are %d jobs", n)
	}
	for range 6 {
		k.ack(k.take(), "")
	}
	k.pass(time.Minute)
	k.flowStates("it is free", job.WorkflowCompleted, job.WorkflowRunning)
}

func flowOutage(k *kit) {
	k.put(several(minutely, flowed(twoSteps), func(s *job.CronSpec) { s.Overlap = job.OverlapEnqueue }))
	k.pass(time.Minute)
	held := k.holdLong()
	k.begin(k.now().Add(3 * time.Hour))
	k.pass(10 * time.Second)
	all := k.flowStates("after three hours", job.WorkflowRunning, job.WorkflowRunning)
	k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	k.drop("nightly")
	k.ack(held, "")
	k.lastStep("the last step of the first", all[0].ID)
	if j := k.take(); j.Flow.Workflow != all[1].ID {
		k.t.Errorf("fetched %s", text(j))
	}
}
