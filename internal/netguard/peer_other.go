//go:build !linux

package netguard

import (
	"net"
	"net/http"
)

// peerOf is not known on this system.
func peerOf(net.Conn) int { return 0 }

// PeerUser is not known on this system.
func PeerUser(*http.Request) (user int, ok bool) { return 0, false }
