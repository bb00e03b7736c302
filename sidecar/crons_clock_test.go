package sidecar

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A clock that is far ahead when the server starts, and is put right a moment
// later, does not stop the schedules whose catch-up was put off.
func TestClockPutRightWhileCatchUpsAreSpread(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	const n = 200
	for i := range n {
		w.cron(fmt.Sprintf("c%03d", i), "* * * * *", job.OverlapAllow)
	}
	w.tock()
	w.set(genesis.Add(3650 * day))
	w.tock()
	w.set(genesis.Add(time.Hour))
	w.later(2*time.Minute + 10*time.Second)
	for i := range n {
		if c := w.schedule(fmt.Sprintf("c%03d", i)); c.RunCount < 2 || c.NextRunAt.After(w.time().Add(time.Minute)) {
			t.Fatalf("%s has run %d times, and will at %s; it is %s", c.Name, c.RunCount, c.NextRunAt, w.time())
		}
	}
}

// The same, where the store could not be written while the clock was ahead.
func TestClockPutRightAfterAFailure(t *testing.T) {
	t.Parallel()
	w, f := fickleWorld(t, Options{})
	w.cron("c", "* * * * *", job.OverlapAllow)
	w.tock()
	w.set(genesis.Add(3650 * day))
	f.fail = unavailable
	w.tock()
	f.fail = nil
	w.set(genesis.Add(time.Hour))
	w.later(2 * time.Minute)
	if c := w.schedule("c"); c.RunCount == 0 {
		t.Errorf("it has not run; %+v", c)
	}
}

// A clock put right between Recover and Run is noticed.
func TestClockPutRightBeforeRun(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	w.cron("c", "* * * * *", job.OverlapAllow)
	w.set(genesis.Add(3650 * day))
	w.Sidecar = New(w.Sidecar.store, Options{Now: w.time})
	w.Recover(t.Context())
	w.set(genesis.Add(time.Hour))
	w.later(2 * time.Minute)
	if c := w.schedule("c"); c.RunCount < 2 {
		t.Errorf("it has run %d times, and will at %s; it is %s", c.RunCount, c.NextRunAt, w.time())
	}
}

// A schedule that is changed at once after the clock was put right runs.
func TestChangeAfterTheClockWasPutRight(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	w.set(genesis.Add(3650 * day))
	w.cron("c", "* * * * *", job.OverlapAllow)
	w.set(genesis)
	words := "another"
	c, err := w.ChangeCron(t.Context(), "c", job.CronPatch{Description: &words})
	if err != nil || c.NextRunAt.After(genesis.Add(time.Minute)) {
		t.Errorf("next run at %s, %v", c.NextRunAt, err)
	}
	w.later(2 * time.Minute)
	if c := w.schedule("c"); c.RunCount == 0 {
		t.Errorf("it has not run; it will at %s", c.NextRunAt)
	}
}

// What was missed while the clock was ahead fires once, whatever the clock does after.
func TestClockThatGoesToAndFro(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	w.cron("c", "*/10 * * * *", job.OverlapAllow)
	w.tock()
	w.set(w.time().Add(time.Hour)) // ahead
	w.later(time.Minute)
	w.set(w.time().Add(-time.Hour)) // and right
	w.later(90 * time.Minute)
	w.set(w.time().Add(-70 * time.Minute))
	w.later(time.Hour)
	seen := map[time.Time]job.ID{}
	page, err := w.Jobs(t.Context(), job.Filter{Queue: mail, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		var m struct {
			At time.Time `json:"cron_scheduled_at"`
		}
		if err := json.Unmarshal(j.Meta, &m); err != nil {
			t.Fatal(err)
		}
		if seen[m.At] != "" {
			t.Errorf("the tick %s made two jobs", m.At)
		}
		seen[m.At] = j.ID
	}
}

// What was told as missed does not fire when the clock is set back after, by a day
// at most: schedules go on when it has passed the last tick once more.
func TestWhatWasMissedDoesNotFireWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{time.Second, time.Hour, 5 * time.Hour, 23 * time.Hour} {
		w, _ := fickleWorld(t, Options{})
		w.cron("c", "*/10 * * * *", job.OverlapAllow)
		w.tock()
		w.set(w.time().Add(30 * time.Hour)) // no server ran, or the clock is ahead
		w.later(10 * time.Second)
		w.set(w.time().Add(-back))
		w.tock()
		for range 25 * 12 {
			w.set(w.time().Add(5 * time.Minute))
			w.tock()
		}
		es, err := w.Events(t.Context(), job.EventFilter{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		type span struct{ From, To time.Time }
		var missed []span
		fired := 0
		for _, e := range es {
			var at struct {
				span
				ScheduledAt time.Time `json:"scheduled_at"`
			}
			if err := json.Unmarshal(e.Data, &at); err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case job.CronMissed:
				missed = append(missed, at.span)
			case job.CronTriggered:
				fired++
				for _, m := range missed {
					if !at.ScheduledAt.Before(m.From) && !at.ScheduledAt.After(m.To) {
						t.Errorf("%s back: the tick %s was told as missed, and fires", back, at.ScheduledAt)
					}
				}
			}
		}
		if want := int((25*time.Hour - back) / (10 * time.Minute)); len(missed) == 0 || fired < want || fired > want+2 {
			t.Errorf("%s back: %d times missed, fired %d times, want %d", back, len(missed), fired, want)
		}
	}
}

// A clock that was some days ahead costs one day without runs later, and no more.
func TestClockSomeDaysAhead(t *testing.T) {
	t.Parallel()
	w, _ := fickleWorld(t, Options{})
	w.cron("c", "0 * * * *", job.OverlapAllow)
	w.tock()
	w.set(w.time().Add(3 * day))
	w.later(10 * time.Second)
	w.set(w.time().Add(-3 * day))
	w.tock()
	for range 4 * 24 * 12 {
		w.set(w.time().Add(5 * time.Minute))
		w.tock()
	}
	if c := w.schedule("c"); c.RunCount < 72 || c.RunCount > 74 {
		t.Errorf("%d runs in 96 hours", c.RunCount)
	}
}
