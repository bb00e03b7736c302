package netguard

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// While a handler works, net/http reads one byte of the connection in the background, to
// learn of a caller who leaves. For a request that is answered in a millisecond that is a
// read which finds nothing, a wait in the poller, a deadline to end it and two goroutines
// that wake each other, and tells nobody anything.
//
// So the first read of a single byte behind those of a request finds nothing and ends at
// once, as a reader may. Where the request takes longer, the second look at all
// connections that work has the byte read, and whoever leaves is known from then on, as
// before. net/http reads single bytes for no other reason but the last place of a full
// buffer, or the last byte that a head may have: there it tries again. A handler that
// sets a deadline for reading behind the end of the body would end the watch.

// lookEvery is the time between two looks at the connections that work.
const lookEvery = 10 * time.Millisecond

// late is a listener whose connections are watched only while a request takes long.
type late struct {
	net.Listener
	*lookout
}

// Accept waits for the next connection.
func (l late) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: c, lookout: l.lookout}, nil
}

// lookout looks at the connections that work and are not watched, as long as there are any.
type lookout struct {
	mu      sync.Mutex
	working []*lateConn
	timer   *time.Timer // nil before the first
}

// add has a connection looked at.
func (l *lookout) add(c *lateConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.working = append(l.working, c); {
	case len(l.working) > 1: // a look is to come
	case l.timer == nil:
		l.timer = time.AfterFunc(lookEvery, l.look)
	default:
		l.timer.Reset(lookEvery)
	}
}

// look looks at all.
func (l *lookout) look() {
	l.mu.Lock()
	working := l.working
	l.working = nil
	l.mu.Unlock()
	for _, c := range working {
		if c.looked() {
			l.add(c)
		}
	}
}

// lateConn is a connection that is watched only while a request takes long.
type lateConn struct {
	net.Conn
	*lookout
	leave context.CancelFunc // tells the handlers that the caller has left; nil where none hears of it, and nothing is late

	mu      sync.Mutex    // of what follows
	came    bool          // something of a request has come that is not worked on yet
	works   bool          // a request is worked on, and nobody reads
	seen    bool          // it was at the last look already
	listed  bool          // it is to be looked at
	watched chan struct{} // closed when the watch is over; nil where there is none
	ahead   []byte        // the byte that came meanwhile
}

// Read reads from the connection, behind what a watch has read.
func (c *lateConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	if len(p) == 1 && c.came && c.leave != nil {
		defer c.mu.Unlock()
		c.came, c.works, c.seen = false, true, false
		if !c.listed {
			c.listed = true
			c.add(c)
		}
		return 0, nil
	}
	c.works = false
	for c.watched != nil {
		over := c.watched
		c.mu.Unlock()
		<-over
		c.mu.Lock()
	}
	n := copy(p, c.ahead)
	c.ahead = c.ahead[n:]
	c.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if n > 0 && len(p) > 1 {
		c.mu.Lock()
		c.came = true
		c.mu.Unlock()
	}
	return n, err
}

// looked is a look at the connection. It reports whether there is to be another one.
func (c *lateConn) looked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.works && !c.seen:
		c.seen = true
		return true
	case c.works:
		c.watched = make(chan struct{})
		go c.await(c.watched)
	}
	c.listed = false
	return false
}

// await waits for the caller to leave, or to send something.
func (c *lateConn) await(over chan struct{}) {
	b := make([]byte, 1)
	n, err := c.Conn.Read(b)
	if n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.leave()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead, c.watched = b[:n], nil
	close(over)
}

// Close closes the connection.
func (c *lateConn) Close() error {
	c.mu.Lock()
	c.works = false
	c.mu.Unlock()
	err := c.Conn.Close()
	if c.leave != nil {
		c.leave()
	}
	return err
}

// CloseWrite ends what is sent.
func (c *lateConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection inside.
func (c *lateConn) NetConn() net.Conn { return c.Conn }
