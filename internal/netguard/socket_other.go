//go:build !unix

package netguard

import (
	"context"
	"errors"
	"net"
)

// ListenSocket is refused where a socket's file has no mode that keeps others out.
func ListenSocket(_ context.Context, _ string) (net.Listener, error) {
	return nil, errors.New("unix sockets are not served on this system; " + remedy)
}
