package netguard

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Whoever asks without TLS is told to use it, and what is no request gets no answer. A
// handshake that stands still ends with the time for the head of a request.
func TestTLS(t *testing.T) {
	t.Parallel()
	made := httptest.NewTLSServer(nil) // has a certificate
	config, trusting := made.TLS.Clone(), made.Client().Transport
	config.NextProtos = []string{"http/1.1"}
	made.Close()
	log := slog.New(slog.DiscardHandler)
	srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), log)
	srv.ReadHeaderTimeout = 300 * time.Millisecond
	ln := onTCP(t)
	addr := ln.Addr().String()
	go func() { _ = srv.Serve(Guard(srv, TLS(ln, config), 20, "--max-connections", log)) }()
	t.Cleanup(func() { _ = srv.Close() })

	resp, err := (&http.Client{Transport: trusting}).Get("https://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
		t.Errorf("over TLS: %q, %v", b, err)
	}
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n": "HTTP/1.1 400 ",
		"POST /ojs/v1/jobs HTTP/1.1\r\n":            "HTTP/1.1 400 ",
		"\x00\x01\x02\x03\x04\x05\x06\x07":          "",
		"GE":                                        "", // less than a head of TLS
		"":                                          "",
		"\x16\x03\x01\x02\x00\x01":                  "", // the start of a handshake
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, sent)
		got, err := io.ReadAll(c)
		if err, late := err.(net.Error); late && err.Timeout() {
			t.Errorf("%q holds its connection", sent)
		}
		if want == "" && strings.Contains(string(got), "HTTP") || want != "" && (!strings.HasPrefix(string(got), want) || !strings.Contains(string(got), "write https://")) {
			t.Errorf("%q: got %q", sent, got)
		}
		c.Close()
	}
}
