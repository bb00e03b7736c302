//go:build unix

package handwork

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// world is a job server in this process, on a real database.
type world struct {
	*sidecar.Sidecar
	marker string // in the environment of all that its workers start
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{sidecar.New(store, sidecar.Options{}), "HANDWORK_TEST=" + strconv.FormatUint(rand.Uint64(), 36)}
	ctx, cancel := context.WithCancel(context.Background())
	var duties sync.WaitGroup
	duties.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		duties.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// push stores a job.
func (w *world) push(t *testing.T, e job.Envelope) job.ID {
	t.Helper()
	if e.Args == nil {
		e.Args = json.RawMessage("[]")
	}
	rs, err := w.Enqueue(t.Context(), e)
	if err != nil {
		t.Fatalf("%s: %v", e.Type, err)
	}
	return rs[0].ID
}

// await waits until a job is in a state that ok takes.
func (w *world) await(t *testing.T, id job.ID, ok func(*job.Job) bool) *job.Job {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		j, err := w.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if ok(j) {
			return j
		}
		if time.Now().After(deadline) {
			t.Fatalf("job %s of type %s is %s after %v: %s", id, j.Type, j.State, patience, j.Error)
		}
	}
}

func tried(j *job.Job) bool { return j.State != job.Available && j.State != job.Active }

// said is what a worker prints.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// work starts a worker; stop ends it, and is called at the end of the test if not before.
func (w *world) work(t *testing.T, o Options) (lines *said, stop func() Tally) {
	t.Helper()
	lines = &said{}
	o.Lines, o.News, o.Log = lines, lines, slog.New(slog.DiscardHandler)
	if o.Environ == nil {
		o.Environ = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	o.Environ = append(o.Environ, w.marker)
	ctx, cancel := context.WithCancel(context.Background())
	var n Tally
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = Run(ctx, w, o)
	}()
	stop = func() Tally {
		cancel()
		<-done
		if err != nil {
			t.Errorf("Run: %v\n%s", err, lines)
		}
		return n
	}
	t.Cleanup(func() { stop() })
	return lines, stop
}

// execs are mappings of commands.
func execs(t *testing.T, texts ...string) Mappings {
	t.Helper()
	var ms Mappings
	for _, text := range texts {
		m, err := ParseExec(text)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

// member is what an error of a job says under a name.
func member(j *job.Job, name string) string {
	var all map[string]any
	_ = json.Unmarshal(j.Error, &all)
	s, _ := all[name].(string)
	return s
}

func contains(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: got %q, want %q in it", what, text, part)
	}
}
