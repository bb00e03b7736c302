//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// vanishings is how many polls are aborted in each way: OUTRIDER_VANISHINGS, or a short form.
func vanishings(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(orText(os.Getenv("OUTRIDER_VANISHINGS"), "60"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// vanisher polls one queue, is aborted when abort is closed, and says whether the
// whole answer was read from its connection.
type vanisher func(t *testing.T, l poller, body string, abort <-chan struct{}) (read bool)

// poller is a server as its clients reach it.
type poller struct{ network, where, path string }

func (l poller) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, l.network, l.where)
}

func (l poller) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: l.dial}}
}

// fetch sends a FETCH on a connection of its own; nil, and told, if it cannot.
func (l poller) fetch(t *testing.T, body string) net.Conn {
	t.Helper()
	c, err := l.dial(t.Context(), "", "")
	if err != nil {
		t.Error(err)
		return nil
	}
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", l.path, len(body), body); err != nil {
		t.Error(err)
		_ = c.Close()
		return nil
	}
	return c
}

// byContext is a Go program whose request has a deadline.
func byContext(t *testing.T, l poller, body string, abort <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-abort
		cancel()
	}()
	conn, err := l.dial(t.Context(), "", "")
	if err != nil {
		t.Error(err)
		return false
	}
	r := &recorded{Conn: conn}
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return r, nil }}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://localhost"+l.path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return false
	}
	if resp, err := c.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // came has it
		resp.Body.Close()
	}
	_ = r.Close() // net/http has closed it, or will
	r.Lock()
	defer r.Unlock()
	// net/http reads an answer whose request was given up a moment before, and
	// throws it away: the job is lost between its hands, and no server can know.
	return readFetched(&r.came)
}

// recorded keeps what came over a connection.
type recorded struct {
	net.Conn
	sync.Mutex // held while it reads
	came       bytes.Buffer
}

func (r *recorded) Read(b []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	n, err := r.Conn.Read(b)
	r.came.Write(b[:n])
	return n, err
}

// raw is a program that closes its socket while it waits for the answer.
func raw(leave func(net.Conn)) vanisher {
	return func(t *testing.T, l poller, body string, abort <-chan struct{}) bool {
		c := l.fetch(t, body)
		if c == nil {
			return false
		}
		defer c.Close()
		go func() {
			<-abort
			leave(c)
		}()
		return readFetched(c)
	}
}

func readFetched(r io.Reader) bool {
	resp, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		return false
	}
	b, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(b), "lease_token")
}

// never reads: its answer stays in its socket, and the system tells so when that is closed.
func neverReads(leave func(net.Conn)) vanisher {
	return func(t *testing.T, l poller, body string, abort <-chan struct{}) bool {
		c := l.fetch(t, body)
		if c == nil {
			return false
		}
		<-abort
		leave(c)
		return false
	}
}

// byAKill is a process that is killed while it waits.
func byAKill(t *testing.T, l poller, body string, abort <-chan struct{}) bool {
	c := l.fetch(t, body)
	if c == nil {
		return false
	}
	defer c.Close()
	f, err := c.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Error(err)
		return false
	}
	defer f.Close()
	p := exec.Command("sleep", "60")
	p.ExtraFiles = []*os.File{f} // it is the one that holds the connection
	if err := p.Start(); err != nil {
		t.Error(err)
		return false
	}
	_, _ = f.Close(), c.Close()
	<-abort
	_ = p.Process.Kill()
	_ = p.Wait() // that it was killed is no news
	return false
}

func closes(c net.Conn) { _ = c.Close() }

// resets closes with a reset, whatever was read.
func resets(c net.Conn) {
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}

// A job that was fetched by a poll which was aborted at that moment is with the
// next worker at once, unless the poll has read it.
func TestAVanishedFetchGivesItsJobBack(t *testing.T) {
	ways := map[string]vanisher{
		"by a context": byContext, "by a close": raw(closes), "by a reset": raw(resets),
		"unread, by a close": neverReads(closes), "unread, by a reset": neverReads(resets),
		"by a kill": byAKill,
	}
	sock := filepath.Join(t.TempDir(), "s")
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
	inProcess(t, "--listen", "unix://"+sock, "--db", tempDB(t), "--shutdown-grace", "0s")
	for name, l := range map[string]poller{"tcp": {network: "tcp", where: strings.TrimPrefix(url, "http://")}, "unix": {network: "unix", where: sock}} {
		for way, vanish := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				abortPolls(t, l, vanish)
			})
		}
	}
}

func abortPolls(t *testing.T, l poller, vanish vanisher) {
	c := l.client()
	defer c.CloseIdleConnections()
	read, twice, ghosts := 0, 0, 0
	n := vanishings(t)
	for i := range n {
		queue := fmt.Sprintf("q%d-%d", i, rand.Uint32())
		abort, done := make(chan struct{}), make(chan bool, 1)
		l, acks := l, ""
		if l.path = pathFetch; i/2%2 == 0 { // an ACK and FETCH in one
			l.path, acks = pathNext, `,"acks":[{"job_id":"01970000-0000-7000-8000-000000000000"}]`
		}
		go func() { done <- vanish(t, l, `{"queues":["`+queue+`"],"block_ms":20000`+acks+`}`, abort) }()
		time.Sleep(time.Millisecond + rand.N(time.Millisecond)) // so that most polls wait already
		pushed := make(chan struct{})
		go func() {
			if i%2 == 0 {
				<-pushed // the answer of FETCH is out, or is being written
				time.Sleep(rand.N(200 * time.Microsecond))
			} else {
				time.Sleep(rand.N(3 * time.Millisecond))
			}
			close(abort)
		}()
		if status, body := ask(t, c, "POST", "http://localhost"+pathPush, `{"type":"a.b","args":[],"queue":"`+queue+`"}`); status != 201 {
			t.Errorf("push: got %d %s", status, body)
		}
		close(pushed)
		if <-done {
			read++
			if _, body := ask(t, c, "POST", "http://localhost"+pathFetch, `{"queues":["`+queue+`"]}`); strings.Contains(body, "lease_token") {
				twice++
			}
			continue
		}
		_, body := ask(t, c, "POST", "http://localhost"+pathFetch, `{"queues":["`+queue+`"],"block_ms":2000}`)
		if !strings.Contains(body, "lease_token") {
			ghosts++
		}
		if ghosts > 20 {
			n = i + 1
			break
		}
	}
	t.Logf("%d polls: %d read their job, %d of them and another one, too; %d left a ghost", n, read, twice, ghosts)
	if ghosts > 0 {
		t.Errorf("%d of %d jobs are with nobody for half an hour", ghosts, n)
	}
}
