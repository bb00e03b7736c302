package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	id1 = job.ID("019539a4-b68c-7def-8000-1a2b3c4d5e6f")
	id2 = job.ID("019539a4-b68c-7def-8000-1a2b3c4d5e70")
)

// exchange is a canned answer; the request is in the golden file.
type exchange struct {
	status int
	body   string
}

// script is a server that gives its answers in order and writes down what it was asked.
type script struct {
	t       *testing.T
	answers []exchange
	log     strings.Builder
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(&s.log, "%s %s\n", r.Method, r.URL.RequestURI())
	if len(body) > 0 {
		fmt.Fprintf(&s.log, "%s\n%s\n", r.Header.Get("Content-Type"), body)
	}
	s.log.WriteByte('\n')
	if len(s.answers) == 0 {
		s.t.Errorf("one request too many: %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// against runs fn with a client of the script, and compares what was asked with
// testdata/<name of the test>.txt.
func against(t *testing.T, fn func(*client.Client), answers ...exchange) {
	t.Helper()
	s := &script{t: t, answers: answers}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fn(c)
	if len(s.answers) > 0 {
		t.Errorf("%d requests too few", len(s.answers))
	}
	golden(t, s.log.String())
}

func golden(t *testing.T, got string) {
	t.Helper()
	file := filepath.Join("testdata", strings.ReplaceAll(t.Name(), "/", "_")+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

func wrapped(id job.ID, more string) string {
	return `{"job":` + object(id, more) + `,"id":"` + string(id) + `"}`
}

func object(id job.ID, more string) string {
	return `{"specversion":"1.0.0-rc.1","id":"` + string(id) + `","type":"mail.send","queue":"default","args":[1],"meta":{},"priority":0,` +
		`"state":"available","attempt":0,"max_attempts":3,"created_at":"2026-02-12T10:30:00.000Z"` + more + `}`
}

func refusal(code, details string) string {
	return `{"error":{"code":"` + code + `","message":"no","retryable":false,"details":` + details + `}}`
}

func mail(id job.ID) job.Envelope {
	return job.Envelope{ID: id, Type: "mail.send", Args: json.RawMessage(`[1]`)}
}

func TestWorkerVerbs(t *testing.T) {
	t.Parallel()
	claim := job.Claim{ID: id1, Token: "tok", Worker: "w1"}
	after, final := 1500*time.Millisecond, false
	at := time.Date(2026, 2, 12, 10, 30, 0, 0, time.UTC)
	held := strings.Replace(object(id1, `,"worker_id":"w1","visible_until":"2026-02-12T10:30:30.000Z","lease_token":"tok"`), "available", "active", 1)
	against(t, func(c *client.Client) {
		jobs, err := c.Fetch(t.Context(), job.FetchRequest{Queues: []string{"a", "b"}, Count: 2, Worker: "w1", Visibility: 30 * time.Second, Wait: time.Hour})
		if err != nil || len(jobs) != 1 || jobs[0].Lease != (job.Lease{Token: "tok", Worker: "w1", Until: at.Add(30 * time.Second)}) {
			t.Errorf("Fetch: got %+v, %v", jobs, err)
		}
		if jobs, err := c.Fetch(t.Context(), job.FetchRequest{Queues: []string{"a"}}); err != nil || len(jobs) != 0 {
			t.Errorf("Fetch of nothing: got %+v, %v", jobs, err)
		}
		if j, err := c.Ack(t.Context(), claim, json.RawMessage(`{"a" : "<"}`)); err != nil || j.ID != id1 {
			t.Errorf("Ack: got %+v, %v", j, err)
		}
		f := job.Failure{Type: "x.y", Message: "m", Code: "c", Retryable: &final, Details: json.RawMessage(`{"d": 1}`), Backtrace: []string{"f"}, RetryAfter: &after}
		if j, err := c.Fail(t.Context(), claim, f); err != nil || !j.Dead {
			t.Errorf("Fail: got %+v, %v", j, err)
		}
		if _, err := c.Fail(t.Context(), claim, job.Failure{Requeue: true}); err != nil {
			t.Errorf("Fail with Requeue: %v", err)
		}
		reply, err := c.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w1", Hostname: "h", PID: 7, Queues: []string{"a"}, Concurrency: 3,
			Labels: map[string]string{"b": "2", "a": "1"}, Version: "v", State: "running", StartedAt: at}, Jobs: []job.Claim{claim, {ID: id2}}})
		want := job.BeatReply{Directive: "quiet", Extended: []job.ID{id1}, Lost: []job.ID{id2}, Time: at}
		if err != nil || fmt.Sprint(reply) != fmt.Sprint(want) {
			t.Errorf("Beat: got %+v, %v", reply, err)
		}
	}, exchange{status: 200, body: `{"jobs":[` + held + `]}`}, exchange{status: 200, body: `{"jobs":[]}`},
		exchange{status: 200, body: wrapped(id1, "")}, exchange{status: 200, body: `{"dead_letter":true,` + wrapped(id1, "")[1:]},
		exchange{status: 200, body: wrapped(id1, "")},
		exchange{status: 200, body: `{"acknowledged":true,"state":"quiet","jobs_extended":["` + string(id1) + `"],"lost_jobs":["` + string(id2) + `"],"server_time":"2026-02-12T10:30:00.000Z"}`})
}

func TestWhatIsNoJSONIsNotSent(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		if _, err := c.Ack(t.Context(), job.Claim{ID: id1}, json.RawMessage(`{`)); job.KindOf(err) != job.Malformed {
			t.Errorf("Ack: got %v", err)
		}
		if _, err := c.Fail(t.Context(), job.Claim{ID: id1}, job.Failure{Details: json.RawMessage(`{`)}); job.KindOf(err) != job.Malformed {
			t.Errorf("Fail: got %v", err)
		}
		for _, id := range []job.ID{"", "..", "a/b"} {
			if _, err := c.Job(t.Context(), id); job.KindOf(err) != job.NotFound {
				t.Errorf("Job(%q): got %v", id, err)
			}
		}
		if _, err := c.Queue(t.Context(), ".."); job.KindOf(err) != job.NotFound {
			t.Errorf("Queue: got %v", err)
		}
	})
}

func TestOperatorVerbs(t *testing.T) {
	t.Parallel()
	changed := `{"previous_state":"pending",` + wrapped(id1, "")[1:]
	against(t, func(c *client.Client) {
		if ch, err := c.Cancel(t.Context(), id1, "me", "why"); err != nil || ch.Previous != job.Pending || ch.ID != id1 {
			t.Errorf("Cancel: got %+v, %v", ch, err)
		}
		_, e1 := c.Cancel(t.Context(), id1, "", "")
		_, e2 := c.Activate(t.Context(), id1)
		_, e3 := c.Revive(t.Context(), id1)
		e4 := c.DeleteDead(t.Context(), id1)
		if err := errors.Join(e1, e2, e3, e4); err != nil {
			t.Error(err)
		}
		if j, err := c.Job(t.Context(), id1); err != nil || j.ID != id1 {
			t.Errorf("Job: got %+v, %v", j, err)
		}
		if q, err := c.Queue(t.Context(), "a b"); err != nil || q.Name != "q" || q.Counts[job.Active] != 2 || q.Dead != 4 || !q.Paused {
			t.Errorf("Queue: got %+v, %v", q, err)
		}
		s, err := c.DeadStats(t.Context())
		if err != nil || s.Total != 2 || s.ByErrorType["E"] != 2 || s.Oldest.IsZero() {
			t.Errorf("DeadStats: got %+v, %v", s, err)
		}
	}, exchange{status: 200, body: changed}, exchange{status: 200, body: changed}, exchange{status: 200, body: changed},
		exchange{status: 200, body: changed}, exchange{status: 200, body: `{"deleted":true}`}, exchange{status: 200, body: wrapped(id1, "")},
		exchange{status: 200, body: `{"queue":{"name":"q","paused":true,"active":2,"discarded":5,"dead_letter":4}}`},
		exchange{status: 200, body: `{"total":2,"by_queue":{"q":2},"by_type":{},"by_error_type":{"E":2},"oldest_at":"2026-02-12T10:30:00.000Z"}`})
}

func TestLists(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 2, 12, 10, 30, 0, 0, time.FixedZone("", 3600))
	page := func(next string, jobs ...string) exchange {
		return exchange{status: 200, body: `{"jobs":[` + strings.Join(jobs, ",") + `],"pagination":{"total":7,"next_cursor":"` + next + `"}}`}
	}
	event := `{"id":"evt_0197f0a0-0000-7000-8000-00000000002a","type":"job.started","time":"2026-02-12T10:30:00.000Z",` +
		`"data":{"job_id":"` + string(id1) + `","job_type":"a.b","queue":"q","worker_id":"w1","attempt":1}}`
	against(t, func(c *client.Client) {
		p, err := c.Jobs(t.Context(), job.Filter{States: []job.State{job.Active, job.Pending}, Queue: "q", Type: "mail.*", Since: since, Limit: 300, Offset: 5})
		if err != nil || len(p.Jobs) != 2 || p.Total != 7 || p.Next != "" {
			t.Errorf("Jobs: got %+v, %v", p, err)
		}
		p, err = c.Jobs(t.Context(), job.Filter{Dead: true, ErrorType: "E", Limit: 1})
		if err != nil || len(p.Jobs) != 1 || !p.Jobs[0].Dead || p.Jobs[0].Extra != nil || p.Next != "c3" {
			t.Errorf("dead Jobs: got %+v, %v", p, err)
		}
		qs, err := c.Queues(t.Context())
		if err != nil || len(qs) != 3 || qs[1].Name != "b" || qs[2].Name != "c" {
			t.Errorf("Queues: got %+v, %v", qs, err)
		}
		es, err := c.Events(t.Context(), job.EventFilter{Types: []string{"job.*", "x"}, JobID: id1, After: 41, Limit: 5000})
		if err != nil || len(es) != 1 || es[0].Seq != 42 || es[0].JobID != id1 || es[0].JobType != "a.b" || es[0].Queue != "q" ||
			string(es[0].Data) != `{"worker_id":"w1","attempt":1}` {
			t.Errorf("Events: got %+v, %v", es, err)
		}
	}, page("c2", object(id1, "")), page("", object(id2, "")), page("c3", object(id1, `,"total_attempts":3`)),
		exchange{status: 200, body: `{"queues":[{"name":"a"}],"pagination":{"has_more":true}}`},
		exchange{status: 200, body: `{"queues":[{"name":"b"}],"pagination":{"has_more":true,"next_cursor":"b"}}`},
		exchange{status: 200, body: `{"queues":[{"name":"c"}],"pagination":{"has_more":false}}`},
		exchange{status: 200, body: `{"events":[` + event + `]}`})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		h, err := c.Health(t.Context())
		want := job.Health{OK: true, Backend: "sqlite", Latency: 2 * time.Millisecond, Uptime: time.Minute, Queues: 3, Paused: 1, Workers: 2, StaleNow: 1}
		if err != nil || h != want {
			t.Errorf("got %+v, %v", h, err)
		}
		if h, err := c.Health(t.Context()); err != nil || h.OK || h.Problem == "" {
			t.Errorf("unhealthy: got %+v, %v", h, err)
		}
		if _, err := c.Health(t.Context()); job.KindOf(err) != job.Forbidden {
			t.Errorf("forbidden: got %v", err)
		}
	}, exchange{status: 200, body: `{"status":"ok","uptime_seconds":60,"backend":{"type":"sqlite","latency_ms":2},"queues":{"total":3,"active":2,"paused":1},"workers":{"total":2,"stale":1}}`},
		exchange{status: 503, body: `{"status":"unhealthy","backend":{}}`}, exchange{status: 403, body: refusal("permission_denied", "{}")})
}

func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		for range 4 {
			if _, err := c.Job(t.Context(), id1); err == nil || job.KindOf(err) != job.Internal {
				t.Errorf("got %v, want Internal", err)
			}
		}
		if _, err := c.Job(t.Context(), id1); job.KindOf(err) != job.Unavailable {
			t.Errorf("a gateway's page: got %v", err)
		}
		if _, err := c.Job(t.Context(), id1); err == nil {
			t.Error("a redirect was followed")
		}
	}, exchange{status: 200, body: `<html>`}, exchange{status: 200, body: `{}`}, exchange{status: 200, body: `{"job":[]}`},
		exchange{status: 200, body: `{"job":{"id":1}}`}, exchange{status: 502, body: `<html>`}, exchange{status: 302, body: ``})
}

func TestNewRefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "localhost:7373", "ftp://h", "http://", "unix://", "unix://host/p", "http://u:secret@h", "http://h?q=secret", "http://h:port",
		"http://u:12/secret@h", "http://u:12#secret@h", "http://u:se@secret@h/x", "http://u:%zsecret@h", "unix://u:12@/secret", "http://u:secret", "ftp://u:12/secret@h"} {
		if _, err := client.New(bad, client.Options{}); job.KindOf(err) != job.Invalid || err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q): got %v", bad, err)
		}
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := "http://" + l.Addr().String()
	_ = l.Close() // now nobody listens there
	c, err := client.New(addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Job(t.Context(), id1)
	if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), `is "outrider serve" running?`) {
		t.Errorf("got %v", err)
	}
}

func TestOverAUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: &script{t: t, answers: []exchange{{status: 200, body: wrapped(id1, "")}}}}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	c, err := client.New("unix://"+path, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if j, err := c.Job(t.Context(), id1); err != nil || j.ID != id1 {
		t.Errorf("got %+v, %v", j, err)
	}
}

func TestTheCallersContextAndTheTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	c, err := client.New(server.URL, client.Options{Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Job(t.Context(), id1); job.KindOf(err) != job.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timeout: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Job(ctx, id1); job.KindOf(err) != job.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestAConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Job(t.Context(), id1); job.KindOf(err) != job.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
}

func TestImplementation(t *testing.T) {
	body := `{"implementation":{"name":"outrider","version":"v1.2.3"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ojs/manifest" {
			t.Errorf("asked %s", r.URL.Path)
		}
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if name, version, err := c.Implementation(t.Context()); name != "outrider" || version != "v1.2.3" || err != nil {
		t.Errorf("got %q %q %v", name, version, err)
	}
	body = `no manifest`
	if _, _, err := c.Implementation(t.Context()); job.KindOf(err) != job.Unavailable {
		t.Errorf("a manifest that cannot be read: %v", err)
	}
}
