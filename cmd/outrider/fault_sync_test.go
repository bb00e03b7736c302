//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// startFaulty starts the program so that calls of the system on one file fail, as
// an inject expression of strace says.
func startFaulty(t *testing.T, file, inject string, args ...string) *process {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("skipped: strace, which makes calls of the system fail, is not here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// With -D the program is the child of this process, so that its end and its code are its own.
	calls, _, _ := strings.Cut(inject, ":")
	return begin(t, strace, append([]string{"-D", "-f", "-qqq", "--seccomp-bpf", "-o", os.DevNull, "-P", file, "-e", "trace=" + calls, "-e", "inject=" + inject, "--", self}, args...)...)
}

// press pushes, works and fills the log until the server is gone, and goes on
// asking one that refuses. over says that the server has said that it acknowledges
// nothing more.
func (l *ledger) press(t *testing.T, url string, over *atomic.Bool) {
	s, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() { l.produce(t.Context(), s, n) })
		wg.Go(func() { l.work(t.Context(), s) })
		wg.Go(func() { l.fill(t, s, over) })
	}
	wg.Wait()
}

// fill pushes large jobs until nobody listens.
func (l *ledger) fill(t *testing.T, s job.Service, over *atomic.Bool) {
	for {
		es := make([]job.Envelope, 1+rand.IntN(15))
		for k := range es {
			id := uuid.Must(uuid.NewV7()).String()
			es[k] = job.Envelope{ID: job.ID(id), Type: "a.large", Queue: "large", Args: json.RawMessage(`["` + strings.Repeat(id, 1+rand.IntN(6000)) + `"]`)}
		}
		l.mu.Lock()
		l.batches = append(l.batches, slices.Clone(es))
		l.mu.Unlock()
		late := over.Load()
		rs, err := s.Enqueue(t.Context(), es...)
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, context.Canceled) {
			return
		}
		if err != nil {
			continue
		}
		if late {
			t.Errorf("%d jobs were acknowledged after the server had said that nothing more is", len(rs))
		}
		l.note(func() {
			for k, r := range rs {
				l.pushed[r.ID] = es[k]
			}
		})
	}
}

// TestNothingIsAcknowledgedAfterAFailedFlush: whatever flush, or write of what the
// log holds into the database, fails under load: the server says so once,
// acknowledges nothing more and ends with a code of its own, and the next one has
// all that was acknowledged. OUTRIDER_FAULTS=all runs every row; the race detector
// makes those wait that need a load for which the log is moved.
func TestNothingIsAcknowledgedAfterAFailedFlush(t *testing.T) {
	t.Parallel()
	cases := 3
	switch {
	case os.Getenv("OUTRIDER_FAULTS") == "all":
		cases = 8
	case raced:
		cases = 1
	}
	for _, tt := range []struct{ name, suffix, inject string }{
		{"one flush of the log", "-wal", "fsync,fdatasync:error=EIO:when=50"},
		{"every flush of the database", "", "fsync,fdatasync:error=EIO"},
		{"a write of the database", "", "pwrite64:error=EIO:when=300"},
		{"one flush of the database", "", "fsync,fdatasync:error=EIO:when=2"},
		{"no room at a flush of the database", "", "fsync,fdatasync:error=ENOSPC:when=1"},
		{"the cut of the database's length", "", "ftruncate:error=EIO"},
		{"a write of the log", "-wal", "pwrite64:error=EIO:when=5000"},
		{"no room at a flush of the log", "-wal", "fsync,fdatasync:error=ENOSPC:when=70+"},
	}[:cases] {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := tempDB(t)
			serve := []string{"serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s"}
			makeStore(t, serve)
			p := startFaulty(t, db+tt.suffix, tt.inject, serve...)
			url := readyURL(t, p.stdout)
			l := newLedger(0)
			p.underPressure(t, url, l, "nothing more is written or acknowledged", nil)
			l.judgeNext(t, serve)
		})
	}
}

// makeStore runs a server for a moment, so that what fails later is not the making of its store.
func makeStore(t *testing.T, serve []string) {
	t.Helper()
	p := startProcess(t, serve...)
	readyURL(t, p.stdout)
	p.signal(t)
	p.end(t, 20*time.Second)
}

// underPressure loads a server until it ends by its own fault, and makes sure that
// it says so once, with these words, acknowledges nothing more, and ends with the
// code for it. do is done once some jobs are in.
func (p *process) underPressure(t *testing.T, url string, l *ledger, words string, do func()) {
	t.Helper()
	var over atomic.Bool
	var told int
	var log []string
	heard, ended := make(chan struct{}), make(chan int)
	go func() {
		defer close(heard)
		for line := range p.stderr.ch {
			log = append(log, line)
			if strings.Contains(line, "level=ERROR") {
				over.Store(true)
				healthOf(t, url)
			}
			if strings.Contains(line, words) && strings.Contains(line, "level=ERROR") {
				told++
			}
		}
	}()
	if do != nil {
		go func() {
			<-l.enough
			do()
		}()
	}
	go func() { ended <- p.end(t, 2*time.Minute) }()
	l.press(t, url, &over)
	code := <-ended
	<-heard
	if code != exitStore || told != 1 {
		t.Errorf("exit %d, and it was told %d times; want %d and once. The log:\n%s", code, told, exitStore, strings.Join(log, "\n"))
	}
	t.Logf("%d answers, %d jobs", l.answers, len(l.pushed))
}

// judgeNext starts the server again, without the fault, and compares.
func (l *ledger) judgeNext(t *testing.T, serve []string) {
	t.Helper()
	p := startProcess(t, serve...)
	s, err := client.New(readyURL(t, p.stdout), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l.judge(t, s)
	p.signal(t)
	if code := p.end(t, 20*time.Second); code != exitOK {
		t.Errorf("the next one ended with %d", code)
	}
}

// TestAFailedFlushAtTheEnd: a server that is stopped, and cannot flush what it
// moves into the database then, does not call that a good end.
func TestAFailedFlushAtTheEnd(t *testing.T) {
	t.Parallel()
	db := tempDB(t)
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s"}
	makeStore(t, serve)
	p := startFaulty(t, db, "fsync,fdatasync:error=EIO:when=1", serve...)
	url := readyURL(t, p.stdout)
	var ids []string
	for range 20 {
		id := uuid.Must(uuid.NewV7()).String()
		if status, body := ask(t, http.DefaultClient, "POST", url+pathPush, `{"id":"`+id+`","type":"a.b","args":[]}`); status != 201 {
			t.Fatalf("push: %d %s", status, body)
		}
		ids = append(ids, id)
	}
	p.signal(t)
	p.stderr.until(t, "nothing more is written or acknowledged")
	if code := p.end(t, 20*time.Second); code != exitStore {
		t.Errorf("exit %d, want %d", code, exitStore)
	}
	p = startProcess(t, serve...)
	url = readyURL(t, p.stdout)
	for _, id := range ids {
		if status, _ := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/jobs/"+id, ""); status != 200 {
			t.Errorf("job %s: %d", id, status)
		}
	}
}

// TestALogThatIsLostUnderLoad: whoever takes the log away from a running server,
// or its index, loses no job that was acknowledged.
func TestALogThatIsLostUnderLoad(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"-wal", "-shm"} {
		t.Run(suffix, func(t *testing.T) {
			t.Parallel()
			db := tempDB(t)
			serve := []string{"serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s"}
			p := startProcess(t, serve...)
			l := newLedger(100 + rand.IntN(300))
			p.underPressure(t, readyURL(t, p.stdout), l, suffix+" was removed or replaced while it was in use", func() {
				if err := os.Remove(db + suffix); err != nil {
					t.Error(err)
				}
			})
			l.judgeNext(t, serve)
		})
	}
}

// healthOf is what the server says of itself, if it can still be reached: nothing good.
func healthOf(t *testing.T, url string) {
	c := http.Client{Timeout: 5 * time.Second}
	resp, err := c.Get(url + "/ojs/v1/health")
	if err != nil {
		return // it has ended
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the health of a server that cannot flush is %d", resp.StatusCode)
	}
}
