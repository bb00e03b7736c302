package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// later waits in virtual time.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// refusedError names its own type.
type refusedError struct{}

func (refusedError) Error() string     { return "refused" }
func (refusedError) ErrorType() string { return "smtp.refused" }

func TestWorkerReportsWhatTheHandlerReturned(t *testing.T) {
	t.Parallel()
	yes, no, after := "ack", "fail", 7*time.Second
	final := false
	for _, tt := range []struct {
		name    string
		handler client.Handler
		verb    string
		result  string
		want    job.Failure
	}{
		{"nothing", func(context.Context, *job.Job) (any, error) { return nil, nil }, yes, "", job.Failure{}},
		{"raw JSON stays as it is", func(context.Context, *job.Job) (any, error) { return json.RawMessage(`{"a" : 1e2}`), nil }, yes, `{"a" : 1e2}`, job.Failure{}},
		{"a value is marshalled", func(context.Context, *job.Job) (any, error) { return map[string]int{"n": 1}, nil }, yes, `{"n":1}`, job.Failure{}},
		{"a plain error", func(context.Context, *job.Job) (any, error) { return nil, errors.New("no") }, no, "",
			job.Failure{Type: "Error", Message: "no", Code: "handler_error"}},
		{"an error of a type", func(context.Context, *job.Job) (any, error) { return nil, fmt.Errorf("x: %w", &json.SyntaxError{}) }, no, "",
			job.Failure{Type: "json.SyntaxError", Message: "x: ", Code: "handler_error"}},
		{"an error that names its type", func(context.Context, *job.Job) (any, error) { return nil, fmt.Errorf("x: %w", refusedError{}) }, no, "",
			job.Failure{Type: "smtp.refused", Message: "x: refused", Code: "handler_error"}},
		{"a long message is whole", func(context.Context, *job.Job) (any, error) { return nil, errors.New(strings.Repeat("m", 32<<10)) }, no, "",
			job.Failure{Type: "Error", Message: strings.Repeat("m", 32<<10), Code: "handler_error"}},
		{"a message that no job can keep says that it is cut", func(context.Context, *job.Job) (any, error) { return nil, errors.New(strings.Repeat("é", 50_000)) }, no, "",
			job.Failure{Type: "Error", Message: strings.Repeat("é", 16<<10) + " … (cut by the worker: the message has 100000 bytes)", Code: "handler_error"}},
		{"discard", func(context.Context, *job.Job) (any, error) { return nil, client.Discard(refusedError{}) }, no, "",
			job.Failure{Type: "smtp.refused", Message: "refused", Code: "DISCARD"}},
		{"dead letter, wrapped", func(context.Context, *job.Job) (any, error) {
			return nil, fmt.Errorf("y: %w", client.DeadLetter(errors.New("no")))
		}, no, "", job.Failure{Type: "Error", Message: "y: no", Code: "DEAD_LETTER"}},
		{"non-retryable", func(context.Context, *job.Job) (any, error) { return nil, client.NonRetryable(errors.New("no")) }, no, "",
			job.Failure{Type: "Error", Message: "no", Code: "handler_error", Retryable: &final}},
		{"retry after", func(context.Context, *job.Job) (any, error) { return nil, client.RetryAfter(errors.New("no"), after) }, no, "",
			job.Failure{Type: "Error", Message: "no", Code: "handler_error", RetryAfter: &after}},
		{"steered without a reason", func(context.Context, *job.Job) (any, error) { return nil, client.Discard(nil) }, no, "",
			job.Failure{Type: "Error", Message: "the handler gave no reason", Code: "DISCARD"}},
		{"a result that is no JSON", func(context.Context, *job.Job) (any, error) { return json.RawMessage(`{`), nil }, no, "",
			job.Failure{Type: "bad_result", Message: "the handler's result: it is no JSON", Code: "handler_error", Retryable: &final}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, quietly(), func(w *client.Worker) { w.Handle("a.b", tt.handler) },
				func(f *fake, _ *running) {
					got := f.said()
					want := []word{{verb: tt.verb, claim: job.Claim{ID: newJob(1, "").ID, Token: "t1", Worker: "w1"}, result: tt.result, failure: tt.want}}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("got  %+v\nwant %+v", got, want)
					}
				})
		})
	}
}

func TestWorkerReportsPanicsWithTheirOrigin(t *testing.T) {
	t.Parallel()
	handle := func(w *client.Worker) {
		w.HandleFunc("a.panic", func(context.Context, *job.Job) error { return explode(nil) })
		w.HandleFunc("a.deep", func(context.Context, *job.Job) error { return dig(200) })
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.panic")) }, quietly(), handle, func(f *fake, _ *running) {
		fail := f.said()[0].failure
		if fail.Type != "panic" || !strings.Contains(fail.Message, "nil map") || len(fail.Backtrace) == 0 || !strings.Contains(fail.Backtrace[0], "explode") {
			t.Errorf("got %+v", fail)
		}
		f.add(newJob(2, "a.deep"))
		synctest.Wait()
		fail = f.said()[1].failure
		if n := len(strings.Join(fail.Backtrace, "")); len(fail.Backtrace) > 50 || n > 10_000 || n < 1_000 {
			t.Errorf("got %d frames of %d characters", len(fail.Backtrace), n)
		}
	})
}

func explode(m map[string]int) error {
	m["x"] = 1
	return nil
}

func dig(n int) error {
	if n == 0 {
		panic("at the bottom")
	}
	return dig(n - 1)
}

func TestWorkerSurvivesAHandlerThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	o := quietly()
	o.Concurrency = 1
	handle := func(w *client.Worker) {
		w.HandleFunc("a.exit", func(context.Context, *job.Job) error { runtime.Goexit(); return nil })
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.exit"), newJob(2, "a.b")) }, o, handle, func(f *fake, _ *running) {
		if got, want := verbs(f.said()), "fail ack "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestWorkerFailsAJobWithoutAHandler(t *testing.T) {
	t.Parallel()
	bubble(t, func() *fake { return newFake(newJob(1, "a.unknown")) }, quietly(), func(*client.Worker) {}, func(f *fake, _ *running) {
		want := job.Failure{Type: "handler_not_found", Code: "handler_not_found", Message: "no handler for a.unknown in this worker"}
		if got := f.said()[0].failure; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWorkerAsksForAsManyJobsAsThereAreFreeSlots(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error {
			most.Store(max(most.Load(), now.Add(1)))
			<-time.After(time.Second)
			now.Add(-1)
			return nil
		})
	}
	var jobs []*job.Job
	for n := range 10 {
		jobs = append(jobs, newJob(n, "a.b"))
	}
	o := quietly()
	o.Concurrency, o.Queues = 3, []string{"high", "low"}
	var err error
	if o.Versions, err = job.NewVersions(map[string][]any{"a.b": {1, nil}}); err != nil {
		t.Fatal(err)
	}
	bubble(t, func() *fake { return newFake(jobs...) }, o, handle, func(f *fake, _ *running) {
		later(10 * time.Second)
		if len(f.said()) != 10 || most.Load() != 3 {
			t.Errorf("%d jobs done, %d at once, want 10 and 3", len(f.said()), most.Load())
		}
		want := job.FetchRequest{Queues: []string{"high", "low"}, Count: 3, Worker: "w1", Visibility: 30 * time.Second, Wait: 20 * time.Second, Versions: o.Versions}
		if got := f.asked()[0]; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWorkerWithNothingSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o    client.WorkerOptions
		want job.FetchRequest
	}{
		"nothing": {quietly(), job.FetchRequest{Queues: []string{"default"}, Count: 10, Worker: "w1", Visibility: 30 * time.Second, Wait: 20 * time.Second}},
		"more than a server takes": {client.WorkerOptions{ID: "w1", Logger: quietly().Logger, Concurrency: 250, Wait: time.Minute, Visibility: time.Minute, Queues: []string{"q"}},
			job.FetchRequest{Queues: []string{"q"}, Count: 100, Worker: "w1", Visibility: time.Minute, Wait: 20 * time.Second}},
	} {
		bubble(t, func() *fake { return newFake() }, tt.o, func(*client.Worker) {}, func(f *fake, _ *running) {
			if got := f.asked()[0]; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
			}
		})
	}
}

func TestWorkerRefusesMistakesInTheProgram(t *testing.T) {
	t.Parallel()
	w := client.NewWorker(newFake(), quietly())
	w.HandleFunc("a.b", untilDone)
	for name, mistake := range map[string]func(){
		"two handlers": func() { w.HandleFunc("a.b", untilDone) },
		"no type":      func() { w.HandleFunc("", untilDone) },
		"no handler":   func() { w.Handle("a.c", nil) },
		"no function":  func() { w.HandleFunc("a.c", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			mistake()
		}()
	}
}

func TestWorkerRunsOnceAtATimeAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := client.NewWorker(newFake(), quietly())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		synctest.Wait()
		if err := w.Run(ctx); job.KindOf(err) != job.Conflict || err == nil {
			t.Errorf("second Run: got %v, want a Conflict", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.Run(ctx); err != nil {
			t.Errorf("third Run: %v", err)
		}
	})
}

func TestArgs(t *testing.T) {
	t.Parallel()
	j := newJob(1, "mail.send")
	j.Args = json.RawMessage(`["a@b.c", {"n": 9007199254740993}, 3]`)
	var to string
	var opts struct{ N int64 }
	if err := client.Args(j, &to, &opts); err != nil || to != "a@b.c" || opts.N != 9007199254740993 {
		t.Errorf("got %q, %+v, %v", to, opts, err)
	}
	var third int
	if err := client.Args(j, nil, nil, &third); err != nil || third != 3 {
		t.Errorf("got %d, %v", third, err)
	}
	if err := client.Args(j, &third); job.KindOf(err) != job.Invalid || err == nil {
		t.Errorf("a text into an int: got %v", err)
	}
	if err := client.Args(j, nil, nil, nil, nil); err == nil || err.Error() != "mail.send has 3 args, 4 are needed" {
		t.Errorf("too few: got %v", err)
	}
}
