package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// topOf is a top on a server with some queues, and how often that was asked.
func topOf(t *testing.T, queues int, now *time.Time) (*top, *sidecar.Sidecar, *atomic.Int64) {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	clock := func() time.Time { return *now }
	side := sidecar.New(store, sidecar.Options{Now: clock})
	for i := range queues {
		for range i % 5 {
			if _, err := side.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: fmt.Sprintf("q%02d", i), Args: []byte("[]")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked := &atomic.Int64{}
	api := httpapi.New(side, httpapi.Options{Log: slog.New(slog.DiscardHandler), Now: clock})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &top{question: &question{app: &app{clock: clock}, client: c}}, side, asked
}

// TestTopAsksLittle holds that a frame takes few requests, however many queues there are.
func TestTopAsksLittle(t *testing.T) {
	now := worldTime
	top, _, asked := topOf(t, 100, &now)
	for range 3 {
		before := asked.Load()
		if err := top.ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := asked.Load() - before; n > topDetails+5 {
			t.Errorf("a frame took %d requests", n)
		}
		now = now.Add(2 * time.Second)
	}
}

// TestTopRates holds what rates and failures are, frame by frame.
func TestTopRates(t *testing.T) {
	now := worldTime
	top, side, _ := topOf(t, 0, &now)
	look := func() *topFrame {
		t.Helper()
		if err := top.ask(t.Context()); err != nil {
			t.Fatal(err)
		}
		return top.frame
	}
	look()
	final := false
	for range 4 {
		if _, err := side.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: "mail", Args: []byte("[]")}); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := side.Fetch(t.Context(), job.FetchRequest{Queues: []string{"mail"}, Count: 3, Worker: "w"})
	if err != nil || len(jobs) != 3 {
		t.Fatal(len(jobs), err)
	}
	for i, j := range jobs {
		claim := job.Claim{ID: j.ID, Token: j.Lease.Token, Worker: "w"}
		if i < 2 {
			_, err = side.Ack(t.Context(), claim, nil)
		} else {
			_, err = side.Fail(t.Context(), claim, job.Failure{Type: "Refused", Message: "no", Retryable: &final})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(2 * time.Second)
	f := look()
	if f.In != 2 || f.Out != 1 || f.Fail != 0.5 {
		t.Errorf("after 2 s in is %v, out %v, failed %v; want 2, 1, 0.5", f.In, f.Out, f.Fail)
	}
	if len(f.Failing) != 1 || f.Failing[0].Type != "a.b" || f.Failing[0].Failed != 1 || f.Failing[0].Error != "Refused: no" {
		t.Errorf("failing: %+v", f.Failing)
	}
	for range 8 { // what was is out of sight of the rates
		now = now.Add(2 * time.Second)
		f = look()
	}
	if f.In != 0 || f.Out != 0 || f.Fail != 0 || len(f.Failing) != 1 {
		t.Errorf("after 18 s in is %v, out %v, failed %v, failing %+v", f.In, f.Out, f.Fail, f.Failing)
	}
	now = now.Add(topFailWindow)
	if f = look(); len(f.Failing) != 0 {
		t.Errorf("a failure counts after %v: %+v", topFailWindow, f.Failing)
	}
}

// TestTopFits draws many things on screens of all sizes: no frame has more lines or
// columns than the screen, and small ones still show queues and keys.
func TestTopFits(t *testing.T) {
	now := worldTime
	f := &topFrame{At: now, Uptime: 123456, Jobs: map[job.State]int64{job.Available: 1234567, job.Discarded: 12}, Dead: 5, In: 1234.5, Fail: 3}
	for i := range 40 {
		f.Queues = append(f.Queues, topQueue{Name: strings.Repeat("q", i+1), State: "paused", Waiting: int64(i) * 1000, Oldest: &now})
		f.Workers = append(f.Workers, topWorker{ID: fmt.Sprintf("worker-%d-漢字", i), State: "running", Host: "a.long.host.name.example.com", BeatAt: now})
		f.Failing = append(f.Failing, topFailing{Type: fmt.Sprintf("type.t%d", i), Failed: 3, Last: now, Error: strings.Repeat("something went wrong ", 9)})
	}
	for height := 5; height < 60; height += 3 {
		for width := 40; width < 200; width += 7 {
			tp := &top{question: &question{app: &app{clock: func() time.Time { return now }}}, frame: f, order: height % len(topOrders), paused: width%2 == 0}
			if height%2 == 0 {
				tp.lost = job.Errorf(job.Unavailable, "%s", strings.Repeat("cannot reach it ", 20))
			}
			lines := tp.draw(term.Screen{Width: width, Height: height, Live: true})
			if len(lines) > height {
				t.Fatalf("%d lines on a screen of %dx%d:\n%s", len(lines), width, height, strings.Join(lines, "\n"))
			}
			text := strings.Join(lines, "\n")
			if !strings.Contains(text, "q leave") || height > 12 && !strings.Contains(text, "QUEUE") {
				t.Fatalf("on a screen of %dx%d there is but:\n%s", width, height, text)
			}
			for _, l := range lines {
				if term.Width(l) > width {
					t.Fatalf("a line of %d columns on a screen of %d: %s", term.Width(l), width, l)
				}
			}
		}
	}
}

// TestTopGivesTheScreenBack holds that the screen of the shell is back whatever ends top,
// also where it breaks.
func TestTopGivesTheScreenBack(t *testing.T) {
	now := worldTime
	for _, tt := range []struct {
		name   string
		frame  *topFrame
		breaks bool
	}{{"its context ends", &topFrame{At: now}, false}, {"it panics", nil, true}} {
		t.Run(tt.name, func(t *testing.T) {
			var out overheard
			a := &app{clock: func() time.Time { return now }, stdin: strings.NewReader("")}
			a.look = func() term.Screen { return term.Screen{Width: 80, Height: 24, Live: true} }
			tp := &top{question: &question{app: a, out: &out}, every: time.Hour, frame: tt.frame}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			defer func() {
				if broke := recover() != nil; broke != tt.breaks {
					t.Errorf("it panicked: %t", broke)
				}
				if text := out.String(); !strings.HasPrefix(text, term.Enter) || !strings.HasSuffix(text, term.Leave) {
					t.Errorf("the terminal got %q", text)
				}
			}()
			if err := tp.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
