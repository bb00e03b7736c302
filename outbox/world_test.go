package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// world is an app's database with an outbox, and a job server that only counts.
type world struct {
	t       testing.TB
	path    string
	app     *sql.DB // as an app opens it
	relayDB *sql.DB // as the adapter says
	d       outbox.Dialect
	server  *server
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := emptyWorld(t, "WAL")
	if err := outbox.Init(t.Context(), w.app, w.d); err != nil {
		t.Fatal(err)
	}
	return w
}

// emptyWorld has a database without an outbox.
func emptyWorld(t testing.TB, mode string) *world {
	t.Helper()
	d, err := sqlite.Dialect("")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, path: filepath.Join(t.TempDir(), "shop.db"), d: d, server: newServer()}
	w.app = w.open("file:" + w.path + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(" + mode + ")&_txlock=immediate")
	w.relayDB = w.open(sqlite.DSN(w.path))
	return w
}

func (w *world) open(dsn string) *sql.DB {
	w.t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			w.t.Error(err)
		}
	})
	if err := db.Ping(); err != nil {
		w.t.Fatal(err)
	}
	return db
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.app.Exec(query, args...); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}

// mail inserts n rows as an app without a library does, in one transaction.
func (w *world) mail(n int) {
	w.t.Helper()
	tx, err := w.app.Begin()
	if err != nil {
		w.t.Fatal(err)
	}
	defer tx.Rollback()
	for i := range n {
		if _, err := tx.Exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', ?)`, fmt.Sprintf(`["ada@example.com",%d]`, i)); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

// count is how many rows have a status.
func (w *world) count(status string) (n int) {
	w.t.Helper()
	if err := w.app.QueryRow(`SELECT count(*) FROM ojs_outbox WHERE status = ?`, status).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) text(query string, args ...any) (s string) {
	w.t.Helper()
	if err := w.app.QueryRow(query, args...).Scan(&s); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return s
}

func (w *world) relay(o outbox.RelayOptions) *outbox.Relay {
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Owner == "" {
		o.Owner = "the job server" // one, however many relays it has
	}
	if o.Keep == 0 {
		o.Keep = time.Hour // what was sent is counted
	}
	return outbox.NewRelay(w.relayDB, w.d, w.server, o)
}

// drain steps until nothing is left.
func (w *world) drain(r *outbox.Relay) {
	w.t.Helper()
	for {
		n, err := r.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// run runs a relay until the function that it returns is called.
func run(t testing.TB, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// server takes jobs as job.Enqueuer says: all or none, an id once.
type server struct {
	job.Enqueuer
	mu      sync.Mutex
	refuse  func(calls int, es []job.Envelope) error // asked first; may be nil
	calls   int
	order   []job.ID
	jobs    map[job.ID]job.Envelope
	resends int
	came    chan int // told how many are new, if somebody listens
}

func newServer() *server { return &server{jobs: map[job.ID]job.Envelope{}} }

func (s *server) EnqueueChecked(_ context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	es := make([]job.Envelope, len(cs))
	for i, c := range cs {
		es[i] = c.Envelope()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.refuse != nil {
		if err := s.refuse(s.calls, es); err != nil {
			return nil, err
		}
	}
	receipts := make([]job.Receipt, len(es))
	for i, e := range es {
		if old, ok := s.jobs[e.ID]; ok && (old.Type != e.Type || string(old.Args) != string(e.Args)) {
			err := job.Errorf(job.Duplicate, "id %s is taken by another job", e.ID)
			err.Details = map[string]any{"index": i}
			return nil, err
		}
	}
	added := 0
	for i, e := range es {
		_, old := s.jobs[e.ID]
		receipts[i] = job.Receipt{Job: &job.Job{Envelope: e}, Existing: old}
		if old {
			s.resends++
			continue
		}
		added++
		s.jobs[e.ID] = e
		s.order = append(s.order, e.ID)
	}
	if s.came != nil && added > 0 {
		s.came <- added
	}
	return receipts, nil
}

func (s *server) sizes() (jobs, resends, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs), s.resends, s.calls
}

// args are the args of all jobs in the order of their coming.
func (s *server) args() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, len(s.order))
	for i, id := range s.order {
		out[i] = string(s.jobs[id].Args)
	}
	return out
}

// journal collects what is logged.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(p))
	return len(p), nil
}

func (j *journal) log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}
