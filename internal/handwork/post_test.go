//go:build unix

package handwork

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// TestHowAnAnswerIsTaken is the table of docs/work.md.
func TestHowAnAnswerIsTaken(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	answers := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	asking := func(status int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(status)
		}
	}
	var redirected sync.Map
	cases := []struct {
		name    string
		handler http.HandlerFunc
		state   job.State
		want    string // the result, or the type of the error
		says    string // in the message of the error
		after   string // of the next attempt, in whole hours
	}{
		{"200", answers(200, ""), job.Completed, "", "", ""},
		{"JSON", answers(201, " {\"a\": 1}\n"), job.Completed, `{"a": 1}`, "", ""},
		{"text", answers(202, "ok\r\n"), job.Completed, `"ok"`, "", ""},
		{"204", answers(204, ""), job.Completed, "", "", ""},
		{"a huge body", answers(200, strings.Repeat("x", 10<<20)), job.Completed, `"` + strings.Repeat("x", maxResult) + `… (cut by the worker: more than 65536 bytes)"`, "", ""},
		{"a body without end", func(w http.ResponseWriter, r *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}, job.Completed, `"` + strings.Repeat(`\u0000`, maxResult) + `… (cut by the worker: more than 65536 bytes)"`, "", ""},
		{"no UTF-8", answers(200, "a\xff"), job.Completed, "\"a\uFFFD\"", "", ""},

		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				redirected.Store("yes", true)
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, job.Retryable, "http_307", "redirect (307), which is not followed", "1"},
		{"a permanent redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
		}, job.Retryable, "http_301", "redirect (301)", "1"},
		{"another protocol", func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
				_ = c.Close()
			}
		}, job.Retryable, "http_101", "101", "1"},
		{"400", answers(400, "\n no such\x1b[31m user \nmore"), job.Discarded, "http_400", "the answer was 400 Bad Request: no such [31m user", ""},
		{"401", answers(401, ""), job.Discarded, "http_401", "401 Unauthorized", ""},
		{"404", answers(404, strings.Repeat("y", 1<<20)), job.Discarded, "http_404", "yyy…", ""},
		{"422", answers(422, "{}"), job.Discarded, "http_422", "", ""},
		{"408", answers(408, ""), job.Retryable, "http_408", "", "1"},
		{"425", answers(425, ""), job.Retryable, "http_425", "", "1"},
		{"429", answers(429, ""), job.Retryable, "http_429", "", "1"},
		{"429 and seconds", asking(429, "7200"), job.Retryable, "http_429", "", "2"},
		{"503 and seconds", asking(503, "10800"), job.Retryable, "http_503", "", "3"},
		{"503 and a date", asking(503, time.Now().Add(2*time.Hour+time.Minute).UTC().Format(http.TimeFormat)), job.Retryable, "http_503", "", "2"},
		{"503 and a date that has passed", asking(503, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)), job.Retryable, "http_503", "", "1"},
		{"503 and at once", asking(503, "0"), job.Retryable, "http_503", "", "1"},
		{"503 and years", asking(503, "999999999999"), job.Retryable, "http_503", "", "5"},
		{"503 and nonsense", asking(503, "-5"), job.Retryable, "http_503", "", "1"},
		{"400 and seconds", asking(400, "60"), job.Discarded, "http_400", "", ""},
		{"500", answers(500, "boom"), job.Retryable, "http_500", "500 Internal Server Error: boom", "1"},
		{"599", answers(599, ""), job.Retryable, "http_599", "the answer was 599", "1"},
		{"a cut answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		}, job.Retryable, "http_unanswered", "no whole answer came", "1"},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, job.Retryable, "http_unanswered", "", "1"},
		{"no answer in time", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-released:
			}
		}, job.Retryable, "timeout", "", ""},
	}
	var mux http.ServeMux
	for i, c := range cases {
		mux.Handle(fmt.Sprintf("POST /%d", i), c.handler)
	}
	mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { redirected.Store("yes", true) })
	server := httptest.NewServer(&mux)
	defer server.Close()
	defer close(released)
	closed := httptest.NewServer(nil)
	closed.Close()
	w := newWorld(t)
	var ms Mappings
	ids := make([]job.ID, len(cases))
	policy := json.RawMessage(`{"max_attempts":3,"initial_interval":"PT1H","max_interval":"PT5H","jitter":false}`)
	for i, c := range cases {
		e := job.Envelope{Type: fmt.Sprintf("t.case%d", i), Retry: policy}
		if c.want == "timeout" {
			e.Timeout = time.Second
		}
		ids[i] = w.push(t, e)
		ms = append(ms, Mapping{Pattern: e.Type, URL: fmt.Sprintf("%s/%d", server.URL, i)})
	}
	ms = append(ms, Mapping{Pattern: "t.refused", URL: closed.URL})
	refused := w.push(t, job.Envelope{Type: "t.refused", Retry: policy})
	w.work(t, Options{Mappings: ms})
	for i, c := range cases {
		j := w.await(t, ids[i], tried)
		if j.State != c.state {
			t.Errorf("%s: is %s, want %s: %s", c.name, j.State, c.state, j.Error)
			continue
		}
		if c.state == job.Completed {
			if got := string(j.Result); got != c.want {
				t.Errorf("%s: result %.200q, want %.200q", c.name, got, c.want)
			}
			continue
		}
		if got := member(j, "type"); got != c.want {
			t.Errorf("%s: error type %q, want %q", c.name, got, c.want)
		}
		contains(t, c.name, member(j, "message"), c.says)
		if len(j.Error) > 12<<10 {
			t.Errorf("%s: an error of %d bytes is kept", c.name, len(j.Error))
		}
		if strings.Contains(string(j.Error), server.URL) {
			t.Errorf("%s: the error shows the URL: %s", c.name, j.Error)
		}
		if got := strconv.Itoa(int(j.RetryDelay.Hours())); c.after != "" && got != c.after {
			t.Errorf("%s: the next attempt is in %v, want %s h", c.name, j.RetryDelay, c.after)
		}
	}
	if j := w.await(t, refused, tried); j.State != job.Retryable || member(j, "type") != "http_unreachable" || !strings.HasPrefix(member(j, "message"), "no connection: ") {
		t.Errorf("a refused connection: %s", j.Error)
	}
	if _, yes := redirected.Load("yes"); yes {
		t.Error("a redirect was followed")
	}
}

func TestAHostThatIsNotFoundIsNamed(t *testing.T) {
	t.Parallel()
	cause := &url.Error{Op: "Post", URL: "http://shop.example/secret", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Name: "shop.example", IsNotFound: true}}}
	var f *failed
	if err := unanswered(t.Context(), cause); !errors.As(err, &f) || f.kind != "http_unreachable" || err.Error() != "the host shop.example cannot be found" {
		t.Errorf("got %v", err)
	}
}

// TestRequestsAreSigned: the receiver is written as docs/work.md says.
func TestRequestsAreSigned(t *testing.T) {
	t.Parallel()
	secret := []byte("s3cret ÿ")
	type seen struct {
		header http.Header
		body   []byte
	}
	got := make(chan seen, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, body}
	}))
	defer server.Close()
	w := newWorld(t)
	id := w.push(t, job.Envelope{Type: "mail.send", Args: json.RawMessage(`[{"a":1.0}]`), Meta: json.RawMessage(`{"k":"v"}`)})
	began := time.Now()
	w.work(t, Options{Mappings: Mappings{{Pattern: "mail.*", URL: server.URL}}, Secret: job.Secret(secret)})
	s := <-got

	mac := hmac.New(sha256.New, secret)
	mac.Write(s.body)
	want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	if sign := s.header.Get("X-OJS-Signature"); !hmac.Equal([]byte(want), []byte(sign)) {
		t.Errorf("the signature is %q, want %q", sign, want)
	}
	var j struct {
		ID, Type, Queue, State, LeaseToken string
		Args, Meta                         json.RawMessage
		Attempt                            int
		Started                            time.Time `json:"started_at"`
	}
	if err := json.Unmarshal(s.body, &j); err != nil {
		t.Fatal(err)
	}
	if j.ID != string(id) || j.Type != "mail.send" || j.Queue != "default" || j.State != "active" || string(j.Args) != `[{"a":1.0}]` || string(j.Meta) != `{"k":"v"}` || j.Attempt != 1 {
		t.Errorf("the body is %s", s.body)
	}
	if j.Started.Before(began.Add(-time.Minute)) {
		t.Errorf("started_at is %v", j.Started)
	}
	if strings.Contains(string(s.body), "token") {
		t.Errorf("the body shows the reservation: %s", s.body)
	}
	for name, want := range map[string]string{"X-OJS-Job-ID": string(id), "X-OJS-Job-Type": "mail.send", "X-OJS-Attempt": "1", "Content-Type": "application/json"} {
		if got := s.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	at, err := strconv.ParseInt(s.header.Get("X-OJS-Timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		t.Errorf("X-OJS-Timestamp: %d %v", at, err)
	}
	page, err := os.ReadFile("../../docs/work.md")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "docs/work.md", string(page), `want := "sha256=" + hex.EncodeToString(mac.Sum(nil))`)
}
