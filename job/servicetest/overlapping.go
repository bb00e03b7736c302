package servicetest

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var overlapping = []verdict{
	{"overlap skip makes no job in any state that is not final, and fires again after it", overlapSkip},
	{"overlap skip fires after every end of the one before", overlapSkipEnds},
	{"overlap allow makes every job", overlapAllow},
	{"overlap cancel_previous cancels the one before, in any state that is not final", overlapCancel},
	{"a worker is told by its heartbeat that a newer run cancelled its job", overlapCancelActive},
	{"a template whose unique policy or deduplication meets a job makes no second job, and is never stuck", overlapUnique},
	{"a unique policy does not stand in the way of cancel_previous", overlapUniqueCancel},
	{"a template's replace cancels the run before, and one that is rewritten is no second run", overlapUniqueReplace},
}

// holdLong takes the next job for longer than any case lasts, if it may take so
// long: a job that names no timeout ends after half an hour.
func (k *kit) holdLong() *job.Job {
	k.t.Helper()
	return k.one(job.FetchRequest{Visibility: 48 * time.Hour})
}

// latest is the job that was made last.
func (k *kit) latest() *job.Job {
	k.t.Helper()
	jobs := k.all()
	if len(jobs) == 0 {
		k.t.Fatal("there is no job")
	}
	return jobs[len(jobs)-1]
}

// cronPlace is a way of a run to a state that is not final, by its template and by what do does.
type cronPlace struct {
	state    job.State
	template string
	do       func(*kit)
}

var cronPlaces = []cronPlace{
	{job.Available, `{"queue":"mail"}`, func(*kit) {}},
	{job.Active, `{"queue":"mail"}`, func(k *kit) { k.holdLong() }},
	{job.Retryable, `{"queue":"mail","retry":{"initial_interval":"PT10H","max_interval":"PT10H"}}`,
		func(k *kit) { k.fail(k.take(), job.Failure{Message: "no"}) }},
	{job.Scheduled, `{"queue":"mail","delay":36000}`, func(*kit) {}},
	{job.Pending, `{"queue":"mail","pending":true}`, func(*kit) {}},
}

func overlapSkip(k *kit) {
	for _, p := range cronPlaces {
		k.put(several(minutely, func(s *job.CronSpec) { s.Template = cronTemplate(p.template) }))
		k.pass(time.Minute)
		j := k.latest()
		p.do(k)
		k.stands(k.read(j.ID), p.state)
		before := k.total()
		k.pass(3 * time.Minute)
		c := k.cron("nightly")
		if after := k.total(); after != before || c.RunCount != 1 {
			k.t.Errorf("%s: %d jobs after %d\n%s", p.state, after, before, looks(c))
		}
		if !c.NextRunAt.After(k.now()) || c.NextRunAt.Sub(k.now()) > time.Minute {
			k.t.Errorf("%s: at %s it is\n%s", p.state, k.now(), looks(c))
		}
		for _, r := range k.runs("nightly", 3) {
			if r.Skipped != job.SkippedOverlap || r.Job != nil {
				k.t.Errorf("%s: %+v", p.state, r)
			}
		}
		k.clear(j)
		k.pass(time.Minute)
		if next := k.latest(); next.ID == j.ID || k.total() != before+1 {
			k.t.Errorf("%s: it never fires again", p.state)
		}
		k.clear(k.latest())
		k.drop("nightly")
	}
}

// ends are the ways of an active job to its end.
var ends = map[string]func(*kit, *job.Job){
	"ack":    func(k *kit, j *job.Job) { k.ack(j, "") },
	"fail":   func(k *kit, j *job.Job) { k.fail(j, job.Failure{Code: "DISCARD"}) },
	"die":    func(k *kit, j *job.Job) { k.fail(j, job.Failure{Code: "DEAD_LETTER"}) },
	"cancel": func(k *kit, j *job.Job) { k.cancel(j) },
	"lose":   func(k *kit, j *job.Job) { k.pass(49 * time.Hour) }, // the only attempt: its reservation ends
}

func overlapSkipEnds(k *kit) {
	for name, end := range ends {
		k.put(func(s *job.CronSpec) {
			s.Template = cronTemplate(`{"queue":"mail","timeout":259200,"retry":{"max_attempts":1}}`)
		})
		k.pass(time.Hour)
		held := k.holdLong()
		k.pass(time.Hour)
		if j := k.latest(); j.ID != held.ID {
			k.t.Errorf("%s: it fires while the job before is %s", name, k.read(held.ID).State)
		}
		end(k, held)
		k.pass(time.Hour)
		if k.latest().ID == held.ID {
			k.t.Errorf("%s: it never fires again", name)
		}
		k.drop("nightly")
		k.clear(k.latest())
	}
}

func overlapAllow(k *kit) {
	k.put(several(allowing, func(s *job.CronSpec) { s.Template = cronTemplate(`{"queue":"mail","timeout":259200}`) }))
	k.reach(at(1, 1))
	held := k.holdLong()
	k.reach(at(3, 1))
	k.ticked("active, available", at(1, 0), at(2, 0), at(3, 0))
	k.stands(k.read(held.ID), job.Active)
	k.says("allow", "triggered", "triggered", "triggered")
}

func overlapCancel(k *kit) {
	for _, p := range cronPlaces {
		k.put(several(minutely, func(s *job.CronSpec) { s.Overlap, s.Template = job.OverlapCancel, cronTemplate(p.template) }))
		k.pass(time.Minute)
		j := k.latest()
		p.do(k)
		k.stands(k.read(j.ID), p.state)
		before := k.total()
		k.pass(time.Minute)
		next := k.latest()
		k.stands(k.read(j.ID), job.Cancelled)
		if next.ID == j.ID || next.State.Terminal() || k.total() != before+1 {
			k.t.Errorf("%s: %d jobs after %d, the last\n%s", p.state, k.total(), before, text(next))
		}
		k.drop("nightly")
		k.clear(next)
	}
	k.put(several(minutely, func(s *job.CronSpec) { s.Overlap = job.OverlapCancel }))
	k.pass(time.Minute)
	done := k.ack(k.take(), `1`)
	k.pass(time.Minute)
	k.stands(k.read(done.ID), job.Completed)
	k.stands(k.latest(), job.Available)
}

func overlapCancelActive(k *kit) {
	k.put(several(minutely, func(s *job.CronSpec) { s.Overlap = job.OverlapCancel }))
	k.pass(time.Minute)
	held := k.take()
	beat := func() job.BeatReply {
		return k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(held)}})
	}
	for range 3 { // often enough to be heard of in time
		if r := beat(); len(r.Cancelled) != 0 || len(r.Extended) != 1 {
			k.t.Errorf("told is %+v while it runs", r)
		}
		k.pass(20 * time.Second)
	}
	if r := beat(); len(r.Cancelled) != 1 || r.Cancelled[0] != held.ID {
		k.t.Errorf("told is %+v, want %s cancelled", r, held.ID)
	}
	_, err := k.s.Ack(k.ctx(), claimOf(held), nil)
	k.is("the ACK of the cancelled", err, job.Conflict)
	if next := k.take(); next.ID == held.ID {
		k.t.Errorf("fetched was the cancelled one")
	}
}

func overlapUnique(k *kit) {
	for _, policy := range []string{`"unique":{}`, `"unique":{"on_conflict":"ignore"}`, `"deduplication":{"id":"d"}`} {
		k.put(several(minutely, allowing, func(s *job.CronSpec) {
			s.Template = cronTemplate(`{"queue":"mail",` + policy + `}`)
		}))
		before, told := k.total(), len(k.cronTold())
		k.pass(time.Minute)
		held := k.holdLong()
		k.pass(3 * time.Minute)
		if n := k.total() - before; n != 1 {
			k.t.Errorf("%s: %d jobs, want the one", policy, n)
		}
		es := k.cronTold()[told:]
		if len(es) < 4 {
			k.t.Fatalf("%s: told is %+v", policy, es)
		}
		for _, e := range es[1:] {
			k.expect(e.Data, "reason", `"duplicate"`)
			if e.Type != job.CronSkipped {
				k.t.Errorf("%s: told is %s", policy, e.Type)
			}
		}
		for _, r := range k.runs("nightly", 3) {
			if r.Skipped != job.SkippedDuplicate || r.Job != nil {
				k.t.Errorf("%s: %+v", policy, r)
			}
		}
		if c := k.cron("nightly"); c.RunCount != 1 || !c.NextRunAt.After(k.now()) {
			k.t.Errorf("%s: at %s it is\n%s", policy, k.now(), looks(c))
		}
		k.ack(held, "")
		k.pass(time.Minute)
		if n := k.total() - before; n != 2 {
			k.t.Errorf("%s: %d jobs, want another", policy, n)
		}
		k.drop("nightly")
		k.clear(k.latest())
	}
}

func overlapUniqueCancel(k *kit) {
	k.put(several(minutely, func(s *job.CronSpec) {
		s.Overlap, s.Template = job.OverlapCancel, cronTemplate(`{"queue":"mail","unique":{}}`)
	}))
	k.pass(2 * time.Minute)
	jobs := k.ticked("a twin that is cancelled", at(0, 31), at(0, 32))
	if len(jobs) == 2 && (jobs[0].State != job.Cancelled || jobs[1].State != job.Available) {
		k.t.Errorf("they are %s and %s", jobs[0].State, jobs[1].State)
	}
}

func overlapUniqueReplace(k *kit) {
	for _, p := range cronPlaces {
		for _, conflict := range []string{"replace", "replace_except_schedule"} {
			policy := `{"unique":{"on_conflict":"` + conflict + `"},` + p.template[1:]
			k.put(several(minutely, allowing, func(s *job.CronSpec) { s.Template = cronTemplate(policy) }))
			before := k.total()
			k.pass(time.Minute)
			first := k.latest()
			p.do(k)
			k.stands(k.read(first.ID), p.state)
			k.pass(time.Minute)
			next := k.latest()
			if conflict == "replace_except_schedule" && p.state == job.Scheduled {
				if next.ID != first.ID || k.total() != before+1 || next.RewrittenAt.IsZero() {
					k.t.Errorf("%s: %d jobs after %d, the last\n%s", conflict, k.total(), before, text(next))
				}
				if runs := k.runs("nightly", 2); runs[0].Skipped != job.SkippedDuplicate || runs[0].Job != nil {
					k.t.Errorf("%s: %+v", conflict, runs[0])
				}
			} else {
				first.State = p.state
				k.gone(conflict, next, []*job.Job{first})
				if next.ID == first.ID || next.State.Terminal() || k.total() != before+2 || k.cron("nightly").RunCount != 2 {
					k.t.Errorf("%s, %s: %d jobs after %d, the last\n%s", conflict, p.state, k.total(), before, text(next))
				}
			}
			k.drop("nightly")
			k.clear(next)
		}
	}
}
