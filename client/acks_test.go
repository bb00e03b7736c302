package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

const (
	many   = `{"extensions":["batch_ack","events","next"]}`
	single = `{"extensions":["events"]}`
)

func completed(id job.ID) string {
	return `{"ok":true,"status":200,"id":"` + string(id) + `","state":"completed","completed_at":"2026-02-12T10:30:00.000Z"}`
}

func rejected(status int, code, details string) string {
	return fmt.Sprintf(`{"ok":false,"status":%d,%s`, status, refusal(code, details)[1:])
}

// What is sent and read of many ACKs, and that what no server would take is not sent.
func TestManyAcks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 12, 10, 30, 0, 0, time.UTC)
	held := strings.Replace(object(id2, `,"worker_id":"w1","visible_until":"2026-02-12T10:30:30.000Z","lease_token":"tok"`), "available", "active", 1)
	good := job.AckRequest{Claim: job.Claim{ID: id1, Token: "tok", Worker: "w1"}, Result: json.RawMessage(`{"a" : "<"}`)}
	f := job.FetchRequest{Queues: []string{"a", "b"}, Count: 2, Worker: "w1", Visibility: 30 * time.Second, Wait: time.Hour}
	against(t, func(c *client.Client) {
		acked, err := c.AckAll(t.Context(), []job.AckRequest{good, {Claim: job.Claim{ID: id2}, Result: json.RawMessage(`{`)}, {Claim: job.Claim{ID: "x"}}, {Claim: job.Claim{ID: id2}}})
		if err != nil || len(acked) != 4 || acked[0].Err != nil || !acked[0].FinishedAt.Equal(at) {
			t.Fatalf("got %+v, %v", acked, err)
		}
		var e *job.Error
		if !errors.As(acked[3].Err, &e) || e.Kind != job.Conflict || e.Details["reason"] != "lease_lost" {
			t.Errorf("got %#v", acked[3].Err)
		}
		if job.KindOf(acked[1].Err) != job.Malformed || job.KindOf(acked[2].Err) != job.NotFound {
			t.Errorf("got %v", acked)
		}
		acked, jobs, err := c.Next(t.Context(), []job.AckRequest{good}, f)
		if err != nil || len(acked) != 1 || acked[0].Err != nil || len(jobs) != 1 || jobs[0].Lease.Token != "tok" {
			t.Errorf("got %+v, %+v, %v", acked, jobs, err)
		}
		acked, jobs, err = c.Next(t.Context(), []job.AckRequest{good}, f)
		if job.KindOf(err) != job.Unavailable || err == nil || len(acked) != 1 || job.KindOf(acked[0].Err) != job.TooLarge || len(jobs) != 0 {
			t.Errorf("got %+v, %+v, %v", acked, jobs, err)
		}
		if acked, err := c.AckAll(t.Context(), []job.AckRequest{good}); job.KindOf(err) != job.Unavailable || err == nil || acked != nil {
			t.Errorf("got %+v, %v", acked, err)
		}
		if acked, err := c.AckAll(t.Context(), []job.AckRequest{good}); job.KindOf(err) != job.Internal || err == nil || acked != nil {
			t.Errorf("an answer for too few: got %+v, %v", acked, err)
		}
		if acked, jobs, err := c.Next(t.Context(), nil, job.FetchRequest{Queues: []string{"a"}}); err != nil || acked != nil || len(jobs) != 0 {
			t.Errorf("without acks: %v, %v, %v", acked, jobs, err)
		}
	}, exchange{200, many}, exchange{200, `{"results":[` + completed(id1) + `,` + rejected(409, "conflict", `{"reason":"lease_lost"}`) + `]}`},
		exchange{200, `{"results":[` + completed(id1) + `],"jobs":[` + held + `]}`},
		exchange{200, `{"results":[` + rejected(413, "invalid_payload", `{}`) + `],"status":503,` + refusal("backend_error", `{}`)[1:len(refusal("backend_error", `{}`))-1] + `,"jobs":[]}`},
		exchange{503, refusal("backend_error", `{}`)}, exchange{200, `{"results":[]}`}, exchange{200, `{"jobs":[]}`})
}

// old is a server that takes one ACK at a time, as others than Outrider do.
type old struct {
	manifest  func() exchange
	ack       func(id string) exchange
	batch     int  // the status of what it does not know
	foreign   bool // a proxy says so
	malformed bool // the body of many is none

	mu    sync.Mutex
	asked []string
}

func (o *old) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var b struct {
		ID   string          `json:"job_id"`
		Acks json.RawMessage `json:"acks"`
	}
	_ = json.Unmarshal(body, &b)
	a, what := exchange{200, `{"jobs":[]}`}, strings.TrimPrefix(r.URL.Path, "/ojs/v1/workers/")
	switch {
	case r.URL.Path == "/ojs/manifest":
		a, what = o.manifest(), "manifest"
	case what == "next" || b.Acks != nil:
		a, what = exchange{o.batch, refusal("invalid_request", `{}`)}, what+" of many"
		if o.batch == 404 {
			a.body = refusal("not_found", `{}`)
		}
		if o.foreign {
			a.body = "<html>"
		}
		if o.malformed {
			a.body = refusal("invalid_payload", `{}`)
		}
	case what == "ack":
		what += " " + b.ID[35:]
		a = exchange{200, wrapped(job.ID(b.ID), `,"completed_at":"2026-02-12T10:30:00.000Z"`)}
		if o.ack != nil {
			a = o.ack(b.ID)
		}
	}
	o.mu.Lock()
	o.asked = append(o.asked, what)
	o.mu.Unlock()
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// heard is what the server was asked since, in an order of its own where that of requests
// at the same time is nobody's.
func (o *old) heard() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.asked
	o.asked = nil
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func clientOf(t *testing.T, h http.Handler) (*client.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, server
}

// A server that does not take many ACKs at once gets them one by one, and then a FETCH:
// where its manifest says nothing of it, where it has none, and where it says so and refuses.
func TestAnOlderServerGetsOneAckAtATime(t *testing.T) {
	t.Parallel()
	acks := []job.AckRequest{{Claim: job.Claim{ID: id1}}, {Claim: job.Claim{ID: id2}}, {Claim: job.Claim{ID: id1}}}
	for name, tt := range map[string]struct {
		manifest exchange
		batch    int
		first    string
		foreign  bool
	}{
		"its manifest has other extensions": {exchange{200, single}, 400, "manifest", false},
		"its manifest has none":             {exchange{200, `{}`}, 400, "manifest", false},
		"it has no manifest":                {exchange{404, refusal("not_found", `{}`)}, 400, "manifest", false},
		"something else answers for it":     {exchange{404, `<html>`}, 400, "manifest", false},
		"it does not know the path":         {exchange{200, many}, 404, "manifest, next of many", false},
		"it does not know the method":       {exchange{200, many}, 405, "manifest, next of many", false},
		"a proxy does not know the path":    {exchange{200, many}, 404, "manifest, next of many", true},
		"a proxy does not know the method":  {exchange{200, many}, 501, "manifest, next of many", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &old{manifest: func() exchange { return tt.manifest }, batch: tt.batch, foreign: tt.foreign}
			o.ack = func(id string) exchange {
				if id == string(id2) {
					return exchange{409, refusal("conflict", `{}`)}
				}
				return exchange{200, wrapped(job.ID(id), `,"completed_at":"2026-02-12T10:30:00.000Z"`)}
			}
			c, _ := clientOf(t, o)
			const each = "ack 0, ack f, ack f"
			for i, first := range []string{each + ", fetch, " + tt.first, each + ", fetch"} { // the second time it is known
				acked, jobs, err := c.Next(t.Context(), acks, job.FetchRequest{Queues: []string{"q"}})
				if err != nil || len(jobs) != 0 || len(acked) != 3 || acked[0].Err != nil || acked[0].FinishedAt.IsZero() || job.KindOf(acked[1].Err) != job.Conflict {
					t.Errorf("got %+v, %v, %v", acked, jobs, err)
				}
				if got := o.heard(); got != first {
					t.Errorf("round %d: asked %q, want %q", i, got, first)
				}
			}
			if acked, err := c.AckAll(t.Context(), acks); err != nil || len(acked) != 3 || acked[2].Err != nil {
				t.Errorf("got %+v, %v", acked, err)
			}
			if got := o.heard(); got != each {
				t.Errorf("asked %q", got)
			}
		})
	}
}

// Many ACKs that are refused as a whole, as too large, are sent one by one, and the next
// ones together again.
func TestAcksThatAreTooManyForTheServer(t *testing.T) {
	t.Parallel()
	o := &old{manifest: func() exchange { return exchange{200, many} }, batch: 413}
	c, _ := clientOf(t, o)
	for range 2 {
		acked, err := c.AckAll(t.Context(), []job.AckRequest{{Claim: job.Claim{ID: id1}}})
		if err != nil || acked[0].Err != nil {
			t.Errorf("got %+v, %v", acked, err)
		}
	}
	if got, want := o.heard(), "ack f, ack f, ack of many, ack of many, manifest"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
	if acked, err := c.AckAll(t.Context(), make([]job.AckRequest, job.MaxAcks+1)); job.KindOf(err) != job.TooLarge || acked != nil || o.heard() != "" {
		t.Errorf("1,001 acks: %v", err)
	}
}

// An older server that came unnoticed takes many ACKs for one without a job_id: what it
// can is asked then.
func TestAcksThatTheServerDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	extensions := many
	o := &old{manifest: func() exchange { return exchange{200, extensions} }, batch: 400}
	c, _ := clientOf(t, o)
	for _, want := range []string{"ack f, ack of many, manifest", "ack f, manifest", "ack f"} {
		acked, err := c.AckAll(t.Context(), []job.AckRequest{{Claim: job.Claim{ID: id1}}})
		if err != nil || acked[0].Err != nil {
			t.Errorf("got %+v, %v", acked, err)
		}
		if got := o.heard(); got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
		extensions = single
	}
}

// What a proxy says while its server starts again does not count for longer, and a result
// that is nested too deeply for the whole does not either.
func TestWhatIsNoAnswerOfTheServerIsForgotten(t *testing.T) {
	t.Parallel()
	manifest := exchange{502, "<html>"}
	o := &old{manifest: func() exchange { return manifest }, batch: 400, malformed: true}
	c, _ := clientOf(t, o)
	for _, want := range []string{"ack f, manifest", "ack f, ack of many, manifest", "ack f, ack of many"} {
		acked, err := c.AckAll(t.Context(), []job.AckRequest{{Claim: job.Claim{ID: id1}}})
		if err != nil || acked[0].Err != nil {
			t.Errorf("got %+v, %v", acked, err)
		}
		if got := o.heard(); got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
		manifest = exchange{200, many}
	}
}

// A server in trouble is asked for nothing more behind an ACK that it did not take.
func TestNoFetchBehindTrouble(t *testing.T) {
	t.Parallel()
	o := &old{manifest: func() exchange { return exchange{200, single} }, ack: func(string) exchange { return exchange{503, refusal("backend_error", `{}`)} }}
	c, _ := clientOf(t, o)
	acked, _, err := c.Next(t.Context(), []job.AckRequest{{Claim: job.Claim{ID: id1}}}, job.FetchRequest{Queues: []string{"q"}})
	if len(acked) != 1 || job.KindOf(err) != job.Unavailable || err == nil || acked[0].Err == nil {
		t.Errorf("got %+v, %v", acked, err)
	}
	if got := o.heard(); got != "ack f, manifest" {
		t.Errorf("asked %q", got)
	}
}

// What a server can do is asked again after it was gone: it may be another one then.
func TestWhatTheServerCanIsAskedAgainWhenItWasGone(t *testing.T) {
	t.Parallel()
	extensions := single
	var down atomic.Bool
	o := &old{manifest: func() exchange { return exchange{200, extensions} }, batch: 400}
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		o.ServeHTTP(w, r)
	}))
	acks := []job.AckRequest{{Claim: job.Claim{ID: id1}}}
	ack := func(want job.Kind, asked string) {
		t.Helper()
		acked, err := c.AckAll(t.Context(), acks)
		if err == nil {
			err = acked[0].Err
		}
		if err != nil && job.KindOf(err) != want || err == nil && want != job.Internal {
			t.Errorf("got %v, want kind %d", err, want)
		}
		if got := o.heard(); got != asked {
			t.Errorf("asked %q, want %q", got, asked)
		}
	}
	const fine = job.Internal // no error
	ack(fine, "ack f, manifest")
	ack(fine, "ack f")
	down.Store(true)
	ack(job.Unavailable, "")
	ack(job.Unavailable, "") // now it asks for the manifest, without an answer
	down.Store(false)
	extensions = many
	ack(fine, "ack f, ack of many, manifest")
}

// instantly is a handler that is done at once.
func instantly(context.Context, *job.Job) error { return nil }

func jobsOf(kind string, numbers ...int) (jobs []*job.Job) {
	for _, n := range numbers {
		jobs = append(jobs, newJob(n, kind))
	}
	return jobs
}

// What is finished while a request is on its way goes together in the next one, with the
// wish for as many jobs; nothing waits for company, or behind a FETCH that waits.
func TestWorkerGathersAcks(t *testing.T) {
	t.Parallel()
	timed := func(w *client.Worker) {
		w.HandleFunc("a.b", func(_ context.Context, j *job.Job) error { // job 7 takes 7 ms
			n := 0
			_, _ = fmt.Sscanf(string(j.ID)[24:], "%d", &n)
			<-time.After(time.Duration(n) * time.Millisecond)
			return nil
		})
	}
	for name, tt := range map[string]struct {
		slots int
		jobs  []*job.Job
		want  []string
	}{
		"a lone job": {10, jobsOf("a.b", 5), []string{"ack 1 at 5ms"}},
		"a worker of one slot": {1, jobsOf("a.b", 5, 7), []string{
			"next 1 at 5ms", "next 1 at 22ms"}},
		"more slots than jobs: alone, and gathered behind the first": {10, jobsOf("a.b", 5, 6, 7, 30), []string{
			"ack 1 at 5ms", "ack 2 at 15ms", "ack 1 at 30ms"}},
		"as many jobs as slots": {3, jobsOf("a.b", 5, 6, 7), []string{
			"next 1 at 5ms", "next 2 at 15ms"}},
		"more jobs than slots": {3, jobsOf("a.b", 5, 6, 7, 2, 2, 2, 2), []string{
			"next 1 at 5ms", "next 2 at 15ms", "next 1 at 25ms", "next 2 at 35ms", "next 1 at 45ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := quietly()
			o.Concurrency = tt.slots
			begin := func() *fake {
				f := newFake(tt.jobs...)
				f.lag = 10 * time.Millisecond
				return f
			}
			bubble(t, begin, o, timed, func(f *fake, _ *running) {
				later(time.Second)
				if len(f.said()) != len(tt.jobs) {
					t.Errorf("%d jobs done of %d", len(f.said()), len(tt.jobs))
				}
				var got []string
				for _, s := range f.requests() {
					got = append(got, s.String())
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got  %q\nwant %q", got, tt.want)
				}
				if last := f.asked()[len(f.asked())-1]; last.Wait != 20*time.Second {
					t.Errorf("at the end it asks for %+v, want a FETCH that waits", last)
				}
			})
		})
	}
}

// What waits behind the acker's request when all slots are taken goes with the wish for
// the next jobs.
func TestWorkerGathersAcksBehindTheAcker(t *testing.T) {
	t.Parallel()
	o := quietly()
	o.Concurrency = 2
	begin := func() *fake {
		f := newFake(newJob(1, "a.b"))
		f.lag = 10 * time.Millisecond
		return f
	}
	handle := func(w *client.Worker) { w.HandleFunc("a.b", takes(5*time.Millisecond)) }
	bubble(t, begin, o, handle, func(f *fake, _ *running) {
		later(7 * time.Millisecond) // the first job's ACK is on its way, until 15 ms
		f.add(newJob(2, "a.b"))     // and takes the other slot, until 12 ms
		later(time.Second)
		if got, want := fmt.Sprint(f.requests()), "[ack 1 at 5ms next 1 at 15ms]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Results that are large together go in several requests.
func TestWorkerBoundsItsRequests(t *testing.T) {
	t.Parallel()
	handle := func(w *client.Worker) {
		w.Handle("a.b", func(context.Context, *job.Job) (any, error) {
			return json.RawMessage(`"` + strings.Repeat("x", 400<<10) + `"`), nil
		})
	}
	var jobs []*job.Job
	for n := range 10 {
		jobs = append(jobs, newJob(n, "a.b"))
	}
	bubble(t, func() *fake { f := newFake(jobs...); f.lag = time.Second; return f }, quietly(), handle, func(f *fake, _ *running) {
		later(time.Minute)
		if len(f.said()) != 10 {
			t.Errorf("%d jobs done", len(f.said()))
		}
		for _, s := range f.requests() {
			if s.n > 2 {
				t.Errorf("%s: more than a megabyte in one request", s)
			}
		}
	})
}

// What did not fit into one request goes in the next one, also where nothing else happens.
func TestWorkerSendsWhatDidNotFit(t *testing.T) {
	t.Parallel()
	o := quietly()
	o.Concurrency = 4
	handle := func(w *client.Worker) {
		w.Handle("a.b", func(context.Context, *job.Job) (any, error) {
			return json.RawMessage(`"` + strings.Repeat("x", 800<<10) + `"`), nil
		})
		w.HandleFunc("a.long", takes(time.Hour))
	}
	begin := func() *fake {
		f := newFake(append(jobsOf("a.b", 1, 2, 3, 4), jobsOf("a.long", 5, 6, 7, 8)...)...)
		f.lag = time.Second
		return f
	}
	bubble(t, begin, o, handle, func(f *fake, _ *running) {
		later(10 * time.Second)
		if got := verbs(f.said()); got != "ack ack ack ack " {
			t.Errorf("said %q", got)
		}
	})
}

// An attempt whose ACK has its own trouble goes its own way, and its neighbours theirs.
func TestWorkerHeedsEachVerdict(t *testing.T) {
	t.Parallel()
	o := quietly()
	o.Concurrency = 3
	begin := func() *fake {
		f := newFake(jobsOf("a.b", 1, 2, 3)...)
		f.onWord = func(w word) error {
			switch {
			case w.verb == "ack" && w.claim.Token == "t1":
				return job.Errorf(job.Conflict, "lost")
			case w.verb == "ack" && w.claim.Token == "t2":
				return job.Errorf(job.TooLarge, "too large")
			}
			return nil
		}
		return f
	}
	bubble(t, begin, o, func(w *client.Worker) { w.HandleFunc("a.b", instantly) }, func(f *fake, _ *running) {
		f.add(jobsOf("a.b", 4, 5, 6, 7)...)
		later(time.Minute)
		said := map[string]int{}
		for _, w := range f.said() {
			said[w.verb+" "+w.claim.Token]++
		}
		if said["fail t2"] != 1 || said["ack t3"] != 1 || said["ack t1"] != 0 {
			t.Errorf("said %v", said)
		}
		done := 0
		for _, w := range f.said() {
			if w.verb == "ack" {
				done++
			}
		}
		if done < 4 {
			t.Errorf("%d of the jobs behind them are done", done)
		}
	})
}

// stuck is a server that does not answer an ACK and FETCH in one before its caller gives up.
type stuck struct{ *fake }

func (s stuck) Next(ctx context.Context, acks []job.AckRequest, _ job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	s.send("next", len(acks))
	<-ctx.Done()
	return nil, nil, job.Errorf(job.Unavailable, "gone: %w", ctx.Err())
}

// hung is a server to which the first requests with ACKs get lost on the way: they have no
// answer for 30 s.
type hung struct {
	*fake
	left *atomic.Int64
}

func (h hung) hang(ctx context.Context, verb string, n int) error {
	h.send(verb, n)
	if h.left.Add(-1) < 0 {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
	}
	return job.Errorf(job.Unavailable, "no answer")
}

func (h hung) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	if err := h.hang(ctx, "ack", len(acks)); err != nil {
		return nil, err
	}
	return h.ackAll(ctx, acks)
}

func (h hung) Next(ctx context.Context, acks []job.AckRequest, f job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	if err := h.hang(ctx, "next", len(acks)); err != nil {
		return nil, nil, err
	}
	acked, err := h.ackAll(ctx, acks)
	if err != nil {
		return nil, nil, err
	}
	jobs, err := h.Fetch(ctx, f)
	return acked, jobs, err
}

// Requests that get lost keep the ACKs behind them waiting for a second, and no longer.
func TestWorkerDoesNotWaitBehindARequestThatIsLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		slots int
		lost  int64
		want  string
	}{
		"the fetcher's": {4, 1, "[next 1 at 0s ack 1 at 1s ack 1 at 3s]"},
		"the acker's":   {9, 1, "[ack 1 at 0s ack 1 at 1s ack 1 at 3s]"},
		"both":          {4, 2, "[next 1 at 0s ack 1 at 1s ack 1 at 3s]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(newJob(1, "a.now"), newJob(2, "a.half"), newJob(3, "a.three"), newJob(4, "a.long"))
				var lost atomic.Int64
				lost.Store(tt.lost)
				o := quietly()
				o.Concurrency = tt.slots
				w := client.NewWorker(hung{f, &lost}, o)
				w.HandleFunc("a.now", instantly)
				w.HandleFunc("a.half", takes(500*time.Millisecond))
				w.HandleFunc("a.three", takes(3*time.Second))
				w.HandleFunc("a.long", takes(20*time.Second))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- w.Run(ctx) }()
				time.Sleep(10 * time.Second)
				if got := fmt.Sprint(f.requests()); got != tt.want {
					t.Errorf("sent %s, want %s", got, tt.want)
				}
				time.Sleep(70 * time.Second)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if got := f.said(); len(got) != 4 {
					t.Errorf("said %+v, want all four ACKs", got)
				}
			})
		})
	}
}

// A worker that is told to stop does not wait for an answer, and its ACKs are sent on: the
// one without an answer until the grace is over.
func TestWorkerStopsWhileItsAcksAreOnTheirWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(jobsOf("a.b", 1, 2)...)
		o := quietly()
		o.Concurrency, o.Grace = 2, 10*time.Second
		w := client.NewWorker(stuck{f}, o)
		w.HandleFunc("a.b", func(_ context.Context, j *job.Job) error {
			if j.ID == newJob(2, "").ID {
				<-time.After(5 * time.Second)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Logf("Run: %v", err)
		}
		if took := time.Since(f.began); took > 20*time.Second {
			t.Errorf("it took %s to stop", took)
		}
		var got []string
		for _, s := range f.requests() {
			got = append(got, s.String())
		}
		if want := []string{"next 1 at 0s", "ack 1 at 5s"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		if said := f.said(); len(said) != 1 || said[0].claim.Token != "t2" {
			t.Errorf("said %+v, want the ack of the second job", said)
		}
	})
}

// Jobs that come with the answer to the last ACKs go back when the worker was told to stop
// meanwhile.
func TestWorkerGivesBackWhatCameWithItsLastAcks(t *testing.T) {
	t.Parallel()
	o := quietly()
	o.Concurrency = 1
	begin := func() *fake {
		f := newFake(jobsOf("a.b", 1, 2)...)
		f.lag = time.Second
		return f
	}
	bubble(t, begin, o, func(w *client.Worker) { w.HandleFunc("a.b", instantly) }, func(f *fake, r *running) {
		r.stop() // the first ACK is on its way
		if err := r.wait(); err != nil {
			t.Error(err)
		}
		if got := verbs(f.said()); got != "ack requeue " {
			t.Errorf("said %q", got)
		}
		if got := f.farewelled(); len(got) != 1 || f.said()[1].at > 2*time.Second {
			t.Errorf("%v, %+v", got, f.said())
		}
	})
}

// Many requests at the same time leave their connections open for the next ones, over TCP
// and over a Unix socket.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const atOnce = 200
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			ln, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			var opened atomic.Int64
			here := make(chan struct{}, atOnce)
			goOn := make(chan struct{}, atOnce)
			server := &httptest.Server{Listener: ln, Config: &http.Server{
				ConnState: func(_ net.Conn, s http.ConnState) {
					if s == http.StateNew {
						opened.Add(1)
					}
				},
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					here <- struct{}{}
					<-goOn
					_, _ = io.WriteString(w, wrapped(id1, ""))
				})}}
			server.Start()
			defer server.Close()
			url := server.URL
			if network == "unix" {
				url = "unix://" + address
			}
			c, err := client.New(url, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for round := range 3 {
				var asking sync.WaitGroup
				for range atOnce {
					asking.Go(func() {
						if _, err := c.Ack(t.Context(), job.Claim{ID: id1}, nil); err != nil {
							t.Error(err)
						}
					})
				}
				for range atOnce { // all of them are on their way
					<-here
				}
				for range atOnce {
					goOn <- struct{}{}
				}
				asking.Wait()
				if n := opened.Load(); n != atOnce {
					t.Fatalf("round %d: %d connections were opened for %d requests at once", round, n, atOnce)
				}
			}
		})
	}
}
