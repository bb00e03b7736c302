package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

func (f *fake) farewelled() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.farewells)
}

// A worker deregisters once, after its last word and its last beat.
func TestDeregistersAtTheEnd(t *testing.T) {
	release := make(chan struct{})
	bubble(t, func() *fake {
		release = make(chan struct{})
		f := newFake(newJob(1, "a.b"))
		f.onBeat = func(job.Beat) (job.BeatReply, error) {
			if len(f.farewelled()) > 0 {
				t.Error("a beat after the farewell")
			}
			return job.BeatReply{Directive: "running"}, nil
		}
		f.onFarewell = func() error {
			if got := verbs(f.said()); got != "ack " {
				t.Errorf("said before the farewell: %q", got)
			}
			return nil
		}
		return f
	}, quietly(), func(w *client.Worker) {
		w.HandleFunc("a.b", func(context.Context, *job.Job) error { <-release; return nil })
	}, func(f *fake, r *running) {
		r.stop()
		time.Sleep(10 * time.Second)
		if got := f.farewelled(); len(got) != 0 {
			t.Errorf("deregistered %q while a handler runs", got)
		}
		close(release)
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		if got := f.farewelled(); !slices.Equal(got, []string{"w1"}) {
			t.Errorf("deregistered %q", got)
		}
	})
}

// A server that refuses the farewell, or does not know it, is no error of the worker.
func TestFarewellIsBestEffort(t *testing.T) {
	bubble(t, func() *fake {
		f := newFake()
		f.onFarewell = func() error { return errors.New("no") }
		return f
	}, quietly(), func(*client.Worker) {}, func(f *fake, r *running) {
		r.stop()
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	})
}

// mute is a server that never answers a farewell.
type mute struct{ *fake }

func (m mute) Deregister(ctx context.Context, _ string) ([]job.ID, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestFarewellIsBounded(t *testing.T) {
	w := client.NewWorker(mute{newFake()}, quietly())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("a server that does not answer held the worker for %s", took)
	}
}
