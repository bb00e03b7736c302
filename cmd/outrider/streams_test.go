package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// watcher follows a stream of a server by hand, as a browser does: it connects again where
// it is cut off, and goes on behind the last id.
type watcher struct {
	path string

	mu   sync.Mutex
	ids  []string
	last string
	gaps int
	cuts int
}

// watch reads until ctx ends.
func (w *watcher) watch(ctx context.Context, url string) {
	for ctx.Err() == nil {
		w.connection(ctx, url)
		w.mu.Lock()
		w.cuts++
		w.mu.Unlock()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (w *watcher) connection(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, "GET", url+w.path, nil)
	if err != nil {
		return
	}
	w.mu.Lock()
	if w.last != "" {
		r.Header.Set("Last-Event-ID", w.last)
	}
	w.mu.Unlock()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	id, data := "", false // of the frame that is being read
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "id: "):
			id = line[len("id: "):]
		case line == "event: system.gap":
			w.mu.Lock()
			w.gaps++
			w.mu.Unlock()
		case strings.HasPrefix(line, "data: "):
			data = true
		case line == "" && id != "":
			w.mu.Lock()
			if w.last = id; data {
				w.ids = append(w.ids, id)
			}
			w.mu.Unlock()
			id, data = "", false
		}
	}
}

// seen is what the watcher has seen.
func (w *watcher) seen() (ids []string, gaps int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ids), w.gaps
}

// logOf is all events of a server.
func logOf(t *testing.T, c *client.Client, f job.EventFilter) (es []job.Event) {
	t.Helper()
	f.Limit = 1000
	for {
		page, err := c.Events(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return es
		}
		es = append(es, page...)
		f.After = page[len(page)-1].Seq
	}
}

func dialled(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Readers go on without a gap where the server is killed, and where it stops, and is started
// again: by hand, and with the client.
func TestStreamsOutliveTheServer(t *testing.T) {
	db, addr := tempDB(t), freePort(t)
	begin := func() *process {
		p := startProcess(t, "serve", "--listen", addr, "--db", db, "--shutdown-grace", "1s") // a job that was out at a kill stays so
		readyURL(t, p.stdout)
		return p
	}
	p := begin()
	url := "http://" + addr
	c := dialled(t, url)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	ws := []*watcher{{path: "/ojs/v1/events/stream"}, {path: "/ojs/v1/events/stream?channel=queue:odd"}, {path: "/ojs/v1/events/stream?types=job.completed"}}
	for _, w := range ws {
		readers.Go(func() { w.watch(ctx, url) })
	}
	var told atomic.Pointer[[]job.Event]
	told.Store(new([]job.Event))
	readers.Go(func() {
		err := c.Follow(ctx, job.EventFilter{}, func(n job.News) error {
			all := append(slices.Clone(*told.Load()), n.Events...)
			told.Store(&all)
			return nil
		})
		if job.KindOf(err) != job.Unavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("Follow: %v", err)
		}
	})
	for _, w := range ws {
		waitFor(t, "a stream to begin", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.last != "" })
	}
	var load sync.WaitGroup
	busy, calm := context.WithCancel(ctx)
	for k := range 4 {
		load.Go(func() {
			for i := 0; busy.Err() == nil; i++ {
				queue := []string{"even", "odd"}[i%2]
				if _, err := c.Enqueue(busy, job.Envelope{Type: "a.b", Queue: queue, Args: []byte("[]")}); err != nil {
					time.Sleep(5 * time.Millisecond)
					continue
				}
				jobs, err := c.Fetch(busy, job.FetchRequest{Queues: []string{queue}, Worker: fmt.Sprint(k)})
				if err == nil && len(jobs) > 0 {
					_, _ = c.Ack(busy, job.Claim{ID: jobs[0].ID, Token: jobs[0].Lease.Token}, nil) // a server that is killed does not answer
				}
			}
		})
	}
	for _, sign := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		before := len(*told.Load())
		waitFor(t, "200 events more", func() bool { return len(*told.Load()) > before+200 })
		if err := p.Process.Signal(sign); err != nil {
			t.Fatal(err)
		}
		p.end(t, 45*time.Second)
		p = begin()
	}
	before := len(*told.Load())
	waitFor(t, "200 events more", func() bool { return len(*told.Load()) > before+200 })
	calm()
	load.Wait()
	want := logOf(t, c, job.EventFilter{})
	waitFor(t, "all events", func() bool {
		all, _ := ws[0].seen()
		return len(*told.Load()) >= len(want) && len(all) > 0 && strings.HasSuffix(all[len(all)-1], fmt.Sprintf("%012x", want[len(want)-1].Seq))
	})
	if got := *told.Load(); !slices.EqualFunc(got, want, func(a, b job.Event) bool { return a.Seq == b.Seq && a.Type == b.Type && a.JobID == b.JobID }) {
		t.Errorf("Follow told %d events, and the log has %d", len(got), len(want))
	}
	filters := []job.EventFilter{{}, {Queues: []string{"odd"}}, {Types: []string{"job.completed"}}}
	for i, w := range ws {
		want := logOf(t, c, filters[i])
		waitFor(t, "the last event", func() bool { ids, _ := w.seen(); return len(ids) >= len(want) })
		ids, gaps := w.seen()
		if gaps != 0 || len(ids) != len(want) {
			t.Errorf("%s: %d events and %d gaps, the log has %d", w.path, len(ids), gaps, len(want))
			continue
		}
		for k := range ids {
			if !strings.HasSuffix(ids[k], fmt.Sprintf("%012x", want[k].Seq)) {
				t.Errorf("%s: event %d is %s, want %d", w.path, k, ids[k], want[k].Seq)
				break
			}
		}
	}
	stop()
	readers.Wait()
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for over := time.Now().Add(60 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// 200 readers of all kinds, a tenth of which take nothing, follow a server under full load:
// those that read lose nothing, and a stop ends all of them at once.
func TestStreamsUnderLoad(t *testing.T) {
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t))
	url := readyURL(t, p.stdout)
	addr := strings.TrimPrefix(url, "http://")
	c := dialled(t, url)
	const n, stalled = 200, 20
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range stalled {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprint(conn, "GET /ojs/v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	kinds := []struct {
		path   string
		filter job.EventFilter
	}{
		{"/ojs/v1/events/stream", job.EventFilter{}}, {"/ojs/v1/events/stream?channel=all", job.EventFilter{}}, {"/ojs/v1/admin/stats/stream?types=job.*", job.EventFilter{Types: []string{"job.*"}}},
		{"/ojs/v1/events/stream?types=job.completed", job.EventFilter{Types: []string{"job.completed"}}}, {"/ojs/v1/queues/q1/events", job.EventFilter{Queues: []string{"q1"}}},
	}
	var ws []*watcher
	var readers sync.WaitGroup
	for i := range n - stalled {
		w := &watcher{path: kinds[max(0, i%9-4)].path}
		ws = append(ws, w)
		readers.Go(func() { w.watch(ctx, url) })
	}
	for _, w := range ws {
		waitFor(t, "a stream to begin", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.last != "" })
	}
	var load sync.WaitGroup
	var longest atomic.Int64 // of a PUSH
	for k := range 16 {
		load.Go(func() {
			queue := fmt.Sprint("q", k%4)
			for range 40 {
				began := time.Now()
				if _, err := c.Enqueue(ctx, job.Envelope{Type: "a.b", Queue: queue, Args: []byte("[]")}); err != nil {
					t.Error(err)
					return
				}
				for took := time.Since(began); ; {
					old := longest.Load()
					if int64(took) <= old || longest.CompareAndSwap(old, int64(took)) {
						break
					}
				}
				jobs, err := c.Fetch(ctx, job.FetchRequest{Queues: []string{queue}})
				if err == nil && len(jobs) > 0 {
					_, err = c.Ack(ctx, job.Claim{ID: jobs[0].ID, Token: jobs[0].Lease.Token}, nil)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	load.Wait()
	t.Logf("the longest PUSH took %v", time.Duration(longest.Load()))
	if longest.Load() > int64(5*time.Second) {
		t.Error("a commit waited for readers")
	}
	wants := map[string][]job.Event{}
	for _, k := range kinds {
		wants[k.path] = logOf(t, c, k.filter)
	}
	for i, w := range ws {
		want := wants[w.path]
		waitFor(t, fmt.Sprintf("reader %d to see %d events", i, len(want)), func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.ids) >= len(want) })
		ids, gaps := w.seen()
		same := gaps == 0 && len(ids) == len(want)
		for k := 0; same && k < len(ids); k++ {
			same = strings.HasSuffix(ids[k], fmt.Sprintf("%012x", want[k].Seq))
		}
		if !same {
			t.Errorf("reader %d of %s: %d events and %d gaps, want %d in the order of the log", i, w.path, len(ids), gaps, len(want))
		}
	}
	began := time.Now()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	} else {
		t.Logf("the stop took %v", took)
	}
	stop()
	readers.Wait()
}
