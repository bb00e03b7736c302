package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A caller may leave at the very moment when jobs are handed to it. The write
// succeeds all the same: the bytes lie in a buffer of the operating system, and
// what became of them shows only when the connection ends. A peer that closes
// with bytes unread resets the connection, and so does one that receives bytes
// after it has closed; one that has read everything closes normally.
//
// So what was handed out over a connection is remembered until the peer sends
// something else on it, or it ends.

// Watch makes srv, which is to serve connections of ln, notice that a caller has
// left without reading the jobs it fetched, and puts them back in their queues at
// once. Serve the listener that it returns, or one around it whose connections
// have a method NetConn. It must be called before srv serves, and with the
// innermost listener, as only the connections of the system can be asked.
// Without Watch a handler of [New] notices only callers who leave before
// their answer is written; the reservations of the others must run out.
//
// On Linux it is known whether an answer was read, over TCP and over unix sockets.
// On other systems only a reset is noticed, and not that the peer had closed before
// the answer was sent. Over TLS a caller that takes its leave as TLS has it is taken to
// have read its answer: the reservations of such a one run out, too.
func Watch(srv *http.Server, ln net.Listener) net.Listener {
	before := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		if p := watchedIn(c); p != nil {
			ctx = context.WithValue(ctx, peerKey{}, p)
		}
		return ctx
	}
	return watched{ln}
}

// watchedIn is the watched connection inside those of other listeners.
func watchedIn(c net.Conn) *peer {
	for {
		switch in := c.(type) {
		case *peer:
			return in
		case interface{ NetConn() net.Conn }:
			c = in.NetConn()
		default:
			return nil
		}
	}
}

type peerKey struct{}

// peerOf is the connection of a request, nil where nobody watches it.
func peerOf(r *http.Request) *peer {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p
}

type watched struct{ net.Listener }

func (w watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &peer{Conn: c}, nil
}

// peer is a connection that remembers what was last handed out over it. Its methods
// may be called by many goroutines at once; those of a nil peer do nothing.
type peer struct {
	net.Conn
	out   atomic.Pointer[handover] // nil when the peer has spoken since, or nothing was handed out
	spoke atomic.Bool              // it has ever sent something

	reading sync.Mutex // held until what a read tells is settled: the next one may tell less

	mu    sync.Mutex
	ended error // of the read that was the last
}

// handover is what was handed out in one answer.
type handover struct {
	back    func()    // takes it back
	last    bool      // the server closes the connection after the answer
	written time.Time // when the answer was with the operating system; zero before. Guarded by the peer's mu
}

// gone reports whether the peer has left, as far as is known now.
func (p *peer) gone() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	return ended != nil || hungUp(p.Conn)
}

// hand notes what the answer that is now written hands out.
func (p *peer) hand(back func(), last bool) *handover {
	h := &handover{back: back, last: last}
	p.out.Store(h)
	return h
}

// drop forgets a handover whose answer could not be written.
func (p *peer) drop(h *handover) {
	if h != nil {
		p.out.CompareAndSwap(h, nil)
	}
}

// written says that the answer is with the operating system. Where the peer had
// left by then, it is found out now whether the answer was read.
func (p *peer) written(h *handover) {
	if h == nil {
		return
	}
	p.mu.Lock()
	h.written = time.Now()
	ended := p.ended
	p.mu.Unlock()
	if ended != nil {
		p.settle(h, ended)
	}
}

// Read notes that the peer has sent something, or has left. If the deadline for its
// first bytes passed while this process was not running, Read looks once more: what the
// peer has sent meanwhile counts.
func (p *peer) Read(b []byte) (int, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	n, err := p.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.spoke.Swap(true) && p.SetReadDeadline(time.Now().Add(lastLook)) == nil {
		n, err = p.Conn.Read(b)
	}
	if n > 0 && !p.spoke.Load() {
		p.spoke.Store(true)
	}
	if n > 0 && p.out.Load() != nil {
		p.out.Store(nil) // a peer that asks again has read its answer
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		p.end(err)
	}
	return n, err
}

func (p *peer) end(err error) {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = err
	}
	h := p.out.Load()
	settled := h == nil || h.written.IsZero() // if the answer is still being written, written settles it
	p.mu.Unlock()
	if !settled {
		p.settle(h, err)
	}
}

// settle takes back what a peer that has left surely did not read. Over TCP a reset
// only proves that soon after the answer: later it may come from a proxy or a firewall
// that drops connections which have been idle while the worker works.
func (p *peer) settle(h *handover, ended error) {
	if !p.out.CompareAndSwap(h, nil) {
		return
	}
	reset := errors.Is(ended, syscall.ECONNRESET) && (time.Since(h.written) < recent || p.LocalAddr().Network() == "unix")
	if reset || errors.Is(ended, io.EOF) && unread(p.Conn) {
		h.back()
	}
}

// recent is for how long after an answer a reset is taken to be about it.
const recent = 5 * time.Second

// lastLook is how long Read waits when it looks once more: what has arrived is read at
// once, and the rest may still be on its way.
const lastLook = 100 * time.Millisecond

// parting is how long a connection that the server ends with an answer stays
// half open, so that its peer can say how much of the answer it has read.
const parting = 2 * time.Second

// Close closes the connection. If its last answer handed something out, Close first
// waits in the background for the peer to close its side.
func (p *peer) Close() error {
	h := p.out.Load()
	if h == nil || !h.last || p.SetReadDeadline(time.Now().Add(parting)) != nil {
		return p.Conn.Close()
	}
	_ = p.CloseWrite() // it fails if the peer has left already; Read will tell
	go func() {
		_, _ = io.Copy(io.Discard, p) // Read settles it
		_ = p.Conn.Close()            // the peer has closed, or is not waited for any longer
	}()
	return nil
}

// NetConn is the connection itself.
func (p *peer) NetConn() net.Conn { return p.Conn }

// CloseWrite ends this side of the connection; net/http does so before it drops
// what a caller still sends.
func (p *peer) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
