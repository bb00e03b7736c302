package netguard

import (
	"net"
	"syscall"
)

// peerOf is the process at the other end of a unix socket, 0 if it is another connection.
func peerOf(c net.Conn) (pid int) {
	for {
		in, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = in.NetConn()
	}
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
