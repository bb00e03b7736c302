package servicetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var ticking = []verdict{
	{"a tick makes one job as the template says, and the schedule advances", cronTick},
	{"a schedule does not fire before its time, and at most a second after", cronExact},
	{"@every fires each period", cronEverySecond},
	{"a paused schedule does not fire, and does not make up for it", cronPaused},
	{"a deleted schedule does not fire, and its jobs stay", cronDeleted},
	{"two servers of one store make one job of each tick", cronTwoServers},
	{"a tick tells cron.triggered", cronEvents},
	{"the history of a schedule is its newest runs, the newest first", cronHistory},
	{"the history knows of a job that has been removed", cronHistoryGone},
}

// all reads all jobs, the one that was made first in front.
func (k *kit) all() []*job.Job {
	k.t.Helper()
	page, err := k.s.Jobs(k.ctx(), job.Filter{Limit: 200})
	if err != nil {
		k.t.Fatal(err)
	}
	slices.Reverse(page.Jobs)
	return page.Jobs
}

// ticked makes sure that there are the jobs of these ticks, and no others.
func (k *kit) ticked(what string, want ...time.Time) []*job.Job {
	k.t.Helper()
	jobs := k.all()
	var got, wanted []string
	for _, j := range jobs {
		got = append(got, member(k.t, j.Meta, "cron_scheduled_at"))
	}
	for _, t := range want {
		wanted = append(wanted, `"`+job.FormatTime(t)+`"`)
	}
	if !slices.Equal(got, wanted) {
		k.t.Errorf("%s: it is %s, and there are jobs of the ticks\n%v, want\n%v", what, job.FormatTime(k.now()), got, wanted)
	}
	return jobs
}

// cronTold is the events of schedules.
func (k *kit) cronTold() (es []job.Event) {
	k.t.Helper()
	es, err := k.s.Events(k.ctx(), job.EventFilter{Types: []string{"cron.*"}, Limit: 1000})
	if err != nil {
		k.t.Fatal(err)
	}
	return es
}

// says makes sure that the events of schedules are these: each its type without
// "cron." and, of a skipped tick, the reason. Those of one instant may come in any order.
func (k *kit) says(what string, want ...string) {
	k.t.Helper()
	var got []string
	es := k.cronTold()
	slices.SortStableFunc(es, func(a, b job.Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Type, b.Type))
	})
	for _, e := range es {
		s := e.Type[len("cron."):]
		if reason := member(k.t, e.Data, "reason"); reason != "" {
			s += " " + reason[1:len(reason)-1]
		}
		got = append(got, s)
	}
	if !slices.Equal(got, want) {
		k.t.Errorf("%s: told is %q, want %q", what, got, want)
	}
}

// runs reads the history of a schedule.
func (k *kit) runs(name string, n int) []job.CronJob {
	k.t.Helper()
	h, err := k.s.CronHistory(k.ctx(), name, n)
	if err != nil {
		k.t.Fatalf("history of %s: %v", name, err)
	}
	return h
}

// line is one line of a history in short.
func line(r job.CronJob) string {
	state := "no job"
	if r.Job != nil {
		state = string(r.Job.State)
	}
	return fmt.Sprintf("%s %s %s", r.At.UTC().Format("15:04"), state, r.Skipped)
}

func allowing(s *job.CronSpec) { s.Overlap = job.OverlapAllow }

func cronTick(k *kit) {
	k.put(func(s *job.CronSpec) {
		s.Template = json.RawMessage(`{"type":"report.build","args":[{"n":1.0}],"meta":{"a":"b","cron_name":"mine"},"x_more":[1],
			"options":{"queue":"mail","priority":7,"timeout":30,"retry":{"max_attempts":5}}}`)
	})
	k.reach(at(1, 0).Add(time.Second))
	jobs := k.ticked("the first tick", at(1, 0))
	if len(jobs) != 1 {
		return
	}
	j := jobs[0]
	k.stands(j, job.Available)
	if j.Type != "report.build" || j.Queue != "mail" || j.Priority != 7 || j.Timeout != 30*time.Second || j.MaxAttempts != 5 || !job.ValidID(string(j.ID)) {
		k.t.Errorf("made was %s", text(j))
	}
	k.shows(j, "args", `[{"n":1.0}]`)
	k.shows(j, "x_more", `[1]`)
	for name, want := range map[string]string{"a": `"b"`, "cron_name": `"nightly"`, "cron_scheduled_at": `"` + job.FormatTime(at(1, 0)) + `"`,
		"cron_triggered_at": `"` + job.FormatTime(j.CreatedAt) + `"`, "cron_after": ""} {
		k.expect(j.Meta, name, want)
	}
	c := k.cron("nightly")
	if c.RunCount != 1 || !c.LastRunAt.Equal(at(1, 0)) && !c.LastRunAt.Equal(j.CreatedAt) {
		k.t.Errorf("after the first tick it is\n%s", looks(c))
	}
	k.next("after the first tick", c, at(2, 0))
	k.complete()
	k.reach(at(2, 1))
	if jobs = k.ticked("the second tick", at(1, 0), at(2, 0)); len(jobs) == 2 && jobs[1].ID == j.ID {
		k.t.Errorf("both have the id %s", j.ID)
	}
	if c = k.cron("nightly"); c.RunCount != 2 {
		k.t.Errorf("after the second tick it is\n%s", looks(c))
	}
}

func cronExact(k *kit) {
	k.put(allowing)
	k.reach(at(1, 0).Add(-time.Millisecond))
	k.ticked("before its time")
	k.reach(at(1, 0).Add(time.Second))
	for _, j := range k.ticked("a second after", at(1, 0)) {
		if j.CreatedAt.Before(at(1, 0)) || j.CreatedAt.After(at(1, 0).Add(time.Second)) {
			k.t.Errorf("the job of %s was made at %s", at(1, 0), j.CreatedAt)
		}
	}
	k.reach(at(2, 0).Add(-time.Millisecond))
	k.ticked("before the second", at(1, 0))
	// A schedule that comes while the server waits for a later one is not late.
	k.put(func(s *job.CronSpec) { s.Name, s.Expression, s.Overlap = "second", "30 * * * * *", job.OverlapAllow })
	k.reach(at(2, 0).Add(31 * time.Second))
	k.ticked("a nearer one", at(1, 0), at(2, 0), at(2, 0).Add(30*time.Second))
}

func cronEverySecond(k *kit) {
	k.put(func(s *job.CronSpec) { s.Expression, s.Overlap = "@every 1s", job.OverlapAllow })
	begin := k.now()
	var want []time.Time
	for i := range 60 {
		want = append(want, begin.Add(time.Duration(i+1)*time.Second))
	}
	k.reach(begin.Add(60*time.Second + 900*time.Millisecond))
	k.ticked("a minute", want...)
	if c := k.cron("nightly"); c.RunCount != 60 {
		k.t.Errorf("after 60 runs it is\n%s", looks(c))
	}
}

func cronPaused(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	off := k.change("nightly", job.CronPatch{Enabled: ptr(false)})
	if off.On() || !off.NextRunAt.IsZero() || off.RunCount != 1 {
		k.t.Errorf("paused it is\n%s", looks(off))
	}
	k.reach(at(4, 10))
	k.ticked("while it is paused", at(1, 0))
	k.begin(at(5, 10))
	k.next("after a restart", k.cron("nightly"), time.Time{})
	on := k.change("nightly", job.CronPatch{Enabled: ptr(true)})
	k.next("resumed", on, at(6, 0))
	k.reach(at(6, 10))
	k.ticked("resumed", at(1, 0), at(6, 0))
	k.says("pausing", "triggered", "triggered")
}

func cronDeleted(k *kit) {
	k.put(allowing)
	k.reach(at(1, 10))
	before := looks(k.cron("nightly"))
	if c := k.drop("nightly"); looks(c) != before {
		k.t.Errorf("deleted was\n%s\nit was\n%s", looks(c), before)
	}
	k.reach(at(3, 10))
	for _, j := range k.ticked("after it was deleted", at(1, 0)) {
		k.stands(j, job.Available)
	}
	if c, created, err := k.s.PutCron(k.ctx(), schedule(nil)); err != nil || !created || c.RunCount != 0 || !c.CreatedAt.Equal(k.now()) || !c.LastRunAt.IsZero() {
		k.t.Errorf("put after it was deleted: created %v, %v\n%s", created, err, looks(c))
	}
	if h := k.runs("nightly", 0); len(h) != 0 {
		k.t.Errorf("it remembers %d runs of the one before", len(h))
	}
}

func cronTwoServers(k *kit) {
	k.put(several(minutely, allowing))
	other, stop := k.time.start(k.time.now) // both know the schedule now
	var want []time.Time
	for i := range 10 {
		want = append(want, at(0, 31+i))
	}
	k.reach(at(0, 40).Add(5 * time.Second))
	k.ticked("one store", want...)
	for name, s := range map[string]job.Service{"first": k.s, "second": other} {
		c, err := s.Cron(k.ctx(), "nightly")
		if err != nil || c.RunCount != 10 {
			k.t.Errorf("the %s server: %v\n%s", name, err, looks(c))
		}
	}
	k.change("nightly", job.CronPatch{Expression: ptr("*/2 * * * *")})
	k.reach(at(0, 44).Add(5 * time.Second))
	k.ticked("it was changed at one of them", append(want, at(0, 42), at(0, 44))...)
	k.time.stop()
	k.s, k.time.stop = other, stop
	k.reach(at(0, 48).Add(5 * time.Second))
	k.ticked("the first has ended", append(want, at(0, 42), at(0, 44), at(0, 46), at(0, 48))...)
}

// several makes several changes to a schedule.
func several(changes ...func(*job.CronSpec)) func(*job.CronSpec) {
	return func(s *job.CronSpec) {
		for _, change := range changes {
			change(s)
		}
	}
}

func cronEvents(k *kit) {
	k.put(nil)
	k.reach(at(1, 1))
	made := k.ticked("the first tick", at(1, 0))
	k.reach(at(2, 1))
	es := k.cronTold()
	if len(es) != 2 || len(made) != 1 || es[0].Type != job.CronTriggered || es[1].Type != job.CronSkipped {
		k.t.Fatalf("told is %+v", es)
	}
	k.expect(es[0].Data, "cron_name", `"nightly"`)
	if es[0].JobID != made[0].ID || es[1].JobID != "" {
		k.t.Errorf("told of the jobs %q and %q, want %q and none", es[0].JobID, es[1].JobID, made[0].ID)
	}
	k.expect(es[0].Data, "scheduled_at", `"`+job.FormatTime(at(1, 0))+`"`)
	k.expect(es[1].Data, "cron_name", `"nightly"`)
	k.expect(es[1].Data, "reason", `"overlap"`)
	k.expect(es[1].Data, "scheduled_at", `"`+job.FormatTime(at(2, 0))+`"`)
	for i, hour := range []int{1, 2} {
		if late := es[i].Time.Sub(at(hour, 0)); late < 0 || late > time.Second {
			k.t.Errorf("%s is told at %s", es[i].Type, es[i].Time)
		}
	}
}

func cronHistory(k *kit) {
	k.put(minutely)
	if h := k.runs("nightly", 0); len(h) != 0 {
		k.t.Errorf("before its first run it remembers %d", len(h))
	}
	k.reach(at(0, 31).Add(time.Second))
	k.complete()
	k.reach(at(0, 32).Add(time.Second))
	k.fail(k.take(), job.Failure{Code: "DISCARD"})
	k.reach(at(0, 34).Add(time.Second))
	k.take()
	want := []string{"00:34 no job overlap", "00:33 active ", "00:32 discarded ", "00:31 completed "}
	for n, lines := range map[int][]string{0: want, 20: want, 4: want, 2: want[:2], 1: want[:1], 1000: want} {
		var got []string
		for _, r := range k.runs("nightly", n) {
			got = append(got, line(r))
		}
		if !slices.Equal(got, lines) {
			k.t.Errorf("%d runs are %q, want %q", n, got, lines)
		}
	}
	for _, r := range k.runs("nightly", 0) {
		if (r.JobID == "") != (r.Skipped != "") || r.Job != nil && (r.Job.ID != r.JobID || r.Job.StartedAt.IsZero() || r.Job.State.Terminal() == r.Job.FinishedAt.IsZero()) {
			k.t.Errorf("%+v", r)
		}
	}
	k.reach(at(1, 10))
	h := k.runs("nightly", 0)
	if len(h) != job.MaxCronRuns || !h[0].At.Equal(at(1, 10)) && !h[0].At.Equal(at(1, 9)) || !h[19].At.Equal(h[0].At.Add(-19*time.Minute)) {
		k.t.Errorf("it remembers %d runs, from %+v", len(h), h[0])
	}
}

func cronHistoryGone(k *kit) {
	k.put(nil)
	k.reach(at(1, 1))
	j := k.fail(k.take(), job.Failure{Code: "DEAD_LETTER"})
	if err := k.s.DeleteDead(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	h := k.runs("nightly", 0)
	if len(h) != 1 || h[0].JobID != j.ID || h[0].Job != nil || !h[0].At.Equal(at(1, 0)) {
		k.t.Errorf("%+v, want the job %s that is gone", h, j.ID)
	}
	k.reach(at(2, 1))
	k.ticked("the job before is gone", at(2, 0))
}
