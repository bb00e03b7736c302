package netguard

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

// For each request net/http sets eight deadlines on its connection, one after the
// other: of the head, of the body, of the answer, of the idle time, none at all
// between them. Each takes locks and moves a timer of the runtime, and hardly one is
// ever reached.
//
// So the deadline that was set on the connection is left where it is for as long as
// the one that is asked for is not sooner. What is asked for is remembered. If the one
// that was set is reached first, nobody is told: what is asked for is set then, and the
// call goes on. A busy connection sets a deadline every few seconds this way, and one
// that falls idle wakes once more than it had to.
//
// That holds up only as long as the deadline on the connection is never later than the
// one that is asked for. Where a connection inside sets one by itself, a deadline may be
// late by as much; one that it sets when it is closed stays, because nothing is set
// after that.

// lazy is a listener whose connections set no deadline without need.
type lazy struct{ net.Listener }

// Accept waits for the next connection. On Windows it is left as it is: a write that a
// deadline has ended there may have sent more than it says, so it cannot go on.
func (l lazy) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || runtime.GOOS == "windows" {
		return c, err
	}
	return newLazyConn(c), nil
}

// lazyConn is a connection that sets no deadline without need. A call never ends before
// the deadline that was asked for, and no later than without a lazyConn.
type lazyConn struct {
	net.Conn
	sending sync.Mutex // so that nothing comes between the parts of a write

	mu      sync.Mutex // of what follows; also held while a deadline is set, so that an older one never replaces a newer
	shut    bool       // Close was called, and no deadline is set any more
	in, out deadline
}

// deadline is one of the two that a connection has.
type deadline struct {
	set   func(time.Time) error // sets it on the connection
	asked time.Time             // zero for none
	ahead time.Time             // what is set on the connection; zero for none. Never later than asked
	cut   bool                  // a time that is past was set instead of ahead
}

func newLazyConn(c net.Conn) *lazyConn {
	return &lazyConn{Conn: c, in: deadline{set: c.SetReadDeadline}, out: deadline{set: c.SetWriteDeadline}}
}

// Read reads from the connection.
func (c *lazyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || !c.early(&c.in, err) {
			return n, err
		}
	}
}

// Write writes to the connection, and goes on behind what was sent before a deadline
// that nobody asked for.
func (c *lazyConn) Write(p []byte) (n int, err error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	for {
		var sent int
		sent, err = c.Conn.Write(p[n:])
		if n += sent; !c.early(&c.out, err) {
			return n, err
		}
	}
}

// early reports whether err tells of a deadline that nobody asked for, and sets the one
// that was. It may have been moved since the call ended: that call goes on as well, as
// it does where the runtime finds a deadline moved.
func (c *lazyConn) early(d *deadline, err error) bool {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut || !d.asked.IsZero() && !d.asked.After(time.Now()) {
		return false
	}
	return d.put(d.asked) == nil
}

// ask sets a deadline if the one on the connection does not serve for it.
func (c *lazyConn) ask(d *deadline, t time.Time) error {
	t = steady(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return net.ErrClosed
	}
	d.asked = t
	serves := d.ahead.IsZero() && t.IsZero() || !d.ahead.IsZero() && (t.IsZero() || !d.ahead.After(t))
	switch {
	case serves && !d.cut:
		return nil
	case serves:
		return d.put(d.ahead) // as it was before the cut; if it is reached by now, the next call finds out
	case !t.IsZero() && !t.After(time.Now()):
		d.cut = true
		return d.set(t) // a call that waits ends at once
	}
	return d.put(t)
}

// steady gives a time the reading of the monotonic clock that it lacks: it would move
// with the wall clock otherwise.
func steady(t time.Time) time.Time {
	if t.IsZero() || t != t.Round(0) {
		return t
	}
	return time.Now().Add(time.Until(t))
}

// put sets a deadline on the connection. The caller holds mu.
func (d *deadline) put(t time.Time) error {
	err := d.set(t)
	if err == nil {
		d.ahead, d.cut = t, false
	}
	return err
}

// SetReadDeadline is part of [net.Conn].
func (c *lazyConn) SetReadDeadline(t time.Time) error { return c.ask(&c.in, t) }

// SetWriteDeadline is part of [net.Conn].
func (c *lazyConn) SetWriteDeadline(t time.Time) error { return c.ask(&c.out, t) }

// SetDeadline sets both deadlines as they are asked for, in any case. net/http does
// that where it hands a connection over, and who takes it may use the one inside.
func (c *lazyConn) SetDeadline(t time.Time) error {
	t = steady(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return net.ErrClosed
	}
	c.in.asked, c.out.asked = t, t
	return errors.Join(c.in.put(t), c.out.put(t))
}

// Close closes the connection. The one inside may give itself some time for that by a
// deadline of its own, which nobody moves.
func (c *lazyConn) Close() error {
	c.mu.Lock()
	c.shut = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends what is sent.
func (c *lazyConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection itself.
func (c *lazyConn) NetConn() net.Conn { return c.Conn }
