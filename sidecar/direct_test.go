package sidecar

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
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
	beat := w.roster.next() // stored, and not yet in the roster
	if _, err := w.Direct(t.Context(), "w", job.Quiet); err != nil {
		t.Fatal(err)
	}
	w.workerSaved(job.WorkerInfo{ID: "w", BeatAt: w.time()}, beat, w.time())
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

// What an operator says to workers is in the log, in one line each: what, to
// whom and how many. What was refused is not.
func TestDirectivesAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, Retention{})
	w.log = slog.New(slog.NewTextHandler(&log, nil))
	said := func(call string, want ...string) {
		t.Helper()
		if want == nil && log.Len() > 0 || want != nil && strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: it says %q", call, log.String())
		}
		for _, part := range want {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%s: %q is not in %q", call, part, log.String())
			}
		}
		log.Reset()
	}
	all := func(wish string) {
		if _, err := w.DirectAll(t.Context(), wish); err != nil {
			t.Error(err)
		}
	}
	all(job.Resume)
	said("nobody is there", "level=INFO", "directive=resume", "workers=0")
	for _, id := range []string{"a", "b c", "\x1b[31m\n"} {
		w.beat(id)
	}
	said("beats")
	for id, shown := range map[string]string{"a": "worker=a ", "b c": `worker="b c"`, "\x1b[31m\n": `worker="\x1b[31m\n"`} {
		for _, wish := range []string{job.Quiet, job.Terminate, job.Resume} {
			if _, err := w.Direct(t.Context(), id, wish); err != nil {
				t.Error(err)
			}
			said(wish+" "+id, "level=INFO", "a worker", "directive="+wish, shown, "workers=1\n")
			all(wish)
			said(wish+" for all", "level=INFO", "all workers", "directive="+wish, "workers=3\n")
		}
	}
	for _, id := range []string{"nobody", "a"} {
		if _, err := w.Direct(t.Context(), id, map[string]string{"nobody": job.Quiet, "a": "stop"}[id]); err == nil {
			t.Error(id + " was told")
		}
	}
	if _, err := w.DirectAll(t.Context(), "stop"); err == nil {
		t.Error("all were told to stop")
	}
	said("refused")
}

// A worker that only fetches is not known (contract §4.9): who directs it is told
// what to do. Its first heartbeat makes it known.
func TestAWorkerThatOnlyFetches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	held := w.take("w", 0)
	_, err := w.Direct(t.Context(), "w", job.Quiet)
	var e *job.Error
	if job.KindOf(err) != job.NotFound || !errors.As(err, &e) || !strings.Contains(e.Message, `"w" that has registered or sent a heartbeat`) {
		t.Fatalf("it answers %v", err)
	}
	if hint, _ := e.Details["hint"].(string); !strings.Contains(hint, "only fetches") || !strings.Contains(hint, "GET /ojs/v1/workers") {
		t.Errorf("the hint is %q", hint)
	}
	w.beat("w", held)
	if _, err := w.Direct(t.Context(), "w", job.Quiet); err != nil {
		t.Fatal(err)
	}
	w.push(nil)
	if got := w.fetch("w", 1, 0); len(got) != 0 {
		t.Error("it got a job")
	}
}
