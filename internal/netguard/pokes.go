package netguard

import (
	"context"
	"net"
	"sync"
)

// maxPokers is how many programs may be connected to the poke socket at once, as some
// may never hang up.
const maxPokers = 256

// ServePokes takes connections until ctx ends, and closes ln: whatever comes over one
// is a poke. An app may connect for each poke, or keep a connection and write a byte
// after each commit. Nothing is ever answered.
func ServePokes(ctx context.Context, ln net.Listener, poke func()) error {
	var pokers sync.WaitGroup
	defer pokers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // runs before Wait, and ends the pokers
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	room := make(chan struct{}, maxPokers)
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case room <- struct{}{}:
		default:
			poke() // most likely that is why it has connected
			_ = c.Close()
			continue
		}
		pokers.Go(func() {
			defer func() { <-room }()
			readPokes(ctx, c, poke)
		})
	}
}

// readPokes pokes for all that comes over a connection, until it ends.
func readPokes(ctx context.Context, c net.Conn, poke func()) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close() // nothing was written, so its error does not matter
	for buf := make([]byte, 64); ; {
		n, err := c.Read(buf)
		if n > 0 {
			poke()
		}
		if err != nil {
			return
		}
	}
}
