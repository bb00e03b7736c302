package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// chained are options that log nothing, with middleware: names and functions in turn.
func chained(t *testing.T, ms ...any) client.WorkerOptions {
	t.Helper()
	o := quietly()
	o.Middleware = new(client.Chain)
	for i := 0; i < len(ms); i += 2 {
		if err := o.Middleware.Add(ms[i].(string), ms[i+1].(func(context.Context, *job.Job, client.Handler) (any, error))); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestWorkerMiddlewareOrder(t *testing.T) {
	t.Parallel()
	type key struct{}
	var mu sync.Mutex // guards trace
	var trace []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		trace = append(trace, fmt.Sprintf(format, args...))
	}
	o := chained(t, "outer", func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
		note("outer in %s", j.Type)
		v, err := next(context.WithValue(ctx, key{}, "told"), j)
		note("outer out %v %v", v, err)
		return map[string]any{"outer": v}, err
	}, "inner", func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
		note("inner in %v", ctx.Value(key{}))
		v, err := next(ctx, j)
		note("inner out %v %v", v, err)
		return v, err
	})
	handle := func(w *client.Worker) {
		w.Handle("a.b", func(ctx context.Context, _ *job.Job) (any, error) {
			note("handler %v", ctx.Value(key{}))
			return 1, nil
		})
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, o, handle, func(f *fake, _ *running) {
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"outer in a.b", "inner in told", "handler told", "inner out 1 <nil>", "outer out 1 <nil>"}; !reflect.DeepEqual(trace, want) {
			t.Errorf("got %q, want %q", trace, want)
		}
		if got := f.said(); len(got) != 1 || got[0].verb != "ack" || got[0].result != `{"outer":1}` {
			t.Errorf("got %+v", got)
		}
	})
}

// What the outermost returns is what is reported.
func TestWorkerMiddlewareDecides(t *testing.T) {
	t.Parallel()
	final := false
	failing := func(context.Context, *job.Job) (any, error) { return nil, errors.New("no") }
	for _, tt := range []struct {
		name    string
		m       client.Middleware
		handler client.Handler
		verb    string
		result  string
		want    job.Failure
	}{
		{"it answers for the handler", func(context.Context, *job.Job, client.Handler) (any, error) { return "cached", nil },
			failing, "ack", `"cached"`, job.Failure{}},
		{"it hides an error", func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
			_, _ = next(ctx, j)
			return nil, nil
		}, failing, "ack", "", job.Failure{}},
		{"it steers an error", func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
			v, err := next(ctx, j)
			return v, client.NonRetryable(fmt.Errorf("m: %w", err))
		}, failing, "fail", "", job.Failure{Type: "Error", Message: "m: no", Code: "handler_error", Retryable: &final}},
		{"it refuses", func(context.Context, *job.Job, client.Handler) (any, error) { return nil, refusedError{} },
			untilDoneWithResult, "fail", "", job.Failure{Type: "smtp.refused", Message: "refused", Code: "handler_error"}},
		{"its result cannot be stored", func(context.Context, *job.Job, client.Handler) (any, error) { return func() {}, nil },
			failing, "fail", "", job.Failure{Type: "bad_result", Message: "the handler's result: json: unsupported type: func()", Code: "handler_error", Retryable: &final}},
		{"it tries again", func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
			_, _ = next(ctx, j)
			return next(ctx, j)
		}, secondTime(), "ack", "2", job.Failure{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, chained(t, "m", (func(context.Context, *job.Job, client.Handler) (any, error))(tt.m)),
				func(w *client.Worker) { w.Handle("a.b", tt.handler) }, func(f *fake, _ *running) {
					got := f.said()
					if len(got) != 1 || got[0].verb != tt.verb || got[0].result != tt.result || !reflect.DeepEqual(got[0].failure, tt.want) {
						t.Errorf("got %+v, want %s %s %+v", got, tt.verb, tt.result, tt.want)
					}
				})
		})
	}
}

func untilDoneWithResult(ctx context.Context, j *job.Job) (any, error) { return nil, untilDone(ctx, j) }

// secondTime fails the first time that it is called.
func secondTime() client.Handler {
	n := 0
	return func(context.Context, *job.Job) (any, error) {
		if n++; n == 1 {
			return nil, errors.New("not yet")
		}
		return n, nil
	}
}

func TestWorkerMiddlewarePanicsLikeAHandler(t *testing.T) {
	t.Parallel()
	fine := func(w *client.Worker) { w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil }) }
	for name, m := range map[string]func(context.Context, *job.Job, client.Handler) (any, error){
		"before the handler": func(context.Context, *job.Job, client.Handler) (any, error) { return nil, explode(nil) },
		"after the handler": func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
			_, _ = next(ctx, j)
			return nil, explode(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func() *fake { return newFake(newJob(1, "a.b"), newJob(2, "a.b")) }, chained(t, "m", m), fine, func(f *fake, _ *running) {
				if got := verbs(f.said()); got != "fail fail " {
					t.Fatalf("got %q", got)
				}
				fail := f.said()[0].failure
				if fail.Type != "panic" || !strings.Contains(fail.Message, "nil map") || len(fail.Backtrace) == 0 || !strings.Contains(fail.Backtrace[0], "explode") {
					t.Errorf("got %+v", fail)
				}
			})
		})
	}
}

// A panic of the handler passes through the chain, where a middleware may see it.
func TestWorkerMiddlewareSeesPanics(t *testing.T) {
	t.Parallel()
	o := chained(t, "m", func(ctx context.Context, j *job.Job, next client.Handler) (v any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = client.DeadLetter(fmt.Errorf("caught: %v", p))
			}
		}()
		return next(ctx, j)
	})
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { panic("loud") })
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, o, handle, func(f *fake, _ *running) {
		if got, want := f.said()[0].failure, (job.Failure{Type: "Error", Message: "caught: loud", Code: "DEAD_LETTER"}); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWorkerMiddlewareIsUnderTheTimeout(t *testing.T) {
	t.Parallel()
	o := chained(t, "slow", func(ctx context.Context, _ *job.Job, _ client.Handler) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	j := newJob(1, "a.b")
	j.Timeout = 3 * time.Second
	bubble(t, func() *fake { return newFake(j) }, o, func(w *client.Worker) { w.HandleFunc("a.b", untilDone) }, func(f *fake, _ *running) {
		later(3 * time.Second)
		if got := f.said(); len(got) != 1 || got[0].failure.Code != "timeout" || got[0].at != 3*time.Second {
			t.Errorf("got %+v", got)
		}
	})
}

// A job without a handler is not executed, so there is nothing to be around.
func TestWorkerMiddlewareNeedsAHandler(t *testing.T) {
	t.Parallel()
	o := chained(t, "m", func(context.Context, *job.Job, client.Handler) (any, error) { return nil, nil })
	bubble(t, func() *fake { return newFake(newJob(1, "a.unknown")) }, o, func(*client.Worker) {}, func(f *fake, _ *running) {
		if got := f.said(); len(got) != 1 || got[0].failure.Code != "handler_not_found" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestWorkerMiddlewareChangesWhileTheWorkerRuns(t *testing.T) {
	t.Parallel()
	o := chained(t)
	handle := func(w *client.Worker) {
		w.Handle("a.b", func(context.Context, *job.Job) (any, error) { return "handler", nil })
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, o, handle, func(f *fake, _ *running) {
		if err := o.Middleware.Add("m", func(context.Context, *job.Job, client.Handler) (any, error) { return "m", nil }); err != nil {
			t.Error(err)
		}
		f.add(newJob(2, "a.b"))
		synctest.Wait()
		if err := o.Middleware.Remove("m"); err != nil {
			t.Error(err)
		}
		f.add(newJob(3, "a.b"))
		synctest.Wait()
		got := ""
		for _, w := range f.said() {
			got += w.result
		}
		if want := `"handler""m""handler"`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func ExampleMiddleware() {
	var chain client.Chain
	err := chain.Add("timing", func(ctx context.Context, j *job.Job, next client.Handler) (any, error) {
		began := time.Now()
		v, err := next(ctx, j)
		fmt.Println(j.Type, "took", time.Since(began), "and returned", err)
		return v, err
	})
	if err != nil {
		panic(err)
	}
	w := client.NewWorker(newFake(), client.WorkerOptions{Middleware: &chain})
	w.HandleFunc("email.send", func(context.Context, *job.Job) error { return nil })
}
