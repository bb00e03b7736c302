package netguard

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFramingModel: requests that are right are all answered, however they are
// cut and whatever is read of their bodies; of a stream in which one line ends
// wrongly, all before it are, that one is refused, and nothing behind it is seen.
func TestFramingModel(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Clear(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if n := r.ContentLength; n > 0 && r.Method != http.MethodPut {
			_, _ = io.CopyN(io.Discard, r.Body, n/int64(len(r.Method)-3)) // all of it for POST, the half for PATCH
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}), slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(framed{ln}) }()
	defer srv.Close()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "requests")
		wrong := rapid.IntRange(0, 2*n).Draw(rt, "the wrong one") // often none
		var stream string
		for i := range n {
			method := rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH"}).Draw(rt, "method")
			head := fmt.Sprintf("%s /%d HTTP/1.1\r\nHost: localhost\r\nX-Long: %s\r\n", method, i, strings.Repeat("x", rapid.IntRange(0, 5000).Draw(rt, "head")))
			body := ""
			if method != "GET" {
				body = strings.Repeat("GET /smuggled HTTP/1.1\n\n", rapid.IntRange(0, 400).Draw(rt, "body"))
				head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
			}
			head += "\r\n"
			if i == wrong {
				lines := strings.SplitAfter(head, "\r\n")
				at := rapid.IntRange(0, len(lines)-2).Draw(rt, "line")
				lines[at] = strings.Replace(lines[at], "\r\n", "\n", 1)
				head = strings.Join(lines, "")
			}
			stream += head + body
		}
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			rt.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		cuts := rapid.SliceOfN(rapid.IntRange(1, 6000), 1, 20).Draw(rt, "cuts")
		go func() {
			for i := 0; stream != ""; i++ {
				k := min(cuts[i%len(cuts)], len(stream))
				if _, err := io.WriteString(c, stream[:k]); err != nil {
					return
				}
				stream = stream[k:]
			}
		}()
		in := bufio.NewReader(c)
		for i := range min(n, wrong+1) {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				rt.Fatalf("answer %d: %v", i, err)
			}
			body, err := io.ReadAll(resp.Body)
			want, status := fmt.Sprintf("/%d", i), 200
			if i == wrong {
				want, status = "a line of the request ends with a line feed alone", 400
			}
			if err != nil || resp.StatusCode != status || !strings.HasPrefix(string(body), want) || resp.Close != (i == wrong) {
				rt.Fatalf("answer %d: got %d %s (%v)", i, resp.StatusCode, body, err)
			}
		}
		if wrong < n {
			if _, err := in.Peek(1); err == nil {
				rt.Fatal("something behind a refused request was answered")
			}
		}
	})
}

// TestOtherListenersAreAdmitted: a handler that is served in another way has no
// connection to ask.
func TestOtherListenersAreAdmitted(t *testing.T) {
	if err := Clear(nil, new(http.Request)); err != nil {
		t.Error(err)
	}
}

// TestAKeptConnectionTakesLittle: what is kept of a request is given back.
func TestAKeptConnectionTakesLittle(t *testing.T) {
	c := &framedConn{}
	head := "POST / HTTP/1.1\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n"
	c.keep([]byte(head + "12345"))
	if err := c.next(&http.Request{Method: "POST", ContentLength: 10_000_000}); err != nil || cap(c.kept) > maxIdle || c.skip != 10_000_000-5 {
		t.Errorf("keeps %d, skips %d, %v", cap(c.kept), c.skip, err)
	}
	for range 10_000_000/1000 - 1 {
		c.keep(make([]byte, 1000))
	}
	c.keep([]byte("\n\n\n" + strings.Repeat("y", 992) + "G"))
	if string(c.kept) != "G" {
		t.Errorf("keeps %q", c.kept)
	}
	c.keep(make([]byte, maxKept))
	if err := c.next(&http.Request{}); err == nil || c.kept != nil {
		t.Errorf("more than a head: %v, keeps %d", err, len(c.kept))
	}
}

// BenchmarkFraming is what the look at the head costs a PUSH.
func BenchmarkFraming(b *testing.B) {
	c := &framedConn{}
	body := `{"type":"a.b","args":["` + strings.Repeat("x", 200) + `"]}`
	raw := []byte(fmt.Sprintf("POST /ojs/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: %d\r\n"+
		"Content-Type: application/openjobspec+json\r\nOJS-Version: 1.0.0-rc.1\r\nX-Request-Id: 01a20244-cb33-7911-83f9-92051f93f859\r\n"+
		"Accept-Encoding: gzip\r\n\r\n%s", len(body), body))
	r := (&http.Request{Method: "POST", ContentLength: int64(len(body)), ProtoMinor: 1}).WithContext(connContext(b.Context(), c))
	b.ReportAllocs()
	for b.Loop() {
		c.keep(raw)
		if err := Clear(nil, r); err != nil {
			b.Fatal(err)
		}
	}
}
