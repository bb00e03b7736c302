package httpapi

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// As long as there is a reader of a stream, one follower reads the log of events for all
// of them. It keeps what it has read for a while, in memory, in batches; each reader is
// woken where there is something for it, and goes through them at its own pace. An event is
// encoded once for all readers of a dialect. Who is so slow that a batch is gone before it
// was taken is dropped: the follower waits for nobody.

const (
	feedBytes = 24 << 20               // of batches that are kept
	feedPace  = 20 * time.Millisecond  // between two batches, unless more is known to be there
	feedEach  = time.Millisecond / 2   // and for each reader: a write for many events costs little more than one for few
	feedSlow  = 150 * time.Millisecond // at most
	feedRetry = time.Second            // behind a log that could not be read
)

// batch is what the follower has read at once.
type batch struct {
	events []job.Event // at least one, ascending
	coded  [wire.Dialects]coded
	size   atomic.Int64 // bytes of memory, about
}

// coded is a batch in one dialect.
type coded struct {
	once sync.Once
	text []byte
	ends []int // of each event in it
}

// last is the Seq of the newest event.
func (b *batch) last() int64 { return b.events[len(b.events)-1].Seq }

// behind is the index of the first event behind a Seq.
func (b *batch) behind(seq int64) int {
	return sort.Search(len(b.events), func(i int) bool { return b.events[i].Seq > seq })
}

// in is the batch in a dialect.
func (b *batch) in(d wire.Dialect) *coded {
	c := &b.coded[d]
	c.once.Do(func() {
		c.ends = make([]int, len(b.events))
		for i, e := range b.events {
			if i == 1 {
				c.text = slices.Grow(c.text, len(c.text)*len(b.events))
			}
			c.text = wire.AppendFrame(c.text, e, d)
			c.ends[i] = len(c.text)
		}
		b.size.Add(int64(cap(c.text) + 8*cap(c.ends)))
	})
	return c
}

// from is where event i begins.
func (c *coded) from(i int) int {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// reader is one who reads a stream.
type reader struct {
	filter job.EventFilter
	all    bool          // the filter lets everything through
	wake   chan struct{} // has room for one: there is something to do
	beat   atomic.Bool   // and it is a heartbeat
	gauges bool          // it is told metrics, too
	fresh  atomic.Bool   // and there are new ones

	// Of the feed, under its mu.
	seen int64 // all up to the event with this Seq was told, or is none of its
	away bool  // it reads the log itself
}

func (r *reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it has not got up since it was told last
	}
}

// feed is the follower and its readers. There is a new one whenever the first reader comes.
type feed struct {
	a    *api
	stop context.CancelFunc

	ready chan struct{} // closed when it is known where the follower begins
	over  chan struct{} // closed when the follower has ended

	mu      sync.Mutex
	readers map[*reader]struct{}
	byJob   map[job.ID]int // how many readers want the events of a job alone
	batches []*batch       // oldest first
	size    int64          // bytes of them, as of the last look
	base    int64          // Seq before the first event that is kept
	last    int64          // Seq up to which everything was read
	tally   tally          // of what was read
	gauges  int            // readers of metrics
	metrics []byte         // the newest, encoded
}

// tally counts events.
type tally struct{ enqueued, processed, failed int64 }

func (t *tally) count(e job.Event) {
	switch e.Type {
	case "job.enqueued":
		t.enqueued++
	case "job.completed":
		t.processed++
	case "job.failed":
		t.failed++
	}
}

// feeds has the present feed.
type feeds struct {
	mu  sync.Mutex
	now *feed // nil without readers
}

// join adds a reader, who is told what is committed from now on. leave must follow.
func (a *api) join(ctx context.Context, r *reader) (*feed, error) {
	r.wake, r.all = make(chan struct{}, 1), r.filter.All()
	r.away = true // until it is known where the follower is
	a.feeds.mu.Lock()
	f := a.feeds.now
	if f == nil {
		f = a.startFeed()
		a.feeds.now = f
	}
	f.add(r)
	a.feeds.mu.Unlock()
	select {
	case <-f.ready:
	case <-ctx.Done():
		a.leave(f, r)
		return nil, job.Errorf(job.Unavailable, "the caller left before its stream began: %w", ctx.Err())
	case <-a.Streams.closing.Done():
		a.leave(f, r)
		return nil, errClosing()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r.seen, r.away = f.last, false
	return f, nil
}

// leave takes a reader away. The last one ends the follower.
func (a *api) leave(f *feed, r *reader) {
	a.feeds.mu.Lock()
	left := f.remove(r)
	if left == 0 && a.feeds.now == f {
		a.feeds.now = nil
	}
	a.feeds.mu.Unlock()
	if left == 0 {
		f.stop()
		<-f.over
	}
}

func (f *feed) add(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers[r] = struct{}{}
	if r.gauges {
		f.gauges++
	}
	if r.filter.JobID != "" {
		f.byJob[r.filter.JobID]++
	}
}

func (f *feed) remove(r *reader) (left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, r)
	if r.gauges {
		f.gauges--
	}
	if id := r.filter.JobID; id != "" {
		if f.byJob[id]--; f.byJob[id] == 0 {
			delete(f.byJob, id)
		}
	}
	return len(f.readers)
}

// startFeed starts the follower.
func (a *api) startFeed() *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{a: a, stop: stop, ready: make(chan struct{}), over: make(chan struct{}), readers: map[*reader]struct{}{}, byJob: map[job.ID]int{}}
	var parts sync.WaitGroup
	parts.Go(func() { f.follow(ctx) })
	parts.Go(func() { f.beat(ctx) })
	parts.Go(func() { f.measure(ctx) })
	go func() {
		defer close(f.over)
		parts.Wait()
	}()
	return f
}

// follow reads the log until ctx ends. Where it cannot be read it is tried again: readers
// miss nothing.
func (f *feed) follow(ctx context.Context) {
	after := int64(job.FromNow)
	for {
		err := f.a.svc.Follow(ctx, job.EventFilter{After: after}, func(n job.News) error {
			after = n.Seen
			readers := f.put(n)
			if n.More {
				return nil
			}
			return rest(ctx, min(f.a.times.pace+time.Duration(readers)*feedEach, feedSlow))
		})
		if ctx.Err() != nil {
			return
		}
		f.a.Log.Debug("the log of events could not be followed; it is tried again", "err", err)
		if rest(ctx, feedRetry) != nil {
			return
		}
	}
}

// rest waits, or returns why not.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put takes what the follower has read, and wakes those whom it concerns. It says how many
// readers there are.
func (f *feed) put(n job.News) (readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.ready:
	default:
		f.base, f.last = n.Seen, n.Seen
		close(f.ready)
	}
	if n.Gap { // what the readers have not taken is nowhere any more
		f.batches, f.size, f.base = nil, 0, n.Seen
		if len(n.Events) > 0 {
			f.base = n.Events[0].Seq - 1
		}
	}
	before := f.last
	f.last = n.Seen
	if len(n.Events) > 0 {
		f.keep(n.Events)
	}
	hit := f.jobsOf(n.Events)
	for r := range f.readers {
		switch {
		case r.away:
		case r.seen == before && !n.Gap && !r.wants(n.Events, hit):
			r.seen = f.last
		default:
			r.rouse()
		}
	}
	return len(f.readers)
}

// keep adds a batch, and lets old ones go.
func (f *feed) keep(events []job.Event) {
	b := &batch{events: events}
	for _, e := range events {
		f.tally.count(e)
		b.size.Add(int64(160 + len(e.Data)))
	}
	f.batches = append(f.batches, b)
	f.size = 0
	for _, b := range f.batches {
		f.size += b.size.Load()
	}
	for len(f.batches) > 1 && f.size > f.a.times.bytes {
		f.size -= f.batches[0].size.Load()
		f.base = f.batches[0].last()
		f.batches[0] = nil
		f.batches = f.batches[1:]
	}
}

// jobsOf are the jobs of the events which some reader wants alone.
func (f *feed) jobsOf(events []job.Event) map[job.ID]bool {
	if len(f.byJob) == 0 {
		return nil
	}
	var hit map[job.ID]bool
	for _, e := range events {
		if f.byJob[e.JobID] > 0 {
			if hit == nil {
				hit = map[job.ID]bool{}
			}
			hit[e.JobID] = true
		}
	}
	return hit
}

// wants reports whether one of the events may be for the reader; hit are the jobs of them.
func (r *reader) wants(events []job.Event, hit map[job.ID]bool) bool {
	if r.filter.JobID != "" {
		return hit[r.filter.JobID]
	}
	return r.all || slices.ContainsFunc(events, r.filter.Wants)
}

// take is what there is behind the event that the reader has seen last, which it has from
// the log perhaps, and up to where that is. ok is false where some of it is not kept any more.
func (f *feed) take(r *reader) (batches []*batch, seen, upTo int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.seen < f.base {
		return nil, 0, 0, false
	}
	i := sort.Search(len(f.batches), func(i int) bool { return f.batches[i].last() > r.seen })
	return slices.Clone(f.batches[i:]), r.seen, max(r.seen, f.last), true
}

// took says that the reader was told everything up to a Seq.
func (f *feed) took(r *reader, upTo int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.seen = upTo
}

// depart has the reader read the log itself.
func (f *feed) depart(r *reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.away = true
}

// arrive ends that for a reader who was told everything up to a Seq, if what comes behind
// it is kept here. If not, the reader must read up to upTo at least.
func (f *feed) arrive(r *reader, seen int64) (upTo int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seen < f.base {
		return f.last, false
	}
	r.seen, r.away = seen, false
	r.rouse()
	return f.last, true
}

// beat wakes all readers for a heartbeat, from one timer, until ctx ends.
func (f *feed) beat(ctx context.Context) {
	t := time.NewTicker(f.a.times.beat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f.mu.Lock()
			for r := range f.readers {
				r.beat.Store(true)
				r.rouse()
			}
			f.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}
