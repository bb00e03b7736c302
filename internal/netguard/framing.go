package netguard

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/outrider-jobs/outrider/job"
)

// All servers that pass a request on must agree where it ends: if two of them split
// one stream differently, the second answers requests which the first has never
// seen. net/http accepts some requests whose end is not clear, and does not tell a
// handler: a line that ends without a carriage return, a length beside chunks, a
// folded line. So the head of each request is kept as it came, and checked before
// the request is answered.

// framed is a listener whose connections keep the heads of their requests.
type framed struct{ net.Listener }

// Accept waits for the next connection.
func (l framed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &framedConn{Conn: c}, nil
}

// maxKept bounds what is kept of a connection: the longest head, and what is
// read at once behind it.
const maxKept = 32 << 10

// maxIdle is how large a buffer a connection keeps while nothing is in it.
const maxIdle = 2 << 10

// framedConn keeps what comes over a connection, from the head of the next request on.
// That includes what is read while a handler runs.
type framedConn struct {
	net.Conn

	mu    sync.Mutex
	kept  []byte
	skip  int64 // bytes of a body that are still to come before that head
	blind bool  // it is no longer known where a head begins, so none is kept

	closed func() // tells of the end of a connection that a handler has taken over; nil for others
}

// frameKey is the key of the connection in the context of a request.
type frameKey struct{}

// connContext is for [http.Server.ConnContext]. Where the connection notices late that its
// caller has left, the context ends then.
func connContext(ctx context.Context, c net.Conn) context.Context {
	f, ok := c.(*framedConn)
	if !ok {
		return ctx
	}
	if l, ok := f.Conn.(*lateConn); ok {
		ctx, l.leave = context.WithCancel(ctx)
	}
	return context.WithValue(ctx, frameKey{}, f)
}

// Read reads from the connection.
func (c *framedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.keep(p[:n])
	return n, err
}

func (c *framedConn) keep(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := min(c.skip, int64(len(p)))
	c.skip -= body
	switch p = p[body:]; {
	case c.blind || len(p) == 0:
	case len(c.kept)+len(p) > maxKept:
		c.kept, c.blind = nil, true
	default:
		c.kept = append(c.kept, p...)
	}
}

// taken says that a handler has taken the connection over: what comes over it is no request
// any more. closed is called when it is closed.
func (c *framedConn) taken(closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.blind, c.closed = nil, true, closed
}

// Close closes the connection.
func (c *framedConn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	closed := c.closed
	c.closed = nil
	c.mu.Unlock()
	if closed != nil {
		closed()
	}
	return err
}

// CloseWrite ends what is sent; net/http does so before it gives a connection up.
func (c *framedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection itself.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

// Clear returns nil for a request if it is clear where it ends. After any other, and
// after a chunked one, whose length only net/http knows, the connection is closed.
func Clear(w http.ResponseWriter, r *http.Request) error {
	c, ok := r.Context().Value(frameKey{}).(*framedConn)
	if !ok {
		return nil
	}
	err := c.next(r)
	if err != nil || r.ContentLength < 0 {
		w.Header().Set("Connection", "close")
	}
	return err
}

// next checks the head of r and moves on to the head of the request behind it.
func (c *framedConn) next(r *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	chunks := len(r.TransferEncoding) > 0
	end, err := judge(c.kept, r.Method, chunks, chunks || r.ProtoMinor == 0)
	if err != nil || r.ContentLength < 0 {
		c.kept, c.blind = nil, true
		return err
	}
	behind := c.kept[end:]
	body := min(r.ContentLength, int64(len(behind)))
	c.skip = r.ContentLength - body
	if c.kept = append(c.kept[:0], behind[body:]...); len(c.kept) == 0 && cap(c.kept) > maxIdle {
		c.kept = nil
	}
	return nil
}

// errLost is for a connection where what was kept is not the head of the request, so
// that the head cannot be checked.
var errLost = job.Errorf(job.Invalid, "it is not clear where the request begins; send it over a new connection")

// judge checks the head at the front of raw, which must be that of a request with the
// method, and returns where it ends. chunked is whether the body comes in chunks, and
// named whether the names of the headers matter.
func judge(raw []byte, method string, chunked, named bool) (end int, err error) {
	for first := true; ; {
		n := bytes.IndexByte(raw[end:], '\n')
		if n < 0 {
			return end, errLost
		}
		line := raw[end : end+n]
		end += n + 1
		if n == 0 || line[n-1] != '\r' {
			return end, job.Errorf(job.Invalid, "a line of the request ends with a line feed alone, and must end with a carriage return and a line feed")
		}
		switch {
		case n == 1 && first: // an empty line in front of the request, as some clients send after a body
		case n == 1:
			return end, nil
		case line[0] == ' ' || line[0] == '\t':
			return end, job.Errorf(job.Invalid, "a header of the request is folded over two lines")
		case first:
			if len(line) <= len(method) || string(line[:len(method)]) != method || line[len(method)] != ' ' {
				return end, errLost
			}
			first = false
		case named:
			if err := judgeName(line, chunked); err != nil {
				return end, err
			}
		}
	}
}

// judgeName refuses a header that makes the length of a body unclear.
func judgeName(line []byte, chunked bool) error {
	name, _, _ := bytes.Cut(line, []byte(":"))
	switch strings.ToLower(string(bytes.TrimSpace(name))) {
	case "content-length":
		if chunked {
			return job.Errorf(job.Invalid, "the request has a Content-Length beside its Transfer-Encoding")
		}
	case "transfer-encoding":
		if !chunked {
			return job.Errorf(job.Invalid, "a request in HTTP/1.0 has no Transfer-Encoding")
		}
	}
	return nil
}
