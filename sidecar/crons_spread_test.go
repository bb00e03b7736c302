package sidecar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

// A thousand schedules after three days without a server: each makes up once,
// over some seconds, and no tick that comes meanwhile is lost or doubled.
func TestCatchUpsAreSpread(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	n := 1000
	if raced {
		n = 300
	}
	for i := range n {
		w.cron(fmt.Sprintf("c%03d", i), []string{"* * * * *", "*/2 * * * *", "*/30 * * * * *", "0 * * * *"}[i%4], job.OverlapAllow)
	}
	w.tock()
	back := w.time().Add(3*day + 57*time.Second) // the next minute begins while they are spread
	w.set(back)
	made, last := map[time.Duration]int{}, int64(0)
	for ; w.time().Before(back.Add(2 * time.Minute)); w.set(w.time().Add(50 * time.Millisecond)) {
		w.tock()
		if w.time().Sub(back) > 15*time.Second {
			continue
		}
		q, err := w.Queue(t.Context(), mail)
		if job.KindOf(err) == job.NotFound {
			continue
		}
		made[w.time().Sub(back)] = int(q.Counts[job.Available] - last)
		last = q.Counts[job.Available]
	}
	for after, jobs := range made {
		if after < 3*time.Second && jobs > n/20 {
			t.Errorf("%d jobs at once %s after the start", jobs, after)
		}
	}
	ended := w.time()
	for i := range n {
		c := w.schedule(fmt.Sprintf("c%03d", i))
		spec, err := cronsched.Parse(c.Expression, c.Timezone)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := spec.Latest(c.AnchorAt, genesis, back)
		ticks := []time.Time{want.At}
		for o, _ := spec.EveryNext(c.AnchorAt, back); o.At.Before(ended); o, _ = spec.EveryNext(c.AnchorAt, o.At) {
			ticks = append(ticks, o.At)
		}
		var got []time.Time
		for _, r := range c.Runs {
			got = append(got, r.At)
		}
		if !slices.EqualFunc(got, ticks, time.Time.Equal) {
			t.Fatalf("%s, %s: %v, want %v", c.Name, c.Expression, got, ticks)
		}
	}
}

// Ten thousand schedules: one whose template is not valid any more, and
// one whose zone is not known, keep no other from firing.
func TestOneStoredScheduleThatIsNotValid(t *testing.T) {
	t.Parallel()
	w, f := fickleWorld(t, Options{})
	n := 10_000
	if raced {
		n = 1000
	}
	bad := rand.N(n)
	err := w.store.Update(t.Context(), func(tx job.Tx) error {
		on := true
		for i := range n {
			c := &job.Cron{CreatedAt: genesis, UpdatedAt: genesis, AnchorAt: genesis, SeenAt: genesis, NextRunAt: genesis.Add(time.Minute), CronSpec: job.CronSpec{
				Name: fmt.Sprintf("c%04d", i), Expression: "* * * * *", Timezone: "UTC", Overlap: job.OverlapSkip, Enabled: &on, Template: []byte(`{"type":"a.b","args":[]}`)}}
			switch i {
			case bad:
				c.Template = []byte(`{"type":"A B","args":7}`)
			case (bad + 1) % n:
				c.Timezone = "Mars/Olympus"
			}
			if err := tx.PutCron(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Sidecar = New(f, Options{Now: w.time})
	w.set(genesis.Add(time.Minute))
	w.tock()
	q, err := w.Queue(t.Context(), "default")
	if err != nil || q.Counts[job.Available] != int64(n-2) {
		t.Errorf("%d jobs, %v; want %d", q.Counts[job.Available], err, n-2)
	}
}

// What is stored as the next run may come of an older law of the zone, or of an
// older version: a server that starts works it out again.
func TestTheNextRunIsWorkedOutAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.cron("late", "* * * * *", job.OverlapAllow)
	w.cron("early", "0 * * * *", job.OverlapAllow)
	err := w.store.Update(t.Context(), func(tx job.Tx) error {
		for name, next := range map[string]time.Time{"late": genesis.Add(time.Hour), "early": genesis.Add(time.Minute)} {
			c, err := tx.Cron(name)
			if err != nil {
				return err
			}
			c.NextRunAt = next
			if err := tx.PutCron(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.later(2*time.Minute + time.Second)
	if late, early := w.schedule("late"), w.schedule("early"); late.RunCount != 2 || early.RunCount != 0 {
		t.Errorf("they ran %d and %d times, want 2 and 0", late.RunCount, early.RunCount)
	}
}

// A run that waits for the one before still does after a restart.
func TestRunWaitsAcrossARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.cron("c", "* * * * *", job.OverlapEnqueue)
	w.later(time.Minute)
	first := w.take("w", time.Hour)
	w.later(2 * time.Minute)
	runs := w.schedule("c").Runs
	w.restart()
	w.ack(first)
	w.later(2 * time.Second)
	w.is("the second", runs[1].JobID, job.Available)
	w.is("the third", runs[2].JobID, job.Pending)
}
