package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// overheard is output that is waited for while it grows.
type overheard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *overheard) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *overheard) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until waits until a text is there.
func (o *overheard) until(t *testing.T, text string) {
	t.Helper()
	for over := time.Now().Add(20 * time.Second); !strings.Contains(o.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("there is no %q in:\n%s", text, o)
		}
	}
}

// TestEventsOutliveTheServer follows events while the server goes and comes back: what
// has happened in between is shown too, each event once, and the loss is said once.
func TestEventsOutliveTheServer(t *testing.T) {
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	side := sidecar.New(store, sidecar.Options{})
	push := func(kind string) {
		t.Helper()
		if _, err := side.Enqueue(t.Context(), job.Envelope{Type: kind, Args: []byte("[]")}); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(address string) (*httptest.Server, string) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: httpapi.New(side, httpapi.Options{Log: slog.New(slog.DiscardHandler)})}}
		s.Start()
		return s, l.Addr().String()
	}
	first, address := serve("127.0.0.1:0")
	push("before.one")
	push("before.two")
	var stdout, stderr overheard
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		a := &app{env: map[string]string{"OUTRIDER_URL": "http://" + address}, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, clock: time.Now}
		ended <- a.run(ctx, []string{"events", "--follow", "--limit", "1"})
	}()
	stdout.until(t, "before.two")
	push("while.there")
	stdout.until(t, "while.there")
	first.CloseClientConnections()
	first.Close()
	stderr.until(t, "waiting for it")
	push("while.gone")
	deaf, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // attempts to connect that fail, none of which is said
		c, err := deaf.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	deaf.Close()
	second, _ := serve(address)
	defer second.Close()
	defer second.CloseClientConnections()
	stderr.until(t, "there again")
	push("after.it")
	stdout.until(t, "after.it")
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
	var seen []string
	for line := range strings.Lines(stdout.String()) {
		seen = append(seen, strings.Fields(line)[2])
	}
	if want := []string{"before.two", "while.there", "while.gone", "after.it"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if text := stderr.String(); strings.Count(text, "\n") != 2 || strings.Contains(stdout.String(), "before.one") {
		t.Errorf("standard error has %q", text)
	}
}

// TestEventsSayAGap holds that missing events are said to be.
func TestEventsSayAGap(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ojs/v1/events/stream" {
			fmt.Fprint(w, `{"events":[],"total":0,"pagination":{"total":0}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 5\n\n", "event: system.gap\ndata: {}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	var stdout, stderr overheard
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		a := &app{env: map[string]string{"OUTRIDER_URL": server.URL}, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, clock: time.Now}
		ended <- a.run(ctx, []string{"events", "-f", "--limit", "0"})
	}()
	stderr.until(t, "events are missing here")
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// TestNewestEvents holds that the newest that a filter lets through are shown, however far
// back they are, and none twice.
func TestNewestEvents(t *testing.T) {
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	side := sidecar.New(store, sidecar.Options{})
	var all []job.Envelope
	for i := range 3000 {
		queue := "common"
		if i == 10 || i == 40 || i == 1700 {
			queue = "rare"
		}
		all = append(all, job.Envelope{Type: fmt.Sprintf("t.n%d", i), Queue: queue, Args: []byte("[]")})
	}
	for batch := range slices.Chunk(all, 500) {
		if _, err := side.Enqueue(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(httpapi.New(side, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
	defer server.Close()
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"--queue rare", []string{"t.n10", "t.n40", "t.n1700"}},
		{"--queue rare -n 2", []string{"t.n40", "t.n1700"}},
		{"--job-type t.n10 -n 1", []string{"t.n10"}},
		{"-n 3", []string{"t.n2997", "t.n2998", "t.n2999"}},
		{"--type queue.paused", nil},
	} {
		o := try(t, []string{"OUTRIDER_URL=" + server.URL}, append([]string{"events", "-o", "ndjson"}, strings.Fields(tt.args)...)...)
		var got []string
		for line := range strings.Lines(o.stdout) {
			_, rest, _ := strings.Cut(line, `"job_type":"`)
			kind, _, _ := strings.Cut(rest, `"`)
			got = append(got, kind)
		}
		if o.code != exitOK || !slices.Equal(got, tt.want) {
			t.Errorf("events %s: exit %d, got %q, want %q; %s", tt.args, o.code, got, tt.want, o.stderr)
		}
	}
}
