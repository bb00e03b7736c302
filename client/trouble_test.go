package client_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func TestWorkerRepeatsAnAckUntilTheServerIsBack(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.onWord = func(word) error {
			tries.Add(1)
			if time.Since(f.began) < 20*time.Second {
				return job.Errorf(job.Unavailable, "down")
			}
			return nil
		}
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, begin, quietly(), handle, func(f *fake, _ *running) {
		later(30 * time.Second)
		if got := f.said(); len(got) != 1 || got[0].verb != "ack" || got[0].at < 20*time.Second {
			t.Errorf("got %+v", got)
		}
		if n := tries.Load(); n < 5 || n > 20 {
			t.Errorf("tried %d times", n)
		}
		if b := f.beaten()[2]; len(b.Jobs) != 1 {
			t.Error("the claim was not beaten for while its ack was not heard")
		}
	})
}

// An outcome is sent again whatever its verb, and however a server says that it
// cannot take it now, for the length of a reservation and a minute: then the
// slot is free for another job.
func TestWorkerGivesUpAnOutcomeThatNobodyTakes(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"ack", "fail"} {
		for name, kind := range map[string]job.Kind{"unavailable": job.Unavailable, "internal": job.Internal} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				var last time.Duration
				first := newJob(1, "a.b")
				begin := func() *fake {
					f := newFake(first, newJob(2, "a.b"))
					f.onWord = func(w word) error {
						if w.verb != verb {
							t.Errorf("said %s, want %s", w.verb, verb)
						}
						if w.claim.ID == first.ID {
							last = time.Since(f.began)
							return job.Errorf(kind, "no")
						}
						return nil
					}
					return f
				}
				handle := func(w *client.Worker) {
					w.HandleFunc("a.b", func(context.Context, *job.Job) error {
						if verb == "fail" {
							return refusedError{}
						}
						return nil
					})
				}
				o := quietly()
				o.Concurrency = 1
				bubble(t, begin, o, handle, func(f *fake, _ *running) {
					later(2 * time.Minute)
					if last < 85*time.Second || last > 95*time.Second {
						t.Errorf("the last try was after %s, want one at the end of 30 s and a minute", last)
					}
					if got := f.said(); len(got) != 1 || got[0].claim.ID == first.ID {
						t.Errorf("said %+v, want a word on the second job", got)
					}
				})
			})
		}
	}
}

// An ACK whose answer was lost is refused when it is sent again: the job has
// ended, and nothing more is said of it.
func TestWorkerSaysNothingMoreAfterALostAnswer(t *testing.T) {
	t.Parallel()
	var said []string
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.onWord = func(w word) error {
			if said = append(said, w.verb+" "+w.claim.Token); len(said) == 1 {
				return job.Errorf(job.Unavailable, "the connection broke")
			}
			return job.Errorf(job.Conflict, "it is completed")
		}
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, begin, quietly(), handle, func(*fake, *running) {
		later(time.Minute)
		if want := []string{"ack t1", "ack t1"}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}

func TestWorkerDropsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.onWord = func(word) error { tries.Add(1); return job.Errorf(job.Conflict, "lost") }
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, begin, quietly(), handle, func(*fake, *running) {
		later(time.Minute)
		if tries.Load() != 1 {
			t.Errorf("tried %d times, want once", tries.Load())
		}
	})
}

func TestWorkerFailsAJobWhoseResultIsRefused(t *testing.T) {
	t.Parallel()
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.onWord = func(w word) error {
			if w.verb == "ack" {
				return job.Errorf(job.TooLarge, "too large")
			}
			return nil
		}
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, begin, quietly(), handle, func(f *fake, _ *running) {
		if got := f.said(); len(got) != 1 || got[0].failure.Type != "bad_result" || *got[0].failure.Retryable {
			t.Errorf("got %+v", got)
		}
	})
}

func TestWorkerWaitsForAServerThatIsDown(t *testing.T) {
	t.Parallel()
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.onFetch = func(job.FetchRequest) error {
			if time.Since(f.began) < time.Minute {
				return job.Errorf(job.Unavailable, "down")
			}
			return nil
		}
		f.onBeat = func(job.Beat) (job.BeatReply, error) { return job.BeatReply{}, job.Errorf(job.Unavailable, "down") }
		return f
	}
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
	}
	bubble(t, begin, quietly(), handle, func(f *fake, _ *running) {
		later(70 * time.Second)
		if got := verbs(f.said()); got != "ack " {
			t.Errorf("got %q, want an ack", got)
		}
		if n := len(f.asked()); n < 10 || n > 40 {
			t.Errorf("asked %d times in a minute of trouble", n)
		}
	})
}

func TestWorkerDoesNotSpinOnAServerThatDoesNotWait(t *testing.T) {
	t.Parallel()
	begin := func() *fake { return newFake() }
	o := quietly()
	bubble(t, begin, o, func(*client.Worker) {}, func(f *fake, _ *running) {
		later(time.Minute)
		if n := len(f.asked()); n > 5 {
			t.Errorf("asked %d times in a minute of long polls", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := &hasty{fake: newFake()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.NewWorker(f, o).Run(ctx); err != nil {
			t.Error(err)
		}
		if n := f.n.Load(); n < 50 || n > 70 {
			t.Errorf("asked %d times in a minute, want about 60", n)
		}
	})
}

// hasty is a server that answers every fetch at once.
type hasty struct {
	*fake
	n atomic.Int32
}

func (h *hasty) Fetch(context.Context, job.FetchRequest) ([]*job.Job, error) {
	h.n.Add(1)
	return nil, nil
}

func TestWorkerStopsWhenItsFetchIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []job.Kind{job.Malformed, job.Invalid, job.NotFound, job.NotAllowed, job.Unauthenticated, job.Forbidden, job.Unsupported} {
		begin := func() *fake {
			f := newFake()
			f.onFetch = func(job.FetchRequest) error { return job.Errorf(kind, "queue must be …") }
			return f
		}
		bubble(t, begin, quietly(), func(*client.Worker) {}, func(f *fake, r *running) {
			if err := r.wait(); job.KindOf(err) != kind || len(f.asked()) != 1 {
				t.Errorf("kind %v: asked %d times, got %v, want the refusal", kind, len(f.asked()), err)
			}
		})
	}
}

// Trouble of the server ends no worker, and each new trouble begins with a short pause.
func TestWorkerFetchesAgainAfterTrouble(t *testing.T) {
	t.Parallel()
	for _, kind := range []job.Kind{job.Unavailable, job.Internal, job.Conflict, job.TooLarge} {
		begin := func() *fake {
			f := newFake()
			f.onFetch = func(job.FetchRequest) error {
				if at := time.Since(f.began); at < time.Minute || len(f.asked())%2 == 0 {
					return job.Errorf(kind, "not now")
				}
				return nil
			}
			return f
		}
		handle := func(w *client.Worker) {
			w.HandleFunc("a.b", func(context.Context, *job.Job) error { return nil })
		}
		bubble(t, begin, quietly(), handle, func(f *fake, _ *running) {
			later(5 * time.Minute)
			if n := len(f.asked()); n < 30 || n > 80 {
				t.Errorf("kind %v: asked %d times", kind, n)
			}
			for range 5 {
				before := len(f.said())
				f.add(newJob(1, "a.b"))
				later(200 * time.Millisecond)
				if len(f.said()) != before+1 {
					t.Errorf("kind %v: a job waited at %s, long after the trouble", kind, time.Since(f.began))
				}
			}
		})
	}
}

// generous is a server that gives more jobs than it was asked for.
type generous struct{ *fake }

func (g *generous) Fetch(ctx context.Context, r job.FetchRequest) ([]*job.Job, error) {
	r.Count += 2
	return g.fake.Fetch(ctx, r)
}

func TestWorkerGivesBackWhatItDidNotAskFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &generous{fake: newFake(newJob(1, "a.b"), newJob(2, "a.b"), newJob(3, "a.b"))}
		o := quietly()
		o.Concurrency = 1
		w := client.NewWorker(f, o)
		w.HandleFunc("a.b", takes(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if got := verbs(f.said()); got != "requeue requeue ack " {
			t.Errorf("got %q, want two given back at once", got)
		}
	})
}

func TestWorkerGivesBackWhatCameTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &late{fake: newFake(newJob(1, "a.b"))}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := client.NewWorker(f, quietly()).Run(ctx); err != nil {
			t.Error(err)
		}
		if got := verbs(f.said()); got != "requeue " {
			t.Errorf("got %q, want the job given back", got)
		}
	})
}

// late is a server that gives jobs to callers who have gone.
type late struct{ *fake }

func (l *late) Fetch(ctx context.Context, r job.FetchRequest) ([]*job.Job, error) {
	<-ctx.Done()
	return l.claim(r), nil
}

func TestWorkerLimitsAHandlerToTheJobsTimeout(t *testing.T) {
	t.Parallel()
	j := newJob(1, "a.b")
	j.Timeout = 3 * time.Second
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(ctx context.Context, _ *job.Job) error { <-ctx.Done(); return ctx.Err() })
	}
	bubble(t, func() *fake { return newFake(j) }, quietly(), handle, func(f *fake, _ *running) {
		later(4 * time.Second)
		got := f.said()
		if len(got) != 1 || got[0].at != 3*time.Second || got[0].failure.Type != "timeout" || got[0].failure.Code != "timeout" {
			t.Errorf("got %+v", got)
		}
	})
}

// A deadline of the handler's own is no timeout of the job.
func TestWorkerTellsTheJobsTimeoutFromOthers(t *testing.T) {
	t.Parallel()
	j := newJob(1, "a.b")
	j.Timeout = 30 * time.Second
	handle := func(w *client.Worker) {
		w.HandleFunc("a.b", func(ctx context.Context, _ *job.Job) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		})
	}
	bubble(t, func() *fake { return newFake(j) }, quietly(), handle, func(f *fake, _ *running) {
		later(2 * time.Second)
		if got := f.said(); len(got) != 1 || got[0].failure.Type != "context.deadlineExceededError" || got[0].failure.Code != "handler_error" {
			t.Errorf("got %+v", got)
		}
	})
}
