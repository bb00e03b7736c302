package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// step claims a tick in a call of its own.
func step(t *testing.T, s job.Store, c *job.Cron, was time.Time) (claimed bool) {
	t.Helper()
	update(t, s, func(tx job.Tx) (err error) {
		claimed, err = tx.StepCron(c, was)
		return err
	})
	return claimed
}

// stepped is a schedule after a tick that made a job.
func stepped(t *testing.T, c *job.Cron) *job.Cron {
	d := c.Clone()
	d.SeenAt, d.LastRunAt, d.LastJob = c.NextRunAt, c.NextRunAt, New(t, "q", nil).ID
	d.NextRunAt, d.RunCount = c.NextRunAt.Add(time.Minute), c.RunCount+1
	d.Note(job.CronRun{At: d.SeenAt, JobID: d.LastJob})
	return d
}

// cronSteps claims ticks: all but the spec is saved, and only as long as both
// SeenAt and the spec are those that the caller has read.
func cronSteps(t *testing.T, s job.Store) {
	c := fullCron(t, "c")
	putCrons(t, s, c, NewCron("other", nil))
	next := stepped(t, c)
	next.LastJob, next.LastFlow = "", next.LastJob
	next.HoleTo, next.AheadAt, next.Runs = Now.Add(-time.Hour), time.Time{}, runs(t, 3)
	claim := next.Clone()
	claim.Expression, claim.Timezone, claim.Overlap, claim.Enabled = "@daily", "", "", nil
	claim.Description, claim.Source, claim.Template = "", "", json.RawMessage(`{}`)
	claim.CreatedAt, claim.AnchorAt = time.Time{}, time.Time{}
	for what, bad := range map[string]struct {
		change func(*job.Cron)
		was    time.Time
	}{
		"a tick that was decided":     {func(*job.Cron) {}, c.SeenAt.Add(-time.Millisecond)},
		"a tick to come":              {func(*job.Cron) {}, next.SeenAt},
		"no tick":                     {func(*job.Cron) {}, time.Time{}},
		"a spec that has changed":     {func(d *job.Cron) { d.UpdatedAt = Now }, c.SeenAt},
		"a spec that is not there":    {func(d *job.Cron) { d.UpdatedAt = time.Time{} }, c.SeenAt},
		"a schedule that is not here": {func(d *job.Cron) { d.Name = "C" }, c.SeenAt},
	} {
		d := claim.Clone()
		if bad.change(d); step(t, s, d, bad.was) {
			t.Errorf("%s was claimed", what)
		}
		sameCron(t, what, readCron(t, s, "c"), c)
	}
	if !step(t, s, claim, c.SeenAt) {
		t.Error("the tick could not be claimed")
	}
	sameCron(t, "after the step", readCron(t, s, "c"), next)
	if step(t, s, claim, c.SeenAt) {
		t.Error("the tick was claimed twice")
	}
	if !step(t, s, claim, next.SeenAt) {
		t.Error("what has become of it cannot be saved where SeenAt stays")
	}
	sameCron(t, "another schedule", readCron(t, s, "other"), NewCron("other", nil))
}

// cronZeroSteps claims the first tick of a schedule that has seen none, and
// takes back to zero what a step may take back.
func cronZeroSteps(t *testing.T, s job.Store) {
	c := NewCron("c", func(c *job.Cron) { c.SeenAt = time.Time{} })
	putCrons(t, s, c)
	next := stepped(t, c)
	if step(t, s, next, Now) || !step(t, s, next, time.Time{}) || step(t, s, next, time.Time{}) {
		t.Error("a schedule that has seen no tick is claimed once, and from the zero time")
	}
	sameCron(t, "after the first step", readCron(t, s, "c"), next)
	blank := NewCron("c", func(c *job.Cron) { c.SeenAt, c.NextRunAt = time.Time{}, time.Time{} })
	if !step(t, s, blank, next.SeenAt) {
		t.Error("the second step was refused")
	}
	sameCron(t, "with nothing in it", readCron(t, s, "c"), blank)
}

// cronStepUndone fails calls behind a step, a put and a deletion.
func cronStepUndone(t *testing.T, s job.Store) {
	c := fullCron(t, "c")
	putCrons(t, s, c)
	j := New(t, "q", nil)
	for what, fn := range map[string]func(job.Tx) error{
		"a step": func(tx job.Tx) error {
			if ok, err := tx.StepCron(stepped(t, c), c.SeenAt); !ok || err != nil {
				t.Errorf("step: %v, %v", ok, err)
			}
			return tx.InsertJob(j)
		},
		"a put":      func(tx job.Tx) error { return tx.PutCron(NewCron("c", nil)) },
		"a new one":  func(tx job.Tx) error { return tx.PutCron(NewCron("new", nil)) },
		"a deletion": func(tx job.Tx) error { return tx.DeleteCron("c") },
	} {
		for _, end := range []func() error{
			func() error { return job.Errorf(job.Conflict, "no") },
			func() error { panic("a fault in a rule") },
		} {
			err := s.Update(t.Context(), func(tx job.Tx) error {
				if err := fn(tx); err != nil {
					return err
				}
				return end()
			})
			if err == nil {
				t.Errorf("%s: the call succeeded", what)
			}
			update(t, s, func(tx job.Tx) error {
				got, err := tx.Cron("c")
				sameCron(t, what+" stayed", got, c)
				return err
			})
		}
	}
	view(t, s, func(tx job.ReadTx) error {
		if _, err := tx.Cron("new"); job.KindOf(err) != job.NotFound {
			t.Errorf("a new schedule stayed: %v", err)
		}
		if _, err := tx.Job(j.ID); job.KindOf(err) != job.NotFound {
			t.Errorf("the job of a step stayed: %v", err)
		}
		return nil
	})
	if !step(t, s, stepped(t, c), c.SeenAt) {
		t.Error("the tick that was given back cannot be claimed")
	}
}

// cronNeighbours lets many callers claim each tick of several schedules at once,
// some of which fail behind the claim: each tick makes one job.
func cronNeighbours(t *testing.T, s job.Store) {
	const callers, schedules, ticks = 24, 4, 5
	for i := range schedules {
		putCrons(t, s, NewCron(fmt.Sprint("c", i), nil))
	}
	var all sync.WaitGroup
	var made atomic.Int64
	for n := range callers {
		all.Go(func() {
			for i := range schedules * ticks {
				name := fmt.Sprint("c", (n+i)%schedules)
				j, was := New(t, "q", nil), Now.Add(time.Duration(i/schedules)*time.Minute)
				bad, claimed := (n+i)%3 == 0, false
				err := s.Update(context.Background(), func(tx job.Tx) (err error) {
					c, err := tx.Cron(name)
					if err != nil {
						return err
					}
					c.SeenAt, c.LastJob, c.RunCount = was.Add(time.Minute), j.ID, c.RunCount+1
					c.Note(job.CronRun{At: c.SeenAt, JobID: j.ID})
					if claimed, err = tx.StepCron(c, was); err == nil && claimed {
						err = tx.InsertJob(j)
					}
					if bad && err == nil {
						err = job.Errorf(job.Conflict, "refused behind the claim")
					}
					return err
				})
				if (err != nil) != bad {
					t.Errorf("bad %v, got %v", bad, err)
				}
				if claimed && !bad {
					made.Add(1)
				}
			}
		})
	}
	all.Wait()
	view(t, s, func(tx job.ReadTx) error {
		crons, err := tx.Crons()
		if err != nil {
			return err
		}
		var runs int64
		for _, c := range crons {
			runs += c.RunCount
			if int64(len(c.Runs)) != c.RunCount || !c.SeenAt.Equal(Now.Add(time.Duration(c.RunCount)*time.Minute)) {
				t.Errorf("%s: %d runs, %d remembered, seen until %s", c.Name, c.RunCount, len(c.Runs), c.SeenAt)
			}
			for _, r := range c.Runs {
				if _, err := tx.Job(r.JobID); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		}
		page, err := tx.Jobs(job.Filter{Limit: 1})
		if runs == 0 || page.Total != runs || made.Load() != runs {
			t.Errorf("%d runs, %d jobs, %d claims", runs, page.Total, made.Load())
		}
		return err
	})
}
