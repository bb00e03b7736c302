package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// drained lets a server with one active job drain in fake time. It returns how
// long that took and what was logged; during runs beside it.
func drained(t *testing.T, grace time.Duration, during func(context.Context, *server, *job.Job)) (took time.Duration, logged string) {
	path := tempDB(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var log strings.Builder
		s := &server{side: sidecar.New(store, sidecar.Options{}), log: slog.New(slog.NewTextHandler(&log, nil))}
		if _, err := s.side.Enqueue(t.Context(), job.Envelope{Type: "a.b", Args: []byte("[]")}); err != nil {
			t.Fatal(err)
		}
		jobs, err := s.side.Fetch(t.Context(), job.FetchRequest{Queues: []string{job.DefaultQueue}})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("fetch: got %v, %v", jobs, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		beside := make(chan struct{})
		go func() {
			defer close(beside)
			during(ctx, s, jobs[0])
		}()
		began := time.Now()
		s.drain(grace)
		took = time.Since(began)
		cancel()
		<-beside
		logged = log.String()
	})
	return took, logged
}

func TestDrainEndsWithTheLastActiveJob(t *testing.T) {
	took, log := drained(t, time.Minute, func(ctx context.Context, s *server, j *job.Job) {
		<-time.After(6 * time.Second)
		if _, err := s.side.Ack(ctx, job.Claim{ID: j.ID, Token: j.Lease.Token}, nil); err != nil {
			t.Error(err)
		}
	})
	if took < 6*time.Second || took > 6200*time.Millisecond {
		t.Errorf("took %v", took)
	}
	if n := strings.Count(log, "draining: 1 active"); n != 2 {
		t.Errorf("told %d times of the draining, want at once and after 5 s:\n%s", n, log)
	}
}

func TestDrainWaitsForWorkersThatSpeakUntilTheGraceIsOver(t *testing.T) {
	took, log := drained(t, 30*time.Second, func(ctx context.Context, s *server, _ *job.Job) {
		for beat := time.NewTicker(5 * time.Second); ctx.Err() == nil; {
			select {
			case <-beat.C:
				s.traffic.WorkerSpoke()
			case <-ctx.Done():
			}
		}
	})
	if took != 30*time.Second || !strings.Contains(log, "the grace period is over") {
		t.Errorf("took %v:\n%s", took, log)
	}
}

func TestDrainWaitsForNoWorkerThatIsGone(t *testing.T) {
	took, log := drained(t, 30*time.Second, func(context.Context, *server, *job.Job) {})
	if took < silence || took > silence+200*time.Millisecond || !strings.Contains(log, "no worker has spoken") {
		t.Errorf("took %v:\n%s", took, log)
	}
}

func TestDrainWithoutGraceDoesNotWait(t *testing.T) {
	if took, _ := drained(t, 0, func(context.Context, *server, *job.Job) {}); took > 0 {
		t.Errorf("took %v", took)
	}
}
