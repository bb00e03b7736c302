//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// TestAPauseOfTheServerRobsNobody: a server stands still for longer than its
// reservations are, and less than a suspend. What its workers said meanwhile is
// in its socket, and counts (ojs-retry.md §9.3).
func TestAPauseOfTheServerRobsNobody(t *testing.T) {
	const workers, reservation, every = 12, 2 * time.Second, 300 * time.Millisecond
	addr := freePort(t)
	server := keep(t, "server", "serve", "--listen", addr, "--db", filepath.Join(t.TempDir(), "jobs.db"))
	up(t, server, "http://"+addr)
	c := clientOf(t, "http://"+addr)
	done := make(chan struct{})
	var held []*job.Job
	var beating sync.WaitGroup
	for n := range workers {
		if _, err := c.Enqueue(t.Context(), job.Envelope{Type: "a.b", Args: []byte(`[]`)}); err != nil {
			t.Fatal(err)
		}
		f := job.FetchRequest{Queues: []string{job.DefaultQueue}, Worker: fmt.Sprint("w", n), Visibility: reservation}
		jobs, err := c.Fetch(t.Context(), f)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("fetch: %v, %v", jobs, err)
		}
		held = append(held, jobs[0])
		beating.Go(func() { beatOn(t, c, f.Worker, jobs[0], every, done) })
	}
	time.Sleep(2 * every)
	send(t, server, syscall.SIGSTOP)
	time.Sleep(5 * time.Second)
	send(t, server, syscall.SIGCONT)
	time.Sleep(reservation + every)
	close(done)
	beating.Wait()
	for _, j := range held {
		done, err := c.Ack(t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, nil)
		if err != nil || done.Attempt != 1 || done.Errors != nil {
			t.Errorf("the job of %s: %v, %+v", j.Lease.Worker, err, done)
		}
	}
}

// beatOn is a worker that does nothing but live.
func beatOn(t *testing.T, c *client.Client, worker string, j *job.Job, every time.Duration, done <-chan struct{}) {
	for {
		b := job.Beat{Worker: job.WorkerInfo{ID: worker}, Jobs: []job.Claim{{ID: j.ID, Token: j.Lease.Token}}}
		if _, err := c.Beat(t.Context(), b); err != nil {
			t.Errorf("the beat of %s: %v", worker, err)
		}
		select {
		case <-done:
			return
		case <-time.After(every):
		}
	}
}
