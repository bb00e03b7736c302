package sidecar

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A run whose unique policy cancels the one that it was to wait for does not wait
// for it: it goes on, or waits for the one before that.
func TestRunThatReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, _, err := w.PutCron(t.Context(), job.CronSpec{Name: "c", Expression: "* * * * *", Overlap: job.OverlapEnqueue, Template: json.RawMessage(
		`{"type":"c.run","args":[],"options":{"queue":"mail","unique":{"on_conflict":"replace","states":["available","pending"]}}}`)}); err != nil {
		t.Fatal(err)
	}
	w.later(2 * time.Minute)
	runs := w.schedule("c").Runs
	w.is("the first, replaced", runs[0].JobID, job.Cancelled)
	w.is("the second goes on", runs[1].JobID, job.Available)
	if j := w.take("w", 24*time.Hour); j.ID != runs[1].JobID {
		t.Fatalf("fetched %s", j.ID)
	}
	w.later(2 * time.Minute)
	runs = w.schedule("c").Runs
	w.is("the third, replaced while it waited", runs[2].JobID, job.Cancelled)
	w.is("the fourth waits for the second", runs[3].JobID, job.Pending)
	if j := w.read(runs[3].JobID); j.After != runs[1].JobID {
		t.Errorf("the fourth waits for %s, want %s", j.After, runs[1].JobID)
	}
	w.ack(w.read(runs[1].JobID))
	w.is("the fourth", runs[3].JobID, job.Available)
}

// Whoever waits for a job may claim its follower as soon as its end is answered.
func TestRunIsReleasedWithTheEndOfTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.cron("c", "* * * * *", job.OverlapEnqueue)
	w.later(time.Minute)
	first := w.take("w", 24*time.Hour)
	w.later(2 * time.Minute)
	runs := w.schedule("c").Runs
	w.restart() // and no duty is done after
	if _, err := w.Activate(t.Context(), runs[1].JobID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Cancel(t.Context(), runs[1].JobID, "", ""); err != nil {
		t.Fatal(err)
	}
	w.is("the third, as the second was stopped before it began", runs[2].JobID, job.Pending)
	w.ack(first)
	w.is("the third", runs[2].JobID, job.Available)
	if j := w.read(runs[2].JobID); j.After != "" {
		t.Errorf("it still waits for %s", j.After)
	}
}

// Runs that expire together, each behind the other, let the one behind them wait
// for whom they all waited.
func TestRunsThatEndTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, _, err := w.PutCron(t.Context(), job.CronSpec{Name: "c", Expression: "* * * * *", Overlap: job.OverlapEnqueue, Template: json.RawMessage(
		`{"type":"c.run","args":[],"options":{"queue":"mail","ttl_ms":200000}}`)}); err != nil {
		t.Fatal(err)
	}
	w.later(time.Minute)
	first := w.take("w", 24*time.Hour)
	w.later(3 * time.Minute)
	runs := w.schedule("c").Runs
	w.set(w.read(runs[2].JobID).ExpiresAt)
	if _, err := w.expire(t.Context(), w.time()); err != nil {
		t.Fatal(err)
	}
	w.is("the second", runs[1].JobID, job.Discarded)
	w.is("the third", runs[2].JobID, job.Discarded)
	if j := w.read(runs[3].JobID); j.State != job.Pending || j.After != first.ID {
		t.Errorf("the fourth is %s and waits for %s, want the first", j.State, j.After)
	}
	w.ack(first)
	w.is("the fourth", runs[3].JobID, job.Available)
}
