package netguard

import (
	"net"
	"net/http"
	"syscall"
)

// peerOf is the process at the other end of a unix socket, 0 if it is another connection.
func peerOf(c net.Conn) (pid int) {
	cred := credentials(c)
	if cred == nil {
		return 0
	}
	return int(cred.Pid)
}

// PeerUser is the number of the user at the other end of the unix socket that a request
// came over, as the system says it. It knows none where the connection is another one,
// or is not of [Guard].
func PeerUser(r *http.Request) (user int, ok bool) {
	f, ok := r.Context().Value(frameKey{}).(*framedConn)
	if !ok {
		return 0, false
	}
	cred := credentials(f)
	if cred == nil {
		return 0, false
	}
	return int(cred.Uid), true
}

// credentials are those of the process at the other end of a unix socket, nil if it is
// another connection.
func credentials(c net.Conn) (cred *syscall.Ucred) {
	for {
		in, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = in.NetConn()
	}
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if told, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			cred = told
		}
	})
	return cred
}
