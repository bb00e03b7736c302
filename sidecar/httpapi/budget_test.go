package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// What is used is what all charges cost together, and no more is ever given than there is.
func TestBudgetFollowsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 1<<20).Draw(t, "size")
		b := NewBudget(size)
		charges := make([]charge, 3)
		for i := range charges {
			charges[i].of = b
		}
		model, forced := make([]int64, len(charges)), false
		used := func() (n int64) {
			for _, held := range model {
				n += max(0, held-small)
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"grow": func(t *rapid.T) {
				i, n := rapid.IntRange(0, 2).Draw(t, "charge"), rapid.Int64Range(0, 1<<19).Draw(t, "bytes")
				free := size - used()
				more := max(0, model[i]+n-small) - max(0, model[i]-small)
				fits := more == 0 || more <= free // what costs nothing fits also where an answer has taken more than there is
				before := b.LastUsed()
				if got := charges[i].grow(n); got != fits {
					t.Fatalf("%d bytes more, where %d are free: %v", more, free, got)
				}
				if more == 0 && !b.LastUsed().Equal(before) {
					t.Fatal("what costs nothing counts as a large body")
				}
				if fits {
					model[i] += n
				}
			},
			"settle": func(t *rapid.T) {
				i, n := rapid.IntRange(0, 2).Draw(t, "charge"), rapid.Int64Range(0, 1<<19).Draw(t, "bytes")
				forced = forced || n > model[i]
				charges[i].settle(n)
				model[i] = n
			},
			"": func(t *rapid.T) {
				if b.Used() != used() || !forced && used() > size {
					t.Fatalf("%d of %d are used, want %d", b.Used(), size, used())
				}
			},
		})
	})
}

// Charges of many requests at once neither pass the budget nor leave anything behind.
func TestBudgetIsShared(t *testing.T) {
	b := NewBudget(1 << 20)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 2000 {
				c := charge{of: b}
				c.grow(int64(1+(i+n)%9) << 15)
				c.grow(small)
				if used := b.Used(); used > 1<<20 {
					t.Errorf("%d bytes are used", used)
				}
				c.settle(0)
			}
		})
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes are used by nobody", b.Used())
	}
}

// pipes is a listener whose connections are in memory, with no buffer between the two ends.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// budgeted runs a test in a bubble beside a server with a budget of so many bytes;
// dial sends it a text, and goes on only when all of it was taken.
func budgeted(t *testing.T, size int64, f *fake, test func(b *Budget, dial func(text string) (*bufio.Reader, net.Conn))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := quiet()
		o.Memory = NewBudget(size)
		conns := make(pipes)
		srv := &http.Server{Handler: New(f, o)}
		go func() { _ = srv.Serve(conns) }()
		test(o.Memory, func(text string) (*bufio.Reader, net.Conn) {
			ours, theirs := net.Pipe()
			conns <- theirs
			if _, err := io.WriteString(ours, text); err != nil {
				t.Fatal(err)
			}
			return bufio.NewReader(ours), ours
		})
		_ = srv.Close()
		time.Sleep(2 * time.Hour) // for whoever still sleeps
	})
}

// swollen is world with jobs whose args take n bytes more.
func swollen(n int) *fake {
	f := world()
	f.job = func(_ context.Context, id job.ID) (*job.Job, error) {
		j := mail(id)
		j.Args = json.RawMessage(`["` + strings.Repeat("x", n) + `"]`)
		return j, nil
	}
	return f
}

func posting(path string, length int, sent string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, sent)
}

// A large body that stands still, or nearly, is cut off after ten seconds: its memory is
// that of others, and so is its connection. net/http reads what is left of a short one
// before it answers.
func TestABodyThatStandsStillIsCut(t *testing.T) {
	for name, pace := range map[string]time.Duration{"nothing more comes": time.Hour, "a byte a second": time.Second} {
		for _, size := range []int{1 << 20, 200_000, 50_000} {
			t.Run(fmt.Sprintf("%s of %d", name, size), func(t *testing.T) {
				budgeted(t, 1<<24, world(), func(b *Budget, dial func(string) (*bufio.Reader, net.Conn)) {
					began := time.Now()
					from, c := dial(posting(batchPath, size, strings.Repeat(" ", 1000)))
					defer c.Close()
					go func() {
						for {
							time.Sleep(pace)
							if _, err := c.Write([]byte(" ")); err != nil {
								return
							}
						}
					}()
					time.Sleep(9 * time.Second)
					if b.Used() == 0 {
						t.Error("a body that is being read costs nothing")
					}
					_ = c.SetReadDeadline(began.Add(30 * time.Minute))
					resp := read1(t, from)
					e := failureOf(t, resp.Body)
					if resp.StatusCode != http.StatusRequestTimeout || e.Code != "timeout" || !e.Retryable || !strings.Contains(e.Message, "no more of the body came") || !resp.Close {
						t.Errorf("%d %+v, closed %v", resp.StatusCode, e, resp.Close)
					}
					if took := time.Since(began); took != standstill {
						t.Errorf("cut after %v", took)
					}
					synctest.Wait()
					if b.Used() != 0 {
						t.Errorf("%d bytes are still used", b.Used())
					}
					if _, err := from.ReadByte(); err != io.EOF || time.Since(began) > standstill+time.Second {
						t.Errorf("after %v: %v, want the end of the connection", time.Since(began), err)
					}
				})
			})
		}
	}
}

// Who is refused in the midst of a body that then stands still does not keep the connection.
func TestARefusedBodyThatStandsStillIsCut(t *testing.T) {
	budgeted(t, 400_000, world(), func(_ *Budget, dial func(string) (*bufio.Reader, net.Conn)) {
		began := time.Now()
		const size = 190_000
		from, c := dial("POST " + batchPath + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s", size, strings.Repeat(" ", 150_000)))
		defer c.Close()
		_ = c.SetReadDeadline(began.Add(30 * time.Minute))
		resp := read1(t, from)
		if e := failureOf(t, resp.Body); resp.StatusCode != http.StatusRequestEntityTooLarge || e.Code != "invalid_payload" {
			t.Errorf("%d %+v", resp.StatusCode, e)
		}
		_, err := from.ReadByte()
		if took := time.Since(began); err != io.EOF || took > longest {
			t.Errorf("after %v: %v, want the end of the connection", took, err)
		}
	})
}

// A slow body is not cut while it goes on, as long as all of it comes within a minute.
func TestASlowBodyMayGoOn(t *testing.T) {
	for name, tt := range map[string]struct {
		every time.Duration
		want  int
	}{"in time": {5 * time.Second, http.StatusBadRequest}, "too late": {9 * time.Second, http.StatusRequestTimeout}} {
		t.Run(name, func(t *testing.T) {
			budgeted(t, 1<<24, world(), func(b *Budget, dial func(string) (*bufio.Reader, net.Conn)) {
				from, c := dial(posting(batchPath, 10*stride, ""))
				defer c.Close()
				go func() {
					for range 10 {
						if _, err := io.WriteString(c, strings.Repeat(" ", stride)); err != nil {
							return
						}
						time.Sleep(tt.every)
					}
				}()
				if resp := read1(t, from); resp.StatusCode != tt.want {
					t.Errorf("%d, want %d", resp.StatusCode, tt.want)
				}
			})
		})
	}
}

// Who does not take a large answer is dropped after ten seconds, and its memory is free again.
func TestAReaderWhoTakesNothingIsDropped(t *testing.T) {
	budgeted(t, 1<<24, swollen(1<<20), func(b *Budget, dial func(string) (*bufio.Reader, net.Conn)) {
		began := time.Now()
		from, c := dial("GET /ojs/v1/jobs/" + string(idOne) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		defer c.Close()
		if _, err := from.Peek(100); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if b.Used() < 1<<20-small {
			t.Errorf("an answer of a megabyte costs %d", b.Used())
		}
		time.Sleep(standstill + time.Millisecond)
		synctest.Wait()
		if b.Used() != 0 {
			t.Errorf("after %v %d bytes are still used", time.Since(began), b.Used())
		}
		if n, _ := io.Copy(io.Discard, from); n >= 1<<20 {
			t.Errorf("all %d bytes came", n)
		}
	})
}

// What is too large for the moment is told to come again, what is too large for
// ever to be smaller; and small requests never notice.
func TestLargeBodiesBeyondTheBudget(t *testing.T) {
	budgeted(t, 7<<19, swollen(1<<20), func(b *Budget, dial func(string) (*bufio.Reader, net.Conn)) {
		_, held := dial(posting(batchPath, 1<<20, " "))
		defer held.Close()
		synctest.Wait()
		began := time.Now()
		from, c := dial(posting(pushPath, 900<<10, ""))
		defer c.Close()
		resp := read1(t, from)
		e := failureOf(t, resp.Body)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !e.Retryable || !resp.Close || !strings.Contains(e.Message, "memory limit") {
			t.Errorf("a second large body: %d %v %+v", resp.StatusCode, resp.Header, e)
		}
		if took := time.Since(began); took < patience || took > patience+look {
			t.Errorf("refused after %v", took)
		}
		from, c = dial(posting(batchPath, 2<<20, ""))
		defer c.Close()
		resp = read1(t, from)
		if e := failureOf(t, resp.Body); resp.StatusCode != http.StatusRequestEntityTooLarge || e.Retryable || e.Details["limit"] == nil {
			t.Errorf("one that is larger than all of it: %d %+v", resp.StatusCode, e)
		}
		began = time.Now()
		from, c = dial("GET /ojs/v1/jobs/" + string(idOne) + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		defer c.Close()
		if resp := read1(t, from); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a large answer: %d", resp.StatusCode)
		}
		one := `{"type":"mail.send","args":["` + strings.Repeat("x", small/copies-50) + `"]}`
		from, c = dial(posting(pushPath, len(one), one))
		defer c.Close()
		if resp := read1(t, from); resp.StatusCode != http.StatusCreated {
			t.Errorf("a small PUSH: %d", resp.StatusCode)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a small PUSH waited for %v", took)
		}
	})
}

// A body of no known length is charged as it grows.
func TestAChunkedBodyIsChargedAsItGrows(t *testing.T) {
	budgeted(t, 1<<20, world(), func(b *Budget, dial func(string) (*bufio.Reader, net.Conn)) {
		from, c := dial("POST " + batchPath + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
		defer c.Close()
		go func() {
			for range 32 {
				if _, err := fmt.Fprintf(c, "8000\r\n%s\r\n", strings.Repeat(" ", 0x8000)); err != nil {
					return
				}
			}
		}()
		if resp := read1(t, from); resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Errorf("%d", resp.StatusCode)
		}
		_ = c.Close()
		synctest.Wait()
		if b.Used() != 0 {
			t.Errorf("%d bytes are still used", b.Used())
		}
	})
}

// plain is a writer of answers that cannot do more than it must.
type plain struct{ http.ResponseWriter }

// An answer to a FETCH that cannot be flushed by hand has still reached its worker.
func TestFetchWithoutAFlush(t *testing.T) {
	f := world()
	f.fail = func(context.Context, job.Claim, job.Failure) (*job.Job, error) {
		t.Error("the job is given back")
		return nil, nil
	}
	r := httptest.NewRequest("POST", "http://localhost"+fetchPath, strings.NewReader(`{"queues":["mail"]}`))
	w := httptest.NewRecorder()
	New(f, quiet()).ServeHTTP(plain{w}, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), string(idOne)[:8]) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
