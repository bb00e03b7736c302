//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyHangups sends the SIGHUPs of this process to ch until stop is called.
func notifyHangups(ch chan<- os.Signal) (stop func()) {
	signal.Notify(ch, syscall.SIGHUP)
	return func() { signal.Stop(ch) }
}
