package job

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// SameOptions reports whether a validated envelope asks for what the job that is
// stored under its ID was asked for, besides type and args (see [Envelope.SameAs]).
// Instants that count from the PUSH count from that of the job. Nothing is
// compared of a job that a later PUSH has overwritten.
func (e *Envelope) SameOptions(stored *Job) bool {
	if !stored.RewrittenAt.IsZero() {
		return true
	}
	asked, s := *e, &stored.Envelope
	asked.wholeMillis() // as they are stored
	e = &asked
	held := stored.State == Pending || !stored.ActivatedAt.IsZero()
	if held && !e.Hold || !held && e.Hold && (stored.State == Scheduled || stored.EnqueuedAt.Equal(stored.CreatedAt)) {
		return false
	}
	promoted := s.ScheduledAt.IsZero() && stored.EnqueuedAt.After(stored.CreatedAt) // a server may forget a schedule that is over
	return sameInstant(e.ExpiresAt, e.TTL, s.ExpiresAt, stored.CreatedAt) &&
		(promoted || sameInstant(e.ScheduledAt, e.Delay, s.ScheduledAt, stored.CreatedAt)) && e.sameButWhen(s)
}

// Same reports whether another envelope asks for the same, type and args apart.
func (e *Envelope) Same(other *Envelope) bool {
	return e.Hold == other.Hold && e.Delay == other.Delay && e.TTL == other.TTL &&
		e.ScheduledAt.Equal(other.ScheduledAt) && e.ExpiresAt.Equal(other.ExpiresAt) && e.sameButWhen(other)
}

// sameButWhen compares all that are no instants.
func (e *Envelope) sameButWhen(s *Envelope) bool {
	return queueOf(e.Queue) == queueOf(s.Queue) && e.Priority == s.Priority && e.Timeout == s.Timeout &&
		e.Visibility == s.Visibility && e.CustomID == s.CustomID &&
		sameObject(e.Meta, s.Meta) && sameObject(e.Retry, s.Retry) && sameObject(e.Unique, s.Unique) &&
		sameObject(e.Deduplication, s.Deduplication) && sameObject(e.Extra, s.Extra)
}

func queueOf(name string) string {
	if name == "" {
		return DefaultQueue
	}
	return name
}

// sameInstant compares an instant that may be given as the time from PUSH. Another
// server than ours may take the time of that a little later than the job's.
func sameInstant(at time.Time, in time.Duration, stored, pushed time.Time) bool {
	const later = 100 * time.Millisecond
	if in > 0 {
		return !stored.IsZero() && (stored.Sub(pushed)-in).Abs() < later
	}
	return at.Equal(ceilInstant(stored))
}

// sameObject compares two JSON objects by what they say; nil is {}.
func sameObject(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := rawjson.Canonical(orEmpty(a))
	y, errY := rawjson.Canonical(orEmpty(b))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func orEmpty(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	return raw
}
