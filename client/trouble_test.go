package client_test

import (
	"context"
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
	begin := func() *fake {
		f := newFake()
		f.onFetch = func(job.FetchRequest) error { return job.Errorf(job.Invalid, "queue must be …") }
		return f
	}
	bubble(t, begin, quietly(), func(*client.Worker) {}, func(_ *fake, r *running) {
		if err := r.wait(); job.KindOf(err) != job.Invalid {
			t.Errorf("got %v, want the refusal", err)
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
