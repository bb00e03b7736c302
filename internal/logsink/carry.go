package logsink

import (
	"bytes"
	"errors"
	"syscall"
	"time"
)

// together is how much is written at once: as much as a pipe takes in one piece
// (PIPE_BUF), so that lines stay whole where several processes write into one.
const together = 4096

// again is how long after a write that failed the missing lines are told, where
// nothing else is to be written.
const again = time.Second

// spare is the largest buffer that is kept for later.
const spare = 64 << 10

// run carries what is written to the writer until the sink is closed.
func (s *Sink) run() {
	defer close(s.done)
	retry := time.NewTimer(again)
	defer retry.Stop()
	var batch []byte
	for {
		select {
		case <-s.wake:
		case <-retry.C:
			s.reportLost()
		case <-s.quit:
			return
		}
		for {
			dropped, more := 0, false
			if batch, dropped, more = s.take(batch); !more {
				break
			}
			s.carry(batch, dropped)
		}
		if s.lost > 0 {
			retry.Reset(again)
		}
	}
}

// take is what waits, and how many lines were dropped behind it. used is the
// batch before, whose memory is used again. more is false if there is nothing.
func (s *Sink) take(used []byte) (batch []byte, dropped int, more bool) {
	if cap(used) > spare {
		used = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) > 0 || s.dropped > 0 {
		batch, dropped = s.next, s.dropped
		s.next, s.dropped, s.full = used[:0], 0, false
		return batch, dropped, true
	}
	s.busy = false
	for _, over := range s.idle {
		close(over)
	}
	s.idle = nil
	return used, 0, false
}

// carry writes a batch, with a note in front of it where lines are missing, and
// one behind it for those that were dropped there.
func (s *Sink) carry(batch []byte, dropped int) {
	ok := s.reportLost()
	for len(batch) > 0 && ok {
		n := whole(batch)
		ok = s.write(batch[:n])
		batch = batch[n:]
	}
	s.lost += lines(batch) + dropped
	if ok {
		s.reportLost()
	}
}

// whole is the length of the whole lines at the front of p that are written at
// once; one that is longer goes alone.
func whole(p []byte) int {
	if len(p) <= together {
		return len(p)
	}
	if n := bytes.LastIndexByte(p[:together], '\n'); n >= 0 {
		return n + 1
	}
	if n := bytes.IndexByte(p, '\n'); n >= 0 {
		return n + 1
	}
	return len(p)
}

// reportLost writes how many lines are missing, and reports whether the writer works.
func (s *Sink) reportLost() bool {
	if s.lost == 0 {
		return true
	}
	var note []byte
	if s.o.Note != nil {
		note = s.o.Note(s.lost, s.why)
	}
	if s.torn {
		note = append([]byte("\n"), note...)
	}
	lost := s.lost
	if len(note) > 0 && !s.write(note) {
		s.lost = lost // the note is none of the lines
		return false
	}
	s.lost, s.why, s.torn = 0, nil, false
	return true
}

// write writes whole lines, counts those that are lost, and reports whether all
// were written.
func (s *Sink) write(p []byte) bool {
	n, err := s.push(p)
	if err == nil {
		s.bad = false
		return true
	}
	s.lost += lines(p) - bytes.Count(p[:n], []byte("\n"))
	if n > 0 {
		s.torn = p[n-1] != '\n'
	}
	if !s.bad && s.o.Failed != nil {
		s.o.Failed(err)
	}
	s.bad, s.why = true, err
	return false
}

// push writes p. A writer that another process has made one that does not wait
// says so instead of taking more, and is asked again.
func (s *Sink) push(p []byte) (n int, err error) {
	for {
		k, err := s.w.Write(p[n:])
		if n += k; n >= len(p) || err == nil || !errors.Is(err, syscall.EAGAIN) {
			return n, err
		}
		select {
		case <-s.quit:
			return n, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
