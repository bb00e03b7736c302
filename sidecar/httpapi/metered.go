package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

const (
	standstill = 10 * time.Second // within this time a large body must move on
	stride     = 64 << 10         // by this many bytes
	longest    = time.Minute      // that all of it may take
	pageBytes  = 4 << 20          // of jobs or events on one page
)

// metered is one request and its answer: what it holds of the memory for bodies, and
// the pace at which a large body must come and a large answer must be taken.
type metered struct {
	http.ResponseWriter
	charge charge
	body   incoming
	page   int  // bytes of jobs or events that were taken
	cut    bool // there was no room for all of them
}

var exchanges = sync.Pool{New: func() any { return new(metered) }}

// meter charges every exchange to a budget, until its handler has ended.
type meter struct {
	*echo.Echo
	of *Budget
}

// ServeHTTP answers one request.
func (s *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := exchanges.Get().(*metered)
	m.ResponseWriter, m.charge.of = w, s.of
	defer m.release()
	s.Echo.ServeHTTP(m, r)
}

func (m *metered) release() {
	m.charge.settle(0)
	*m = metered{}
	exchanges.Put(m)
}

// exchange is the metered of a request; outside of a server it is one without bounds.
func exchange(c echo.Context) *metered {
	if m, ok := c.Response().Writer.(*metered); ok {
		return m
	}
	return &metered{ResponseWriter: c.Response().Writer}
}

// Unwrap is for [http.ResponseController].
func (m *metered) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// FlushError hands what was written to the network, where there is one.
func (m *metered) FlushError() error {
	if f, ok := m.ResponseWriter.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	return nil
}

// Write writes, and gives up on a reader who takes nothing: others need the memory of
// that answer.
func (m *metered) Write(p []byte) (n int, err error) {
	if len(p) <= stride {
		return m.ResponseWriter.Write(p)
	}
	out, over := http.NewResponseController(m.ResponseWriter), time.Now().Add(longest)
	for n < len(p) && err == nil {
		_ = out.SetWriteDeadline(sooner(time.Now().Add(standstill), over)) // without one, the server's own holds
		wrote := 0
		wrote, err = m.ResponseWriter.Write(p[n:min(n+stride, len(p))])
		n += wrote
	}
	return n, err
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// receive makes the reader of a request's body; a negative size is not known. A large
// body is charged before it is read, and must not stand still.
func (m *metered) receive(ctx context.Context, body io.Reader, size int64) (*incoming, error) {
	m.body = incoming{Reader: body}
	in := &m.body
	if size <= small/copies && size >= 0 {
		return in, nil
	}
	if size > 0 {
		if err := m.charge.await(ctx, copies*size); err != nil {
			return nil, err
		}
	} else {
		in.grow = func(by int64) error { return m.charge.await(ctx, copies*by) }
	}
	in.conn, in.over = http.NewResponseController(m.ResponseWriter), time.Now().Add(longest)
	return in, nil
}

// incoming is a body that is being read.
type incoming struct {
	io.Reader
	grow func(by int64) error     // asks for more memory; nil when all of it is there
	conn *http.ResponseController // nil for a small one
	over time.Time                // when all of it must have come
	left int64                    // bytes until the next deadline
	all  bool                     // of it has come
}

// Read reads, and sets a deadline for every stride.
func (in *incoming) Read(p []byte) (int, error) {
	if in.conn == nil {
		return in.Reader.Read(p)
	}
	if in.left <= 0 {
		_ = in.conn.SetReadDeadline(sooner(time.Now().Add(standstill), in.over)) // without one, the server's own holds
		in.left = stride
	}
	n, err := in.Reader.Read(p)
	if in.left -= int64(n); errors.Is(err, os.ErrDeadlineExceeded) {
		err = wire.ErrStalled
	}
	in.all = err == io.EOF
	return n, err
}

// end takes the deadline off where all has come: it is not meant for the work that
// follows. Where some has not, net/http waits for it before it answers, and no longer
// than until that deadline.
func (in *incoming) end() {
	if in.conn != nil && in.all {
		_ = in.conn.SetReadDeadline(time.Time{}) // where none could be set
	}
}

// Take is part of [job.Room].
func (m *metered) Take(n int) bool {
	if n > small {
		runtime.Gosched() // a row of a megabyte takes milliseconds, and others are waiting
	}
	if m.page > 0 && m.page+n > pageBytes {
		m.cut = true
		return false
	}
	if !m.hold(n) {
		return false
	}
	m.page += n
	return true
}

// hold charges for n bytes that are not on the page.
func (m *metered) hold(n int) bool {
	m.cut = !m.charge.grow(copies * int64(n))
	return !m.cut
}

// Reset is part of [job.Room].
func (m *metered) Reset() {
	m.charge.settle(m.charge.held - copies*int64(m.page))
	m.page, m.cut = 0, false
}

// answer sets the charge to that of an answer of n bytes, which is all that is held
// from now on. An answer to a GET or HEAD is refused if there is no room for it; what a
// request has changed must be reported.
func (m *metered) answer(r *http.Request, n int64) error {
	more := n - m.charge.held
	if more > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !m.charge.grow(more) {
		return job.NoRoom()
	}
	m.charge.settle(n)
	return nil
}
