package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Streams are the live streams of a handler: whoever stops a server ends them with it. It
// is safe for concurrent use.
type Streams struct {
	most    int
	closing context.Context // ended by end
	end     context.CancelFunc

	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when there is none any more; nil before End
}

// NewStreams makes the streams of one handler, of which there are at most most at a time; 0
// is without a bound. A stream keeps a connection: a bound below that of connections keeps
// some for everybody else.
func NewStreams(most int) *Streams {
	closing, end := context.WithCancel(context.Background())
	return &Streams{most: most, closing: closing, end: end}
}

// End ends all streams, and refuses new ones with Unavailable from now on. It returns when
// all have ended, or when limit is over. It may be called twice.
func (s *Streams) End(limit time.Duration) {
	s.mu.Lock()
	if s.idle == nil {
		s.idle = make(chan struct{})
		s.end()
		if s.n == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-s.idle:
	case <-t.C:
	}
}

// enter counts a stream. leave must follow where it returns nil.
func (s *Streams) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		return errClosing()
	}
	if s.most > 0 && s.n >= s.most {
		return job.Errorf(job.Unavailable, "there are %d streams open, and no more are taken so that connections are left for workers; close some, or raise --max-connections", s.n)
	}
	s.n++
	return nil
}

func (s *Streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n--; s.n == 0 && s.idle != nil {
		close(s.idle)
	}
}

func errClosing() error {
	return job.Errorf(job.Unavailable, "the server is stopping and begins no stream; connect again to the next one")
}

// times are what the streams of a handler go by.
type times struct {
	beat    time.Duration // between two heartbeats
	metrics time.Duration // between two measurements
	pace    time.Duration // see feedPace
	stall   time.Duration // how long a reader may take nothing
	ping    time.Duration // between two pings of a WebSocket
	bytes   int64         // see feedBytes
}

var usual = times{beat: 15 * time.Second, metrics: 2 * time.Second, pace: feedPace, stall: standstill, ping: 30 * time.Second, bytes: feedBytes}

// farewell is how long a stream has to say goodbye when the server stops.
const farewell = 500 * time.Millisecond

// outlet is where a stream goes to.
type outlet interface {
	// tell sends what the reader wants of the batches behind the event with the Seq seen.
	// errDone ends the stream well.
	tell(ctx context.Context, r *reader, batches []*batch, seen int64) error
	// gap says that events behind an id are missing.
	gap(asked string) error
	// beat sends a heartbeat, and metrics where there are new ones.
	beat() error
	// bye says why the stream ends: with wire.Ended or wire.TooSlow.
	bye(why string)
}

// errDone ends a stream that has told everything.
var errDone = job.Errorf(job.Conflict, "the stream has ended")

// behind is where a stream begins.
type behind struct {
	seq   int64  // of the last event that was seen; FromNow for what is committed from now on
	asked string // as the reader has said it
}

// run sends a reader what is to be told until ctx ends, the server stops, the reader is too
// slow, or the outlet has an error, which comes back.
func (f *feed) run(ctx context.Context, r *reader, from behind, out outlet) error {
	if from.seq != job.FromNow {
		if err := f.replay(ctx, r, from, out); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.a.Streams.closing.Done():
			out.bye(wire.Ended)
			return nil
		case <-r.wake:
		}
		batches, seen, upTo, kept := f.take(r)
		if !kept {
			out.bye(wire.TooSlow)
			return nil
		}
		if len(batches) > 0 {
			if err := out.tell(ctx, r, batches, seen); err != nil {
				return err
			}
		}
		f.took(r, upTo)
		if err := out.beat(); err != nil {
			return err
		}
	}
}

// replay reads the log for a reader who is behind what the feed keeps.
func (f *feed) replay(ctx context.Context, r *reader, from behind, out outlet) error {
	span, err := f.a.svc.EventSpan(ctx)
	if err != nil {
		return err
	}
	seen := from.seq
	if span.Lost(seen) {
		if err := out.gap(from.asked); err != nil {
			return err
		}
		seen = span.First - 1
	}
	f.depart(r)
	for {
		select {
		case <-f.a.Streams.closing.Done():
			out.bye(wire.Ended)
			return errDone
		default:
		}
		upTo, kept := f.arrive(r, seen)
		if kept {
			return nil
		}
		events, more, err := f.page(ctx, r.filter, seen)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := out.tell(ctx, r, []*batch{{events: events}}, seen); err != nil {
				return err
			}
			seen = events[len(events)-1].Seq
		}
		if !more {
			seen = max(seen, upTo)
		}
	}
}

// page reads a page of the log.
func (f *feed) page(ctx context.Context, filter job.EventFilter, after int64) (events []job.Event, more bool, err error) {
	done, err := f.a.Memory.turn(ctx) // as all lists, of which a restart brings many at once
	if err != nil {
		return nil, false, err
	}
	defer done()
	room := &streamRoom{}
	filter.After, filter.Limit, filter.Room = after, 1000, room
	events, err = f.a.svc.Events(ctx, filter)
	return events, room.full || len(events) == filter.Limit, err
}

// streamRoom is what a stream holds of the log at once, but for a single event that is
// larger.
type streamRoom struct {
	taken int
	full  bool
}

// Take is part of [job.Room].
func (r *streamRoom) Take(n int) bool {
	r.full = r.taken > 0 && r.taken+n > 256<<10
	if !r.full {
		r.taken += n
	}
	return !r.full
}

// Reset is part of [job.Room].
func (r *streamRoom) Reset() { r.taken, r.full = 0, false }
