package memory

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// pace is how much the Go runtime may take at the moment: what a busy server without
// large bodies needs, and more only as more is in use. GOGC alone would let four times
// as much be taken as is in use, whatever that is; a limit alone that is near to what
// is in use would have the runtime do nothing but collect.
//
// It is looked at after each collection, and changes nothing in most servers at all.
// What comes into use between two collections is bounded by the limit from before, so
// memory that is there for a moment is never followed by a multiple of itself.
type pace struct {
	calm, most int64 // bytes

	mu      sync.Mutex
	now     int64
	stopped bool
}

// calm is how much a heap may take that has little in use, of what the runtime may take.
func calm(most int64) int64 { return min(most, max(most/3, 64<<20)) }

// keep sets the limit, now and after each collection, until stop lifts it to the most.
func keep(most int64) (stop func()) {
	p := &pace{calm: calm(most), most: most}
	p.set(p.calm)
	p.watch()
	return func() {
		p.set(most)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stopped = true
	}
}

// watch adjusts the limit once the next collection has found that nobody uses what it makes.
func (p *pace) watch() {
	unused := &struct{ p *pace }{p}
	runtime.AddCleanup(unused, func(p *pace) {
		if p.set(p.limit(int64(metric("/gc/heap/live:bytes") + metric("/memory/classes/heap/stacks:bytes")))) {
			p.watch()
		}
	}, p)
}

// set makes a limit hold, unless there is no more to be kept. A small change is not
// worth it: all goroutines wait for one.
func (p *pace) set(limit int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && limit != p.now && (limit == p.calm || limit == p.most || limit/step != p.now/step) {
		p.now = limit
		debug.SetMemoryLimit(limit)
	}
	return !p.stopped
}

const (
	beside = 16 << 20 // that the runtime takes beside objects and stacks: its own books, holes
	step   = 4 << 20
)

// limit leaves half as much again for garbage as is in use. Each connection has stacks, so
// these count: else a server with thousands of them would do nothing but collect.
func (p *pace) limit(live int64) int64 { return min(max(p.calm, live+live/2+beside), p.most) }
