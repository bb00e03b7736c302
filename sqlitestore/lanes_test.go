package sqlitestore

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// A crowd of readers of all there is holds up neither who reads by a key nor who
// writes: few of them run at once, and the others wait for their turn.
func TestScansLeaveTheOthersAlone(t *testing.T) {
	s := opened(t)
	j := storetest.New(t, "q", nil)
	add := func(j *job.Job) error {
		return s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) })
	}
	if err := add(j); err != nil {
		t.Fatal(err)
	}
	const crowd = 24
	var running, most atomic.Int64
	hold, sit := make(chan struct{}), make(chan struct{}, crowd)
	s.scans.began = func() {
		most.Store(max(most.Load(), running.Add(1)))
		sit <- struct{}{}
		<-hold
		running.Add(-1)
	}
	s.scans.wait = time.Minute
	var readers sync.WaitGroup
	for i := range crowd {
		readers.Go(func() {
			if err := s.View(t.Context(), func(tx job.ReadTx) (err error) {
				switch i % 4 {
				case 0:
					_, err = tx.Events(job.EventFilter{Types: []string{"none.such"}, Limit: 100})
				case 1:
					_, err = tx.Jobs(job.Filter{Type: "none", Limit: 10})
				case 2:
					_, err = tx.DeadStats()
				case 3:
					_, err = tx.Workers()
				}
				return err
			}); err != nil {
				t.Errorf("a scan: %v", err)
			}
		})
	}
	for range scans() {
		<-sit
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 { // each would wait for a connection
		if err := s.View(ctx, func(tx job.ReadTx) error { _, err := tx.Job(j.ID); return err }); err != nil {
			t.Errorf("a read by key: %v", err)
		}
		if err := s.View(ctx, func(tx job.ReadTx) error { _, err := tx.Worker("w"); return err }); job.KindOf(err) != job.NotFound {
			t.Errorf("a read of a worker: %v", err)
		}
		if err := add(storetest.New(t, "q", nil)); err != nil {
			t.Errorf("a write: %v", err)
		}
	}
	if len(sit) != 0 {
		t.Errorf("%d scans more have begun", len(sit))
	}
	close(hold)
	readers.Wait()
	if n := most.Load(); n != int64(scans()) {
		t.Errorf("%d scans ran at once, want %d", n, scans())
	}
}

// Who waits too long for a turn, or scans for too long, is told to come again;
// a caller that leaves is told that it left.
func TestScansAreBounded(t *testing.T) {
	s := opened(t)
	events := func(ctx context.Context) error {
		return s.View(ctx, func(tx job.ReadTx) error {
			_, err := tx.Events(job.EventFilter{Limit: 100})
			return err
		})
	}
	s.scans.most = time.Nanosecond
	if err := events(t.Context()); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "ask for less") {
		t.Errorf("a scan that takes too long: %v", err)
	}
	s.scans.most, s.scans.wait = time.Minute, time.Millisecond
	for range scans() {
		s.scans.turns <- struct{}{}
	}
	if err := events(t.Context()); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "ask again later") {
		t.Errorf("a scan whose turn does not come: %v", err)
	}
	s.scans.wait = time.Minute
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := events(gone); job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "left") {
		t.Errorf("a caller that has left: %v", err)
	}
	for range scans() {
		<-s.scans.turns
	}
	if err := events(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
