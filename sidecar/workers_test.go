package sidecar

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// heard lists the worker events of the log.
func (w *world) heard() (told []string) {
	w.t.Helper()
	es, err := w.Events(w.t.Context(), job.EventFilter{Types: []string{"worker.*"}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range es {
		var d struct {
			Worker string `json:"worker_id"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			w.t.Fatal(err)
		}
		told = append(told, fmt.Sprint(e.Type, " ", d.Worker, " ", e.Time.Sub(genesis)))
	}
	return told
}

// contract §4.9, §4.18: silence is told once, and that the worker is there again.
func TestStaleWorkersAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, err := w.Register(t.Context(), job.WorkerInfo{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	stale := func(when string, want bool) {
		t.Helper()
		info, err := w.Worker(t.Context(), "w")
		if ws, lerr := w.Workers(t.Context()); err != nil || lerr != nil || info.Stale != want || len(ws) != 1 || ws[0].Stale != want {
			t.Errorf("%s: %+v, %v; %+v, %v", when, info, err, ws, lerr)
		}
	}
	w.pass(silence - tick)
	stale("one tick before 45 s", false)
	w.pass(tick)
	stale("silent for 45 s", true)
	w.pass(time.Hour)
	w.beat("w")
	stale("heard of again", false)
	w.pass(silence)
	want := []string{"worker.started w 0s", "worker.stale w 45s", "worker.started w 1h0m45s", "worker.stale w 1h1m30s"}
	if got := w.heard(); !slices.Equal(got, want) {
		t.Errorf("told\n%q, want\n%q", got, want)
	}
}

// A worker that registered and then fell silent loses its jobs as one that beat.
func TestRegisteredWorkerDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, err := w.Register(t.Context(), job.WorkerInfo{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	j := w.push(nil)
	w.take("w", time.Hour)
	w.pass(silence)
	w.is("silent for 45 s", j.ID, job.Available)
}

// A worker that deregisters spends no attempt of its jobs, however often.
func TestDeregisterKeepsTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":2,"initial_interval":"PT1S","jitter":false}`)
	})
	for n := range 5 {
		w.beat("w")
		w.take("w", 0)
		if _, err := w.Deregister(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
		if now := w.read(j.ID); now.State != job.Available || now.Releases != n+1 || now.Attempt != n+1 {
			t.Errorf("%s, attempt %d, releases %d", now.State, now.Attempt, now.Releases)
		}
	}
	if failed := w.fail(w.take("w", 0), job.Failure{}); failed.State != job.Retryable || failed.RetryDelay != time.Second {
		t.Errorf("the first failure: %s after %s", failed.State, failed.RetryDelay)
	}
}

// A worker of the same name that comes after one that left takes jobs.
func TestDeregisteredWorkerMayReturn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	if _, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w", State: "terminate"}}); err != nil {
		t.Fatal(err)
	}
	if got := w.fetch("w", 1, 0); len(got) != 0 {
		t.Fatal("a worker that terminates got a job")
	}
	if _, err := w.Deregister(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	w.take("w", 0)
}
