package sidecar

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// What a Follow tells at once at most, in events and in bytes, but for a single event
// that is larger.
const (
	newsEvents = 1000
	newsBytes  = 1 << 20
)

// EventSpan says which part of the log of events is there; see [job.FollowService].
func (s *Sidecar) EventSpan(ctx context.Context) (job.EventSpan, error) {
	return view(ctx, s, func(tx job.ReadTx) (job.EventSpan, error) { return tx.EventSpan() })
}

// Follow tells of events as they are committed; see [job.FollowService].
func (s *Sidecar) Follow(ctx context.Context, f job.EventFilter, fn func(job.News) error) error {
	f = s.following(ctx, f)
	for first := true; ; first = false {
		committed := s.news.wait() // before the look, so that no commit comes between
		n, err := view(ctx, s, func(tx job.ReadTx) (job.News, error) { return newsBehind(tx, f) })
		if err != nil {
			return err
		}
		f.After = n.Seen
		if first || n.Gap || len(n.Events) > 0 {
			if err := fn(n); err != nil {
				return err
			}
		}
		if n.More {
			committed = nil
		}
		if err := next(ctx, committed); err != nil {
			return err
		}
	}
}

// following is the filter of a Follow, with what the context says.
func (s *Sidecar) following(ctx context.Context, f job.EventFilter) job.EventFilter {
	f = job.EventFilter{Types: slices.Clone(f.Types), Queues: f.Queues, JobTypes: f.JobTypes, JobID: f.JobID,
		Tenant: cmp.Or(f.Tenant, job.TenantOf(ctx)), After: f.After, Limit: newsEvents}
	for i, t := range f.Types {
		f.Types[i] = strings.Replace(t, ":", ".", 1) // as asyncmq-deduplication.md spells them
	}
	return f
}

// next waits for the next commit; nil is no wait.
func next(ctx context.Context, committed <-chan struct{}) error {
	if committed == nil && ctx.Err() == nil {
		return nil
	}
	select {
	case <-committed:
		return nil
	case <-ctx.Done():
		return job.Errorf(job.Unavailable, "the events are followed no longer: %w", ctx.Err())
	}
}

// newsBehind reads what comes behind f.After.
func newsBehind(tx job.ReadTx, f job.EventFilter) (n job.News, err error) {
	span, err := tx.EventSpan()
	if err != nil {
		return n, err
	}
	if f.After == job.FromNow {
		n.Seen = span.Last
		return n, nil
	}
	if n.Gap = span.Lost(f.After); n.Gap {
		f.After = span.First - 1
	}
	room := &newsRoom{}
	f.Room = room
	if n.Events, err = tx.Events(f); err != nil {
		return n, err
	}
	n.Seen = span.Last
	if n.More = room.full || len(n.Events) == f.Limit; n.More {
		n.Seen = n.Events[len(n.Events)-1].Seq
	}
	return n, nil
}

// newsRoom is the room of newsBytes, of which the first event may be larger.
type newsRoom struct {
	taken int
	full  bool
}

// Take is part of [job.Room].
func (r *newsRoom) Take(n int) bool {
	r.full = r.taken > 0 && r.taken+n > newsBytes
	if !r.full {
		r.taken += n
	}
	return !r.full
}

// Reset is part of [job.Room].
func (r *newsRoom) Reset() { r.taken, r.full = 0, false }
