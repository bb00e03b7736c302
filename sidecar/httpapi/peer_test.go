//go:build linux

package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"weak"

	"github.com/outrider-jobs/outrider/job"
)

// systems is a connection of the operating system's.
type systems interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// closing says when it is closed.
type closing struct {
	systems
	closed chan struct{}
}

func (c closing) Close() error {
	defer close(c.closed)
	return c.systems.Close()
}

// scene is a connection from both sides, on whose server's side an answer is handed over.
type scene struct {
	t      *testing.T
	client systems
	server *peer
	inner  closing
	h      *handover
	backs  int
	failed error // of the write
}

const said = "the answer with the jobs"

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// The steps of a scene. On the server's side they are what net/http and the
// handler do; a read returns what the system then says.
var steps = map[string]func(*scene){
	"writes":  func(s *scene) { s.write(false) },
	"answers": func(s *scene) { s.write(true) }, // and closes the connection thereafter
	"learns": func(s *scene) {
		s.must(s.server.SetReadDeadline(time.Now().Add(20 * time.Second)))
		_, _ = s.server.Read(make([]byte, 64)) // what it says is what is tested
	},
	"is told": func(s *scene) {
		if !s.server.gone() {
			s.t.Error("the peer has left, and is taken to be there")
		}
	},
	"sees nothing": func(s *scene) {
		if s.server.gone() {
			s.t.Error("the peer is there, and is taken to have left")
		}
	},
	"ends": func(s *scene) { s.must(s.server.Close()) },
	"reads": func(s *scene) {
		_, err := io.ReadFull(s.client, make([]byte, len(said)))
		s.must(err)
	},
	"reads half": func(s *scene) {
		_, err := io.ReadFull(s.client, make([]byte, len(said)/2))
		s.must(err)
	},
	"asks on":     func(s *scene) { _, err := io.WriteString(s.client, "POST"); s.must(err) },
	"half-closes": func(s *scene) { s.must(s.client.CloseWrite()) },
	"works": func(s *scene) { // for long
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.h.written = s.h.written.Add(-recent)
	},
	"closes": func(s *scene) { s.must(s.client.Close()) },
	"resets": func(s *scene) {
		if c, ok := s.client.(*net.TCPConn); ok {
			s.must(c.SetLinger(0))
		}
		s.must(s.client.Close())
	},
}

func (s *scene) write(last bool) {
	s.h = s.server.hand(func() { s.backs++ }, last)
	if _, s.failed = io.WriteString(s.server, said); s.failed != nil {
		s.server.drop(s.h)
		return
	}
	s.server.written(s.h)
}

// Every order in which a caller can leave, and what then becomes of the jobs.
var orders = []struct {
	play string // server: steps; client: steps
	back bool   // or the write fails
	only string // the one network where it is so
}{
	{play: "client closes, server is told"},
	{play: "client resets, server is told"},
	{play: "client half-closes, server is told"},
	{play: "client asks on, server sees nothing"},
	{play: "server sees nothing"},
	{play: "client closes, server learns, server is told"},
	{play: "client resets, server learns, server is told"},

	{play: "client closes, server writes, server learns", back: true},
	{play: "client closes, server learns, server writes", back: true},
	{play: "client resets, server writes", back: true},
	{play: "client resets, server learns, server writes", back: true},
	{play: "server writes, client closes, server learns", back: true},
	{play: "server writes, client reads half, client closes, server learns", back: true},
	{play: "server writes, client resets, server learns", back: true},
	{play: "server writes, client half-closes, client closes, server learns", back: true, only: "unix"},

	{play: "server writes, client reads, client closes, server learns"},
	{play: "server writes, client reads, client half-closes, server learns"},
	{play: "server writes, client reads, client resets, server learns", only: "unix"},
	// The one order in which a whole answer is taken for an unread one: TCP says no
	// more than that the peer closed hard.
	{play: "server writes, client reads, client resets, server learns", back: true, only: "tcp"},
	// A worker at work, whose idle connection is dropped by what lies between.
	{play: "server writes, client reads, client works, client resets, server learns"},
	{play: "server writes, client works, client closes, server learns", back: true, only: "unix"},
	{play: "server writes, client asks on, server learns, client closes, server learns"},
	{play: "server writes, client reads, client asks on, server learns, client resets, server learns"},

	{play: "server answers, client closes, server ends", back: true},
	{play: "server answers, server ends, client closes", back: true},
	{play: "server answers, server ends, client resets", back: true},
	{play: "server answers, server ends, client reads half, client closes", back: true},
	{play: "server answers, server ends, client reads, client closes"},
	{play: "server answers, client reads, client closes, server ends"},
	{play: "server answers, client reads, server ends, client half-closes"},
	{play: "client closes, server learns, server answers, server ends", back: true},
	{play: "server writes, client reads, server ends"},
}

func TestWhatBecomesOfAnAnswer(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, o := range orders {
			if o.only != "" && o.only != network {
				continue
			}
			t.Run(network+": "+o.play, func(t *testing.T) {
				t.Parallel()
				s := open(t, network)
				ended := false
				for _, step := range strings.Split(o.play, ", ") {
					_, what, _ := strings.Cut(step, " ")
					steps[what](s)
					ended = ended || what == "ends"
				}
				if ended {
					<-s.inner.closed
				}
				if want := o.back && s.failed == nil; s.backs > 1 || want != (s.backs == 1) {
					t.Errorf("taken back %d times, write: %v; want %v", s.backs, s.failed, o.back)
				}
				if !o.back && s.failed != nil {
					t.Errorf("write: %v", s.failed)
				}
			})
		}
	}
}

// open connects a client to a watched listener.
func open(t *testing.T, network string) *scene {
	t.Helper()
	s := &scene{t: t}
	ln, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network])
	s.must(err)
	defer ln.Close()
	c, err := net.Dial(network, ln.Addr().String())
	s.must(err)
	s.client = c.(systems)
	a, err := ln.Accept()
	s.must(err)
	s.inner = closing{a.(systems), make(chan struct{})}
	s.server = &peer{Conn: s.inner}
	t.Cleanup(func() {
		_ = s.client.Close() // most have been closed
		_ = a.Close()
	})
	return s
}

// Whoever reads the connection while it is closed tells as much as if nobody did.
func TestAnAnswerIsSettledBesideAnotherReader(t *testing.T) {
	for range 10 {
		s := open(t, "unix")
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = s.server.Read(make([]byte, 1)) // as netguard does for a request that takes long
		}()
		time.Sleep(time.Millisecond) // mostly it reads by then
		s.write(true)
		s.must(s.server.Close())
		s.must(s.client.CloseWrite())
		time.Sleep(20 * time.Millisecond) // as long as unread asks again and again
		s.must(s.client.Close())
		<-s.inner.closed
		<-over
		if s.backs != 1 {
			t.Fatalf("what lies unread was taken back %d times", s.backs)
		}
	}
}

// listenWatched serves f to connections that are watched.
func listenWatched(t *testing.T, f *fake, o Options) *httptest.Server {
	srv := httptest.NewUnstartedServer(New(f, o))
	srv.Listener = Watch(srv.Config, srv.Listener)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// Jobs go back when their answer lies unread, also when the server was to close the
// connection after it; but those whose worker was heard of since stay with it.
func TestFetchGivesBackWhatLiesUnread(t *testing.T) {
	later := func(id job.ID) *job.Job {
		j := started(id)
		if err := j.Extend(noon.Add(time.Minute), job.Claim{ID: id}, 0); err != nil {
			t.Fatal(err)
		}
		return j
	}
	for name, tt := range map[string]struct {
		header string
		two    *job.Job // as it is when the connection has ended
		want   string
	}{
		"kept alive":                       {"", started(idTwo), "token-0001 token-0002"},
		"the last one":                     {"Connection: close\r\n", started(idTwo), "token-0001 token-0002"},
		"heard of":                         {"", later(idTwo), "token-0001"},
		"acknowledged":                     {"", finished(idTwo), "token-0001"},
		"removed since":                    {"", nil, "token-0001"},
		"the last one, as the server says": {"X-Last: yes\r\n", started(idTwo), "token-0001 token-0002"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, back := world(), make(chan string, 2)
			f.fetch = func(context.Context, job.FetchRequest) ([]*job.Job, error) {
				return []*job.Job{started(idOne), started(idTwo)}, nil
			}
			f.job = func(_ context.Context, id job.ID) (*job.Job, error) {
				switch {
				case id == idOne:
					return started(id), nil
				case tt.two == nil:
					return nil, failures["e001"]
				}
				return tt.two, nil
			}
			f.fail = func(_ context.Context, c job.Claim, why job.Failure) (*job.Job, error) {
				if !why.Requeue {
					t.Errorf("%s is failed, not given back", c.ID)
				}
				back <- c.Token
				return started(c.ID), nil
			}
			o := quiet()
			o.Admit = func(w http.ResponseWriter, r *http.Request) error { // as netguard does where the end of a request is not sure
				if r.Header.Get("X-Last") != "" {
					w.Header().Set("Connection", "close")
				}
				return nil
			}
			srv := listenWatched(t, f, o)
			body := `{"queues":["mail"],"count":2}`
			_, c := dial(t, srv, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", fetchPath, tt.header, len(body), body))
			if _, err := c.Read(make([]byte, 1)); err != nil { // the answer has been written, and its rest is not read
				t.Fatal(err)
			}
			_ = c.Close() // that is the test
			var got []string
			for range strings.Fields(tt.want) {
				select {
				case token := <-back:
					got = append(got, token)
				case <-time.After(20 * time.Second):
					t.Fatalf("given back: %v, want %s", got, tt.want)
				}
			}
			srv.Close()
			if len(back) > 0 || strings.Join(got, " ") != tt.want {
				t.Errorf("given back: %v and %d more, want %s", got, len(back), tt.want)
			}
		})
	}
}

// A worker that says nothing more for long, as it works, keeps no job in the memory
// of the server.
func TestAJobThatWasHandedOverIsNotKept(t *testing.T) {
	f := world()
	var kept weak.Pointer[job.Job]
	f.fetch = func(context.Context, job.FetchRequest) ([]*job.Job, error) {
		j := started(idOne)
		kept = weak.Make(j)
		return []*job.Job{j}, nil
	}
	srv := listenWatched(t, f, quiet())
	body := `{"queues":["mail"]}`
	from, _ := dial(t, srv, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", fetchPath, len(body), body))
	if resp := read1(t, from); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	for range 100 {
		if runtime.GC(); kept.Value() == nil {
			return
		}
		time.Sleep(10 * time.Millisecond) // the handler is at its end
	}
	t.Error("the job is in memory for as long as its worker says nothing")
}

func finished(id job.ID) *job.Job {
	j := started(id)
	if err := j.Complete(noon, job.Claim{ID: id}, nil); err != nil {
		panic(err)
	}
	return j
}
