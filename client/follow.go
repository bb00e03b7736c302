package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

const (
	// streamSilence is how long a stream may say nothing: three heartbeats.
	streamSilence = 45 * time.Second
	// streamPause is how long a Follow waits before it connects again; at most streamPauseMax.
	streamPause    = 100 * time.Millisecond
	streamPauseMax = 5 * time.Second
	// maxFrame bounds one event of a stream.
	maxFrame = 4 << 20
)

// EventSpan says which part of the log of events is there; see [job.FollowService].
func (c *Client) EventSpan(ctx context.Context) (job.EventSpan, error) {
	return ask(ctx, c, get("/events?limit=1"), wire.ReadEventSpan)
}

// Follow tells of events as they are committed; see [job.FollowService]. Where the
// connection breaks it connects again, for as long as ctx lets it, and goes on behind the
// last event that was told. It returns the error of a first connection that fails.
func (c *Client) Follow(ctx context.Context, f job.EventFilter, fn func(job.News) error) error {
	return c.FollowReporting(ctx, f, fn, func(error) {})
}

// FollowReporting is Follow for those who show how it does. It calls report with the
// reason where the connection breaks, once however often connecting again fails, and with
// nil when there is one again. Both functions are called by the same goroutine.
func (c *Client) FollowReporting(ctx context.Context, f job.EventFilter, fn func(job.News) error, report func(error)) error {
	s := &stream{c: c, fn: fn, report: report, seen: f.After, path: "/events/stream?" + wire.StreamQuery(f).Encode()}
	ctx = speaking(ctx, f.Tenant)
	pause := streamPause
	for {
		before := s.told
		err := s.follow(ctx)
		var own *ownError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return job.Errorf(job.Unavailable, "the events of %s are followed no longer: %w", c.shown, ctx.Err())
		case !s.begun || job.KindOf(err) != job.Unavailable:
			return err
		}
		if !s.lost {
			s.lost = true
			report(err)
		}
		if s.told != before {
			pause = streamPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, streamPauseMax)
	}
}

// ownError is what fn has returned.
type ownError struct{ error }

// stream is the connection of a Follow, and those after it.
type stream struct {
	c      *Client
	fn     func(job.News) error
	report func(error)
	path   string
	lost   bool  // report was told of it
	seen   int64 // Seq of the last event that was told; FromNow before it is known
	begun  bool  // fn was called
	told   int   // how often
}

// follow reads one connection until it breaks.
func (s *stream) follow(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(streamSilence, cancel)
	defer silent.Stop()
	req, err := http.NewRequestWithContext(inner, http.MethodGet, s.c.base+"/ojs/v1"+s.path, nil)
	if err != nil {
		return job.Errorf(job.Invalid, "request to %s: %w", s.c.shown, err)
	}
	s.c.dress(ctx, req)
	req.Header.Set("Accept", wire.EventStream)
	if s.seen != job.FromNow {
		req.Header.Set("Last-Event-ID", wire.SeqText(s.seen))
	}
	resp, err := s.c.http.Do(req)
	if err != nil {
		return s.c.unreached(ctx, inner, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := readAll(resp)
		if err != nil {
			return s.c.unreached(ctx, inner, err)
		}
		return wire.DecodeError(resp.StatusCode, body)
	}
	if s.lost {
		s.lost = false
		s.report(nil)
	}
	err = s.read(bufio.NewReaderSize(resp.Body, 32<<10), func() { silent.Reset(streamSilence) })
	if errors.Is(err, io.EOF) {
		err = job.Errorf(job.Unavailable, "%s has ended the stream of its events", s.c.shown)
	}
	if job.KindOf(err) == job.Internal && !errors.As(err, new(*job.Error)) && !errors.As(err, new(*ownError)) {
		err = s.c.unreached(ctx, inner, err)
	}
	return err
}

// read reads the frames of one connection, and tells what has come together.
func (s *stream) read(r *bufio.Reader, alive func()) error {
	var news job.News
	var frame wire.Frame
	for {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		alive()
		if !frame.Line(line) {
			continue
		}
		if err := s.take(&frame, &news); err != nil {
			return err
		}
		frame = wire.Frame{}
		if r.Buffered() > 0 && len(news.Events) < maxList && s.begun {
			continue
		}
		if err := s.tell(&news); err != nil {
			return err
		}
	}
}

// take adds a frame to the news.
func (s *stream) take(f *wire.Frame, news *job.News) error {
	switch {
	case f.Event == wire.GapEvent:
		news.Gap = true
	case len(f.Data) > 0:
		e, err := wire.ReadStreamData(f.Data)
		if err != nil {
			return err
		}
		news.Events, s.seen = append(news.Events, e), e.Seq
	case f.ID != "": // the opening says behind what it begins
		seq, err := wire.ParseEventID(f.ID)
		if err != nil {
			return err
		}
		s.seen = seq
	}
	return nil
}

// tell calls fn where there is something to tell, and when the first connection begins.
func (s *stream) tell(news *job.News) error {
	if len(news.Events) == 0 && !news.Gap && s.begun {
		return nil
	}
	n := *news
	*news = job.News{}
	n.Seen = s.seen
	s.begun = true
	s.told++
	if err := s.fn(n); err != nil {
		return &ownError{err}
	}
	return nil
}

// errFrame is a line that is longer than any event.
var errFrame = job.Errorf(job.Internal, "a line of the stream of events is longer than %d bytes", maxFrame)

// readLine reads a line without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		return bytes.TrimRight(line, "\r\n"), nil
	}
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) && len(long) < maxFrame {
		long = append(long, line...)
		line, err = r.ReadSlice('\n')
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errFrame
	}
	return bytes.TrimRight(append(long, line...), "\r\n"), err
}
