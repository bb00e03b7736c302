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

// slowest is how long the last acknowledgement of a peer that has closed is waited for.
const slowest = time.Second

// unread reports whether bytes that were sent to a peer which has closed its side
// were not read. Over TCP the peer's system answers with a reset to what comes
// after the end, and acknowledges what came before it; what it acknowledged and
// was not read would have been a reset instead of the end. A unix socket counts
// the bytes that lie unread with its peer.
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
		_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // a connection that was closed tells nothing
	}
}
