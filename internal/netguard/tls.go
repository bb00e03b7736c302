package netguard

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// TLS is a listener that speaks TLS, and tells whoever asks without it what it wants.
func TLS(ln net.Listener, config *tls.Config) net.Listener {
	return encrypted{ln, config}
}

type encrypted struct {
	net.Listener
	config *tls.Config
}

// Accept waits for the next connection. Its handshake is part of its first Read, under the
// deadline of that.
func (l encrypted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tlsConn{tls.Server(c, l.config)}, nil
}

type tlsConn struct{ *tls.Conn }

// Read reads what came over TLS. A request without it gets its answer here, and is not read.
func (c *tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && capital(plain.RecordHeader[0]) && capital(plain.RecordHeader[1]) { // of a method
		_ = plain.Conn.SetWriteDeadline(time.Now().Add(refusalTime))
		_, _ = plain.Conn.Write(lastAnswer("400 Bad Request", "invalid_request", false, // if this fails the caller has gone
			"this server speaks https, and the request came without TLS; write https:// in its address", "Write https:// in the address of the server."))
		return n, io.EOF
	}
	return n, err
}

func capital(c byte) bool { return 'A' <= c && c <= 'Z' }
