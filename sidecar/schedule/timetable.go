package schedule

import (
	"container/heap"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/job"
)

const (
	late       = 5 * time.Second      // this long after its tick a schedule was not slow: no server ran
	spreadFrom = 100                  // catch-ups at once that are spread
	spreadBy   = 5 * time.Millisecond // between two of them
	spreadOver = 10 * time.Second     // all of them, at most
)

// timetable holds the schedules in memory, in the order in which they are due, so
// that ten thousand of them cost nothing while none is. What is stored decides:
// a tick that the store does not let be claimed did not happen.
type timetable struct {
	mu     sync.Mutex
	byName map[string]*entry
	line   line
}

// entry is a schedule that fires. A schedule that is changed gets a new one; what
// changes in it belongs to the timetable while it is in line, and to Fire while it
// is not.
type entry struct {
	spec   cronsched.Spec
	makes  job.CronTemplate
	anchor time.Time

	// These change.
	cron  *job.Cron // as it is stored
	wake  time.Time // when there is something to decide
	place int       // in line, -1 outside of it

	until time.Time // a catch-up that was put off decides the ticks up to then only
	id    job.ID    // of the job, or the workflow, of a tick that was tried before; see Ticks
	at    time.Time // that tick
}

// entryOf is the entry of a schedule; nil if it does not fire.
func entryOf(c *job.Cron, spec cronsched.Spec, makes job.CronTemplate, anchor time.Time) *entry {
	if !c.On() {
		return nil
	}
	e := &entry{spec: spec, makes: makes, anchor: anchor, place: -1}
	e.became(c)
	return e
}

// became takes over what is stored now, and sets when to wake: at the next tick,
// or at one before it that will be skipped.
func (e *entry) became(c *job.Cron) {
	e.cron, e.wake, e.until, e.id = c, c.NextRunAt, time.Time{}, ""
	for o := range e.spec.Skips(c.SeenAt, c.NextRunAt) {
		if e.wake.IsZero() || o.At.Before(e.wake) {
			e.wake = o.At
		}
		break
	}
}

// put places a schedule, instead of one of the same name; e may be nil.
func (p *timetable) put(name string, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.byName[name]; old != nil && old.place >= 0 {
		heap.Remove(&p.line, old.place)
	}
	delete(p.byName, name)
	if e == nil {
		return
	}
	if p.byName[name] = e; !e.wake.IsZero() {
		heap.Push(&p.line, e)
	}
}

// due takes up to n entries out of the line whose time has come. They must be
// given back with back.
func (p *timetable) due(now time.Time, n int) []*entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	var es []*entry
	for len(es) < n && len(p.line) > 0 && !p.line[0].wake.After(now) {
		es = append(es, heap.Pop(&p.line).(*entry))
	}
	return es
}

// back puts an entry into line again, unless another has taken its place.
func (p *timetable) back(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName[e.cron.Name] == e && e.place < 0 && !e.wake.IsZero() {
		heap.Push(&p.line, e)
	}
}

// has reports whether the entry is the one of its schedule.
func (p *timetable) has(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byName[e.cron.Name] == e
}

// spread puts off catch-ups, where many are due at once because no server ran,
// over some seconds. What is due meanwhile is not lost: a catch-up decides the
// ticks up to now only.
func (p *timetable) spread(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var behind []*entry
	for len(p.line) > 0 && p.line[0].until.IsZero() && now.Sub(p.line[0].wake) > late {
		behind = append(behind, heap.Pop(&p.line).(*entry))
	}
	step := time.Duration(0)
	if n := len(behind); n > spreadFrom {
		step = min(spreadBy, spreadOver/time.Duration(n))
	}
	for i, e := range behind {
		e.wake = now.Add(time.Duration(i) * step)
		if i > 0 && step > 0 {
			e.until = now
		}
		heap.Push(&p.line, e)
	}
}

// rewound wakes the schedules that are affected by a clock that was set back.
func (p *timetable) rewound(now time.Time) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.byName {
		putOff := e.wake.After(e.cron.NextRunAt) // by spread, or as it could not be stored
		if e.place >= 0 && (putOff || cronsched.Rewound(e.cron, now)) {
			e.wake, e.until, any = now, time.Time{}, true
			heap.Fix(&p.line, e.place)
		}
	}
	return any
}

// wait is how long after now to look again: when a schedule is due, and often enough
// to notice a clock that is set, unless there is nothing to wait for.
func (p *timetable) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.byName) == 0:
		return idle
	case len(p.line) > 0:
		return max(0, min(longest, p.line[0].wake.Sub(now)))
	}
	return longest
}

// reset forgets all that is in it.
func (p *timetable) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byName, p.line = map[string]*entry{}, nil
}

// line is a heap of entries, the one that is due first in front; of one instant by name.
type line []*entry

func (l line) Len() int { return len(l) }

func (l line) Less(i, j int) bool {
	if a, b := l[i], l[j]; !a.wake.Equal(b.wake) {
		return a.wake.Before(b.wake)
	}
	return l[i].cron.Name < l[j].cron.Name
}

func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push is for package heap.
func (l *line) Push(x any) {
	e := x.(*entry)
	e.place = len(*l)
	*l = append(*l, e)
}

// Pop is for package heap.
func (l *line) Pop() any {
	last := len(*l) - 1
	e := (*l)[last]
	e.place, (*l)[last] = -1, nil
	*l = (*l)[:last]
	return e
}
