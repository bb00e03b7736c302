package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/outrider-jobs/outrider/job"
)

// talk is one WebSocket.
type talk struct {
	t *testing.T
	*websocket.Conn
}

// message is what the server says.
type message struct {
	Type, Channel, Event, ID, Code, Message, Timestamp string
	Data                                               map[string]any
}

func (s *streaming) dial(headers http.Header) (*talk, *http.Response, error) {
	c, resp, err := websocket.Dial(s.t.Context(), s.URL+"/ojs/v1/ws", &websocket.DialOptions{Subprotocols: []string{"ojs.v1"}, HTTPHeader: headers})
	if c != nil {
		c.SetReadLimit(1 << 20)
		s.t.Cleanup(func() { c.CloseNow() })
	}
	return &talk{s.t, c}, resp, err
}

func (s *streaming) talk() *talk {
	s.t.Helper()
	k, _, err := s.dial(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

func (k *talk) say(text string) {
	k.t.Helper()
	if err := k.Write(k.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) hear() (m message) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 10*time.Second)
	defer cancel()
	_, raw, err := k.Read(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		k.t.Fatalf("%s: %v", raw, err)
	}
	if m.Timestamp == "" {
		k.t.Errorf("%s has no timestamp", raw)
	}
	return m
}

// asks says something, and compares the type and the code of the answer.
func (k *talk) asks(text, kind, code string) {
	k.t.Helper()
	k.say(text)
	if m := k.hear(); m.Type != kind || m.Code != code || kind == "error" && m.Message == "" {
		k.t.Errorf("%s: %+v, want %s %s", text, m, kind, code)
	}
}

// told compares the next event and its channel; changes of state stand between.
func (k *talk) told(channel, kind string, seq int64) {
	k.t.Helper()
	m := k.hear()
	for m.Event == "job.state_changed" {
		if m.Data["job_id"] == "" || m.Data["to"] == nil {
			k.t.Errorf("%+v", m)
		}
		m = k.hear()
	}
	if m.Type != "event" || m.Channel != channel || m.Event != kind || !strings.HasSuffix(m.ID, fmt.Sprintf("%012x", seq)) ||
		m.Data["event"] != kind || m.Data["type"] != "mail.send" || m.Data["id"] != m.ID {
		k.t.Errorf("got %+v, want %s of %s with %d", m, kind, channel, seq)
	}
}

func TestSocket(t *testing.T) {
	s := newStreaming(t, nil)
	k, resp, err := s.dial(nil)
	if err != nil || k.Subprotocol() != "ojs.v1" || resp.Header.Get("OJS-Version") != "1.0.0-rc.1" {
		t.Fatal(resp, err)
	}
	k.asks(`{"action":"subscribe","channel":"queue:mail"}`, "subscribed", "")
	s.add(some(1, "news")...)
	s.add(some(2, "mail")...)
	k.told("queue:mail", "job.enqueued", 2)
	k.told("queue:mail", "job.enqueued", 3)
	k.asks(`{"action":"unsubscribe","channel":"queue:mail"}`, "unsubscribed", "")
	s.add(some(1, "mail")...)
	k.asks(`{"action":"subscribe","channel":"all","filter":{"event_types":["job.started"],"queues":["mail"],"job_types":["mail.send"]}}`, "subscribed", "")
	s.add(some(1, "mail")...)
	s.add(job.Event{Type: "job.started", JobID: idOne, JobType: "mail.send", Queue: "mail"})
	k.told("all", "job.started", 6)
	k.asks(`{"action":"resume","channel":"queue:mail","last_event_id":"2"}`, "subscribed", "")
	for _, seq := range []int64{3, 4, 5} {
		k.told("queue:mail", "job.enqueued", seq)
	}
	k.told("queue:mail", "job.started", 6)
	k.asks(`{"action":"unsubscribe","channel":"all"}`, "unsubscribed", "")
	k.asks(`{"action":"subscribe","channel":"job:`+string(idOne)+`","last_event_id":"5"}`, "subscribed", "")
	k.told("job:"+string(idOne), "job.started", 6)
	k.asks(`{"action":"unsubscribe","channel":"queue:mail"}`, "unsubscribed", "")
	s.first = 4
	k.say(`{"action":"resume","channel":"events","last_event_id":"evt_of_another"}`)
	k.hear()
	if m := k.hear(); m.Type != "warning" || m.Code != "system.gap" || m.Data["last_event_id"] != "evt_of_another" {
		t.Errorf("a gap: %+v", m)
	}
	k.told("events", "job.enqueued", 4)
}

func TestSocketRefuses(t *testing.T) {
	s := newStreaming(t, nil)
	k := s.talk()
	for text, code := range map[string]string{
		`{`: "invalid_payload", `[]`: "invalid_payload", `{}`: "invalid_request", `{"action":"shout","channel":"all"}`: "invalid_request", `{"action":"subscribe"}`: "invalid_request",
		`{"action":"subscribe","channel":"jobs"}`: "invalid_request", `{"action":"subscribe","channel":"job:1"}`: "invalid_request", `{"action":1,"channel":"all"}`: "invalid_request",
		`{"action":"resume","channel":"all"}`: "invalid_request", `{"action":"unsubscribe","channel":"all"}`: "not_found",
		`{"action":"subscribe","channel":"all","filter":{"types":["x"]}}`: "invalid_request", `{"action":"subscribe","channel":"queue:a","filter":{"queues":["b"]}}`: "invalid_request",
		`{"action":"subscribe","channel":"all","filter":{"event_types":"x"}}`: "invalid_request", `{"action":"subscribe","channel":"job:` + strings.Replace(string(idOne), "0001", "e001", 1) + `"}`: "not_found",
	} {
		k.say(text)
		if m := k.hear(); m.Type != "error" || m.Code != code || m.Message == "" {
			t.Errorf("%s: %+v, want %s", text, m, code)
		}
	}
	if err := k.Write(t.Context(), websocket.MessageBinary, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if m := k.hear(); m.Type != "error" {
		t.Errorf("bytes: %+v", m)
	}
	for i := range socketChannels {
		k.asks(fmt.Sprintf(`{"action":"subscribe","channel":"queue:q%d"}`, i), "subscribed", "")
	}
	k.asks(`{"action":"subscribe","channel":"queue:one_more"}`, "error", "invalid_request")
	k.asks(`{"action":"subscribe","channel":"queue:q7"}`, "subscribed", "") // anew
	k.say(`{"action":"` + strings.Repeat("x", socketMessage) + `"}`)
	if _, _, err := k.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("a message that is too long: %v", err)
	}
	wait(t, "no readers", func() bool { return s.readers() == 0 })
}

// A page of another origin gets no WebSocket (failures.md §3).
func TestSocketIsGuarded(t *testing.T) {
	s := newStreaming(t, nil)
	for _, h := range []http.Header{{"Origin": {"http://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Origin": {"null"}}} {
		if _, resp, err := s.dial(h); err == nil || resp.StatusCode != 403 {
			t.Errorf("%v: %v, %v", h, resp, err)
		}
	}
}

// A stop closes each WebSocket with 1001, and one whose client does not answer, too.
func TestAStopClosesSockets(t *testing.T) {
	s := newStreaming(t, nil)
	k, silent := s.talk(), s.talk()
	k.asks(`{"action":"subscribe","channel":"all"}`, "subscribed", "")
	silent.asks(`{"action":"subscribe","channel":"queue:mail"}`, "subscribed", "")
	closed := make(chan error, 1)
	go func() {
		_, _, err := k.Read(context.Background())
		closed <- err
	}()
	began := time.Now()
	s.api.Streams.End(10 * time.Second)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if err := <-closed; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("closed with %v", err)
	}
	if n := s.readers(); n != 0 {
		t.Errorf("%d readers", n)
	}
}

// A client that answers no ping, or takes nothing, loses the connection.
func TestASilentSocketIsClosed(t *testing.T) {
	s := newStreaming(t, func(a *api) { a.times.ping, a.times.stall = 20*time.Millisecond, 100*time.Millisecond })
	k := s.talk()
	k.asks(`{"action":"subscribe","channel":"all"}`, "subscribed", "")
	wait(t, "no readers", func() bool { return s.readers() == 0 }) // k does not read, and so does not answer
}
