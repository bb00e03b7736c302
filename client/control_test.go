package client_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func TestWorkerBeatsForWhatItRuns(t *testing.T) {
	t.Parallel()
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { <-time.After(12 * time.Second); return nil })
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, quietly(), handle, func(f *fake, _ *running) {
		later(16 * time.Second)
		var held []int
		for _, b := range f.beaten() {
			held = append(held, len(b.Jobs))
			if b.Worker.ID != "w1" || b.Worker.Active != len(b.Jobs) || b.Worker.State != "running" {
				t.Errorf("got %+v", b)
			}
		}
		if want := []int{0, 1, 1, 0}; !slices.Equal(held, want) {
			t.Errorf("got %v claims in the beats, want %v", held, want)
		}
		if got, want := f.beaten()[1].Jobs[0], (job.Claim{ID: newJob(1, "").ID, Token: "t1", Worker: "w1"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// untilDone waits for its context and returns its cause.
func untilDone(ctx context.Context, _ *job.Job) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWorkerEndsHandlersWhoseJobIsGone(t *testing.T) {
	t.Parallel()
	id := newJob(1, "").ID
	for _, tt := range []struct {
		name  string
		reply job.BeatReply
		want  error
	}{
		{"cancelled", job.BeatReply{Cancelled: []job.ID{id}}, client.ErrCancelled},
		{"lost", job.BeatReply{Lost: []job.ID{id}}, client.ErrLeaseLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var cause error
			handle := func(w *client.Worker) {
				w.HandleFunc("a.b", func(ctx context.Context, j *job.Job) error { cause = untilDone(ctx, j); return cause })
			}
			begin := func() *fake {
				f := newFake(newJob(1, "a.b"))
				f.onBeat = func(b job.Beat) (job.BeatReply, error) {
					if len(b.Jobs) == 0 {
						return job.BeatReply{}, nil
					}
					return tt.reply, nil
				}
				return f
			}
			bubble(t, begin, quietly(), handle, func(f *fake, _ *running) {
				later(6 * time.Second)
				if cause != tt.want || len(f.said()) != 0 {
					t.Errorf("got cause %v and words %v, want %v and none", cause, f.said(), tt.want)
				}
			})
		})
	}
}

func TestWorkerAcksLateWhenTheHandlerSucceeded(t *testing.T) {
	t.Parallel()
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.onBeat = func(b job.Beat) (job.BeatReply, error) { return job.BeatReply{Lost: []job.ID{newJob(1, "").ID}}, nil }
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(ctx context.Context, _ *job.Job) error { <-ctx.Done(); return nil })
	}
	bubble(t, begin, quietly(), handle, func(f *fake, _ *running) {
		later(6 * time.Second)
		if got := verbs(f.said()); got != "ack " {
			t.Errorf("got %q, want an ack", got)
		}
	})
}

func TestWorkerEndsTheOlderOfTwoAttemptsOfOneJob(t *testing.T) {
	t.Parallel()
	var ended atomic.Int32
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(ctx context.Context, j *job.Job) error {
			if j.Lease.Token == "t1" {
				<-ctx.Done()
				ended.Add(1)
				return ctx.Err()
			}
			<-time.After(20 * time.Second)
			return ctx.Err()
		})
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, quietly(), handle, func(f *fake, _ *running) {
		f.add(newJob(1, "a.b"))
		later(30 * time.Second)
		if got := f.said(); ended.Load() != 1 || len(got) != 1 || got[0].verb != "ack" || got[0].claim.Token != "t2" {
			t.Errorf("ended %d, said %+v", ended.Load(), got)
		}
	})
}

func TestWorkerObeysQuietAndRunning(t *testing.T) {
	t.Parallel()
	var directive atomic.Value
	directive.Store("running")
	begin := func() *fake {
		f := newFake()
		f.onBeat = func(job.Beat) (job.BeatReply, error) {
			return job.BeatReply{Directive: directive.Load().(string)}, nil
		}
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, begin, quietly(), handle, func(f *fake, r *running) {
		directive.Store("quiet")
		later(5 * time.Second)
		f.add(newJob(1, "a.b"))
		later(time.Minute)
		if got := f.said(); len(got) != 0 {
			t.Errorf("a quiet worker said %v", got)
		}
		directive.Store("running")
		later(5 * time.Second)
		if got := verbs(f.said()); got != "ack " {
			t.Errorf("got %q after it went on, want an ack", got)
		}
		directive.Store("terminate")
		if err := r.wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestWorkerGivesUnfinishedJobsBack(t *testing.T) {
	t.Parallel()
	steered := errors.New("steered")
	handle := func(w *client.Worker) {
		w.HandleFunc("a.quick", func(context.Context, *job.Job) error { <-time.After(10 * time.Second); return nil })
		w.HandleFunc("a.slow", untilDone)
		w.HandleFunc("a.final", func(ctx context.Context, j *job.Job) error { <-ctx.Done(); return client.Discard(steered) })
	}
	begin := func() *fake { return newFake(newJob(1, "a.quick"), newJob(2, "a.slow"), newJob(3, "a.final")) }
	bubble(t, begin, quietly(), handle, func(f *fake, r *running) {
		start := time.Now()
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(start); took != 25*time.Second {
			t.Errorf("Run took %v to stop, want the grace of 25s", took)
		}
		got := map[string]time.Duration{}
		for _, w := range f.said() {
			got[w.verb] = w.at
		}
		if want := map[string]time.Duration{"ack": 10 * time.Second, "requeue": 25 * time.Second, "fail": 25 * time.Second}; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		beats := f.beaten()
		if last := beats[len(beats)-1]; last.Worker.State != "terminate" || len(last.Jobs) == 0 {
			t.Errorf("it did not beat on while it stopped: %+v", last)
		}
	})
}

func TestWorkerLeavesBehindAHandlerThatHeedsNothing(t *testing.T) {
	t.Parallel()
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { <-time.After(time.Hour); return nil })
	}
	bubble(t, func() *fake { return newFake(newJob(1, "a.b")) }, quietly(), handle, func(f *fake, r *running) {
		r.stop()
		if err := r.wait(); err == nil || !strings.Contains(err.Error(), "1 handlers") {
			t.Errorf("got %v, want an error about the handler", err)
		}
		if got := verbs(f.said()); got != "requeue " {
			t.Errorf("got %q, want its job given back", got)
		}
		later(time.Hour)
		if got := verbs(f.said()); got != "requeue " {
			t.Errorf("got %q: the handler was heard after Run", got)
		}
	})
}
