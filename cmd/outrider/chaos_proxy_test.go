//go:build unix

package main

import (
	"bytes"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lossy stands before a job server and loses one answer in so many: the server
// has done what it was asked, and who asked never hears of it.
type lossy struct {
	*httptest.Server
	server string // http://host:port
	oneIn  int    // 0: no answer is lost

	posts, gets, lost, down atomic.Int64 // requests that the server has answered; of the posts those whose answer was lost; and those it has not

	mu   sync.Mutex     // guards sent
	sent map[string]int // how often each job id came
}

var jobID = regexp.MustCompile(`"id":"([0-9a-f]{8}-[0-9a-f-]{27})"`)

func newLossy(t *testing.T, server string, oneIn int) *lossy {
	t.Helper()
	p := &lossy{server: server, oneIn: oneIn, sent: map[string]int{}}
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.pass(transport, w, r) }))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func (p *lossy) pass(transport *http.Transport, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // who asked is gone
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.server+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header = r.Header.Clone()
	res, err := transport.RoundTrip(req)
	if err != nil {
		p.down.Add(1)
		panic(http.ErrAbortHandler)
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		p.down.Add(1)
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodPost {
		p.count(body)
		if n := p.posts.Add(1); p.oneIn > 0 && n%int64(p.oneIn) == 1 {
			p.lost.Add(1)
			panic(http.ErrAbortHandler) // the connection is closed instead of an answer
		}
	} else {
		p.gets.Add(1)
	}
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(answer) // who asked may be gone
}

func (p *lossy) count(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range jobID.FindAllSubmatch(body, -1) {
		p.sent[string(m[1])]++
	}
}

// resends is how many jobs reached the server more than once, each time counted.
func (p *lossy) resends() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, times := range p.sent {
		n += times - 1
	}
	return n
}

// cutter stands before a database and cuts connections: one in so many commits
// is done, and its answer is lost.
type cutter struct {
	addr, database string
	oneIn          int
	commits, cuts  atomic.Int64
	healed         atomic.Bool

	mu    sync.Mutex // guards all below
	away  bool       // nobody gets through
	conns map[net.Conn]bool
}

// let says whether anybody gets through. Who does so far is cut off.
func (c *cutter) let(through bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = !through
	for conn := range c.conns {
		conn.Close()
	}
}

// enter reports whether a connection may begin.
func (c *cutter) enter(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.away {
		c.conns[conn] = true
	}
	return !c.away
}

func (c *cutter) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

var commitWord = regexp.MustCompile(`(?i)\bcommit\b`)

func newCutter(t *testing.T, database string, oneIn int) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: ln.Addr().String(), database: database, oneIn: oneIn, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // closed
			}
			serving.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	return c
}

func (c *cutter) serve(near net.Conn) {
	defer near.Close()
	if !c.enter(near) {
		return
	}
	defer c.leave(near)
	far, err := net.Dial("tcp", c.database)
	if err != nil {
		return
	}
	defer far.Close()
	var eaten atomic.Bool // the next answer is not passed on
	var both sync.WaitGroup
	both.Go(func() {
		defer far.Close()
		pump(near, far, func(b []byte) bool {
			if commitWord.Match(b) {
				c.commits.Add(1)
				if !c.healed.Load() && mathrand.IntN(c.oneIn) == 0 {
					c.cuts.Add(1)
					eaten.Store(true)
				}
			}
			return true
		})
	})
	both.Go(func() {
		defer near.Close()
		pump(far, near, func([]byte) bool { return !eaten.Load() })
	})
	both.Wait()
}

// pump passes bytes on until one side ends or pass says no.
func pump(from, to net.Conn, pass func([]byte) bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !pass(b[:n]) {
				return
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// TestTheProxyLosesAnswers: the server gets every request, and who asked not every answer.
func TestTheProxyLosesAnswers(t *testing.T) {
	var got atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got.Add(1) }))
	defer server.Close()
	p := newLossy(t, server.URL, 3)
	c := http.Client{Timeout: 10 * time.Second}
	defer c.CloseIdleConnections()
	failed := int64(0)
	for range 60 {
		res, err := c.Post(p.URL, "application/json", bytes.NewReader([]byte(`{"id":"018f0000-0000-7000-8000-000000000000"}`)))
		if err != nil {
			failed++
			continue
		}
		res.Body.Close()
	}
	if failed != 20 || failed != p.lost.Load() || got.Load() != 60 || p.resends() != 59 {
		t.Errorf("%d of 60 failed, %d answers lost, %d requests came, %d ids again", failed, p.lost.Load(), got.Load(), p.resends())
	}
}
