package job

import (
	"bytes"
	"encoding/json"
	"time"
)

// SameOptions reports whether a validated envelope asks for what the job that is
// stored under its ID was asked for, besides type and args (see [Envelope.SameAs]).
// Instants that count from the PUSH are not compared, as the first PUSH set them,
// nor anything of a job that a later PUSH has overwritten.
func (e *Envelope) SameOptions(stored *Job) bool {
	if !stored.RewrittenAt.IsZero() {
		return true
	}
	s := &stored.Envelope
	return queueOf(e.Queue) == queueOf(s.Queue) && e.Priority == s.Priority && e.Timeout == s.Timeout &&
		e.Visibility == s.Visibility && e.CustomID == s.CustomID &&
		sameInstant(e.ExpiresAt, e.TTL, s.ExpiresAt) && (sameInstant(e.ScheduledAt, e.Delay, s.ScheduledAt) || s.ScheduledAt.IsZero()) &&
		sameObject(e.Meta, s.Meta) && sameObject(e.Retry, s.Retry) && sameObject(e.Unique, s.Unique) &&
		sameObject(e.Deduplication, s.Deduplication) && sameObject(e.Extra, s.Extra)
}

func queueOf(name string) string {
	if name == "" {
		return DefaultQueue
	}
	return name
}

// sameInstant compares an instant that may be given as the time from PUSH.
func sameInstant(at time.Time, in time.Duration, stored time.Time) bool {
	if in > 0 {
		return !stored.IsZero()
	}
	return at.Equal(stored)
}

// sameObject compares two JSON objects by what they say; nil is {}.
func sameObject(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := canonicalJSON(orEmpty(a))
	y, errY := canonicalJSON(orEmpty(b))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func orEmpty(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	return raw
}
