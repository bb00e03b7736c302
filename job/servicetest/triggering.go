package servicetest

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var triggering = []verdict{
	{"a trigger makes a job now, and leaves the next run", cronTrigger},
	{"a trigger works while the schedule is paused", cronTriggerPaused},
	{"a trigger is a Conflict while the overlap policy is skip and the job before goes on", cronTriggerOverlap},
	{"a trigger cancels the one before, or waits for it, as the overlap policy says", cronTriggerPolicies},
	{"a trigger answers with its job as it is stored, also where its keys have ended the one it waited for", cronTriggerReplaces},
}

func (k *kit) trigger(name string) *job.Job {
	k.t.Helper()
	r, err := k.s.TriggerCron(k.ctx(), name)
	if err != nil {
		k.t.Fatalf("trigger %s: %v", name, err)
	}
	if r.Job == nil || r.JobID != r.Job.ID {
		k.t.Fatalf("trigger %s: made %+v, want a job", name, r)
	}
	return r.Job
}

func cronTrigger(k *kit) {
	before := k.put(func(s *job.CronSpec) { s.Template = cronTemplate(`{"queue":"mail","priority":7}`) })
	k.pass(time.Minute)
	j := k.trigger("nightly")
	k.stands(j, job.Available)
	if stored := text(k.read(j.ID)); stored != text(j) || j.Priority != 7 || j.Type != "report.build" || !j.CreatedAt.Equal(k.now()) {
		k.t.Errorf("made was\n%s\nstored is\n%s", text(j), stored)
	}
	k.expect(j.Meta, "cron_name", `"nightly"`)
	k.expect(j.Meta, "cron_triggered_at", `"`+job.FormatTime(k.now())+`"`)
	c := k.cron("nightly")
	k.next("triggered", c, before.NextRunAt)
	if c.RunCount != 1 || !c.LastRunAt.Equal(k.now()) || !c.UpdatedAt.Equal(before.UpdatedAt) {
		k.t.Errorf("triggered it is\n%s", looks(c))
	}
	if h := k.runs("nightly", 0); len(h) != 1 || h[0].JobID != j.ID || h[0].Job == nil {
		k.t.Errorf("it remembers %+v", h)
	}
	es := k.cronTold()
	if len(es) != 1 || es[0].Type != job.CronTriggered || es[0].JobID != j.ID {
		k.t.Errorf("told is %+v", es)
	}
	k.complete()
	k.reach(at(1, 1))
	if jobs := k.all(); len(jobs) != 2 || member(k.t, jobs[1].Meta, "cron_scheduled_at") != `"`+job.FormatTime(at(1, 0))+`"` {
		k.t.Errorf("at its tick there are %d jobs", len(jobs))
	}
}

func cronTriggerPaused(k *kit) {
	k.put(func(s *job.CronSpec) { s.Enabled = ptr(false) })
	j := k.trigger("nightly")
	k.stands(j, job.Available)
	if c := k.cron("nightly"); c.On() || !c.NextRunAt.IsZero() || c.RunCount != 1 {
		k.t.Errorf("triggered it is\n%s", looks(c))
	}
	k.reach(at(3, 0))
	if n := k.total(); n != 1 {
		k.t.Errorf("%d jobs, want the one", n)
	}
}

func cronTriggerOverlap(k *kit) {
	k.put(nil)
	j := k.trigger("nightly")
	err := k.untouched("trigger", j, func() error { _, err := k.s.TriggerCron(k.ctx(), "nightly"); return err })
	k.is("while it is available", err, job.Conflict)
	held := k.one(job.FetchRequest{Visibility: 5 * time.Hour})
	_, err = k.s.TriggerCron(k.ctx(), "nightly")
	k.is("while it is active", err, job.Conflict)
	if c := k.cron("nightly"); c.RunCount != 1 || k.total() != 1 {
		k.t.Errorf("with %d jobs it is\n%s", k.total(), looks(c))
	}
	k.reach(at(1, 1))
	if n := k.total(); n != 1 {
		k.t.Errorf("%d jobs: a tick does not care who made the one before", n)
	}
	k.ack(held, "")
	k.trigger("nightly")
	k.reach(at(2, 1))
	if n := k.total(); n != 2 {
		k.t.Errorf("%d jobs, want 2", n)
	}
}

func cronTriggerPolicies(k *kit) {
	for _, tt := range []struct {
		overlap       job.Overlap
		before, after job.State
	}{
		{job.OverlapAllow, job.Available, job.Available}, {job.OverlapCancel, job.Cancelled, job.Available}, {job.OverlapEnqueue, job.Available, job.Pending},
	} {
		name := string(tt.overlap[:5])
		k.put(func(s *job.CronSpec) { s.Name, s.Overlap = name, tt.overlap })
		first, second := k.trigger(name), k.trigger(name)
		k.stands(k.read(first.ID), tt.before)
		k.stands(second, tt.after)
		k.stands(k.read(second.ID), tt.after)
		k.drop(name)
		k.clear(second)
		k.clear(first)
	}
}

func cronTriggerReplaces(k *kit) {
	k.put(func(s *job.CronSpec) {
		s.Overlap, s.Template = job.OverlapEnqueue, cronTemplate(`{"queue":"mail","unique":{"keys":["type"],"on_conflict":"replace"}}`)
	})
	first, second := k.trigger("nightly"), k.trigger("nightly")
	k.stands(k.read(first.ID), job.Cancelled)
	k.stands(second, job.Available)
	if stored := text(k.read(second.ID)); stored != text(second) {
		k.t.Errorf("answered was\n%s\nstored is\n%s", text(second), stored)
	}
}
