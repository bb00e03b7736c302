//go:build !linux

package httpapi

import "net"

// hungUp cannot be told without asking the system; net/http notices a moment later.
func hungUp(net.Conn) bool { return false }

// unread cannot be told of a connection that has ended in good order.
func unread(net.Conn) bool { return false }
