package sidecar

import (
	"sync"
	"sync/atomic"
)

// news tells those who follow the log of events that a commit has added to it. As
// long as nobody waits, such a commit pays for one look at a number.
type news struct {
	waiting atomic.Bool
	mu      sync.Mutex
	next    chan struct{} // closed with the next such commit; nil as long as nobody waits
}

// wait returns what the next such commit closes. Whoever calls it looks at the log behind
// that, and then waits: so nothing can come between the look and the wait.
func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
		n.waiting.Store(true)
	}
	return n.next
}

// tell says that a commit is on disk.
func (n *news) tell() {
	if !n.waiting.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
		n.waiting.Store(false)
	}
}
