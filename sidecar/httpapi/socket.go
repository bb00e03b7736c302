package httpapi

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

const (
	socketProtocol = "ojs.v1"
	socketMessage  = 64 << 10 // bytes of a message from a client
	socketChannels = 100      // that one client may follow
)

// socket speaks WebSocket (contract §3.18). The connection is guarded as every request is.
func (a *api) socket(c echo.Context) error {
	r := c.Request()
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return job.Errorf(job.Invalid, "this endpoint speaks WebSocket: ask for it with Upgrade: websocket, or read GET /ojs/v1/events/stream, which says the same")
	}
	if err := a.Streams.enter(); err != nil {
		return err
	}
	defer a.Streams.leave()
	w := c.Response()
	w.Header().Del("Content-Type")
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{socketProtocol},
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled}) // the guard has looked at the origin
	if err != nil {
		return nil // which has answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // net/http ends its own with the request
	s := &session{a: a, conn: conn, ctx: ctx, channels: map[string]*subscription{}}
	defer s.end(cancel)
	conn.SetReadLimit(socketMessage)
	defer context.AfterFunc(a.Streams.closing, func() { s.goodbye(cancel) })()
	s.tasks.Go(s.ping)
	for {
		kind, raw, err := conn.Read(ctx)
		if err != nil {
			return nil // the client has left, or was told to
		}
		if kind != websocket.MessageText {
			s.refuse("", job.Errorf(job.Invalid, "a message must be text, a JSON object"))
			continue
		}
		s.hear(raw)
	}
}

// session is one WebSocket. Its channels are those of the goroutine that reads.
type session struct {
	a        *api
	conn     *websocket.Conn
	ctx      context.Context
	channels map[string]*subscription
	tasks    sync.WaitGroup
}

// subscription is one channel that a client follows.
type subscription struct {
	*session
	feed    *feed
	channel string
	prefix  []byte // of every message about an event
	stop    context.CancelFunc
	over    chan struct{}
}

// end ends everything that belongs to the session.
func (s *session) end(cancel context.CancelFunc) {
	cancel()
	s.conn.CloseNow()
	s.tasks.Wait()
}

// goodbye closes the connection because the server stops. A client that does not answer is
// not waited for.
func (s *session) goodbye(cancel context.CancelFunc) {
	t := time.AfterFunc(farewell, cancel)
	defer t.Stop()
	_ = s.conn.Close(websocket.StatusGoingAway, "the server is stopping; connect again")
	cancel()
}

// ping makes sure that the client is there.
func (s *session) ping() {
	for rest(s.ctx, s.a.times.ping) == nil {
		ctx, cancel := context.WithTimeout(s.ctx, s.a.times.stall)
		err := s.conn.Ping(ctx)
		cancel()
		if err != nil {
			s.conn.CloseNow()
			return
		}
	}
}

// send sends a message. A client that takes nothing for long loses the connection.
func (s *session) send(text []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.a.times.stall)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// refuse tells why something was not done. Where the client is gone the reading ends, too.
func (s *session) refuse(channel string, err error) {
	_ = s.send(wire.AppendSocketError(nil, channel, err, s.a.Now()))
}

// hear does what a message asks for.
func (s *session) hear(raw []byte) {
	m, err := wire.DecodeSocket(raw)
	if err != nil {
		s.refuse(m.Channel, err)
		return
	}
	switch m.Action {
	case wire.Unsubscribe:
		err = s.unsubscribe(m.Channel)
	default:
		err = s.subscribe(m)
	}
	if err != nil {
		s.refuse(m.Channel, err)
	}
}

// unsubscribe ends a channel.
func (s *session) unsubscribe(channel string) error {
	sub := s.channels[channel]
	if sub == nil {
		return job.Errorf(job.NotFound, "there is no subscription to %q; there are those that were subscribed to and not unsubscribed from", channel).
			With(map[string]any{"resource_type": "channel", "resource_id": channel})
	}
	delete(s.channels, channel)
	sub.stop()
	<-sub.over
	return s.send(wire.AppendSocketReply(nil, wire.Unsubscribed, channel, s.a.Now()))
}

// subscribe begins a channel, from now on or behind an event. A channel that is there is
// begun anew.
func (s *session) subscribe(m wire.SocketMessage) error {
	if old := s.channels[m.Channel]; old != nil {
		delete(s.channels, m.Channel)
		old.stop()
		<-old.over
	}
	if len(s.channels) >= socketChannels {
		return job.Errorf(job.Invalid, "%d channels are followed over this connection, and that is the most; unsubscribe from some", len(s.channels))
	}
	if m.Filter.JobID != "" {
		if _, err := s.a.svc.Job(s.ctx, m.Filter.JobID); err != nil {
			return err
		}
	}
	m.Filter.Tenant = job.TenantOf(s.ctx)
	r := &reader{filter: m.Filter}
	f, err := s.a.join(s.ctx, r)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(s.ctx)
	sub := &subscription{session: s, feed: f, channel: m.Channel, prefix: wire.AppendSocketPrefix(nil, m.Channel), stop: stop, over: make(chan struct{})}
	if err := s.send(wire.AppendSocketReply(nil, wire.Subscribed, m.Channel, s.a.Now())); err != nil {
		stop()
		s.a.leave(f, r)
		return err
	}
	s.channels[m.Channel] = sub
	s.tasks.Go(func() {
		defer close(sub.over)
		defer stop()
		defer s.a.leave(f, r)
		if err := f.run(ctx, r, behind{m.After, m.Asked}, sub); err != nil && ctx.Err() == nil && !errors.Is(err, errDone) {
			s.conn.CloseNow() // the client has left, or takes nothing
		}
	})
	return nil
}

// tell is part of [outlet].
func (sub *subscription) tell(_ context.Context, r *reader, batches []*batch, seen int64) error {
	for _, b := range batches {
		for i := b.behind(seen); i < len(b.events); i++ {
			if !r.filter.Wants(b.events[i]) {
				continue
			}
			var text []byte
			if r.filter.JobID != "" {
				text = wire.AppendFrame(nil, b.events[i], wire.OfSocket)
			} else {
				c := b.in(wire.OfSocket)
				text = c.text[c.from(i):c.ends[i]]
			}
			for line := range bytes.Lines(text) {
				if err := sub.send(append(sub.prefix[:len(sub.prefix):len(sub.prefix)], line[:len(line)-1]...)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// gap is part of [outlet].
func (sub *subscription) gap(asked string) error {
	return sub.send(wire.AppendSocketGap(nil, sub.channel, asked, sub.a.Now()))
}

// beat is part of [outlet]: a WebSocket has pings.
func (sub *subscription) beat() error { return nil }

// bye is part of [outlet].
func (sub *subscription) bye(why string) {
	if why == wire.TooSlow {
		_ = sub.send(wire.AppendSocketSlow(nil, sub.channel, sub.a.Now()))
		_ = sub.conn.Close(websocket.StatusTryAgainLater, "too slow; connect again and resume")
	}
}
