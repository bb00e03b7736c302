//go:build !linux

package httpapi

import "net"

// hungUp cannot be told without asking the system; a read of the connection tells it a
// moment later, which for a FETCH that ends within milliseconds is too late.
func hungUp(net.Conn) bool { return false }

// unread cannot be told of a connection that has ended in good order.
func unread(net.Conn) bool { return false }
