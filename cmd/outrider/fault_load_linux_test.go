package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// patience is how long a request, a start or a stop may take before it counts as
// hanging. A machine that is busy needs a tenth of it.
const patience = 20 * time.Second

// faulty is a server on a disk with a fault, and what it has answered. Unlike a
// killed one it may refuse, so who asks goes on until the process has ended.
type faulty struct {
	*ledger
	cmd    *exec.Cmd
	db     string
	log    string
	stdout *lines
	over   chan struct{} // closed when the process has ended

	acks    atomic.Int64 // answers of success to what was to be written
	refused atomic.Int64 // answers of another kind
	hung    atomic.Int64 // requests without an answer
	slowest atomic.Int64 // answer, in ns
	from    atomic.Int64 // when late begins to count, in unix ns; 0 is never
	late    atomic.Int64 // acknowledged requests that were sent after from
	lastAck atomic.Int64 // when the last of them was answered, in unix ns
}

// newFaulty prepares a server on a database. Its start is the caller's.
func newFaulty(t *testing.T, db string, args ...string) *faulty {
	t.Helper()
	f := &faulty{ledger: newLedger(-1), db: db, log: filepath.Join(t.TempDir(), "log"), stdout: newLines(), over: make(chan struct{})}
	t.Cleanup(func() { f.ledger = nil }) // the last one: a test that is over keeps what it had to clean up, and there are thousands
	f.cmd = exec.Command(os.Args[0], append([]string{"serve", "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s"}, args...)...)
	f.cmd.Env = append(bare(), asProgram)
	log, err := os.Create(f.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	f.cmd.Stdout, f.cmd.Stderr = f.stdout, log
	return f
}

// watch waits for the end of the process, which must have been started.
func (f *faulty) watch(t *testing.T) {
	go func() {
		defer close(f.over)
		_ = f.cmd.Wait() // the code is asked for
		f.stdout.Close()
	}()
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-f.over
	})
}

// ready is where the server listens, empty if it has ended instead.
func (f *faulty) ready(t *testing.T) string {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, open := <-f.stdout.ch:
			if !open {
				<-f.over
				return ""
			}
			if after, ok := strings.CutPrefix(line, "outrider: listening on "); ok {
				go f.stdout.rest()
				url, _, _ := strings.Cut(after, " ")
				return url
			}
		case <-limit:
			t.Errorf("a start hangs:\n%s", f.words())
			return ""
		}
	}
}

// words is what the server has logged.
func (f *faulty) words() string {
	b, _ := os.ReadFile(f.log)
	return string(b)
}

// complaints are its warnings and errors, but for those of jobs.
func (f *faulty) complaints() (lines []string) {
	for line := range strings.Lines(f.words()) {
		trouble := strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "error: ")
		if trouble && !strings.Contains(line, "a job has failed for good") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// told reports whether the log holds a complaint.
func (f *faulty) told() bool { return len(f.complaints()) > 0 }

// gone reports whether the process has ended.
func (f *faulty) gone() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// load is producers and workers until stop is called.
func (f *faulty) load(t *testing.T, url string, bytes int) (stop func()) {
	t.Helper()
	c, err := client.New(url, client.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() { f.pushes(ctx, c, n, bytes) })
		wg.Go(func() { f.works(ctx, c) })
	}
	return sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		c.Close()
	})
}

// ask sends one request and keeps how it went. It reports whether the answer was
// a success, and whether there is more to ask for.
func (f *faulty) ask(ctx context.Context, writes bool, send func() error) (ok, more bool) {
	sent := time.Now()
	err := send()
	if d := int64(time.Since(sent)); d > f.slowest.Load() {
		f.slowest.Store(d)
	}
	switch {
	case err == nil && writes:
		f.acks.Add(1)
		f.lastAck.Store(time.Now().UnixNano())
		if from := f.from.Load(); from != 0 && sent.UnixNano() > from {
			f.late.Add(1)
		}
	case err == nil:
	case ctx.Err() != nil || f.gone():
		return false, false
	case errors.Is(err, context.DeadlineExceeded):
		f.hung.Add(1)
	default:
		f.refused.Add(1)
		time.Sleep(5 * time.Millisecond)
	}
	return err == nil, ctx.Err() == nil
}

// pushes pushes batches of one to four jobs of all sizes up to so many bytes.
func (f *faulty) pushes(ctx context.Context, s job.Service, n, size int) {
	for more := true; more; {
		es := make([]job.Envelope, 1+rand.IntN(4))
		for k := range es {
			pad := strings.Repeat("x", rand.IntN(size)>>(2*rand.IntN(4)))
			es[k] = job.Envelope{ID: job.ID(uuid.Must(uuid.NewV7()).String()), Type: "a.b", Queue: "q", Args: json.RawMessage(fmt.Sprintf(`[%d, "%s",%d.0]`, n, pad, k))}
			switch rand.IntN(6) {
			case 0:
				es[k].Delay = time.Hour
			case 1:
				es[k].Hold = true
			case 2:
				es[k].Priority = rand.IntN(10)
			}
		}
		f.mu.Lock()
		f.batches = append(f.batches, es)
		f.mu.Unlock()
		var rs []job.Receipt
		var ok bool
		ok, more = f.ask(ctx, true, func() (err error) {
			rs, err = s.Enqueue(context.WithoutCancel(ctx), es...)
			return err
		})
		if ok {
			f.note(func() {
				for k, r := range rs {
					f.pushed[r.ID] = es[k]
				}
			})
		}
	}
}

// works fetches jobs and ends two of three in some way.
func (f *faulty) works(ctx context.Context, s job.Service) {
	for more := true; more; {
		var jobs []*job.Job
		if _, more = f.ask(ctx, false, func() (err error) {
			jobs, err = s.Fetch(context.WithoutCancel(ctx), job.FetchRequest{Queues: []string{"q"}, Count: 3, Visibility: time.Hour, Wait: 50 * time.Millisecond})
			return err
		}); len(jobs) > 0 {
			f.note(func() {
				for _, j := range jobs {
					f.held[j.ID] = j
				}
			})
		}
		for _, j := range jobs {
			if rand.IntN(3) == 0 || !more {
				continue
			}
			f.mu.Lock()
			f.doubt[j.ID] = true
			f.mu.Unlock()
			var done *job.Job
			var ok bool
			ok, more = f.ask(ctx, true, func() (err error) {
				done, err = end(context.WithoutCancel(ctx), s, j)
				return err
			})
			if ok {
				f.note(func() {
					delete(f.doubt, j.ID)
					delete(f.held, j.ID)
					f.ended[j.ID] = done
				})
			}
		}
	}
}

// stop asks the process to end, and gives its code; -1 if it had to be killed.
func (f *faulty) stop(t *testing.T) int {
	t.Helper()
	_ = f.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-f.over:
	case <-time.After(patience):
		t.Errorf("a stop hangs:\n%s", f.words())
		_ = f.cmd.Process.Kill()
		<-f.over
	}
	return f.cmd.ProcessState.ExitCode()
}

// lost compares a database with what was answered. A server is started on it,
// without a fault. It answers what is wrong, in words.
func (f *faulty) lost(t *testing.T) (wrong []string) {
	t.Helper()
	say := func(format string, args ...any) {
		if len(wrong) < 10 {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	again := newFaulty(t, f.db)
	if err := again.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	again.watch(t)
	url := again.ready(t)
	if url == "" {
		say("the next server does not start: %s", again.words())
		return wrong
	}
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		jobs, err := c.Fetch(t.Context(), job.FetchRequest{Queues: []string{"q"}, Count: 20, Visibility: time.Hour})
		if err != nil {
			say("no job can be fetched: %v", err)
			break
		}
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			if f.ended[j.ID] != nil || f.held[j.ID] != nil && !f.doubt[j.ID] || j.Attempt != 1 {
				say("%s is given out again in attempt %d", j.ID, j.Attempt)
			}
		}
	}
	if code := again.stop(t); code != exitOK {
		say("the next server ends with %d: %s", code, again.words())
	}
	f.compare(t, say)
	return wrong
}

// stored reads the jobs that were asked for from a database that nobody has open.
func (f *faulty) stored(t *testing.T, say func(string, ...any)) map[job.ID]*job.Job {
	t.Helper()
	there := map[job.ID]*job.Job{}
	s, err := sqlitestore.Open(t.Context(), f.db, sqlitestore.Options{})
	if err != nil {
		say("the database cannot be opened: %v", err)
		return there
	}
	defer s.Close()
	for _, batch := range f.batches {
		if err := s.View(t.Context(), func(tx job.ReadTx) error {
			found := 0
			for _, e := range batch {
				if j, err := tx.Job(e.ID); err == nil {
					there[e.ID] = j
					found++
				} else if job.KindOf(err) != job.NotFound {
					return err
				}
			}
			if found != 0 && found != len(batch) {
				say("%d jobs of a batch of %d are there", found, len(batch))
			}
			return nil
		}); err != nil {
			say("a batch cannot be read: %v", err)
		}
	}
	return there
}

// compare says what is not as it was answered.
func (f *faulty) compare(t *testing.T, say func(string, ...any)) {
	t.Helper()
	there := f.stored(t, say)
	show := func(j *job.Job) string { return string(j.AppendJSON(nil, job.View{})) }
	missing := 0
	for id, e := range f.pushed {
		if j := there[id]; j == nil {
			missing++
		} else if !bytes.Equal(j.Args, e.Args) || j.Type != e.Type {
			say("%s was acknowledged with other arguments", id)
		}
	}
	if missing > 0 {
		say("%d of %d acknowledged jobs are lost", missing, len(f.pushed))
	}
	changed := slices.DeleteFunc(slices.Collect(maps.Keys(f.ended)), func(id job.ID) bool { return there[id] != nil && show(there[id]) == show(f.ended[id]) })
	if len(changed) > 0 {
		say("%d of %d ended jobs are not as they were answered, the first was %s, and is %s", len(changed), len(f.ended), f.ended[changed[0]].State, short(there[changed[0]]))
	}
	for id, was := range f.held {
		if j := there[id]; !f.doubt[id] && (j == nil || j.State != job.Active || j.Attempt != was.Attempt || !j.Lease.Until.Equal(was.Lease.Until)) {
			say("%s was given out, and is %s", id, short(j))
		}
	}
}

// short is a job in a few words.
func short(j *job.Job) string {
	if j == nil {
		return "not there"
	}
	return fmt.Sprintf("%s in attempt %d", j.State, j.Attempt)
}
