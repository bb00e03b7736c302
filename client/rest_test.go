package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// beginning handles types that begin so.
func beginning(start string, h client.Handler) func(string) client.Handler {
	return func(jobType string) client.Handler {
		if strings.HasPrefix(jobType, start) {
			return h
		}
		return nil
	}
}

func TestWorkerLeavesTypesThatItDoesNotKnowToOthers(t *testing.T) {
	t.Parallel()
	var ran sync.Map
	handle := func(w *client.Worker) {
		note := func(_ context.Context, j *job.Job) (any, error) { ran.Store(j.Type, true); return nil, nil }
		w.Handle("b.own", note)
		w.HandleRest(beginning("a.", note))
	}
	o := quietly()
	o.Concurrency = 8
	o.Versions, _ = job.NewVersions(map[string][]any{"z.new": {2}})
	start := func() *fake {
		return newFake(newJob(1, "a.one"), newJob(2, "z.new"), newJob(3, "b.own"), newJob(4, "z.new"), newJob(5, "y.other"))
	}
	bubble(t, start, o, handle, func(f *fake, _ *running) {
		later(time.Minute)
		var got []string
		for _, w := range f.said() {
			got = append(got, w.verb+string(w.claim.ID[len(w.claim.ID)-1:]))
		}
		if want := map[string]int{"ack1": 1, "ack3": 1, "requeue2": 1, "requeue4": 1, "requeue5": 1}; !reflect.DeepEqual(counted(got), want) {
			t.Errorf("got %v, want %v", got, want)
		}
		asked := f.asked()
		if first := asked[0].Versions; !first.Wants("z.new", json.RawMessage(`{"version":2}`)) {
			t.Error("the first fetch already leaves out z.new")
		}
		for i, r := range asked[1:] {
			if v := r.Versions; v.Wants("z.new", json.RawMessage(`{"version":2}`)) || v.Wants("y.other", nil) || !v.Wants("a.two", nil) {
				t.Errorf("fetch %d asks for %s", i+2, v.JSON())
			}
		}
		if len(asked) > 6 { // one a 20 s
			t.Errorf("%d fetches in a minute", len(asked))
		}
	})
}

// A server that does not know versions gives such a job again and again.
func TestWorkerIsNotKeptBusyByJobsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	handle := func(w *client.Worker) {
		w.HandleRest(beginning("a.", func(context.Context, *job.Job) (any, error) { return nil, nil }))
	}
	var f *fake
	start := func() *fake {
		f = newFake(newJob(1, "z.other"))
		f.onWord = func(w word) error {
			if w.verb == "requeue" {
				f.add(newJob(1, "z.other"))
			}
			return nil
		}
		return f
	}
	bubble(t, start, quietly(), handle, func(f *fake, _ *running) {
		later(time.Minute)
		if n := len(f.said()); n < 30 || n > 70 {
			t.Errorf("the job was given back %d times in a minute, want about once a second", n)
		}
		f.add(newJob(2, "a.b"))
		later(5 * time.Second)
		if got := f.said(); !strings.Contains(verbs(got), "ack") {
			t.Errorf("the job that it knows was not done: %s", verbs(got))
		}
	})
}

func TestRestIsSetOnce(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]func(w *client.Worker){
		"nothing": func(w *client.Worker) { w.HandleRest(nil) },
		"twice":   func(w *client.Worker) { w.HandleRest(beginning("a", nil)); w.HandleRest(beginning("b", nil)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			mistake(client.NewWorker(newFake(), quietly()))
		}()
	}
}

// sick is an error with details.
type sick struct{ details string }

func (s sick) Error() string                 { return "sick" }
func (s sick) ErrorType() string             { return "a_sick" }
func (s sick) ErrorDetails() json.RawMessage { return json.RawMessage(s.details) }

func TestFailuresHaveDetails(t *testing.T) {
	t.Parallel()
	no := false
	for name, tt := range map[string]struct {
		err  error
		want job.Failure
	}{
		"details":    {sick{`{"n":1}`}, job.Failure{Type: "a_sick", Code: "handler_error", Message: "sick", Details: json.RawMessage(`{"n":1}`)}},
		"deep below": {client.NonRetryable(fmt.Errorf("so %w", sick{`[]`})), job.Failure{Type: "a_sick", Code: "handler_error", Message: "so sick", Details: json.RawMessage(`[]`), Retryable: &no}},
	} {
		handle := func(w *client.Worker) {
			w.HandleFunc("a.b", func(context.Context, *job.Job) error { return tt.err })
		}
		bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, quietly(), handle, func(f *fake, _ *running) {
			if got := f.said()[0].failure; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
			}
		})
	}
}

// TestSettledTellsEveryEnd: whoever asks is told once of each attempt, behind the server.
func TestSettledTellsEveryEnd(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	full := job.Errorf(job.Conflict, "another's")
	for name, tt := range map[string]struct {
		handler client.Handler
		onWord  func(word) error
		onBeat  func(job.Beat) (job.BeatReply, error)
		stop    bool
		want    string
	}{
		"done":        {handler: func(context.Context, *job.Job) (any, error) { return 1, nil }, want: "err=<nil> now=false back=false dropped=<nil> refused=<nil>"},
		"failed":      {handler: func(context.Context, *job.Job) (any, error) { return nil, boom }, want: "err=boom now=true back=false dropped=<nil> refused=<nil>"},
		"not taken":   {handler: func(context.Context, *job.Job) (any, error) { return nil, boom }, onWord: func(word) error { return full }, want: "err=boom now=false back=false dropped=<nil> refused=another's"},
		"ack refused": {handler: func(context.Context, *job.Job) (any, error) { return 1, nil }, onWord: func(word) error { return full }, want: "err=<nil> now=false back=false dropped=<nil> refused=another's"},
		"cancelled": {handler: func(ctx context.Context, _ *job.Job) (any, error) { <-ctx.Done(); return nil, boom },
			onBeat: func(b job.Beat) (job.BeatReply, error) {
				r := job.BeatReply{Directive: "running"}
				for _, c := range b.Jobs {
					r.Cancelled = append(r.Cancelled, c.ID)
				}
				return r, nil
			}, want: "err=boom now=false back=false dropped=the job was cancelled refused=<nil>"},
		"stopped": {handler: func(ctx context.Context, _ *job.Job) (any, error) { <-ctx.Done(); return nil, boom }, stop: true, want: "err=boom now=false back=true dropped=<nil> refused=<nil>"},
	} {
		var mu sync.Mutex
		var got []string
		o := quietly()
		o.Settled = func(s client.Settled) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("err=%v now=%v back=%v dropped=%v refused=%v", s.Err, s.Now != nil, s.GivenBack, s.Dropped, s.Refused))
		}
		start := func() *fake {
			f := newFake(newJob(1, "a.b"))
			f.onWord, f.onBeat = tt.onWord, tt.onBeat
			return f
		}
		bubble(t, start, o, func(w *client.Worker) { w.Handle("a.b", tt.handler) }, func(_ *fake, r *running) {
			later(10 * time.Second)
			if tt.stop {
				r.stop()
				if err := r.wait(); err != nil {
					t.Error(err)
				}
			}
		})
		if len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tt.want)
		}
	}
}

func counted(words []string) map[string]int {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	return n
}
