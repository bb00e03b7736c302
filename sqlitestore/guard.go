package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	guardTick  = 250 * time.Millisecond // between two looks at a writer that is at work
	guardIdle  = 15 * time.Second       // between two looks at the disk while nothing is written
	guardWrite = 5 * time.Minute        // without a write until one is tried that nobody has asked for
	guardRetry = 5 * time.Second        // the same, while there is a trouble
	stuckAfter = time.Second            // in one step, until that is a trouble
	calmAfter  = 10 * time.Second       // without a slow flush, until the disk is fast enough again
	mostLog    = 256 << 20              // bytes of the log, until that is a trouble
	leastFree  = 16 << 20               // bytes of the disk, or a 16th of a small one, until that is a trouble
)

// guard watches for what the writer cannot report itself: that it waits for a lock
// or for the disk, that the disk fills up, that the log grows. While nothing is
// written it only looks now and then.
type guard struct {
	s       *Store
	closing chan struct{}
	running sync.WaitGroup // the loop and the probes
	size    func(dir string) (free, total uint64, err error)

	mu      sync.Mutex
	looked  time.Time     // at the disk
	ticked  time.Time     // when the writer was last looked at
	turns   uint64        // of the writer, then
	stuck   time.Duration // how long it has been in its step, as far as this process ran meanwhile
	paged   uint64        // the turns, when whole was asked for
	whole   int64         // bytes of the file when all of the log is in it
	late    int64         // when the disk was last slow, by the writer's gauge
	waited  int64         // when a lock was last waited for, by the writer's gauge
	probing *probe        // the one that is running, or was last
	ended   bool
}

func newGuard(s *Store) *guard { return &guard{s: s, closing: make(chan struct{}), size: space} }

func (g *guard) start() {
	g.running.Go(g.run)
}

func (g *guard) stop() {
	g.mu.Lock()
	g.ended = true // no more probes
	g.mu.Unlock()
	close(g.closing)
	g.running.Wait()
}

// run looks while the writer works, and seldom otherwise.
func (g *guard) run() {
	timer := time.NewTimer(guardIdle)
	defer timer.Stop()
	for {
		select {
		case <-g.closing:
			return
		case <-g.s.w.gauge.stir:
			timer.Reset(guardTick)
			select {
			case <-g.closing:
				return
			case <-timer.C:
			}
		case <-timer.C:
		}
		g.look()
		g.tryWrite()
		switch {
		case step(g.s.w.gauge.step.Load()) != resting:
			timer.Reset(guardTick)
		case g.s.troubles.any():
			timer.Reset(time.Second)
		default:
			timer.Reset(guardIdle)
		}
	}
}

// tryWrite probes where nobody else writes, so that a fault is reported
// before a caller runs into it.
func (g *guard) tryWrite() {
	after := guardWrite
	if g.s.troubles.any() {
		after = guardRetry
	}
	if ago, was := g.s.w.gauge.since(&g.s.w.gauge.flushed); was && ago < after {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.probing; p == nil || time.Since(p.began) >= after {
		g.probe()
	}
}

// look checks everything there is to check.
func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.s.troubles.has(failed) {
		return // that is reported, and ends the server
	}
	g.lookAtWriter()
	if time.Since(g.looked) < time.Second {
		return
	}
	g.looked = time.Now()
	g.lookAtSpace()
	g.lookAtLog()
}

// lookAtWriter notices a writer that waits. No look counts for more than one tick: a
// process that was stopped meanwhile was not waiting.
func (g *guard) lookAtWriter() {
	w := g.s.w.gauge
	turns, at := w.turns.Load(), step(w.step.Load())
	passed := min(time.Since(g.ticked), guardTick)
	g.ticked = time.Now()
	if turns != g.turns || at == resting || at == working {
		g.turns, g.stuck = turns, 0
	} else {
		g.stuck += passed
	}
	if g.stuck >= stuckAfter {
		g.logStuck(at)
	}
	if w.begun.Load() > g.waited {
		g.s.troubles.end(lockHeld, "the other program has given the lock of the database back, and it is written again")
	}
	if ago, was := w.since(&w.flushed); was && w.flushed.Load() > g.late && w.now()-g.late > int64(calmAfter) && ago < calmAfter {
		g.s.troubles.end(slow, "the disk is fast enough again")
	}
}

func (g *guard) logStuck(at step) {
	w := g.s.w.gauge
	if at == committing {
		g.late = w.now()
		g.s.troubles.renew(slow, slowness{fmt.Errorf("the disk is slow or stuck: one commit has waited for it for %.1f s, and every PUSH, FETCH and ACK waits with it; look for what else uses the disk of %s, and at its health", g.stuck.Seconds(), g.s.path)})
		return
	}
	g.waited = w.now()
	if g.s.troubles.has(lockHeld) {
		return
	}
	who := cmp.Or(whoHolds(g.s.path, false), "another program")
	g.s.troubles.renew(lockHeld, fmt.Errorf("%s holds the lock of the database %s, and nothing can be written until it gives that back; end it, nothing but outrider may write to this file", who, g.s.path))
}

// slowness is a trouble with which every call still succeeds.
type slowness struct{ error }

func (slowness) Is(target error) bool { return target == job.ErrDegraded }

// lookAtSpace warns of a disk that is nearly full before a write fails: on its last
// bytes small writes still succeed and large ones do not.
func (g *guard) lookAtSpace() {
	w := g.s.w.gauge
	refused := w.full.Load() > w.flushed.Load()
	free, total, err := g.size(filepath.Dir(g.s.path))
	if err != nil && !refused {
		g.s.troubles.end(noSpace, "there is room for the database again")
		return // nobody can tell more than the next write
	}
	need := min(leastFree, total/16)
	if need += g.room(free - min(free, need)); g.s.troubles.has(noSpace) && !refused {
		need += need / 4 // so that the warning does not come and go
	}
	if !refused && free >= need {
		g.s.troubles.end(noSpace, "there is room for the database again")
		return
	}
	g.s.troubles.renew(noSpace, fmt.Errorf("the disk of the database %s is full or nearly so: %s are free and %s are needed; jobs are refused or soon will be, reading goes on. Free some, and all goes on by itself", g.s.path, megabytes(free), megabytes(max(need, free+1))))
}

// room is by how much the file will grow when the log is moved into it: no more
// than the log is long, which is not looked at closer while twice as much is free.
// To ask SQLite costs a store that rests a connection.
func (g *guard) room(free uint64) uint64 {
	log, err := os.Stat(g.s.path + "-wal")
	if err != nil || uint64(log.Size()) <= free/2 {
		return 0
	}
	if turns := g.s.w.gauge.turns.Load(); turns != g.paged {
		ctx, leave := context.WithTimeout(context.Background(), guardTick)
		defer leave()
		var whole int64
		if g.s.readers.GetContext(ctx, &whole, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size") == nil {
			g.paged, g.whole = turns, whole
		}
	}
	st, err := os.Stat(g.s.path)
	if err != nil {
		return 0
	}
	return uint64(max(0, g.whole-st.Size()))
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// lookAtLog warns of a log that grows without end, which it does while somebody
// keeps an old snapshot open.
func (g *guard) lookAtLog() {
	st, err := os.Stat(g.s.path + "-wal")
	if err != nil {
		return // the writer sees to that
	}
	if st.Size() < mostLog {
		g.s.troubles.end(logGrown, "the log of the database is small again")
		return
	}
	who := cmp.Or(whoHolds(g.s.path, true), "a long read, or a disk that is too slow,")
	g.s.troubles.renew(logGrown, fmt.Errorf("the log of the database, %s-wal, has grown to %s, as %s keeps it from being moved into the file; it grows until the disk is full. End that program, or its transaction: a copy of the database is made in a short one", g.s.path, megabytes(uint64(st.Size())), who))
}
