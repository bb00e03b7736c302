package job

import (
	"context"
	"slices"
	"strings"
)

// FollowService tells of events as they happen (contract §3.18).
type FollowService interface {
	// EventSpan says which part of the log of events is there.
	EventSpan(ctx context.Context) (EventSpan, error)
	// Follow calls fn with the events behind f.After, oldest first, and then with those of
	// each commit, until ctx ends or fn returns an error, which comes back. None is left
	// out, each comes once and in the order of the log, and all of them are on disk. It
	// wakes with the commit and does not poll. The first call comes at once, also where
	// there is nothing to tell; with FromNow only what is committed behind it is told. Of f
	// it heeds Types, Queues, JobTypes, JobID, Tenant and After. fn may take its time: it
	// delays nobody else, and is then told more at once. Unavailable when ctx ends.
	Follow(ctx context.Context, f EventFilter, fn func(News) error) error
}

// FromNow is the After of a Follow that is not to be told what has happened before.
const FromNow = -1

// EventSpan is which part of the log of events is there.
type EventSpan struct {
	First int64 // Seq of the oldest that is kept
	Last  int64 // and of the newest, also where none is kept any more: then it is before First
}

// Count is how many events are kept.
func (s EventSpan) Count() int64 { return max(0, s.Last-s.First+1) }

// Lost reports whether what comes behind the event with a Seq is not known whole: some of
// it was pruned, or the event is none of this log. Behind 0 is all that there is.
func (s EventSpan) Lost(after int64) bool { return after > 0 && (after < s.First-1 || after > s.Last) }

// News is what a Follow tells at once.
type News struct {
	Events []Event // in ascending order
	Seen   int64   // all up to the event with this Seq has been told
	More   bool    // the next call comes at once
	Gap    bool    // events before these are not there any more, and were not told; see [EventSpan.Lost]
}

// Wants reports whether the filter lets an event through, whatever Limit and Room say.
func (f EventFilter) Wants(e Event) bool {
	return e.Seq > f.After &&
		(f.JobID == "" || e.JobID == f.JobID) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) &&
		(f.Until.IsZero() || e.Time.Before(f.Until)) &&
		listed(f.Types, e.Type) && listed(f.Queues, e.Queue) && listed(f.JobTypes, e.JobType) && (f.Tenant == "" || e.Tenant() == f.Tenant)
}

// All reports whether the filter lets every event through that comes behind After.
func (f EventFilter) All() bool {
	return f.JobID == "" && f.Since.IsZero() && f.Until.IsZero() && f.Tenant == "" && len(f.Types)+len(f.Queues)+len(f.JobTypes) == 0
}

// listed reports whether s is among the words, of which "*" is all and "job.*" a prefix.
func listed(words []string, s string) bool {
	return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool {
		prefix, open := strings.CutSuffix(w, "*")
		return w == s || open && strings.HasPrefix(s, prefix)
	})
}
