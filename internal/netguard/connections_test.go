package netguard

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// boundedServer is a server for at most n connections.
func boundedServer(t *testing.T, ln net.Listener, n int, h http.HandlerFunc) *connections {
	t.Helper()
	l := limit(ln, n, 0, "--max-connections", slog.New(slog.DiscardHandler))
	srv := &http.Server{Handler: h, ConnState: l.state}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return l
}

func onTCP(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// asking sends a request on a connection of its own and gives the status of the
// answer, and what reads the next one.
func asking(t *testing.T, ln net.Listener, path string) (status int, c net.Conn, from *bufio.Reader) {
	t.Helper()
	c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	from = bufio.NewReader(c)
	return answered(t, from), c, from
}

func answered(t *testing.T, from *bufio.Reader) int {
	t.Helper()
	r, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == http.StatusServiceUnavailable && (r.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "--max-connections")) {
		t.Errorf("%v %s", r.Header, body)
	}
	return r.StatusCode
}

// idling is how many connections are idle, as the server knows it: that is a moment
// after their callers have the answer.
func (l *connections) idling() (n int) {
	l.open.Range(func(_, k any) bool {
		if k.(*connection).idle.Load() != 0 {
			n++
		}
		return true
	})
	return n
}

// Where there are as many connections as there may be, the one that has been idle
// longest makes room; where all of them work, the next is told to come again.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	ln := onTCP(t)
	l := boundedServer(t, ln, 8, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-hold
		}
	})
	var idle []*bufio.Reader
	for range 8 {
		status, _, from := asking(t, ln, "/")
		if idle = append(idle, from); status != http.StatusOK {
			t.Fatalf("%d", status)
		}
		for settles := time.Now().Add(10 * time.Second); l.idling() < len(idle) && time.Now().Before(settles); { // in this order
			time.Sleep(time.Millisecond)
		}
	}
	if status, _, _ := asking(t, ln, "/"); status != http.StatusServiceUnavailable {
		t.Errorf("one beside eight that were just used: %d", status)
	}
	time.Sleep(idleLeast + 100*time.Millisecond)
	for i := range 8 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprint(c, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := idle[i].ReadByte(); err != io.EOF {
			t.Fatalf("the connection that has been idle longest is not closed for number %d: %v", i, err)
		}
	}
	if status, _, _ := asking(t, ln, "/"); status != http.StatusServiceUnavailable {
		t.Errorf("one beside eight that work: %d", status)
	}
	if n := l.n.Load(); n != 8 {
		t.Errorf("%d connections are counted", n)
	}
	close(hold)
	settles := time.Now().Add(10 * time.Second)
	for {
		status, c, _ := asking(t, ln, "/")
		if c.Close(); status == http.StatusOK {
			break
		}
		if time.Now().After(settles) {
			t.Fatal("nobody gets in after the others have gone")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Connections that end are counted off, however they end.
func TestConnectionsAreCountedOff(t *testing.T) {
	t.Parallel()
	ln := onTCP(t)
	l := boundedServer(t, ln, 8, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	})
	for i := range 40 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, []string{"", "GET / HTTP/1.1\r\n", "nonsense\r\n\r\n", "GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.0\r\nHost: a\r\n\r\n"}[i%5])
		c.Close()
		for over := time.Now().Add(10 * time.Second); l.n.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(over) {
				t.Fatalf("connection %d is never counted off", i)
			}
		}
	}
}

// One process cannot have all connections of a unix socket, where the system says whose they are.
func TestOneProcessGetsHalf(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	l := boundedServer(t, ln, 8, func(http.ResponseWriter, *http.Request) {})
	want := 8
	if l.peers != nil && peerKnown(t) {
		want = 4
	}
	got := 0
	for range 8 {
		if status, _, _ := asking(t, ln, "/"); status == http.StatusOK {
			got++
		}
	}
	if got != want {
		t.Errorf("this process has %d connections of 8, want %d", got, want)
	}
}

// peerKnown reports whether the system says whose a connection is. It asks on a socket of
// its own: a server would count the connection until it saw its end.
func peerKnown(t *testing.T) bool {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return peerOf(c) != 0
}

// The store keeps its files where few may be opened.
func TestFilesAreLeftForTheStore(t *testing.T) {
	for _, tt := range []struct{ most, allowed, want int }{{1024, 0, 1024}, {1024, 20000, 1024}, {1024, 1024, 960}, {1024, 64, 8}, {1024, 20, 8}, {8, 1024, 8}} {
		if l := limit(nil, tt.most, tt.allowed, "", slog.New(slog.DiscardHandler)); l.most != tt.want {
			t.Errorf("%d connections of %d files: %d, want %d", tt.most, tt.allowed, l.most, tt.want)
		}
	}
}
