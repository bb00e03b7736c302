package sqlitestore

import (
	"cmp"
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// probe is one write that proves that there can be one.
type probe struct {
	began time.Time
	done  chan struct{} // closed when err is set
	err   error
}

const (
	probeOld  = time.Second     // until a proof is no longer one
	probeWait = 2 * time.Second // for a proof, at most
)

// probe begins a probe unless one is running. The caller holds mu.
func (g *guard) probe() *probe {
	if p := g.probing; p != nil {
		select {
		case <-p.done:
		default:
			return p
		}
	}
	p := &probe{began: time.Now(), done: make(chan struct{})}
	g.probing = p
	if g.ended {
		p.err = errClosed
		close(p.done)
		return p
	}
	g.running.Go(func() {
		defer close(p.done)
		p.err = g.s.Update(context.Background(), func(tx job.Tx) error { return tx.(interface{ mark() error }).mark() })
		g.judge(p.err)
	})
	return p
}

// mark writes the mark of a probe: a number that is never the same, as SQLite
// does not write what is there already.
func (t *tx) mark() error {
	t.wrote = true
	_, err := t.do(t.w.st.putMark, "probe", time.Now().UnixNano())
	return t.fail("write", err)
}

// judge reports a probe that failed for a reason that nothing else reports.
func (g *guard) judge(err error) {
	g.mu.Lock()
	g.looked = time.Time{}
	g.mu.Unlock()
	g.look()
	switch t := &g.s.troubles; {
	case err == nil:
		t.end(unwritable, "the database can be written again")
	case !t.has(failed) && !t.has(lockHeld) && !t.has(noSpace) && !g.s.over():
		t.renew(unwritable, err)
	}
}

// over reports whether the store is closed or about to be.
func (s *Store) over() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// Probe finds out whether something can be written and flushed; see [job.Store].
// Nothing is written where something was a second ago.
func (s *Store) Probe(ctx context.Context) error {
	g := s.guard
	if s.troubles.has(failed) {
		return s.Trouble()
	}
	g.look()
	ago, was := s.w.gauge.since(&s.w.gauge.flushed)
	if was && ago < probeOld && !s.troubles.any() {
		return nil
	}
	g.mu.Lock()
	p := g.probing
	if p == nil || time.Since(p.began) >= probeOld {
		p = g.probe()
	}
	g.mu.Unlock()
	timer := time.NewTimer(probeWait)
	defer timer.Stop()
	select {
	case <-p.done:
		return cmp.Or(s.Trouble(), p.err)
	case <-timer.C:
	case <-ctx.Done():
	}
	return cmp.Or[error](s.Trouble(), job.Errorf(job.Unavailable, "the database has taken no write for %s", time.Since(p.began).Round(time.Millisecond)))
}
