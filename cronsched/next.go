package cronsched

import (
	"math"
	"math/bits"
	"sort"
	"time"
)

// Occurrence is one tick of a schedule.
type Occurrence struct {
	// At is when it fires, in the schedule's zone. For a tick that was skipped it
	// is when the clock was set over it.
	At time.Time

	// Skipped is why it does not fire: "dst_skip", or empty if it does.
	Skipped string

	// Repeat is 1 at the first of two instants with the same wall time, 2 at the
	// second, and 0 everywhere else. A schedule with fixed hours never has a 2.
	Repeat int

	wall int64
}

// DSTSkip is why a wall time that does not exist is skipped.
const DSTSkip = "dst_skip"

// Local is the wall time in RFC 3339. That of a skipped tick has no offset, as
// there is none that it could have.
func (o Occurrence) Local() string {
	if o.Skipped != "" {
		return o.Wall().Format("2006-01-02T15:04:05")
	}
	return o.At.Format(time.RFC3339)
}

// Wall is what the clock on the wall shows, as if it were UTC.
func (o Occurrence) Wall() time.Time { return time.Unix(o.wall, 0).UTC() }

const (
	// horizon is how far ahead a search goes. No date is rarer than once in 40
	// years, a fifth Sunday of February across the year 2100.
	horizon      = 100 * 366 * 24 * 3600
	horizonYears = 41 // of a search that knows no zone

	// maxShift is more than the wall clocks of a zone at two times can differ.
	maxShift = 36 * 3600

	// The years 1 to 9999, which RFC 3339 can write.
	beginning = -62135596800
	end       = 253402300800
)

// Next returns the first tick that fires strictly after t; false if there is
// none in the next 100 years, or before the year 10000. It is pure: only the
// time zone's laws decide.
//
// An @every has no place of its own on the clock: its next tick comes one period
// after the whole second of t. [Spec.EveryNext] takes the instant that it counts from.
func (s Spec) Next(t time.Time) (Occurrence, bool) {
	if s.every > 0 {
		return s.EveryNext(time.Unix(t.Unix(), 0), t)
	}
	return s.from(max(t.Unix(), beginning) + 1)
}

// EveryNext is the first tick of an @every strictly after t: a whole number of
// periods after anchor, or before it where the clock was set back behind it. For
// all other schedules it is Next(t).
func (s Spec) EveryNext(anchor, t time.Time) (Occurrence, bool) {
	if s.every <= 0 {
		return s.Next(t)
	}
	period := int64(s.every / time.Second)
	elapsed := t.Unix() - anchor.Unix()
	if t.Nanosecond() < anchor.Nanosecond() {
		elapsed--
	}
	n := elapsed / period
	if elapsed < 0 && elapsed%period != 0 {
		n-- // the clock was set back behind the anchor: it counts backwards
	}
	seconds := (n + 1) * period
	at := time.Unix(anchor.Unix()+seconds, int64(anchor.Nanosecond())).In(s.loc)
	_, offset := at.Zone()
	return Occurrence{At: at, wall: at.Unix() + int64(offset)}, at.Unix() < end
}

// Latest is the last tick after t that is not after until; false if there is
// none. Like [Spec.EveryNext] it counts an @every from anchor. It takes as long
// for a thousand ticks as for one.
func (s Spec) Latest(anchor, t, until time.Time) (Occurrence, bool) {
	first, ok := s.EveryNext(anchor, t)
	if !ok || first.At.After(until) {
		return Occurrence{}, false
	}
	if s.every > 0 {
		return s.EveryNext(anchor, until.Add(-s.every))
	}
	// The last second from which the next tick is still not after until.
	from, seconds := first.At, int(until.Unix()-first.At.Unix())
	n := sort.Search(seconds, func(i int) bool {
		o, ok := s.Next(from.Add(time.Duration(i) * time.Second))
		return !ok || o.At.After(until)
	})
	if n == 0 {
		return first, true
	}
	return s.Next(from.Add(time.Duration(n-1) * time.Second))
}

// from is the first tick at or after the second u.
func (s *Spec) from(u int64) (Occurrence, bool) {
	if s.loc == nil {
		return Occurrence{}, false
	}
	seen, wall := int64(1), int64(0) // there is no match from seen up to wall
	for limit := min(u+horizon, end); u < limit; {
		seg := s.segmentAt(u)
		if now := u + seg.offset; now < seen || now > wall {
			var ok bool
			if wall, ok = s.match(now); !ok {
				return Occurrence{}, false
			}
			seen = now
		}
		at := wall - seg.offset
		if at >= seg.end {
			u = seg.end
			continue
		}
		repeated, until := s.before(seg, wall)
		if repeated && s.fixed {
			u = until - seg.offset
			continue
		}
		return s.tick(seg, at, wall, repeated)
	}
	return Occurrence{}, false
}

func (s *Spec) tick(seg segment, at, wall int64, repeated bool) (Occurrence, bool) {
	o := Occurrence{At: time.Unix(at, 0).In(s.loc), wall: wall}
	switch {
	case repeated:
		o.Repeat = 2
	case s.after(seg, wall):
		o.Repeat = 1
	}
	return o, at < end
}

// segment is a span of time in which the zone's offset stays the same; the wall
// clock is the instant plus the offset. Two neighbours may have one offset.
type segment struct{ start, end, offset int64 }

// segmentAt is the segment that holds the second u.
func (s *Spec) segmentAt(u int64) segment {
	t := time.Unix(u, 0).In(s.loc)
	_, offset := t.Zone()
	first, last := t.ZoneBounds()
	seg := segment{math.MinInt64 / 2, math.MaxInt64 / 2, int64(offset)}
	if !first.IsZero() {
		seg.start = first.Unix()
	}
	if !last.IsZero() {
		seg.end = last.Unix()
	}
	if seg.end <= u {
		// Go ends a zone's year after 365 days, also when it has 366. No clock is
		// set on the day that is left.
		seg.end = midnight(t.UTC().Year()+1, 1, 1).Unix()
	}
	return seg
}

// before reports whether an instant before seg had the wall time, and up to
// which wall time, not included, that goes on.
func (s *Spec) before(seg segment, wall int64) (repeated bool, until int64) {
	for at := wall - seg.offset; seg.start > at-maxShift; {
		seg = s.segmentAt(seg.start - 1)
		if seg.start+seg.offset <= wall && wall < seg.end+seg.offset {
			return true, seg.end + seg.offset
		}
	}
	return false, 0
}

// after reports whether an instant after seg has the wall time.
func (s *Spec) after(seg segment, wall int64) bool {
	for at := wall - seg.offset; seg.end < at+maxShift; {
		seg = s.segmentAt(seg.end)
		if seg.start+seg.offset <= wall && wall < seg.end+seg.offset {
			return true
		}
	}
	return false
}

// match is the first wall time at or after wall that the fields match, in
// seconds since 1970 on a clock that is never set.
func (s *Spec) match(wall int64) (int64, bool) {
	t := time.Unix(wall, 0).UTC()
	y, m, d := t.Year(), int(t.Month()), t.Day()
	clock, ok := s.clock(t.Clock())
	start := s.start()
	if !ok {
		d, clock = d+1, start
	}
	for last := y + horizonYears; y <= last; {
		if s.months>>m&1 == 0 {
			if m = bits.TrailingZeros64(s.months >> m << m); m > 12 {
				y, m = y+1, bits.TrailingZeros64(s.months)
			}
			d, clock = 1, start
			if m > 12 {
				return 0, false
			}
			continue
		}
		set := s.days.of(y, m) >> d << d
		if set == 0 {
			if d, clock, m = 1, start, m+1; m > 12 {
				y, m = y+1, 1
			}
			continue
		}
		if first := bits.TrailingZeros64(set); first != d {
			d, clock = first, start
		}
		return midnight(y, m, d).Unix() + int64(clock), true
	}
	return 0, false
}

// start is the first time of a day that matches, in seconds since midnight.
func (s *Spec) start() int {
	return bits.TrailingZeros64(s.hours)*3600 + bits.TrailingZeros64(s.minutes)*60 + bits.TrailingZeros64(s.seconds)
}

// clock is the first time of a day at or after the given one that matches, in
// seconds since midnight.
func (s *Spec) clock(h, m, sec int) (int, bool) {
	firstMinute, firstSecond := bits.TrailingZeros64(s.minutes), bits.TrailingZeros64(s.seconds)
	if s.hours>>h&1 != 0 {
		if s.minutes>>m&1 != 0 {
			if rest := s.seconds >> sec << sec; rest != 0 {
				return h*3600 + m*60 + bits.TrailingZeros64(rest), true
			}
		}
		m++
		if rest := s.minutes >> m << m; rest != 0 {
			return h*3600 + bits.TrailingZeros64(rest)*60 + firstSecond, true
		}
	}
	h++
	if rest := s.hours >> h << h; rest != 0 {
		return bits.TrailingZeros64(rest)*3600 + firstMinute*60 + firstSecond, true
	}
	return 0, false
}
