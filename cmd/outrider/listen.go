package main

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

// address is where the server listens. It is always one that other machines
// cannot reach, as there is no authentication yet.
type address struct {
	network string // "tcp" or "unix"
	where   string // host:port, or the socket's path
}

// maxSocketPath stays under the shortest limit of the systems we run on (104 bytes on macOS).
const maxSocketPath = 100

const remedy = "use 127.0.0.1:8080, or unix:///path for a socket"

// parseAddress reads host:port or unix:///path and refuses what is not of this machine alone.
func parseAddress(v string) (address, error) {
	if path, ok := strings.CutPrefix(v, "unix://"); ok {
		return parseSocket(path)
	}
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return address{}, fmt.Errorf("must be host:port; %s", remedy)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return address{}, fmt.Errorf("%q is no port from 0 to 65535", port)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1" // never what a hosts file or a resolver makes of the name
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
		return address{}, fmt.Errorf("would be open to other machines, and there is no authentication yet; %s", remedy)
	}
	return address{"tcp", net.JoinHostPort(host, port)}, nil
}

func parseSocket(path string) (address, error) {
	if !filepath.IsAbs(path) {
		return address{}, fmt.Errorf("needs an absolute path, as in unix:///run/outrider/outrider.sock")
	}
	if len(path) > maxSocketPath {
		return address{}, fmt.Errorf("is a path of %d bytes, and a socket's may have %d; choose a shorter one", len(path), maxSocketPath)
	}
	return address{"unix", path}, nil
}

// listen takes the address. A taken one is an error that says what to do.
func (a address) listen(ctx context.Context) (net.Listener, error) {
	if a.network == "unix" {
		return listenSocket(ctx, a.where, "--listen")
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, a.network, a.where)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, conflict("%s is in use by another program: stop that one, or choose another port with --listen (127.0.0.1:0 picks a free one)", a.where)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a.where, err)
	}
	return ln, nil
}

// url is how a client names the listener.
func (a address) url(ln net.Listener) string {
	if a.network == "unix" {
		return "unix://" + a.where
	}
	return "http://" + ln.Addr().String()
}
