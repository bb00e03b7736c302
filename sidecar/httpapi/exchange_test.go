package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// listen serves f over TCP. The server is closed after the connections that dial opened.
func listen(t *testing.T, f *fake) *httptest.Server {
	srv := httptest.NewServer(New(f, quiet()))
	t.Cleanup(srv.Close)
	return srv
}

// dial opens a connection to a server and sends text as it stands.
func dial(t *testing.T, srv *httptest.Server, text string) (*bufio.Reader, net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(c), c
}

func read1(t *testing.T, from *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return resp
}

// A body that says it is too large is refused although none of it has come.
func TestTooLargeIsAnsweredUnread(t *testing.T) {
	f := world()
	srv := listen(t, f)
	for path, length := range map[string]string{
		pushPath:  "1048577",
		batchPath: "33554433",
		fetchPath: "1048577",
		ackPath:   "4194305", // it may be of many
		nextPath:  "4194305",
		nackPath:  "1114113",
		beatPath:  "99999999999",
		"/ojs/v1/jobs/" + string(idOne) + "/cancel": "65537",
	} {
		from, _ := dial(t, srv, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+length+"\r\n\r\n")
		resp := read1(t, from)
		e := failureOf(t, resp.Body)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || e.Code != "invalid_payload" || e.Details["size"] == nil || e.Details["limit"] == nil {
			t.Errorf("POST %s with %s bytes: %d %+v", path, length, resp.StatusCode, e)
		}
		if !resp.Close {
			t.Errorf("POST %s: the connection is kept, with the body still to come", path)
		}
	}
	if n := f.calls.Load(); n != 0 {
		t.Errorf("the service was called %d times", n)
	}
}

// endless is a body without an end that counts what is read of it.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.n += int64(len(p))
	return len(p), nil
}

// Without a Content-Length reading stops right behind the limit.
func TestTooLargeChunked(t *testing.T) {
	for path, limit := range map[string]int64{pushPath: job.MaxJobBytes, batchPath: wire.MaxBatchBytes, ackPath: wire.MaxAcksBytes, nackPath: wire.MaxEndBytes, nextPath: wire.MaxAcksBytes} {
		f, e := world(), &endless{}
		r := httptest.NewRequest("POST", path, e)
		r.Host = "localhost"
		w := httptest.NewRecorder()
		New(f, quiet()).ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || f.calls.Load() != 0 {
			t.Errorf("POST %s: got %d, %d calls", path, w.Code, f.calls.Load())
		}
		if e.n != limit+1 {
			t.Errorf("POST %s: read %d bytes, limit is %d", path, e.n, limit)
		}
	}
}

// The largest body that is allowed is taken, with and without a length.
func TestLargestBody(t *testing.T) {
	empty := `{"type":"a.b","args":[""]}`
	body := strings.Replace(empty, `""`, `"`+strings.Repeat("x", job.MaxJobBytes-len(empty))+`"`, 1)
	for _, r := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
		req := httptest.NewRequest("POST", pushPath, r)
		req.Host = "localhost"
		w := httptest.NewRecorder()
		New(world(), quiet()).ServeHTTP(w, req)
		if w.Code != http.StatusCreated {
			t.Errorf("got %d %.200s", w.Code, w.Body)
		}
	}
}

// A body that ends before its length is no job.
func TestBodyBreaksOff(t *testing.T) {
	f := world()
	srv := listen(t, f)
	whole := `{"type":"a.b","args":[]}`
	from, c := dial(t, srv, "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"+whole)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp := read1(t, from)
	if resp.StatusCode != http.StatusBadRequest || failureOf(t, resp.Body).Code != "invalid_payload" || f.calls.Load() != 0 {
		t.Errorf("got %d, %d calls", resp.StatusCode, f.calls.Load())
	}
}

// So is one that a server other than net/http hands over cut short.
func TestBodyShorterThanItSays(t *testing.T) {
	f := world()
	r := httptest.NewRequest("POST", pushPath, strings.NewReader(`{"type":"a.b","args":[]}`))
	r.Host, r.ContentLength = "localhost", 100
	w := httptest.NewRecorder()
	New(f, quiet()).ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || failureOf(t, w.Body).Code != "invalid_payload" || f.calls.Load() != 0 {
		t.Errorf("got %d, %d calls", w.Code, f.calls.Load())
	}
}

func TestRawRequests(t *testing.T) {
	srv := listen(t, world())
	for _, tt := range []struct {
		text string
		want int
	}{
		{"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
		{"GET http://localhost/live HTTP/1.1\r\nHost: evil.com\r\n\r\n", 200}, // RFC 9112 §3.2.2: the form of the line wins
		{"GET http://evil.com/live HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
		{"GET /live HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
		{"GET /live HTTP/1.1\r\nHost:\r\n\r\n", 403},
		{"GET /live HTTP/1.0\r\n\r\n", 403},
		{"ASSERT / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		{"ASSERT /live HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
		{"GET /ojs/v1/jobs/%2e%2e%2fx HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		{"GET /ojs/v1//jobs HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		{"GET /ojs/v1/queues/ma%69l HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
		{"GET /ojs/v1/queues/mail%2Fx/stats HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
	} {
		from, _ := dial(t, srv, tt.text)
		if resp := read1(t, from); resp.StatusCode != tt.want {
			t.Errorf("%q: got %d, want %d", tt.text, resp.StatusCode, tt.want)
		}
	}
}

// HEAD answers as GET does, without the body.
func TestHead(t *testing.T) {
	h := New(world(), quiet())
	n := 0
	for _, route := range routes(h) {
		if route.Method != http.MethodHead {
			continue
		}
		n++
		get, head := serve(h, "GET", concrete(route.Path), ""), serve(h, "HEAD", concrete(route.Path), "")
		want := 200
		if slices.ContainsFunc(Routes(), func(r Route) bool { return r.Stream && r.Path == route.Path }) {
			want = 503 // there are none any more
		}
		if route.Path == "/ojs/v1/ws" {
			want = 400 // it is no WebSocket
		}
		if head.Body.Len() != 0 || head.Code != get.Code || get.Code != want {
			t.Errorf("HEAD %s: %d with %d bytes, GET %d", route.Path, head.Code, head.Body.Len(), get.Code)
		}
		for k := range get.Header() {
			if head.Header().Get(k) != get.Header().Get(k) {
				t.Errorf("HEAD %s: %s is %q, for GET %q", route.Path, k, head.Header().Get(k), get.Header().Get(k))
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d routes know HEAD", n)
	}
}

// A unix socket serves whatever name the client thinks it has.
func TestOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: New(world(), quiet())}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	resp, err := client.Get("http://outrider/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 {
		t.Errorf("got %d", resp.StatusCode)
	}
	client.CloseIdleConnections()
}
