//go:build !unix

package main

import (
	"context"
	"errors"
	"net"
)

// listenSocket is refused where a socket's file has no mode that keeps others out.
func listenSocket(_ context.Context, _, _ string) (net.Listener, error) {
	return nil, errors.New("unix sockets are not served on this system; " + remedy)
}
