package cronsched

import (
	"iter"
	"time"
)

// Skips yields the ticks that do not fire because the clock was set forward over
// them, for each setting of it after from and not after to, in their order. A
// schedule without fixed hours, and an @every, has none.
func (s Spec) Skips(from, to time.Time) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		if !s.fixed || s.loc == nil {
			return
		}
		seg := s.segmentAt(max(from.Unix(), beginning))
		for last := min(to.Unix(), end); seg.end <= last; {
			next := s.segmentAt(seg.end)
			if !s.gap(seg, next, yield) {
				return
			}
			seg = next
		}
	}
}

// gap yields what is skipped between two segments that follow each other.
func (s *Spec) gap(seg, next segment, yield func(Occurrence) bool) bool {
	for wall := seg.end + seg.offset; wall < seg.end+next.offset; wall++ {
		var ok bool
		if wall, ok = s.match(wall); !ok || wall >= seg.end+next.offset {
			return true
		}
		if repeated, _ := s.before(next, wall); repeated || s.after(next, wall) {
			continue
		}
		o := Occurrence{At: time.Unix(seg.end, 0).In(s.loc), Skipped: DSTSkip, wall: wall}
		if !yield(o) {
			return false
		}
	}
	return true
}

// Upcoming yields the ticks strictly after t, those that fire and those that are
// skipped, in their order. An @every counts from t.
func (s Spec) Upcoming(t time.Time) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		for from := t; ; {
			o, ok := s.EveryNext(t, from)
			to := o.At
			if !ok {
				to = from.Add(horizon * time.Second)
			}
			for skipped := range s.Skips(from, to) {
				if !yield(skipped) {
					return
				}
			}
			if !ok || !yield(o) {
				return
			}
			from = o.At
		}
	}
}
