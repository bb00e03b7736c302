//go:build !race

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// greedyFor is how long each attack lasts; OUTRIDER_GREEDY=1m is the long form.
func greedyFor(t *testing.T) time.Duration {
	v := os.Getenv("OUTRIDER_GREEDY")
	if v == "" {
		return 1500 * time.Millisecond
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("OUTRIDER_GREEDY: %v", err)
	}
	return d
}

// attacks are what greedy callers do, each until ctx ends, behind a time without them.
var attacks = []struct {
	name string
	run  func(ctx context.Context, addr string)
}{
	{"nobody", func(ctx context.Context, _ string) { <-ctx.Done() }},
	{"lists of large jobs", func(ctx context.Context, addr string) {
		together(8, func(int) {
			for ctx.Err() == nil {
				ask, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/ojs/v1/jobs?limit=1000", nil)
				if err != nil {
					panic(err)
				}
				if r, err := http.DefaultClient.Do(ask); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
			}
		})
	}},
	{"slow readers of lists", func(ctx context.Context, addr string) {
		together(100, func(i int) {
			query := []string{"limit=1000", "limit=1000&queue=large&state=available", "page=1&per_page=200"}[i%3]
			for ctx.Err() == nil {
				dribble(ctx, addr, "GET /ojs/v1/jobs?"+query+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			}
		})
	}},
	{"stalled batches", func(ctx context.Context, addr string) {
		part := bytes.Repeat([]byte(" "), 1<<20)
		together(30, func(int) {
			for ctx.Err() == nil {
				stall(ctx, addr, 31, part)
			}
		})
	}},
}

// together runs fn n times at once and waits for all of them.
func together(n int, fn func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fn(i) })
	}
	all.Wait()
}

// dialUntil opens a connection that is closed when ctx ends. One that is refused is
// not asked for again at once.
func dialUntil(ctx context.Context, addr string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		time.Sleep(50 * time.Millisecond)
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// dribble sends a request and reads the answer very slowly, until it breaks off.
func dribble(ctx context.Context, addr, request string) {
	c, err := dialUntil(ctx, addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprint(c, request)
	buf := make([]byte, 256)
	for ctx.Err() == nil {
		if _, err := c.Read(buf); err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// stall announces a batch of 32 parts, sends n of them and then nothing more.
func stall(ctx context.Context, addr string, n int, part []byte) {
	c, err := dialUntil(ctx, addr)
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /ojs/v1/jobs/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 32*len(part))
	for range n {
		if _, err := c.Write(part); err != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, c) // until the server has had enough
	time.Sleep(20 * time.Millisecond)
}

// A pusher is somebody with small jobs, beside the greedy.
type pusher struct {
	took   []time.Duration
	failed []string
}

func (p *pusher) run(ctx context.Context, url string) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		began := time.Now()
		r, err := client.Post(url+"/ojs/v1/jobs", "application/json", strings.NewReader(`{"type":"small","queue":"small","args":[1,2,3]}`))
		if err != nil {
			p.failed = append(p.failed, err.Error())
			continue
		}
		said, _ := io.ReadAll(r.Body)
		r.Body.Close()
		p.took = append(p.took, time.Since(began))
		if r.StatusCode != http.StatusCreated {
			p.failed = append(p.failed, fmt.Sprintf("%d %.200s", r.StatusCode, said))
		}
	}
}

// large stores n jobs of a megabyte each, 25 in a batch.
func large(t *testing.T, url string, n int) {
	t.Helper()
	one := `{"type":"large","queue":"large","args":["` + strings.Repeat("x", 1<<20-100) + `"]}`
	body := []byte(`{"jobs":[` + one + strings.Repeat(","+one, 24) + `]}`)
	for range n / 25 {
		r, err := http.Post(url+"/ojs/v1/jobs/batch", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != http.StatusCreated {
			t.Fatalf("%d %.300s", r.StatusCode, said)
		}
	}
}

// Callers who ask for much do not take the server down, nor hold up who asks for
// little. The long form gives each of them a minute, and looks two minutes later
// whether the memory has been given back.
func TestGreedyCallersAreBounded(t *testing.T) {
	const limit = 256 << 20 // the default of --memory-limit
	c := newCage(t, 512<<20)
	p := c.start("serve", "--listen", "127.0.0.1:0", "--db", tempDB(t))
	url := readyURL(t, p.stdout)
	began := time.Now()
	go p.stderr.rest()
	jobs := 75
	if os.Getenv("OUTRIDER_GREEDY") != "" {
		jobs = 300
	}
	large(t, url, jobs)
	for _, a := range attacks {
		ctx, cancel := context.WithTimeout(t.Context(), greedyFor(t))
		var beside pusher
		var done sync.WaitGroup
		done.Go(func() { beside.run(ctx, url) })
		a.run(ctx, strings.TrimPrefix(url, "http://"))
		done.Wait()
		cancel()
		slices.Sort(beside.took)
		t.Logf("%v %s: %d MB held, %d MB at most; %d PUSHes beside, p50 %v, p99 %v, longest %v", time.Since(began).Round(time.Second/10), a.name, held(p, "VmRSS")>>20, held(p, "VmHWM")>>20,
			len(beside.took), percentile(beside.took, 0.5), percentile(beside.took, 0.99), percentile(beside.took, 1))
		if len(beside.failed) > 0 || len(beside.took) == 0 {
			t.Fatalf("%s: of %d small PUSHes beside %d failed, such as %q", a.name, len(beside.took), len(beside.failed), slices.Concat(beside.failed, []string{""})[0])
		}
		if most := held(p, "VmHWM"); most > limit+64<<20 || most == 0 || c.kills() > 0 {
			t.Fatalf("%s: the server took %d MB, the limit is %d; %d kills by the kernel", a.name, most>>20, limit>>20, c.kills())
		}
	}
	gives := 20 * time.Second
	if os.Getenv("OUTRIDER_GREEDY") != "" {
		gives = 2 * time.Minute
	}
	for over := time.Now().Add(gives); held(p, "VmRSS") > 64<<20; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("%v after the attacks the server still holds %d MB", gives, held(p, "VmRSS")>>20)
		}
	}
	t.Logf("%d MB are held at rest", held(p, "VmRSS")>>20)
	walkAll(t, url, jobs)
}

// walkAll reads the list of large jobs by its cursors: each is there once.
func walkAll(t *testing.T, url string, want int) {
	t.Helper()
	seen, cursor := map[string]bool{}, ""
	for pages := 1; ; pages++ {
		r, err := http.Get(url + "/ojs/v1/jobs?limit=200&queue=large&cursor=" + cursor)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Jobs       []struct{ ID string }
			Total      int
			Pagination struct {
				More bool   `json:"has_more"`
				Next string `json:"next_cursor"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&page); err != nil || len(page.Jobs) == 0 || page.Total != want {
			t.Fatalf("page %d: %d jobs of %d, %v", pages, len(page.Jobs), page.Total, err)
		}
		r.Body.Close()
		for _, j := range page.Jobs {
			if seen[j.ID] {
				t.Fatalf("job %s is on two pages", j.ID)
			}
			seen[j.ID] = true
		}
		if cursor = page.Pagination.Next; cursor == "" != !page.Pagination.More {
			t.Fatalf("has_more is %v beside the cursor %q", page.Pagination.More, cursor)
		}
		if cursor == "" {
			if pages < want/4 {
				t.Errorf("%d pages hold %d jobs of a megabyte", pages, want)
			}
			break
		}
	}
	if len(seen) != want {
		t.Errorf("the pages hold %d jobs, want %d", len(seen), want)
	}
}
