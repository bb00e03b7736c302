//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// flock is workers that do nothing but live, each with a job of its own, and one
// that is dead.
type flock struct {
	c     *client.Client
	held  []*job.Job
	dead  *job.Job
	done  chan struct{}
	beats sync.WaitGroup
}

// beatingOn makes so many workers, each with a reservation of that length, which
// beat so often.
func beatingOn(t *testing.T, url string, workers int, reservation, every time.Duration) *flock {
	t.Helper()
	f := &flock{c: clientOf(t, url), done: make(chan struct{})}
	take := func(worker string) *job.Job {
		if _, err := f.c.Enqueue(t.Context(), job.Envelope{Type: "a.b", Args: []byte(`[]`)}); err != nil {
			t.Fatal(err)
		}
		jobs, err := f.c.Fetch(t.Context(), job.FetchRequest{Queues: []string{job.DefaultQueue}, Worker: worker, Visibility: reservation})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("fetch: %v, %v", jobs, err)
		}
		return jobs[0]
	}
	for n := range workers {
		name := fmt.Sprint("w", n)
		j := take(name)
		f.held = append(f.held, j)
		f.beats.Go(func() { beatOn(t, f.c, name, j, every, f.done) })
	}
	f.dead = take("dead")
	return f
}

// judge fails for each who lost his job, and unless the dead one does so in time.
func (f *flock) judge(t *testing.T, within time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		j, err := f.c.Job(t.Context(), f.dead.ID)
		if err == nil && j.State == job.Available {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the job of the dead worker is still its own: %+v, %v", j, err)
			break
		}
	}
	close(f.done)
	f.beats.Wait()
	for _, j := range f.held {
		done, err := f.c.Ack(t.Context(), job.Claim{ID: j.ID, Token: j.Lease.Token}, nil)
		if err != nil || done.Attempt != 1 || done.Errors != nil {
			t.Errorf("the job of %s: %v, %+v", j.Lease.Worker, err, done)
		}
	}
}

// TestAPauseOfTheServerRobsNobody: a server stands still for longer than its
// reservations are, and less than a suspend. What its workers said meanwhile is
// in its socket, and counts (ojs-retry.md §9.3).
func TestAPauseOfTheServerRobsNobody(t *testing.T) {
	for _, v := range []struct{ reservation, every, pause time.Duration }{
		{2 * time.Second, 300 * time.Millisecond, 5 * time.Second},
		{2 * time.Second, 300 * time.Millisecond, 2500 * time.Millisecond},
		{2 * time.Second, 1700 * time.Millisecond, 3500 * time.Millisecond},
		{2 * time.Second, 1900 * time.Millisecond, 4500 * time.Millisecond},
		{2 * time.Second, time.Second, 2500 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(v.pause, " ", v.every), func(t *testing.T) {
			t.Parallel()
			addr := freePort(t)
			server := keep(t, "server", "serve", "--listen", addr, "--db", filepath.Join(t.TempDir(), "jobs.db"))
			up(t, server, "http://"+addr)
			f := beatingOn(t, "http://"+addr, 12, v.reservation, v.every)
			time.Sleep(v.every + time.Duration(rand.Int64N(int64(v.every))))
			send(t, server, syscall.SIGSTOP)
			time.Sleep(v.pause)
			send(t, server, syscall.SIGCONT)
			time.Sleep(v.reservation + v.every)
			f.judge(t, 20*time.Second)
		})
	}
}

// TestAPauseOfTheServerCutsNobodyShort: a client opens a connection before it has
// something to say, as a pool does, and speaks while the server stands still. The
// time for a head has passed when the server goes on, and the request counts.
func TestAPauseOfTheServerCutsNobodyShort(t *testing.T) {
	t.Parallel()
	addr := freePort(t)
	server := keep(t, "server", "serve", "--listen", addr, "--db", filepath.Join(t.TempDir(), "jobs.db"))
	up(t, server, "http://"+addr)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.Sleep(500 * time.Millisecond) // it is taken, and its time runs
	send(t, server, syscall.SIGSTOP)
	if _, err := io.WriteString(c, "GET /ojs/manifest HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5500 * time.Millisecond)
	send(t, server, syscall.SIGCONT)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Body.Close(); r.StatusCode != http.StatusOK {
		t.Errorf("answered %s", r.Status)
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
