package httpapi

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hungUp reports whether the peer has closed its side, or the whole connection.
// net/http finds that out too, but a moment later.
func hungUp(c net.Conn) bool {
	gone := false
	control(c, func(fd int) {
		var b [1]byte
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == unix.ECONNRESET || err == unix.EPIPE
	})
	return gone
}

// slowest is how long to wait for the last acknowledgement of a peer that has closed.
const slowest = time.Second

// unread reports whether a peer that has closed its side left bytes unread. Over TCP
// the peer's system resets the connection when bytes arrive after the close, and
// acknowledges those that came before it; had they not been read, the peer would have
// reset the connection instead of closing it. A unix socket counts the bytes that its
// peer has not read.
func unread(c net.Conn) bool {
	for until := time.Now().Add(slowest); ; time.Sleep(time.Millisecond) {
		waiting, reset, known := 0, false, false
		control(c, func(fd int) {
			n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
			waiting, known = n, err == nil
			said, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			reset = err == nil && said != 0
		})
		switch {
		case !known:
			return false // nobody can tell
		case reset:
			return true
		case waiting == 0:
			return false
		case time.Now().After(until):
			return true
		}
	}
}

// control runs f with the descriptor of a connection of the system's, if it is one.
func control(c net.Conn, f func(fd int)) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // it fails on a closed connection, which tells nothing
	}
}
