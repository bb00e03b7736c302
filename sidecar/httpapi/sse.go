package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// eventStream tells what happens (contract §3.18).
func (a *api) eventStream(c echo.Context) error {
	f, err := fromQuery(wire.DecodeStream)(c)
	if err != nil {
		return err
	}
	return a.stream(c, &reader{filter: f}, wire.OfEvents)
}

// statsStream tells what happens, and how the server does.
func (a *api) statsStream(c echo.Context) error {
	f, err := fromQuery(wire.DecodeStream)(c)
	if err != nil {
		return err
	}
	return a.stream(c, &reader{filter: f, gauges: job.TenantOf(c.Request().Context()) == ""}, wire.OfEvents)
}

// queueStream tells what happens in a queue.
func (a *api) queueStream(c echo.Context) error {
	f, err := fromQuery(wire.DecodeJobStream)(c)
	if err != nil {
		return err
	}
	f.Queues = []string{param(c, "name")}
	return a.stream(c, &reader{filter: f}, wire.OfJobs)
}

// stream sends events until somebody ends it.
func (a *api) stream(c echo.Context, r *reader, d wire.Dialect) error {
	from, err := resumed(c.Request())
	if err != nil {
		return err
	}
	return a.open(c, r, from, func(s *sse) (opened, error) { return opened{out: &eventsOut{sse: s, dialect: d}}, nil })
}

// resumed is where a reader wants to go on.
func resumed(r *http.Request) (behind, error) {
	asked := r.Header.Get("Last-Event-ID")
	if asked == "" {
		return behind{seq: job.FromNow}, nil
	}
	seq, err := wire.ParseEventID(asked)
	if err != nil {
		seq = wire.NoEvent // which no log has: the reader is told that there is a gap
	}
	return behind{seq, asked}, nil
}

// opened is a stream that may begin.
type opened struct {
	out   outlet
	first func() error // tells what comes before anything that happens, to a reader who does not go on; nil for nothing
	over  bool         // and that is all
}

// open begins a server-sent stream and keeps it open. begin makes the outlet, once the
// reader is told of all that is committed from then on; errDone from it is a stream that
// ends before it began.
func (a *api) open(c echo.Context, r *reader, from behind, begin func(*sse) (opened, error)) error {
	ctx := c.Request().Context()
	if err := a.Streams.enter(); err != nil {
		return err
	}
	defer a.Streams.leave()
	if c.Request().Method == http.MethodHead {
		heads(c)
		return nil
	}
	r.filter.Tenant = job.TenantOf(ctx)
	f, err := a.join(ctx, r)
	if err != nil {
		return err
	}
	defer a.leave(f, r)
	s := &sse{w: exchange(c), feed: f, reader: r, closing: a.Streams.closing}
	s.conn = http.NewResponseController(s.w)
	o, err := begin(s)
	if err == errDone {
		return c.NoContent(http.StatusNoContent) // a browser does not connect again
	}
	if err != nil {
		return err
	}
	heads(c)
	defer s.hurried()()
	_ = s.conn.SetReadDeadline(time.Time{}) // that of the request would end the watch for a reader who leaves
	if err := s.run(ctx, o, from); err != nil && !errors.Is(err, errDone) {
		a.Log.Debug("a stream ended", "request_id", requestID(c), "route", c.Path(), "err", err)
		return nil // the answer is on its way: it is too late for an error
	}
	_ = s.conn.SetWriteDeadline(time.Time{}) // the connection may be used again
	return nil
}

// run sends the stream.
func (s *sse) run(ctx context.Context, o opened, from behind) error {
	seen := int64(-1) // who goes on knows where
	if from.seq == job.FromNow && !o.over {
		seen = s.feed.begins(s.reader)
	}
	if err := s.write(wire.AppendOpening(nil, seen)); err != nil {
		return err
	}
	if from.seq == job.FromNow && o.first != nil {
		if err := o.first(); err != nil {
			return err
		}
	}
	return s.feed.run(ctx, s.reader, from, o.out)
}

// heads sends the head of a server-sent stream.
func heads(c echo.Context) {
	h := c.Response().Header()
	h.Set("Content-Type", wire.EventStream)
	h.Set("X-Accel-Buffering", "no") // or a proxy keeps events back
	c.Response().WriteHeader(http.StatusOK)
}

// begins is the Seq behind which the reader is told what happens.
func (f *feed) begins(r *reader) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return r.seen
}

// sse is a server-sent stream.
type sse struct {
	w       *metered
	conn    *http.ResponseController
	closing context.Context
	feed    *feed
	reader  *reader
}

// within gives what is written next so long, and less when the server stops.
func (s *sse) within(d time.Duration) {
	_ = s.conn.SetWriteDeadline(time.Now().Add(d)) // without one, the server's own holds
	if s.closing.Err() != nil && d > farewell {
		_ = s.conn.SetWriteDeadline(time.Now().Add(farewell))
	}
}

// streamStride is what a reader must take before the deadline of one write.
const streamStride = 256 << 10

// hurried gives a write that is under way little time when the server stops, until the
// function that it returns is called.
func (s *sse) hurried() (end func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(s.closing, func() {
		defer close(done)
		s.within(farewell)
	})
	return func() {
		if !stop() {
			<-done // the answer is somebody else's behind this
		}
	}
}

// put writes without a flush. A reader who takes too little for long ends the stream.
func (s *sse) put(p []byte) error {
	for len(p) > 0 {
		s.within(s.feed.a.times.stall)
		n, err := s.w.ResponseWriter.Write(p[:min(len(p), streamStride)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// write is put and a flush.
func (s *sse) write(p []byte) error {
	if err := s.put(p); err != nil {
		return err
	}
	s.within(s.feed.a.times.stall)
	return s.w.FlushError()
}

// gap is part of [outlet].
func (s *sse) gap(asked string) error {
	return s.write(wire.AppendGap(nil, asked, s.feed.a.Now()))
}

// beat is part of [outlet].
func (s *sse) beat() error {
	if s.reader.fresh.Swap(false) {
		if err := s.write(s.feed.measured()); err != nil {
			return err
		}
	}
	if s.reader.beat.Swap(false) {
		return s.write([]byte(wire.Heartbeat))
	}
	return nil
}

// bye is part of [outlet].
func (s *sse) bye(why string) {
	_ = s.write([]byte(why)) // whoever takes nothing is not told
}

// eventsOut sends events as they are.
type eventsOut struct {
	*sse
	dialect wire.Dialect
	text    []byte // is used again
}

// tell is part of [outlet]. What is there is sent at once.
func (o *eventsOut) tell(_ context.Context, r *reader, batches []*batch, seen int64) error {
	o.text = o.text[:0]
	for _, b := range batches {
		i := b.behind(seen)
		if r.all {
			if err := o.put(b.in(o.dialect).text[b.in(o.dialect).from(i):]); err != nil {
				return err
			}
			continue
		}
		for ; i < len(b.events); i++ {
			if !r.filter.Wants(b.events[i]) {
				continue
			}
			if r.filter.JobID != "" { // for few events it is not worth while to encode all
				o.text = wire.AppendFrame(o.text, b.events[i], o.dialect)
			} else {
				c := b.in(o.dialect)
				o.text = append(o.text, c.text[c.from(i):c.ends[i]]...)
			}
			if len(o.text) >= stride {
				if err := o.put(o.text); err != nil {
					return err
				}
				o.text = o.text[:0]
			}
		}
	}
	err := o.write(o.text)
	if cap(o.text) > 2*stride || len(batches) == 1 && cap(o.text) > 4<<10 {
		o.text = nil // an idle reader keeps no memory
	}
	return err
}
