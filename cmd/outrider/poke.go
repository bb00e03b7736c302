package main

import (
	"context"
	"net"
	"sync"
)

// maxPokers is how many programs may be connected to the poke socket. It bounds
// what one that never hangs up costs.
const maxPokers = 256

// answerDoor takes connections to the poke socket until ctx ends: whatever comes
// over one wakes every relay. An app may connect for each poke, or keep a
// connection and write a byte after each commit. Nothing is ever answered.
func (rs *relays) answerDoor(ctx context.Context) error {
	var pokers sync.WaitGroup
	defer pokers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before the wait: it is what ends the pokers
	stop := context.AfterFunc(ctx, func() { _ = rs.door.Close() })
	defer stop()
	room := make(chan struct{}, maxPokers)
	for {
		c, err := rs.door.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case room <- struct{}{}:
		default:
			rs.poke() // it has connected for that, most likely
			_ = c.Close()
			continue
		}
		pokers.Go(func() {
			defer func() { <-room }()
			rs.hear(ctx, c)
		})
	}
}

// hear pokes for all that comes over a connection, until it ends.
func (rs *relays) hear(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close() // its error is nobody's
	for buf := make([]byte, 64); ; {
		n, err := c.Read(buf)
		if n > 0 {
			rs.poke()
		}
		if err != nil {
			return
		}
	}
}
