package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// world is a job server with webhooks, and their receiver.
type world struct {
	t     *testing.T
	path  string
	store *sqlitestore.Store
	side  *sidecar.Sidecar
	*Webhooks
	allowed Allowed
	log     *logged
	stop    func()

	mu     sync.Mutex
	got    []arrival
	now    map[string]int // deliveries at this moment, by their id
	answer func(arrival) (int, http.Header, error)
}

// arrival is a request as the receiver has it.
type arrival struct {
	at               time.Time
	url, id, hook    string
	kind, event, job string
	signature        string
	header           http.Header
	body             []byte
	ctx              context.Context
}

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func everywhere(t *testing.T) Allowed {
	t.Helper()
	a, err := ParseAllowed("public", "receiver.test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// newWorld opens a server whose receiver answers 200, and runs it.
func newWorld(t *testing.T) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "o.db"), allowed: everywhere(t), log: &logged{}, now: map[string]int{}}
	w.start()
	return w
}

func (w *world) start() {
	w.t.Helper()
	store, err := sqlitestore.Open(context.Background(), w.path, sqlitestore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store, w.side = store, sidecar.New(store, sidecar.Options{})
	w.Webhooks = New(w.side, Options{Allowed: w.allowed, Do: w.receive, Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		if err := store.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// restart ends the server in good order and starts it again.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// receive is the receiver.
func (w *world) receive(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	var e struct {
		ID      string `json:"id"`
		Subject string `json:"subject"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		w.t.Errorf("body %s: %v", body, err)
	}
	h := func(name string) string { return strings.Join(r.Header[name], "|") }
	a := arrival{at: time.Now(), url: r.URL.String(), id: h("X-OJS-Delivery-ID"), hook: h("X-OJS-Subscription-ID"), kind: h("X-OJS-Event-Type"), event: e.ID, job: e.Subject,
		signature: h("X-OJS-Signature"), header: r.Header, body: body, ctx: r.Context()}
	w.mu.Lock()
	w.got = append(w.got, a)
	if w.now[a.id]++; w.now[a.id] > 1 {
		w.t.Errorf("%s is delivered twice at once", a.id)
	}
	answer := w.answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now[a.id]--
	}()
	status, header, err := http.StatusOK, http.Header{}, error(nil)
	if answer != nil {
		status, header, err = answer(a)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("thanks"))}, nil
}

func (w *world) answers(fn func(arrival) (int, http.Header, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = fn
}

func status(code int) func(arrival) (int, http.Header, error) {
	return func(arrival) (int, http.Header, error) { return code, nil, nil }
}

// hang answers when the caller has left.
func hang(a arrival) (int, http.Header, error) {
	<-a.ctx.Done()
	return 0, nil, a.ctx.Err()
}

// arrivals are the requests so far.
func (w *world) arrivals() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]arrival(nil), w.got...)
}

func (w *world) hook(events ...string) job.Webhook {
	w.t.Helper()
	return w.hookWith(job.WebhookSpec{URL: "http://receiver.test/hook", Events: events})
}

func (w *world) hookWith(spec job.WebhookSpec) job.Webhook {
	w.t.Helper()
	h, err := w.CreateWebhook(w.t.Context(), spec, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// push enqueues jobs, each with a job.enqueued, and returns their ids.
func (w *world) push(n int, jobType, queue string) (ids []string) {
	w.t.Helper()
	for range n {
		r, err := w.side.Enqueue(w.t.Context(), job.Envelope{Type: jobType, Queue: queue, Args: json.RawMessage("[]")})
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, string(r[0].ID))
	}
	return ids
}

// state is the webhook as it is stored.
func (w *world) state(id string) job.Webhook {
	w.t.Helper()
	h, err := w.read(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (a arrival) String() string { return fmt.Sprint(a.kind, " ", a.job) }

// openQuietly has the store open without webhooks.
func (w *world) openQuietly(fn func()) {
	w.t.Helper()
	store, err := sqlitestore.Open(context.Background(), w.path, sqlitestore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store, w.side = store, sidecar.New(store, sidecar.Options{})
	fn()
	if err := store.Close(); err != nil {
		w.t.Fatal(err)
	}
}
