package netguard

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// A connection that a handler has taken over counts until it is closed, and is never closed
// for another one.
func TestATakenConnectionCounts(t *testing.T) {
	taken := make(chan net.Conn, 1)
	srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/taken" {
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n") // the caller reads it, or fails
		taken <- c
	}), slog.New(slog.DiscardHandler))
	on := onTCP(t)
	ln := Guard(srv, on, LeastConnections, "--max-connections", slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	most := ln.(*connections)
	var all []net.Conn
	for range LeastConnections {
		c, err := net.Dial("tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /taken HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		all = append(all, <-taken)
	}
	if status, _, _ := asking(t, on, "/"); status != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", status)
	}
	if n := most.n.Load(); n != LeastConnections {
		t.Errorf("%d are counted", n)
	}
	_ = all[0].Close()
	_ = all[0].Close() // twice counts once
	if n := most.n.Load(); n != LeastConnections-1 {
		t.Errorf("%d are counted after one was closed", n)
	}
	if status, _, _ := asking(t, on, "/"); status != http.StatusOK {
		t.Errorf("in its place: %d", status)
	}
}
