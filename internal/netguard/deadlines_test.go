package netguard

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// side is one connection of TestDeadlinesModel, and what has come of the calls on it.
type side struct {
	net.Conn // as the server has it
	far      net.Conn
	began    time.Time
	busy     [4]atomic.Bool // of the calls read, write, far read and far write

	mu  sync.Mutex
	log []string
}

// call makes a call that may wait, unless one of its kind is under way.
func (s *side) call(kind int, name string, f func() (int, error)) {
	if s.busy[kind].Swap(true) {
		return
	}
	go func() {
		n, err := f()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = os.ErrDeadlineExceeded
		}
		s.mu.Lock()
		s.log = append(s.log, fmt.Sprintf("%v: %s: %d, %v", time.Since(s.began), name, n, err))
		s.mu.Unlock()
		s.busy[kind].Store(false)
	}()
}

// events is what has come of the calls; those of one moment come in any order.
func (s *side) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.log)
	return slices.Clone(s.log)
}

// step is one of TestDeadlinesModel.
type step struct {
	what string
	n    int // bytes, seconds, or which deadline
	at   int // seconds, of a deadline; 0 for none
	wall bool
}

var setters = []func(net.Conn, time.Time) error{net.Conn.SetReadDeadline, net.Conn.SetWriteDeadline, net.Conn.SetDeadline}

func (s *side) do(st step) {
	switch st.what {
	case "set":
		var d time.Time
		if st.at != 0 {
			d = time.Now().Add(time.Duration(st.at)*time.Second - time.Second/2) // never at the moment of a step
		}
		if st.wall {
			d = d.Round(0)
		}
		_ = setters[st.n%3](s, d) // it fails on a connection that is closed, which the calls show
	case "read":
		s.call(0, "read", func() (int, error) { return s.Read(make([]byte, st.n)) })
	case "write":
		s.call(1, "write", func() (int, error) { return s.Write([]byte{1, 2, 3, 4, 5}[:st.n]) })
	case "take":
		s.call(2, "take", func() (int, error) {
			b := make([]byte, st.n)
			n, err := s.far.Read(b)
			return n, cmp.Or(err, fmt.Errorf("of %v", b[:n]))
		})
	case "send":
		s.call(3, "send", func() (int, error) { return s.far.Write(make([]byte, st.n)) })
	case "close":
		_ = s.Close()
	}
}

// TestDeadlinesModel: whatever deadlines are set and whatever comes and goes, each call
// ends at the very moment and with the result that it has without a lazyConn.
func TestDeadlinesModel(t *testing.T) {
	often := strings.Fields("set set set set pass pass pass read read write write send take")
	rapid.Check(t, func(rt *rapid.T) {
		var steps []step
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			steps = append(steps, step{rapid.SampledFrom(often).Draw(rt, "what"), rapid.IntRange(1, 5).Draw(rt, "n"),
				rapid.SampledFrom([]int{-2e9, 0, 0, 1, 2, 3, 5, 8, 13, 99}).Draw(rt, "at"), rapid.Bool().Draw(rt, "wall")})
		}
		if rapid.Bool().Draw(rt, "closed") {
			steps[len(steps)/2].what = "close"
		}
		steps = append(steps, step{what: "pass", n: 200})
		var wrong string
		synctest.Test(t, func(*testing.T) {
			var sides []*side
			for range 2 {
				near, far := net.Pipe()
				defer near.Close()
				defer far.Close()
				sides = append(sides, &side{Conn: near, far: far, began: time.Now()})
			}
			sides[1].Conn = newLazyConn(sides[1].Conn)
			for i, st := range steps {
				for _, s := range sides {
					s.do(st)
				}
				if st.what == "pass" {
					time.Sleep(time.Duration(st.n) * time.Second)
				}
				synctest.Wait()
				want, got := sides[0].events(), sides[1].events()
				if wrong == "" && !slices.Equal(want, got) {
					wrong = fmt.Sprintf("after step %d, %+v: got %q, want %q", i, st, got, want)
				}
			}
		})
		if wrong != "" {
			rt.Fatalf("%s; steps %+v", wrong, steps)
		}
	})
}

// handed is a listener of the connections that it is given.
type handed struct {
	conns chan net.Conn
	once  sync.Once
}

func (h *handed) Accept() (net.Conn, error) {
	c, ok := <-h.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (h *handed) Close() error   { h.once.Do(func() { close(h.conns) }); return nil }
func (h *handed) Addr() net.Addr { return &net.UnixAddr{Name: "handed", Net: "unix"} }

// played is a server in a bubble, and a caller on a connection to it.
type played struct {
	t     *testing.T
	srv   *http.Server
	limit *connections
	began time.Time
	c     net.Conn
	from  *bufio.Reader
	noted chan string // by the handler
}

func (p *played) note(what string) {
	p.noted <- fmt.Sprintf("%s at %v", what, time.Since(p.began))
}

// send sends in the background, as a pipe holds nothing.
func (p *played) send(s string) { go func() { _, _ = io.WriteString(p.c, s) }() }

func (p *played) answers(want string) {
	p.t.Helper()
	r, err := http.ReadResponse(p.from, nil)
	if err != nil {
		p.t.Fatalf("at %v: %v", time.Since(p.began), err)
	}
	body, err := io.ReadAll(r.Body)
	if got := fmt.Sprintf("%d %s at %v", r.StatusCode, body, time.Since(p.began)); err != nil || got != want {
		p.t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func (p *played) notes(want string) {
	p.t.Helper()
	if got := <-p.noted; got != want {
		p.t.Errorf("noted %q, want %q", got, want)
	}
}

// closedAt waits for the end of the connection.
func (p *played) closedAt(want time.Duration) {
	p.t.Helper()
	rest, _ := io.ReadAll(p.from)
	if at := time.Since(p.began); at != want || len(rest) > 0 && !strings.HasPrefix(string(rest), "HTTP/1.1 400") { // which is said of half a head
		p.t.Errorf("closed at %v behind %q, want %v", at, rest, want)
	}
}

const get = " HTTP/1.1\r\nHost: a\r\n\r\n"

// plays are what a caller does, and when the server does what: at the same moments as
// without a lazyConn.
var plays = map[string]func(p *played){
	"says nothing": func(p *played) { p.closedAt(5 * time.Second) },
	"head is slow": func(p *played) { p.send("GET / HTTP"); p.closedAt(5 * time.Second) },
	"falls idle":   func(p *played) { p.send("GET /" + get); p.answers("200 /  at 0s"); p.closedAt(120 * time.Second) },
	"second is slow": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(3 * time.Second)
		p.send("GET /")
		p.closedAt(8 * time.Second)
	},
	"second is late and slow": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(100 * time.Second)
		p.send("GET /")
		p.closedAt(105 * time.Second)
	},
	"busy, then idle": func(p *played) {
		for i := range 20 {
			p.send("GET /" + get)
			p.answers(fmt.Sprintf("200 /  at %v", time.Duration(i)*time.Second))
			time.Sleep(time.Second)
		}
		p.closedAt(139 * time.Second)
	},
	"waits long": func(p *played) {
		p.send("GET /wait/20s" + get)
		p.answers("200 /wait/20s  at 20s")
		p.closedAt(140 * time.Second)
	},
	"pipelines": func(p *played) {
		p.send("GET /a" + get + "GET /wait/10s" + get + "GET /c" + get)
		p.answers("200 /a  at 0s")
		p.answers("200 /wait/10s  at 10s")
		p.answers("200 /c  at 10s")
		p.closedAt(130 * time.Second)
	},
	"pipelines while the server works": func(p *played) {
		p.send("GET /wait/10s" + get)
		time.Sleep(7 * time.Second)
		p.send("GET /b" + get)
		p.answers("200 /wait/10s  at 10s")
		p.answers("200 /b  at 10s")
		p.closedAt(130 * time.Second)
	},
	"leaves": func(p *played) {
		p.send("GET /until-left" + get)
		time.Sleep(17 * time.Second)
		_ = p.c.Close()
		p.notes("left at 17s")
	},
	"leaves on a kept connection": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(time.Second)
		p.send("GET /until-left" + get)
		time.Sleep(3 * time.Second)
		_ = p.c.Close()
		p.notes("left at 4s")
	},
	"body is late": func(p *played) {
		p.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
		time.Sleep(59 * time.Second)
		p.send("abc")
		p.answers("200 /read abc at 59s")
		p.closedAt(179 * time.Second)
	},
	"body never comes": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(2 * time.Second)
		p.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
		p.notes("deadline at 1m2s")
		p.closedAt(62 * time.Second)
	},
	"body is not read": func(p *played) {
		p.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /b" + get)
		p.answers("200 /a  at 0s")
		p.answers("200 /b  at 0s")
		p.closedAt(120 * time.Second)
	},
	"body has deadlines of its own": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(time.Second)
		p.send("POST /read/strides HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\na")
		time.Sleep(9 * time.Second)
		p.send("b")
		p.notes("deadline at 20s")
	},
	"body is asked for": func(p *played) {
		p.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
		time.Sleep(time.Second)
		p.answers("100  at 1s")
		time.Sleep(8 * time.Second)
		p.send("abc")
		p.answers("200 /read abc at 9s")
		p.closedAt(129 * time.Second)
	},
	"takes no answer": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(50 * time.Second)
		p.send("GET /large" + get)
		p.notes("deadline at 2m20s")
	},
	"takes a large answer slowly": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(80 * time.Second)
		p.send("GET /large" + get)
		for line := ""; line != "\r\n"; {
			line, _ = p.from.ReadString('\n')
		}
		begun := make([]byte, 100_000) // of the write that then waits until the deadline of the first request is reached
		if _, err := io.ReadFull(p.from, begun); err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(89 * time.Second)
		body, err := io.ReadAll(io.LimitReader(p.from, large-int64(len(begun))))
		body = append(begun, body...)
		for i, b := range body {
			if b != byte(i%251) {
				p.t.Fatalf("byte %d is wrong", i)
			}
		}
		if len(body) != large {
			p.t.Errorf("%d bytes, %v", len(body), err)
		}
		p.notes("taken at 2m49s")
	},
	"answer has deadlines of its own": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(time.Second)
		p.send("GET /large/strides" + get)
		p.notes("deadline at 11s")
	},
	"gives way": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(3 * time.Second)
		p.limit.mu.Lock()
		if !p.limit.displace() || p.limit.n.Load() != 0 {
			p.t.Error("an idle connection does not give way")
		}
		p.limit.mu.Unlock()
		p.closedAt(3 * time.Second)
	},
	"is handed over": func(p *played) {
		p.send("GET /" + get)
		p.answers("200 /  at 0s")
		time.Sleep(time.Second)
		p.send("GET /hijack" + get)
		p.notes("hijacked at 1s")
		time.Sleep(time.Hour)
		p.send("x")
		p.notes("read 1 <nil> at 1h0m1s")
	},
	"server stops": func(p *played) {
		p.send("GET /wait/20s" + get)
		time.Sleep(8 * time.Second)
		go func() { _ = p.srv.Shutdown(p.t.Context()) }()
		p.answers("200 /wait/20s  at 20s")
		p.closedAt(20 * time.Second)
	},
	"server is closed": func(p *played) {
		p.send("GET /until-left" + get)
		time.Sleep(8 * time.Second)
		_ = p.srv.Close()
		p.notes("left at 8s")
		p.closedAt(8 * time.Second)
	},
}

const large = 1 << 20

func (p *played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	told := func(err error, what string) {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			what = "deadline"
		}
		p.note(what)
	}
	var body []byte
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/wait/"):
		d, _ := time.ParseDuration(path[len("/wait/"):])
		time.Sleep(d)
		if r.Context().Err() != nil {
			p.t.Error("a caller who is there has left")
		}
	case path == "/until-left":
		<-r.Context().Done()
		p.note("left")
		return
	case strings.HasPrefix(path, "/read"):
		for len(body) < int(r.ContentLength) {
			if strings.HasSuffix(path, "strides") {
				_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			}
			b := make([]byte, 1)
			n, err := r.Body.Read(b)
			if body = append(body, b[:n]...); err != nil && err != io.EOF {
				told(err, err.Error())
				panic(http.ErrAbortHandler)
			}
		}
	case strings.HasPrefix(path, "/large"):
		if strings.HasSuffix(path, "strides") {
			_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		}
		answer := make([]byte, large)
		for i := range answer {
			answer[i] = byte(i % 251)
		}
		w.Header().Set("Content-Length", fmt.Sprint(large))
		_, err := w.Write(answer)
		told(err, "taken")
		return
	case path == "/hijack":
		c, _, err := conn.Hijack()
		if err != nil {
			p.t.Error(err)
			return
		}
		for in, ok := c.(interface{ NetConn() net.Conn }); ok; in, ok = c.(interface{ NetConn() net.Conn }) {
			c = in.NetConn()
		}
		p.note("hijacked")
		n, err := c.Read(make([]byte, 1))
		p.note(fmt.Sprintf("read %d %v", n, err))
		_ = c.Close()
		return
	}
	fmt.Fprintf(w, "%s %s", r.URL.Path, body)
}

// TestDeadlinesOfTheServer plays all plays on a server as it is, and on one whose
// connections are not lazy: they cannot be told apart.
func TestDeadlinesOfTheServer(t *testing.T) {
	for name, play := range plays {
		for _, kind := range []string{"bare", "lazy"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &played{t: t, began: time.Now(), noted: make(chan string, 9)}
					p.srv = NewServer(p, slog.New(slog.DiscardHandler))
					in := &handed{conns: make(chan net.Conn, 1)}
					var ln net.Listener = in
					if kind == "lazy" {
						ln = lazy{in}
					}
					p.limit = limit(framed{ln}, 8, 0, "--max-connections", slog.New(slog.DiscardHandler))
					p.srv.ConnState = p.limit.state
					go func() { _ = p.srv.Serve(p.limit) }()
					near, far := net.Pipe()
					p.c, p.from = far, bufio.NewReader(far)
					in.conns <- near
					play(p)
					_ = far.Close()
					_ = p.srv.Close()
					synctest.Wait()
				})
			})
		}
	}
}

// parted is a connection that gives itself time when it is closed.
type parted struct {
	net.Conn
	over chan time.Time
	turn chan struct{} // of those who read, as the system has it
}

func (p *parted) Read(b []byte) (int, error) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	return p.Conn.Read(b)
}

func (p *parted) Close() error {
	if err := p.Conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, p)
		p.over <- time.Now()
		_ = p.Conn.Close()
	}()
	return nil
}

// The time that a connection gives itself when it is closed stays as it is, whatever is
// set after that, and whoever still reads.
func TestNothingIsSetOnAClosedConnection(t *testing.T) {
	for name, late := range map[string]func(*lazyConn){
		"none at all":  func(c *lazyConn) { _ = c.SetReadDeadline(time.Time{}) },
		"a later one":  func(c *lazyConn) { _ = c.SetReadDeadline(time.Now().Add(time.Minute)) },
		"both":         func(c *lazyConn) { _ = c.SetDeadline(time.Time{}) },
		"a past one":   func(c *lazyConn) { _ = c.SetReadDeadline(time.Unix(1, 0)) },
		"nothing":      func(c *lazyConn) {},
		"reads on":     func(c *lazyConn) { _, _ = c.Read(make([]byte, 1)) },
		"reads, reads": func(c *lazyConn) { go func() { _, _ = c.Read(make([]byte, 1)) }(); _, _ = c.Read(make([]byte, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				in := &parted{near, make(chan time.Time, 1), make(chan struct{}, 1)}
				c := newLazyConn(in)
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				_ = c.SetReadDeadline(time.Now().Add(time.Minute)) // which is remembered
				waits := make(chan struct{})
				go func() { _, _ = c.Read(make([]byte, 1)); close(waits) }()
				synctest.Wait()
				began := time.Now()
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				late(c)
				if took := (<-in.over).Sub(began); took != 2*time.Second {
					t.Errorf("it had %v", took)
				}
				<-waits
				if err := c.SetReadDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
					t.Errorf("set on a closed connection: %v", err)
				}
			})
		})
	}
}

// held is a connection on which others set deadlines at the moment when one is set.
type held struct {
	net.Conn
	meanwhile func() // nil for nothing
}

func (h *held) SetReadDeadline(t time.Time) error {
	if f := h.meanwhile; f != nil {
		h.meanwhile = nil
		go f()
		for range 1000 {
			runtime.Gosched()
		}
	}
	return h.Conn.SetReadDeadline(t)
}

// A deadline that is set while a call finds that its own was early is not replaced by
// the one from before.
func TestAnEarlyDeadlineReplacesNoNewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		h := &held{Conn: near}
		c, began := newLazyConn(h), time.Now()
		defer c.Close()
		_ = c.SetReadDeadline(began.Add(time.Second))
		_ = c.SetReadDeadline(began.Add(time.Hour)) // which is remembered
		h.meanwhile = func() {
			if err := c.SetReadDeadline(began.Add(3 * time.Second)); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("read for %v", took)
		}
	})
}

// halting is a connection on which the first write ends early, while another begins.
type halting struct {
	net.Conn
	meanwhile func() // nil for nothing
	sent      []byte
}

func (h *halting) SetWriteDeadline(time.Time) error { return nil }

func (h *halting) Write(p []byte) (int, error) {
	if f := h.meanwhile; f != nil {
		h.meanwhile = nil
		h.sent = append(h.sent, p[:2]...)
		go f()
		for range 1000 {
			runtime.Gosched()
		}
		return 2, os.ErrDeadlineExceeded
	}
	h.sent = append(h.sent, p...)
	return len(p), nil
}

// A write that goes on after an early deadline is one: no other comes between its parts.
func TestAWriteIsNotInterrupted(t *testing.T) {
	h := &halting{}
	c, other := newLazyConn(h), make(chan error)
	h.meanwhile = func() { _, err := c.Write([]byte("xyz")); other <- err }
	if n, err := c.Write([]byte("abcd")); n != 4 || err != nil {
		t.Error(n, err)
	}
	if err := <-other; err != nil || string(h.sent) != "abcdxyz" {
		t.Errorf("%q, %v", h.sent, err)
	}
}

// A time that is past ends a call that waits at once, over and over, on connections of
// the system's.
func TestAPastDeadlineInterrupts(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		ln, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network])
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		client, err := net.Dial(network, ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := lazy{ln}.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range 200 {
			read := make(chan error)
			go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
			if i%2 == 0 {
				time.Sleep(50 * time.Microsecond) // so that it waits, most likely
			}
			_ = c.SetReadDeadline(time.Unix(1, 0))
			select {
			case err := <-read:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("a past deadline does not end a read")
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Duration(i%3) * time.Hour))
			_ = c.SetReadDeadline(time.Time{})
		}
	}
}

// A guarded connection still tells whose it is, and can be closed on one side: what the
// caller sends then is read as before.
func TestAGuardedConnectionIsStillOneOfTheSystem(t *testing.T) {
	t.Parallel()
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range []net.Listener{onTCP(t), unix} {
		defer ln.Close()
		client, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := Guard(new(http.Server), ln, 8, "", slog.New(slog.DiscardHandler)).Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, known := client.(*net.UnixConn)
		if pid := peerOf(c); known && peerKnown(t) && pid != os.Getpid() {
			t.Errorf("the peer is %d", pid)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
		_ = client.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second)) // which is remembered
		time.Sleep(2 * time.Millisecond)
		fmt.Fprint(client, "x")
		if n, err := c.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Error(n, err)
		}
	}
}

// A time that only a wall clock has told does not move with it.
func TestDeadlinesAreSteady(t *testing.T) {
	now := time.Now()
	for _, in := range []time.Duration{time.Second, -time.Second, time.Hour} {
		at := steady(now.Add(in).Round(0))
		if at == at.Round(0) || at.Sub(now.Add(in)).Abs() > time.Second {
			t.Errorf("%v is %v", now.Add(in), at)
		}
	}
	for _, at := range []time.Time{{}, now} {
		if steady(at) != at {
			t.Errorf("%v is %v", at, steady(at))
		}
	}
}

// counting counts the deadlines that are set on a connection, and the timers that the
// runtime moves for them: for none where there was none, and for a past time only if
// there was one ahead.
type counting struct {
	net.Conn
	sets, timers *atomic.Int64
	ahead        [2]atomic.Bool
}

func (c *counting) count(which int, t time.Time) {
	c.sets.Add(1)
	future := time.Until(t) > 0
	if was := c.ahead[which].Swap(future); was || future {
		c.timers.Add(1)
	}
}
func (c *counting) SetReadDeadline(t time.Time) error {
	c.count(0, t)
	return c.Conn.SetReadDeadline(t)
}
func (c *counting) SetWriteDeadline(t time.Time) error {
	c.count(1, t)
	return c.Conn.SetWriteDeadline(t)
}

type countingListener struct {
	net.Listener
	sets, timers atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &counting{Conn: c, sets: &l.sets, timers: &l.timers}, nil
}

// A request on a kept connection sets two deadlines, where net/http alone sets eight: the
// one that ends its look for a caller who leaves, and the one from before again.
func TestDeadlinesPerRequest(t *testing.T) {
	t.Parallel()
	const requests = 100
	for _, kind := range []string{"bare", "lazy"} {
		ln := &countingListener{Listener: onTCP(t)}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
		srv := NewServer(h, slog.New(slog.DiscardHandler))
		var in net.Listener = framed{ln}
		if kind == "lazy" {
			in = Guard(srv, ln, 8, "--max-connections", slog.New(slog.DiscardHandler))
		}
		go func() { _ = srv.Serve(in) }()
		t.Cleanup(func() { _ = srv.Close() })
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		from, began := bufio.NewReader(c), time.Now()
		for range requests {
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
			answered(t, from)
		}
		again := int64(time.Since(began)/(5*time.Second)+1) * 8 // those that are set once in a while
		sets, timers := ln.sets.Load(), ln.timers.Load()
		t.Logf("%s: %d requests set %d deadlines, for which %d timers move", kind, requests, sets, timers)
		if kind == "lazy" && runtime.GOOS != "windows" && (sets > 2*requests+again || timers > 2*requests+again) {
			t.Errorf("%d requests set %d deadlines and move %d timers", requests, sets, timers)
		}
	}
}
