package client_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// deaf is a server that does not take the beats of its seconds 4 to 14: it breaks
// each of them, or gives no answer.
type deaf struct {
	*fake
	hangs bool
	times *[]time.Duration // of the beats
}

func (d deaf) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	at := time.Since(d.began)
	*d.times = append(*d.times, at)
	if at < 4*time.Second || at > 14*time.Second {
		return d.fake.Beat(ctx, b)
	}
	if d.hangs {
		<-ctx.Done()
	}
	return job.BeatReply{}, job.Errorf(job.Unavailable, "broken")
}

// A worker whose beats fail works and beats on, so that it is heard again before
// its reservations of 30 s end.
func TestWorkerBeatsOnAfterOneThatFailed(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"broken": false, "not answered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var times []time.Duration
				f := newFake(newJob(1, "a.b"))
				w := client.NewWorker(deaf{f, hangs, &times}, quietly())
				w.HandleFunc("a.b", takes(40*time.Second))
				ctx, cancel := context.WithTimeout(t.Context(), 42*time.Second)
				defer cancel()
				if err := w.Run(ctx); err != nil {
					t.Error(err)
				}
				if got := f.said(); len(got) != 1 || got[0].verb != "ack" || got[0].at != 40*time.Second {
					t.Errorf("said %+v", got)
				}
				want := []time.Duration{0, 5, 10, 15, 20, 25, 30, 35, 40}
				if hangs { // the one at 5 is given up at 15, when the next is due
					want = slices.Delete(want, 2, 3)
				}
				for i := range want {
					want[i] *= time.Second
				}
				if !slices.Equal(times, want) {
					t.Errorf("it beat at %v, want %v", times, want)
				}
			})
		})
	}
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
		fails bool // the handler returns an error, else a result
	}{
		{"cancelled", job.BeatReply{Cancelled: []job.ID{id}}, client.ErrCancelled, true},
		{"cancelled, and it succeeds", job.BeatReply{Cancelled: []job.ID{id}}, client.ErrCancelled, false},
		{"lost", job.BeatReply{Lost: []job.ID{id}}, client.ErrLeaseLost, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var cause error
			handle := func(w *client.Worker) {
				w.Handle("a.b", func(ctx context.Context, j *job.Job) (any, error) {
					cause = untilDone(ctx, j)
					<-time.After(7 * time.Second)
					if tt.fails {
						return nil, cause
					}
					return 1, nil
				})
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
				if cause != tt.want {
					t.Errorf("got cause %v, want %v", cause, tt.want)
				}
				later(15 * time.Second)
				if got := f.said(); len(got) != 0 {
					t.Errorf("said %v of a job that is gone", got)
				}
				for i, b := range f.beaten() {
					if want := i == 1; (len(b.Jobs) > 0) != want {
						t.Errorf("beat %d claims %v", i, b.Jobs)
					}
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
		w.HandleFunc("a.long", takes(40*time.Second))
	}
	bubble(t, begin, quietly(), handle, func(f *fake, r *running) {
		f.add(newJob(2, "a.long"))
		synctest.Wait()
		directive.Store("quiet")
		later(5 * time.Second)
		f.add(newJob(1, "a.b"))
		later(time.Minute)
		if got := f.said(); len(got) != 1 || got[0].verb != "ack" || got[0].claim.ID != newJob(2, "").ID || got[0].at != 40*time.Second {
			t.Errorf("a quiet worker said %+v, want an ack of what it ran", got)
		}
		for i, b := range f.beaten()[1:8] {
			if len(b.Jobs) != 1 {
				t.Errorf("beat %d of a quiet worker claims %v", i+1, b.Jobs)
			}
		}
		directive.Store("running")
		later(5 * time.Second)
		if got := verbs(f.said()); got != "ack ack " {
			t.Errorf("got %q after it went on, want another ack", got)
		}
		directive.Store("terminate")
		if err := r.wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// takes is a handler that works for d, unless it is told to stop.
func takes(d time.Duration) func(context.Context, *job.Job) error {
	return func(ctx context.Context, _ *job.Job) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func TestWorkerObeysTerminate(t *testing.T) {
	t.Parallel()
	begin := func() *fake {
		f := newFake(newJob(1, "a.quick"), newJob(2, "a.slow"))
		f.onBeat = func(b job.Beat) (job.BeatReply, error) {
			if len(b.Jobs) == 0 {
				return job.BeatReply{Directive: "running"}, nil
			}
			return job.BeatReply{Directive: "terminate"}, nil
		}
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.quick", takes(20*time.Second))
		w.HandleFunc("a.slow", untilDone)
	}
	bubble(t, begin, quietly(), handle, func(f *fake, r *running) {
		later(6 * time.Second) // it was told after 5
		asked := len(f.asked())
		f.add(newJob(3, "a.quick"))
		if err := r.wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(f.began); took != 30*time.Second {
			t.Errorf("Run returned after %v, want the grace of 25s after it was told", took)
		}
		var got []string
		for _, w := range f.said() {
			got = append(got, w.verb+" "+w.claim.Token+" "+w.at.String())
		}
		if want := []string{"ack t1 20s", "requeue t2 30s"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := len(f.asked()); n != asked {
			t.Errorf("it fetched %d times more after it was told to stop", n-asked)
		}
	})
}

func TestWorkerGivesUnfinishedJobsBack(t *testing.T) {
	t.Parallel()
	steered := errors.New("steered")
	handle := func(w *client.Worker) {
		w.HandleFunc("a.quick", takes(10*time.Second))
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
		for i, b := range f.beaten()[1:5] {
			if b.Worker.State != "terminate" || len(b.Jobs) == 0 {
				t.Errorf("beat %d while it stops: %+v", i+1, b)
			}
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
