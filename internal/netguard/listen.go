package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Address is where the server listens.
type Address struct {
	Network string // "tcp" or "unix"
	Where   string // host:port, or the socket's path
	Remote  bool   // other machines can reach it
}

// maxSocketPath stays under the shortest limit of the systems we run on (104 bytes on macOS).
const maxSocketPath = 100

const remedy = "use 127.0.0.1:8080, or unix:///path for a socket"

// ParseAddress reads host:port or unix:///path. A host is localhost, an IP address, or
// left out, which is every address of the machine.
func ParseAddress(v string) (Address, error) {
	if path, ok := strings.CutPrefix(v, "unix://"); ok {
		return ParseSocket(path)
	}
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return Address{}, fmt.Errorf("must be host:port; %s", remedy)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Address{}, fmt.Errorf("%q is not a port from 0 to 65535", port)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1" // whatever a hosts file or a resolver says
	}
	remote := host == ""
	if !remote {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return Address{}, fmt.Errorf("%.60q is not an IP address, and a name might mean another machine tomorrow; %s", host, remedy)
		}
		remote = !ip.Unmap().IsLoopback()
	}
	return Address{"tcp", net.JoinHostPort(host, port), remote}, nil
}

// ParseSocket reads the path of a unix socket.
func ParseSocket(path string) (Address, error) {
	if !filepath.IsAbs(path) {
		return Address{}, fmt.Errorf("needs an absolute path, such as unix:///run/outrider/outrider.sock")
	}
	if len(path) > maxSocketPath {
		return Address{}, fmt.Errorf("is a path of %d bytes, and a socket path may have %d; choose a shorter one", len(path), maxSocketPath)
	}
	return Address{Network: "unix", Where: path}, nil
}

// TakenError says that something else is where a listener was to be. Its text ends
// with what to do about it, and a program may add how.
type TakenError struct {
	Text  string
	InUse bool // by a program that runs
}

func (e *TakenError) Error() string { return e.Text }

// Listen takes the address. One that is taken is a [TakenError].
func (a Address) Listen(ctx context.Context) (net.Listener, error) {
	if a.Network == "unix" {
		return ListenSocket(ctx, a.Where)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, a.Network, a.Where)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &TakenError{Text: a.Where + " is in use by another program: stop it, or choose another port", InUse: true}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a.Where, err)
	}
	return ln, nil
}

// URL is how a client names the listener, which speaks TLS or does not.
func (a Address) URL(ln net.Listener, tls bool) string {
	switch {
	case a.Network == "unix":
		return "unix://" + a.Where
	case tls:
		return "https://" + ln.Addr().String()
	}
	return "http://" + ln.Addr().String()
}
