package sidecar_test

import (
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sidecar"
)

// A worker that is silent for long enough may be forgotten, and what it holds goes back
// untouched. A moment before it may not, and neither may one that has beaten again.
func TestAStaleWorkerIsForgotten(t *testing.T) {
	now := storetest.Now
	s := sidecar.New(openStore(t), sidecar.Options{Now: func() time.Time { return now }, Silence: time.Minute})
	ctx := t.Context()
	beat := func() {
		t.Helper()
		if _, err := s.Beat(ctx, job.Beat{Worker: job.WorkerInfo{ID: "w"}}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want job.Kind) {
		t.Helper()
		if _, err := s.ForgetWorker(ctx, "w"); err == nil || job.KindOf(err) != want {
			t.Errorf("%v", err)
		}
	}
	beat()
	if _, err := s.Enqueue(ctx, job.Envelope{Type: "a.b", Args: []byte(`[]`)}); err != nil {
		t.Fatal(err)
	}
	held, err := s.Fetch(ctx, job.FetchRequest{Queues: []string{"default"}, Worker: "w"})
	if err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	now = now.Add(time.Minute - time.Millisecond)
	refused(job.Conflict)
	beat()
	now = now.Add(time.Minute - time.Millisecond)
	refused(job.Conflict)
	now = now.Add(time.Millisecond)
	released, err := s.ForgetWorker(ctx, "w")
	if err != nil || !slices.Equal(released, []job.ID{held[0].ID}) {
		t.Fatal(released, err)
	}
	if j, err := s.Job(ctx, held[0].ID); err != nil || j.State != job.Available || j.Attempt != 1 || j.Errors != nil {
		t.Errorf("%+v, %v", j, err)
	}
	refused(job.NotFound)
	if ws, err := s.Workers(ctx); err != nil || len(ws) != 0 {
		t.Errorf("%+v, %v", ws, err)
	}
}
