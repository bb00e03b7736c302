package sqlitestore

import (
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// step is what the writer is at.
type step int32

const (
	resting    step = iota
	locking         // it waits for the lock of the database
	working         // it runs calls
	committing      // it waits for the disk
)

// gauge is what the writer shows of itself. The writer alone sets it; anybody may
// read it. It costs a commit four stores.
type gauge struct {
	started time.Time
	turns   atomic.Uint64 // rises with each step
	step    atomic.Int32  // the step
	begun   atomic.Int64  // when the lock was last given, since born
	flushed atomic.Int64  // when something was last written and flushed, since born
	full    atomic.Int64  // when there was last no space, since born
	stir    chan struct{} // room for one: the writer has begun something
}

func newGauge() *gauge { return &gauge{started: time.Now(), stir: make(chan struct{}, 1)} }

// now is never 0.
func (g *gauge) now() int64 { return int64(time.Since(g.started)) + 1 }

// to notes that the writer begins a step.
func (g *gauge) to(s step) {
	switch {
	case s == locking:
		select {
		case g.stir <- struct{}{}:
		default:
		}
	case step(g.step.Load()) == locking && s == working:
		g.begun.Store(g.now())
	}
	g.step.Store(int32(s))
	g.turns.Add(1)
}

// since is how long ago something was, and whether it was at all.
func (g *gauge) since(when *atomic.Int64) (ago time.Duration, was bool) {
	at := when.Load()
	return time.Duration(g.now() - at), at > 0
}

// done notes that a commit is on disk, and whether it wrote anything: one that did
// not has proved nothing about the disk.
func (g *gauge) done(wrote bool) {
	if wrote {
		g.flushed.Store(g.now())
	}
}

// refused notes that a transaction was not committed.
func (g *gauge) refused(err error) {
	if code(err) == sqlite3.SQLITE_FULL {
		g.full.Store(g.now())
	}
}
