package job

import (
	"context"
	"slices"
	"time"
)

// Limit is what is known of a key that jobs share (contract §4.12): what they may do, and
// what they have done. It changes only through the methods below.
type Limit struct {
	Key      string
	Pace     Pace    // of the newest job that named one
	Override *Pace   // an operator's, which holds in place of Pace; nil is none
	Active   int     // jobs of the key that are active
	Starts   []Burst // of Rate: the newest that may still count, the oldest first; see Started
	// Next is the instant from which the throttle lets the next one start, in
	// nanoseconds since 1970; 0 is any.
	Next     int64
	Deferred time.Time // until when the job was put off that was put off the longest
	OpensAt  time.Time // jobs wait, and may go on then; zero: nobody waits for a clock
	UsedAt   time.Time // when something of it changed last
}

// Burst is some starts that count as of one instant, which is never before them.
type Burst struct {
	At time.Time
	N  int
}

// NewLimit is the limit of a key that no job has named before.
func NewLimit(key string, now time.Time) *Limit { return &Limit{Key: key, UsedAt: now} }

// Clone is a copy that shares nothing with l.
func (l *Limit) Clone() *Limit {
	c := *l
	c.Starts = slices.Clone(l.Starts)
	if l.Override != nil {
		o := *l.Override
		c.Override = &o
	}
	return &c
}

// Holds is the pace that holds.
func (l *Limit) Holds() Pace {
	if l.Override != nil {
		return *l.Override
	}
	return l.Pace
}

// Define takes over what a new job says of its key, and reports whether that is news. A
// job that names the key alone leaves it as it is.
func (l *Limit) Define(p Pace, now time.Time) bool {
	if p == (Pace{}) || p == l.Pace {
		return false
	}
	l.Pace = p
	l.changed(now)
	return true
}

// SetOverride puts an operator's pace in place of that of the jobs, nil for none.
func (l *Limit) SetOverride(p *Pace, now time.Time) {
	l.Override = p
	l.changed(now)
}

// changed drops what belongs to a pace that holds no more. A rate that is new counts from
// now on: of the starts before nobody knows.
func (l *Limit) changed(now time.Time) {
	l.UsedAt = now
	p := l.Holds()
	if p.Rate.Limit == 0 {
		l.Starts = nil
	}
	if p.Throttle.Limit == 0 {
		l.Next = 0
	}
}

const (
	// exactly is up to how many starts each is remembered by itself. Those of a larger
	// rate are rounded up to a hundredth of its period: then it may fall short of its
	// limit by about as much, and never exceeds it.
	exactly   = 128
	fineness  = 100
	setBack   = time.Minute // a start that lies further ahead is one from before the clock was set back: the limit begins anew
	deferring = time.Second // for how long a job is put off that no clock lets start
)

// Open reports whether one more job may start at now. Where it may not, from is when it
// may if none starts before, and zero where a job must end first.
func (l *Limit) Open(now time.Time) (open bool, from time.Time) {
	p := l.Holds()
	if p.Concurrency > 0 && l.Active >= p.Concurrency {
		return false, time.Time{}
	}
	if p.Throttle.Limit > 0 {
		if next := time.Unix(0, l.next(p.Throttle, now)).UTC().Truncate(time.Millisecond); next.After(now) {
			from = next
		}
	}
	if p.Rate.Limit > 0 {
		if at := l.rateFrom(p.Rate, now); at.After(now) && at.After(from) {
			from = at
		}
	}
	return from.IsZero(), from
}

// next is the Next that counts at now: what lies far ahead is of a clock that has been set
// back since, and counts no more.
func (l *Limit) next(q Quota, now time.Time) int64 {
	if l.Next > now.Add(q.gap()+setBack).UnixNano() {
		return 0
	}
	return l.Next
}

// rateFrom is the instant from which a window that ends there has room for one more. A
// start that lies far ahead counts no more, as for next.
func (l *Limit) rateFrom(q Quota, now time.Time) (from time.Time) {
	left := q.Limit
	for _, b := range slices.Backward(l.Starts) {
		if b.At.After(now.Add(setBack)) {
			continue
		}
		if left -= b.N; left <= 0 {
			return b.At.Add(q.Period)
		}
	}
	return time.Time{}
}

// Started counts a job that starts at now.
func (l *Limit) Started(now time.Time) {
	l.UsedAt = now
	l.Active++
	p := l.Holds()
	if q := p.Throttle; q.Limit > 0 {
		l.Next = max(l.next(q, now), now.UnixNano()) + int64(q.gap())
	}
	if q := p.Rate; q.Limit > 0 {
		l.start(q, now)
	}
}

// start notes a start. What lies before as many starts as the limit has is forgotten: no
// window that has room for one more reaches there.
func (l *Limit) start(q Quota, now time.Time) {
	l.Starts = slices.DeleteFunc(l.Starts, func(b Burst) bool { return b.At.After(now.Add(setBack)) })
	at := now
	if q.Limit > exactly {
		cell := max(time.Millisecond, q.Period/fineness)
		if at = now.Truncate(cell); at.Before(now) {
			at = at.Add(cell).Truncate(time.Millisecond)
		}
	}
	n := len(l.Starts)
	if n > 0 && !l.Starts[n-1].At.Before(at) { // calls may have looked at the clock in another order
		l.Starts[n-1].N++
	} else {
		l.Starts = append(l.Starts, Burst{at, 1})
	}
	newer, first := 0, len(l.Starts)-1
	for ; first > 0 && newer+l.Starts[first].N < q.Limit; first-- {
		newer += l.Starts[first].N
	}
	if l.Starts = l.Starts[max(first, 0):]; len(l.Starts) > exactly {
		l.Starts[1].N += l.Starts[0].N // two of the oldest count as of the later one
		l.Starts = l.Starts[1:]
	}
}

// Joined counts a job that is active already, and was under another limit so far.
func (l *Limit) Joined(now time.Time) {
	l.UsedAt = now
	l.Active++
}

// Ended counts a job that was active and is no more.
func (l *Limit) Ended(now time.Time) {
	l.UsedAt = now
	l.Active = max(0, l.Active-1)
}

// Later is until when a job is put off that may not start at now, so that those that are
// put off together do not come back all at once.
func (l *Limit) Later(now time.Time) time.Time {
	_, at := l.Open(now)
	gap := time.Duration(0)
	for _, q := range [...]Quota{l.Holds().Rate, l.Holds().Throttle} {
		if q.Limit > 0 {
			gap = max(gap, q.gap())
		}
	}
	if at.IsZero() {
		at = now.Add(deferring)
	}
	if next := l.Deferred.Add(gap); next.After(at) && !next.After(at.Add(MaxDuration)) {
		at = next
	}
	at = ceilInstant(at)
	l.Deferred, l.UsedAt = at, now
	return at
}

// Permits is how much of a limit is left at now, for a client: the tightest number that
// it has, how many more may start, and when there are more.
func (l *Limit) Permits(now time.Time) (p Permits) {
	pace := l.Holds()
	open, from := l.Open(now)
	switch q := pace.Rate; {
	case q.Limit > 0:
		p.Limit, p.Left = q.Limit, q.Limit
		for _, t := range slices.Backward(l.Starts) {
			if t.At.Add(q.Period).After(now) {
				p.Left -= t.N
			}
		}
	case pace.Throttle.Limit > 0:
		p.Limit, p.Left = pace.Throttle.Limit, 1
	default:
		p.Limit, p.Left = pace.Concurrency, pace.Concurrency
	}
	if c := pace.Concurrency; c > 0 {
		p.Left = min(p.Left, c-l.Active)
	}
	if p.Left = max(0, p.Left); !open {
		p.Left = 0
	}
	if from.After(now) {
		p.After = from.Sub(now)
	}
	return p
}

// Permits is what a limit lets through just now.
type Permits struct {
	Limit int           // of the rate, else of the throttle, else how many at once; 0 is any number
	Left  int           // how many may start now
	After time.Duration // until one may start again, where a clock decides that; else 0
}

// Forgettable reports whether nothing is lost with a limit at now: nobody set it by hand,
// no job is active, and all that it remembers is past.
func (l *Limit) Forgettable(now time.Time) bool {
	if l.Override != nil || l.Active > 0 || !l.OpensAt.IsZero() {
		return false
	}
	return now.After(l.UsedAt.Add(max(l.Pace.Rate.Period, l.Pace.Throttle.Period) + forgetting))
}

const forgetting = 24 * time.Hour

// LimitReader reads limits.
type LimitReader interface {
	// Limit returns a copy of the limit of a key, or NotFound.
	Limit(key string) (*Limit, error)
	// Limits returns up to n limits whose key comes behind after, by key, and how
	// many there are in all behind BeforeLimitKeys.
	Limits(after string, n int) ([]*Limit, int64, error)
	// LaneDepth counts the available jobs in the lane of a key.
	LaneDepth(key string) (int64, error)
}

// LimitWriter stores limits, and finds who is first in a lane. The lane of a key in a
// queue are the available jobs there whose Lane it is.
type LimitWriter interface {
	// PutLimit stores a limit, in place of one of the same key.
	PutLimit(l *Limit) error
	// DeleteLimit forgets one.
	DeleteLimit(key string) error
	// LaneHead returns the first job of a lane, or nil.
	LaneHead(key, queue string) (*Job, error)
	// LaneHeads returns the first job of the lane of a key in each queue that has one.
	LaneHeads(key string) ([]*Job, error)
	// OpeningLimits returns up to n limits whose OpensAt is not after before, the earliest
	// first. Where there can be none it asks nobody.
	OpeningLimits(before time.Time, n int) ([]*Limit, error)
	// NextOpening returns the earliest OpensAt, or the zero time.
	NextOpening() (time.Time, error)
}

// LimitService is what people ask of the limits (contract §3.25).
type LimitService interface {
	// Limits lists the limits of all keys that jobs have named, by key.
	Limits(ctx context.Context, f LimitFilter) (LimitPage, error)
	// Limit reads one. NotFound when no job has named the key and no operator has
	// set it, or that is so long ago that nothing of it holds.
	Limit(ctx context.Context, key string) (LimitInfo, error)
	// OverrideLimit sets what a key allows whatever its jobs say, until
	// DropLimitOverride; it is stored, and may come before the first job. It holds for
	// the next claim: what is active stays so. Invalid.
	OverrideLimit(ctx context.Context, key string, p Pace) (LimitInfo, error)
	// DropLimitOverride lets the jobs decide again. NotFound as for Limit; a key
	// without an override is no error.
	DropLimitOverride(ctx context.Context, key string) (LimitInfo, error)
}

// LimitFilter chooses limits for a list.
type LimitFilter struct {
	Limit  int    // 1 to 200; 0 is 50
	Offset int    // passed over first
	Cursor string // LimitPage.Next of the page before
}

// LimitPage is one page of a list.
type LimitPage struct {
	Limits []LimitInfo
	Total  int64
	Next   string // empty on the last page
}

// LimitInfo is a limit as people see it.
type LimitInfo struct {
	Key      string
	Pace     Pace // that holds
	Override *Pace
	Active   int
	Waiting  int64 // available jobs of the key that wait in its lane, those that may start among them
	Permits
}
