//go:build !unix

package netguard

import (
	"context"
	"errors"
	"net"
)

// ListenSocket fails: on this system the mode of a socket's file does not keep others
// out.
func ListenSocket(_ context.Context, _ string) (net.Listener, error) {
	return nil, errors.New("unix sockets are not served on this system; " + remedy)
}

// FilesAllowed is not known here.
func FilesAllowed() int { return 0 }
