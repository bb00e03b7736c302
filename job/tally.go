package job

import "time"

// Tally is what has happened to the jobs of a queue in some time, counted.
type Tally struct {
	Enqueued  int64         // jobs that were stored, in whatever state
	Started   int64         // attempts that began
	Completed int64         // jobs that completed
	Failed    int64         // attempts that ended badly: by FAIL, by their timeout, or with their worker
	Timed     int64         // of Completed, those whose attempt is known from its start on
	Took      time.Duration // of those together, from the start of the attempt to its end
	Waited    time.Duration // of Started together, since the job entered its queue
}

// Add adds another tally.
func (t *Tally) Add(other Tally) {
	t.Enqueued += other.Enqueued
	t.Started += other.Started
	t.Completed += other.Completed
	t.Failed += other.Failed
	t.Timed += other.Timed
	t.Took += other.Took
	t.Waited += other.Waited
}

// TallyOf is what one change of a job adds to the tally of its queue, and when; was
// is nil for a new job. A job that was given back untouched, cancelled, or that
// expired, has not failed.
func TallyOf(was, now *Job) (t Tally, at time.Time) {
	switch {
	case was == nil:
		return Tally{Enqueued: 1}, now.CreatedAt
	case was.State == now.State:
	case now.State == Active:
		return Tally{Started: 1, Waited: passed(was.EnqueuedAt, now.StartedAt)}, now.StartedAt
	case now.State == Completed:
		t.Completed = 1
		if !was.StartedAt.IsZero() { // of a reservation that was lost it is not known any more
			t.Timed, t.Took = 1, passed(was.StartedAt, now.FinishedAt)
		}
		return t, now.FinishedAt
	case was.State != Active:
	case now.State == Retryable:
		return Tally{Failed: 1}, now.NextRetryAt.Add(-now.RetryDelay)
	case now.State == Discarded:
		return Tally{Failed: 1}, now.FinishedAt
	case now.State == Available && now.Releases == was.Releases:
		return Tally{Failed: 1}, now.EnqueuedAt
	}
	return Tally{}, time.Time{}
}

// passed is the time from a to b, and nothing if a is not known or the clock was set back.
func passed(a, b time.Time) time.Duration {
	if a.IsZero() {
		return 0
	}
	return max(0, b.Sub(a))
}

// SlotLength is how much time the tallies of a queue are kept for together.
const SlotLength = time.Minute

// KeepSlots is how long slots are kept.
const KeepSlots = 7 * 24 * time.Hour

// SlotOf is the start of the slot in which an instant is.
func SlotOf(t time.Time) time.Time { return t.UTC().Truncate(SlotLength) }

// Slot is the tally of one slot, or of some together.
type Slot struct {
	Start time.Time
	Tally
}

// HourBefore is the start of the first slot of the hour that ends with the slot of now.
func HourBefore(now time.Time) time.Time { return SlotOf(now).Add(SlotLength - time.Hour) }

// QueueStats is what the slots of the last hour come to (contract §3.13): the slot of
// now, as far as it has come, and the 59 before it.
type QueueStats struct {
	Tally
	AvgTook   time.Duration // 0 where nothing is known
	AvgWaited time.Duration
	PerSecond Rates
}

// Rates are how many jobs a second, in the slot of now and the one before: that is
// in the last one to two minutes.
type Rates struct{ Enqueued, Completed, Failed float64 }

// StatsOf adds up the slots of the last hour. Others are passed over.
func StatsOf(slots []Slot, now time.Time) (s QueueStats) {
	from, recent := HourBefore(now), SlotOf(now).Add(-SlotLength)
	var last Tally
	for _, slot := range slots {
		if slot.Start.Before(from) || slot.Start.After(now) {
			continue
		}
		s.Add(slot.Tally)
		if !slot.Start.Before(recent) {
			last.Add(slot.Tally)
		}
	}
	s.Averages()
	seconds := now.Sub(recent).Seconds()
	s.PerSecond = Rates{float64(last.Enqueued) / seconds, float64(last.Completed) / seconds, float64(last.Failed) / seconds}
	return s
}

// Averages sets the averages from the sums.
func (s *QueueStats) Averages() {
	s.AvgTook, s.AvgWaited = 0, 0
	if s.Timed > 0 {
		s.AvgTook = s.Took / time.Duration(s.Timed)
	}
	if s.Started > 0 {
		s.AvgWaited = s.Waited / time.Duration(s.Started)
	}
}

// Merge adds slots up into longer ones of the given length, by their start. Both are
// in the order of time.
func Merge(slots []Slot, length time.Duration) []Slot {
	var out []Slot
	for _, s := range slots {
		start := s.Start.Truncate(length)
		if n := len(out); n == 0 || !out[n-1].Start.Equal(start) {
			out = append(out, Slot{Start: start})
		}
		out[len(out)-1].Add(s.Tally)
	}
	return out
}
