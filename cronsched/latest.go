package cronsched

import (
	"sort"
	"time"
)

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
