// Package logsink is a writer that nobody waits for: what is written is kept in
// memory, and one goroutine carries it on. A log that nobody reads, a terminal
// that stands still or a full disk then costs lines of the log, and holds up
// nobody who writes one.
package logsink

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// Limit is how many bytes are kept for a writer that is slow, unless Options say otherwise.
const Limit = 1 << 20

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Limit is how many bytes are kept at most for a writer that takes nothing;
	// as much again may be in the hands of the goroutine. 0 is the constant Limit.
	Limit int
	// Note makes the line which says that so many lines are missing where it
	// stands. err is why the writer took nothing, and nil if it was only slow.
	// Without it nothing is said.
	Note func(lines int, err error) []byte
	// Failed is told the error of the first write that fails, and of the first
	// one after some have succeeded again. It runs in the goroutine that writes,
	// so it must not wait.
	Failed func(err error)
}

// Sink is an [io.Writer] that keeps what is written and returns at once. It may
// be used by many goroutines at once. Each write is one line or some whole ones.
type Sink struct {
	w         io.Writer
	o         Options
	important important
	wake      chan struct{} // that there is something to carry
	quit      chan struct{}
	done      chan struct{}

	mu      sync.Mutex
	next    []byte          // what waits to be carried
	dropped int             // lines that came after it and found no room
	full    bool            // only important lines are taken, so that no line stands behind a later one
	busy    bool            // not everything is carried
	idle    []chan struct{} // to be closed when everything is
	closed  bool

	// Of the goroutine alone.
	lost int   // lines that are missing before what is written next, and were not told of
	why  error // the writer's last error since it was last told
	torn bool  // the last line broke off
	bad  bool  // the last write failed
}

// New makes a sink in front of w. It must be closed.
func New(w io.Writer, o Options) *Sink {
	if o.Limit == 0 {
		o.Limit = Limit
	}
	s := &Sink{w: w, o: o, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	s.important.s = s
	go s.run()
	return s
}

// Write keeps a copy of p, or drops and counts it where there is no room. It
// never waits for the writer and never fails. An eighth of the room is left for
// important lines.
func (s *Sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full || len(s.next)+len(p) > s.o.Limit-s.o.Limit/8 {
		s.full = true
		s.drop(p)
		return len(p), nil
	}
	s.keep(p)
	return len(p), nil
}

// important is the way into the sink for lines that must not be dropped for others.
type important struct{ s *Sink }

func (g important) Write(p []byte) (int, error) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if len(g.s.next)+len(p) > g.s.o.Limit {
		g.s.drop(p)
	} else {
		g.s.keep(p)
	}
	return len(p), nil
}

// Important is a writer into the same sink that may use all of its room.
func (s *Sink) Important() io.Writer { return s.important }

// keep and drop are called with mu held.
func (s *Sink) keep(p []byte) {
	if !s.closed {
		s.next = append(s.next, p...)
		s.signal()
	}
}

func (s *Sink) drop(p []byte) {
	s.dropped += lines(p)
	s.signal()
}

// signal wakes the goroutine, unless it will look by itself.
func (s *Sink) signal() {
	if s.busy || s.closed {
		return
	}
	s.busy = true
	select {
	case s.wake <- struct{}{}:
	default: // it is awake for something else, and looks again
	}
}

// Flush waits until everything is carried that was written before, at most for
// limit, and reports whether it is. What the writer refuses counts as carried.
func (s *Sink) Flush(limit time.Duration) bool {
	s.mu.Lock()
	if !s.busy {
		s.mu.Unlock()
		return true
	}
	over := make(chan struct{})
	s.idle = append(s.idle, over)
	s.mu.Unlock()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-over:
		return true
	case <-late.C:
		return false
	}
}

// Close flushes for at most limit. What is written later is dropped. The
// goroutine ends when the writer lets go of it.
func (s *Sink) Close(limit time.Duration) {
	if !s.Flush(limit) {
		limit = 0
	}
	s.mu.Lock()
	before := s.closed
	s.closed = true
	s.mu.Unlock()
	if !before {
		close(s.quit)
	}
	select {
	case <-s.done:
	case <-time.After(limit):
	}
}

// lines is how many lines p has.
func lines(p []byte) int {
	n := bytes.Count(p, []byte("\n"))
	if len(p) > 0 && p[len(p)-1] != '\n' {
		n++
	}
	return n
}
