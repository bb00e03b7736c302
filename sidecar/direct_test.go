package sidecar

import (
	"encoding/json"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// An operator's word outlives the server: the worker does, too (contract §4.9).
func TestRestartKeepsDirectives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	for _, id := range []string{"quiet", "resumed"} {
		w.beat(id)
		if _, err := w.Direct(t.Context(), id, job.Quiet); err != nil {
			t.Fatal(err)
		}
		w.beat(id)
	}
	if _, err := w.Direct(t.Context(), "resumed", job.Resume); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := w.fetch("quiet", 1, 0); len(got) != 0 {
		t.Error("a quiet worker got a job after a restart")
	}
	for id, want := range map[string]string{"quiet": "quiet", "resumed": "running"} {
		r, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: id, State: "quiet"}})
		if err != nil || r.Directive != want {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	w.take("resumed", 0)
}

// A beat that was stored before an operator's word must not undo it in memory.
func TestTheRosterKeepsTheLastWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	w.beat("w")
	beat := w.roster.turn() // stored, and not yet in the roster
	if _, err := w.Direct(t.Context(), "w", job.Quiet); err != nil {
		t.Fatal(err)
	}
	w.met(job.WorkerInfo{ID: "w", BeatAt: w.time()}, beat, w.time())
	if got := w.fetch("w", 1, 0); len(got) != 0 {
		t.Error("a quiet worker got a job")
	}
}

// contract §4.9: only a server for conformance suites obeys the meta of a job, of
// one that is active, and an operator's word comes first.
func TestTestDirectives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.Sidecar = New(w.store, Options{Now: w.time, TestDirectives: true})
	for _, want := range []string{"quiet", "terminate"} {
		j := w.push(func(e *job.Envelope) { e.Meta = json.RawMessage(`{"test_directive":"` + want + `"}`) })
		w.take("w", 0)
		answered := func(when, want string) {
			t.Helper()
			r, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w"}, Jobs: []job.Claim{{ID: j.ID}}})
			if err != nil || r.Directive != want {
				t.Errorf("%s: %+v, %v, want %s", when, r, err, want)
			}
		}
		answered("a job that asks for it", want)
		if _, err := w.Direct(t.Context(), "w", job.Terminate); err != nil {
			t.Fatal(err)
		}
		answered("an operator says another", "terminate")
		if _, err := w.Direct(t.Context(), "w", job.Resume); err != nil {
			t.Fatal(err)
		}
		answered("taken back", want)
		if _, err := w.Cancel(t.Context(), j.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		answered("a job that is not active", "running")
	}
	for _, odd := range []string{`{"test_directive":"stop"}`, `{"test_directive":7}`, `{}`} {
		j := w.push(func(e *job.Envelope) { e.Meta = json.RawMessage(odd) })
		held := w.take("w", 0)
		r, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w"}, Jobs: []job.Claim{{ID: j.ID}}})
		if err != nil || r.Directive != "running" {
			t.Errorf("%s: %+v, %v", odd, r, err)
		}
		w.ack(held)
	}
}
