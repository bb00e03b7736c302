package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// NewCron is a schedule that no store has seen: every minute, its next run a
// minute from Now. Its fields are for the test to change.
func NewCron(name string, change func(*job.Cron)) *job.Cron {
	c := &job.Cron{
		CronSpec: job.CronSpec{Name: name, Expression: "* * * * *", Timezone: "UTC", Overlap: job.OverlapSkip,
			Template: json.RawMessage(`{"type":"report.generate","args":[]}`)},
		CreatedAt: Now, UpdatedAt: Now, AnchorAt: Now, SeenAt: Now, NextRunAt: Now.Add(time.Minute),
	}
	if change != nil {
		change(c)
	}
	return c
}

// fullCron is a schedule with something in every field.
func fullCron(t *testing.T, name string) *job.Cron {
	t.Helper()
	on := true
	at := func(n int) time.Time { return Now.Add(time.Duration(n) * time.Millisecond) }
	c := NewCron(name, func(c *job.Cron) {
		c.Expression, c.Timezone, c.Overlap, c.Enabled = "0 9 * * MON-FRI", "Pacific/Auckland", job.OverlapEnqueue, &on
		c.Description, c.Source = "Täglich \"um neun\"", "file"
		c.Template = json.RawMessage(`{"type":"a.b","args":[1, "ü\n", {"deep":null}],"options":{"queue":"q","priority":-3}}`)
		c.CreatedAt, c.UpdatedAt, c.AnchorAt, c.SeenAt, c.AheadAt = at(1), at(2), at(3), at(4), at(5)
		c.HoleTo = at(9)
		c.NextRunAt, c.LastRunAt, c.LastJob, c.RunCount = at(6), at(7), New(t, "q", nil).ID, 1<<40
		c.Runs = runs(t, job.MaxCronRuns)
	})
	for _, v := range []reflect.Value{reflect.ValueOf(*c), reflect.ValueOf(c.CronSpec)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() && v.Type().Field(i).Name != "LastFlow" { // which goes without LastJob
				t.Fatalf("%s: give it a value here", v.Type().Field(i).Name)
			}
		}
	}
	return c
}

// reasons are all that a run may say of why it made no job; empty for one that did.
var reasons = []string{"", job.SkippedOverlap, job.SkippedDST, job.SkippedDuplicate, job.SkippedRejected, job.SkippedClock, job.SkippedElsewhere}

// runs are n runs of every kind in turn: with a job or a workflow, without, and with both.
func runs(t *testing.T, n int) (runs []job.CronRun) {
	for i := range n {
		r := job.CronRun{At: Now.Add(time.Duration(i-3) * 10_000_003 * time.Millisecond), Skipped: reasons[i%len(reasons)]}
		switch {
		case r.Skipped == "" && i%2 == 1:
			r.FlowID = New(t, "q", nil).ID
		case r.Skipped == "" || i > len(reasons):
			r.JobID = New(t, "q", nil).ID
		}
		runs = append(runs, r)
	}
	return runs
}

func putCrons(t *testing.T, s job.Store, crons ...*job.Cron) {
	t.Helper()
	update(t, s, func(tx job.Tx) error {
		for _, c := range crons {
			if err := tx.PutCron(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func readCron(t *testing.T, s job.Store, name string) (c *job.Cron) {
	t.Helper()
	view(t, s, func(tx job.ReadTx) (err error) {
		c, err = tx.Cron(name)
		return err
	})
	return c
}

func sameCron(t *testing.T, what string, got, want *job.Cron) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s\ngot  %s\nwant %s", what, g, w)
	}
}

func cronsRoundTrip(t *testing.T, s job.Store) {
	off := false
	long := json.RawMessage(`{"type":"a.b","args":["` + strings.Repeat("x", 300_000) + `"]}`)
	for i, c := range []*job.Cron{
		fullCron(t, "full"),
		NewCron("plain", nil),
		NewCron("paused", func(c *job.Cron) { c.Enabled, c.NextRunAt = &off, time.Time{} }),
		NewCron("bare", func(c *job.Cron) { *c = job.Cron{CronSpec: job.CronSpec{Name: "bare"}} }),
		NewCron("long", func(c *job.Cron) { c.Template = long }),
		NewCron("one-run", func(c *job.Cron) { c.Runs = runs(t, 1) }),
		NewCron("all-reasons", func(c *job.Cron) { c.Runs = runs(t, len(reasons)) }),
		NewCron("0"+strings.Repeat(".-z", 84)+"09", nil),
	} {
		given := c.Clone()
		update(t, s, func(tx job.Tx) error {
			if err := tx.PutCron(c); err != nil {
				return err
			}
			inside, err := tx.Cron(c.Name)
			if err == nil {
				sameCron(t, fmt.Sprint("inside the call, schedule ", i), inside, given)
			}
			return err
		})
		sameCron(t, fmt.Sprint("what was given, schedule ", i), c, given)
		sameCron(t, fmt.Sprint("schedule ", i), readCron(t, s, c.Name), given)
	}
}

func cronsReplaced(t *testing.T, s job.Store) {
	first := fullCron(t, "c")
	putCrons(t, s, first, NewCron("b", nil))
	for _, next := range []*job.Cron{NewCron("c", func(c *job.Cron) { c.UpdatedAt = Now.Add(time.Hour) }), fullCron(t, "c")} {
		putCrons(t, s, next)
		sameCron(t, "in place of the first", readCron(t, s, "c"), next)
	}
	sameCron(t, "beside it", readCron(t, s, "b"), NewCron("b", nil))
	view(t, s, func(tx job.ReadTx) error {
		if all, err := tx.Crons(); err != nil || len(all) != 2 {
			t.Errorf("%d schedules, %v", len(all), err)
		}
		return nil
	})
}

func cronCopies(t *testing.T, s job.Store) {
	want := fullCron(t, "c")
	given := want.Clone()
	on := true
	given.Enabled = &on
	spoil := func(c *job.Cron) {
		c.Expression, c.RunCount, *c.Enabled = "spoilt", -1, false
		for i := range c.Runs {
			c.Runs[i] = job.CronRun{Skipped: "spoilt"}
		}
	}
	update(t, s, func(tx job.Tx) error {
		if err := tx.PutCron(given); err != nil {
			return err
		}
		spoil(given)
		got, err := tx.Cron("c")
		if err == nil {
			sameCron(t, "after a change of what was given", got, want)
			spoil(got)
		}
		return err
	})
	for range 2 {
		got := readCron(t, s, "c")
		sameCron(t, "after a change of what was handed out", got, want)
		spoil(got)
		view(t, s, func(tx job.ReadTx) error {
			all, err := tx.Crons()
			if err != nil || len(all) != 1 {
				return fmt.Errorf("%d schedules, %w", len(all), err)
			}
			sameCron(t, "in the list", all[0], want)
			spoil(all[0])
			return nil
		})
	}
}

func cronsInOrder(t *testing.T, s job.Store) {
	want := []string{"0", "a", "a-b", "a.b", "a0", "b", "z"}
	view(t, s, func(tx job.ReadTx) error {
		if all, err := tx.Crons(); err != nil || len(all) != 0 {
			t.Errorf("an empty store has %d schedules, %v", len(all), err)
		}
		return nil
	})
	for _, i := range []int{3, 1, 6, 0, 5, 2, 4} {
		putCrons(t, s, NewCron(want[i], nil))
	}
	putCrons(t, s, fullCron(t, "a"))
	list := func(tx job.ReadTx) error {
		all, err := tx.Crons()
		var got []string
		for _, c := range all {
			got = append(got, c.Name)
		}
		expect(t, "names", got, want...)
		return err
	}
	view(t, s, list)
	update(t, s, func(tx job.Tx) error { return list(tx) })
}

func cronsMissing(t *testing.T, s job.Store) {
	putCrons(t, s, NewCron("here", nil))
	absent := func(what string, err error) {
		t.Helper()
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.NotFound || e.Details["resource_type"] != "cron" || e.Details["resource_id"] != "gone" {
			t.Errorf("%s: %v", what, err)
		}
	}
	view(t, s, func(tx job.ReadTx) error {
		_, err := tx.Cron("gone")
		absent("a view", err)
		return nil
	})
	update(t, s, func(tx job.Tx) error {
		_, err := tx.Cron("gone")
		absent("a call", err)
		absent("a deletion", tx.DeleteCron("gone"))
		if ok, err := tx.StepCron(NewCron("gone", nil), Now); ok || err != nil {
			t.Errorf("a step: %v, %v", ok, err)
		}
		return tx.PutCron(NewCron("gone", nil)) // a call that was told so goes on
	})
	update(t, s, func(tx job.Tx) error {
		if err := tx.DeleteCron("gone"); err != nil {
			return err
		}
		absent("a second deletion", tx.DeleteCron("gone"))
		_, err := tx.Cron("gone")
		absent("behind the deletion", err)
		return nil
	})
	sameCron(t, "the other", readCron(t, s, "here"), NewCron("here", nil))
}
