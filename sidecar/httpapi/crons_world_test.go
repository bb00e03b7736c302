package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// aCron is the schedule that is there, under the name of mail.
func aCron() *job.Cron {
	on := true
	return &job.Cron{
		CronSpec: job.CronSpec{Name: "mail", Expression: "0 9 * * *", Timezone: "Asia/Tokyo", Overlap: job.OverlapSkip, Enabled: &on, Description: "the “morning” mail",
			Template: json.RawMessage(`{"type":"mail.send","args":[{"to":"a@b.c"}],"meta":{"k": 1e2},"options":{"queue":"mail","priority":5}}`)},
		CreatedAt: noon.Add(-48 * time.Hour), UpdatedAt: noon.Add(-47 * time.Hour),
		LastRunAt: noon.Add(-12 * time.Hour), NextRunAt: noon.Add(12 * time.Hour), LastJob: idTwo, RunCount: 2,
	}
}

// plainCron has as little as there may be in a schedule, and is paused.
func plainCron() *job.Cron {
	off := false
	return &job.Cron{CronSpec: job.CronSpec{Name: "plain", Expression: "@every 5m", Timezone: "UTC", Overlap: job.OverlapAllow, Enabled: &off, Source: "file",
		Template: json.RawMessage(`{"type":"a.b","args":[]}`)}, CreatedAt: noon, UpdatedAt: noon}
}

// timing fills in the schedules.
func timing(f *fake) {
	find := func(name string) (*job.Cron, error) {
		switch name {
		case "mail":
			return aCron(), nil
		case "plain":
			return plainCron(), nil
		case "busy":
			return nil, failures["e006"]
		}
		return nil, job.NoCron(name)
	}
	f.cron = func(_ context.Context, name string) (*job.Cron, error) { return find(name) }
	f.deleteCron = f.cron
	f.putCron = func(_ context.Context, s job.CronSpec) (*job.Cron, bool, error) {
		c, err := find(s.Name)
		if err == nil || job.KindOf(err) == job.NotFound {
			err = firing(s)
		}
		if err != nil {
			return nil, false, err
		}
		made := c == nil
		if made {
			c = &job.Cron{CreatedAt: noon, UpdatedAt: noon, NextRunAt: noon.Add(time.Hour)}
		}
		c.CronSpec = s
		return c, made, nil
	}
	f.changeCron = func(_ context.Context, name string, p job.CronPatch) (*job.Cron, error) {
		c, err := find(name)
		if err != nil {
			return nil, err
		}
		if c.CronSpec, err = p.Apply(c.CronSpec); err == nil {
			_, err = c.Validate()
		}
		if !c.On() {
			c.NextRunAt = time.Time{}
		}
		return c, err
	}
	f.crons = func(_ context.Context, q job.CronFilter) (job.CronPage, error) {
		all := []*job.Cron{aCron(), plainCron()}
		if q.Enabled != nil {
			all = all[:1]
			if !*q.Enabled {
				all = []*job.Cron{}
			}
		}
		page := all[min(q.Offset, len(all)):]
		return job.CronPage{Crons: page[:min(q.Limit, len(page))], Total: int64(len(all))}, nil
	}
	f.triggerCron = triggering(find)
	f.cronHistory = remembering(find)
}

// firing is an error as package cronsched makes it, for an expression that begins with 99.
func firing(s job.CronSpec) error {
	if !strings.HasPrefix(s.Expression, "99") {
		return nil
	}
	e := job.Errorf(job.Invalid, "cron expression: minute 99 is above 59")
	e.Details = map[string]any{"field": "expression", "position": 0, "length": 2, "suggestion": "59 * * * *"}
	return e
}

func triggering(find func(string) (*job.Cron, error)) func(context.Context, string) (job.CronJob, error) {
	return func(_ context.Context, name string) (r job.CronJob, err error) {
		c, err := find(name)
		if err != nil {
			return r, err
		}
		if name == "plain" {
			e := job.Errorf(job.Conflict, "the run before, job %s, has not ended", idTwo)
			e.Details = map[string]any{"job_id": string(idTwo), "current_state": "active"}
			return r, e
		}
		env, err := c.Validate()
		if err != nil {
			return r, err
		}
		run, err := c.Instance(env.Job, idOne, noon, noon)
		return job.CronJob{CronRun: job.CronRun{At: noon, JobID: idOne}, Job: push(run.Envelope())}, err
	}
}

// remembering is a history with a run of every fate.
func remembering(find func(string) (*job.Cron, error)) func(context.Context, string, int) ([]job.CronJob, error) {
	return func(_ context.Context, name string, _ int) ([]job.CronJob, error) {
		if _, err := find(name); err != nil {
			return nil, err
		}
		done := started(idTwo)
		if err := done.Complete(noon.Add(time.Second), job.Claim{ID: idTwo}, nil); err != nil {
			return nil, err
		}
		return []job.CronJob{
			{CronRun: job.CronRun{At: noon, JobID: idOne}, Job: mail(idOne)},
			{CronRun: job.CronRun{At: noon.Add(-time.Hour), Skipped: job.SkippedOverlap}},
			{CronRun: job.CronRun{At: noon.Add(-2 * time.Hour), JobID: idTwo}, Job: done},
			{CronRun: job.CronRun{At: noon.Add(-3 * time.Hour), JobID: idDead}},
		}, nil
	}
}
