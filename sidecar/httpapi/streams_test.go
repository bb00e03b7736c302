package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// writtenLog is a log of events that a test writes, and its followers.
type writtenLog struct {
	mu       sync.Mutex
	events   []job.Event
	first    int64         // Seq of the oldest that is kept
	told     chan struct{} // closed by the next write
	follows  int           // how many follow now
	followed int           // and ever did
}

// add writes events, numbered, of a queue.
func (l *writtenLog) add(events ...job.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		e.Seq = int64(len(l.events) + 1)
		if e.Time.IsZero() {
			e.Time = noon
		}
		l.events = append(l.events, e)
	}
	close(l.told)
	l.told = make(chan struct{})
}

// some are n events of a queue.
func some(n int, queue string) []job.Event {
	es := make([]job.Event, n)
	for i := range es {
		es[i] = job.Event{Type: "job.enqueued", JobID: idOne, JobType: "mail.send", Queue: queue, Data: []byte(`{"state":"available","priority":0}`)}
	}
	return es
}

func (l *writtenLog) behind(f job.EventFilter) (es []job.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.After = max(f.After, l.first-1)
	for _, e := range l.events {
		if f.Wants(e) && len(es) < f.Limit {
			es = append(es, e)
		}
	}
	return es
}

func (l *writtenLog) span() job.EventSpan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return job.EventSpan{First: l.first, Last: int64(len(l.events))}
}

func (l *writtenLog) follow(ctx context.Context, f job.EventFilter, fn func(job.News) error) error {
	l.mu.Lock()
	l.follows++
	l.followed++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.follows--
	}()
	if f.After == job.FromNow {
		f.After = l.span().Last
	}
	f.Limit = 1000
	for first := true; ; first = false {
		l.mu.Lock()
		told := l.told
		l.mu.Unlock()
		es := l.behind(f)
		if len(es) > 0 {
			f.After = es[len(es)-1].Seq
		}
		if first || len(es) > 0 {
			if err := fn(job.News{Events: es, Seen: f.After, More: len(es) == f.Limit}); err != nil {
				return err
			}
		}
		if len(es) == f.Limit {
			continue
		}
		select {
		case <-told:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// streaming is a server whose log a test writes.
type streaming struct {
	*httptest.Server
	*writtenLog
	t   *testing.T
	api *api
}

func newStreaming(t *testing.T, change func(*api)) *streaming {
	t.Helper()
	l := &writtenLog{first: 1, told: make(chan struct{})}
	f := world()
	f.span = func(context.Context) (job.EventSpan, error) { return l.span(), nil }
	f.events = func(_ context.Context, q job.EventFilter) ([]job.Event, error) { return l.behind(q), nil }
	f.follow = l.follow
	f.history = func(_ context.Context, id job.ID) ([]job.Event, error) {
		return l.behind(job.EventFilter{JobID: id, Limit: 100}), nil
	}
	o := quiet()
	o.Streams = NewStreams(0)
	a := newAPI(f, o)
	if change != nil {
		change(a)
	}
	srv := httptest.NewServer(&meter{a.router(), a.Memory})
	t.Cleanup(func() {
		o.Streams.End(10 * time.Second)
		srv.Close()
	})
	return &streaming{srv, l, t, a}
}

// frames reads a stream, frame by frame.
type frames struct {
	t *testing.T
	*http.Response
	lines *bufio.Reader
}

func (s *streaming) open(path, last string, headers ...string) *frames {
	s.t.Helper()
	r, _ := http.NewRequestWithContext(s.t.Context(), "GET", s.URL+"/ojs/v1"+path, nil)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	f := &frames{s.t, resp, bufio.NewReader(resp.Body)}
	if resp.StatusCode == 200 {
		if first := f.next(); !strings.HasPrefix(first, "retry: 3000\n") {
			s.t.Errorf("%s begins with %q", path, first)
		}
	}
	return f
}

// next is the next frame without the empty line that ends it, empty at the end.
func (f *frames) next() string {
	f.t.Helper()
	text := ""
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil || line == "\n" {
			return text
		}
		text += line
	}
}

// seqs are those of the next n frames.
func (f *frames) seqs(n int) (seqs []int64) {
	f.t.Helper()
	for range n {
		text := f.next()
		id, _, _ := strings.Cut(strings.TrimPrefix(text, "id: "), "\n")
		seq, err := wire.ParseEventID(id)
		if err != nil || !strings.HasPrefix(text, "id: ") {
			f.t.Fatalf("after %v: %q", seqs, text)
		}
		seqs = append(seqs, seq)
	}
	return seqs
}

func upTo(from, to int64) (seqs []int64) {
	for i := from; i <= to; i++ {
		seqs = append(seqs, i)
	}
	return seqs
}

// all compares the next frames with the events from one to another.
func (f *frames) all(from, to int64) {
	f.t.Helper()
	if got := f.seqs(int(to - from + 1)); !slices.Equal(got, upTo(from, to)) {
		f.t.Fatalf("got %v, want %d to %d", got, from, to)
	}
}

// Whoever has seen an event is told all behind it: from what is kept in memory, or from the
// log where that is not enough, and then what happens, each once and in order.
func TestStreamsGoOn(t *testing.T) {
	s := newStreaming(t, func(a *api) { a.times.bytes = 4 << 10 })
	s.add(some(1500, "mail")...)
	now := s.open("/events/stream", "")
	for i := range 40 { // in batches, so that old ones go
		s.add(some(5, []string{"mail", "news"}[i%2])...)
		now.all(int64(1501+5*i), int64(1505+5*i))
	}
	f := s.api.feeds.now
	f.mu.Lock()
	base := f.base
	f.mu.Unlock()
	if base < 1600 || base > 1699 {
		t.Fatalf("the feed keeps what is behind %d", base)
	}
	for _, after := range []int64{0, 1, 999, 1000, 1001, 1499, 1500, base - 1, base, base + 1, 1699, 1700} {
		r := s.open("/events/stream?channel=all", fmt.Sprint(after))
		r.all(after+1, 1700)
		s.t.Cleanup(func() { r.Body.Close() })
		defer r.all(1701, 1702)
	}
	named := s.open("/events/stream", wire.EventID(job.Event{Seq: 1698, Time: noon}))
	named.all(1699, 1700)
	news := s.open("/queues/news/events", "1500")
	for i := range 100 {
		if changed := news.next(); !strings.HasPrefix(changed, "event: job.state_changed\n") {
			t.Fatal(changed)
		}
		if got := news.seqs(1)[0]; got != int64(1506+i/5*10+i%5) {
			t.Fatalf("event %d of the queue is %d", i, got)
		}
	}
	s.add(some(2, "mail")...)
	named.all(1701, 1702)
	if s.followed != 1 {
		t.Errorf("the log was followed %d times", s.followed)
	}
}

// What is not kept any more, and what never was, is told as a gap, and the oldest follows.
func TestStreamsTellOfAGap(t *testing.T) {
	s := newStreaming(t, nil)
	s.add(some(20, "mail")...)
	s.first = 11
	for _, asked := range []string{"3", "9", "21", "evt_x", "none", wire.EventID(job.Event{Seq: 5, Time: noon})} {
		r := s.open("/events/stream", asked)
		if gap := r.next(); !strings.HasPrefix(gap, "event: system.gap\ndata: {") || !strings.Contains(gap, `"last_event_id":"`+asked+`"`) {
			t.Errorf("%s: %q", asked, gap)
		}
		r.all(11, 20)
		r.Body.Close()
	}
	s.open("/events/stream", "10").all(11, 20)
	s.open("/events/stream", "0").all(11, 20)
}

// A reader who takes nothing is dropped, and keeps neither the log nor the others waiting.
// Without readers nobody follows.
func TestAStalledReaderIsDropped(t *testing.T) {
	s := newStreaming(t, func(a *api) { a.times.stall, a.times.pace = 300*time.Millisecond, 0 })
	stalled, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	_ = stalled.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprint(stalled, "GET /ojs/v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r := s.open("/events/stream", "")
	wait(t, "two readers", func() bool { return s.readers() == 2 })
	big := some(100, "mail")
	for i := range big {
		big[i].Data = []byte(`{"result":"` + strings.Repeat("x", 32<<10) + `"}`)
	}
	for i := range int64(8) {
		began := time.Now()
		s.add(big...)
		r.all(100*i+1, 100*i+100)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the others waited %v", took)
		}
	}
	wait(t, "one reader", func() bool { return s.readers() == 1 })
	r.Body.Close()
	wait(t, "none who follow", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.follows == 0 })
	if s.api.feeds.now != nil {
		t.Error("there is a feed without readers")
	}
}

func (s *streaming) readers() int {
	s.api.feeds.mu.Lock()
	defer s.api.feeds.mu.Unlock()
	if s.api.feeds.now == nil {
		return 0
	}
	f := s.api.feeds.now
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers)
}

func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for over := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("there are not %s after 10 s", what)
		}
	}
}

// A reader for whom something is not kept any more is told to come again.
func TestAReaderThatIsTooSlowIsToldSo(t *testing.T) {
	s := newStreaming(t, func(a *api) { a.times.bytes = 1 })
	r := s.open("/events/stream", "")
	wait(t, "one reader", func() bool { return s.readers() == 1 })
	f := s.api.feeds.now
	f.mu.Lock() // so that it cannot take what is there in between
	var one *reader
	for one = range f.readers {
	}
	one.seen = -1
	f.mu.Unlock()
	s.add(some(1, "mail")...)
	if text := r.next(); !strings.HasPrefix(text, ":dropped") || !strings.Contains(text, "Last-Event-ID") {
		t.Errorf("got %q", text)
	}
	if text := r.next(); text != "" {
		t.Errorf("and then %q", text)
	}
}

// A stop ends all streams at once, also those that take nothing, and begins no other.
func TestAStopEndsAllStreams(t *testing.T) {
	s := newStreaming(t, nil)
	var all []*frames
	for i := range 50 {
		all = append(all, s.open([]string{"/events/stream", "/queues/mail/events", "/events/stream?types=job.completed", "/admin/stats/stream", "/jobs/" + string(idTwo) + "/events"}[i%5], ""))
	}
	s.add(some(1, "mail")...)
	began := time.Now()
	s.api.Streams.End(10 * time.Second)
	if took := time.Since(began); took > 5*time.Second || s.readers() != 0 {
		t.Errorf("%v, and %d readers are left", took, s.readers())
	}
	for i, f := range all {
		rest, err := io.ReadAll(f.lines)
		if err != nil || !strings.HasSuffix(string(rest), wire.Ended) {
			t.Errorf("stream %d: %q, %v", i, rest, err)
		}
	}
	resp := s.open("/events/stream", "")
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "stopping") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// There are no more streams than are allowed.
func TestStreamsAreBounded(t *testing.T) {
	s := newStreaming(t, func(a *api) { a.Streams.most = 2 })
	one, two := s.open("/events/stream", ""), s.open("/events/stream", "")
	if third := s.open("/events/stream", ""); third.StatusCode != 503 {
		t.Errorf("the third: %d", third.StatusCode)
	}
	one.Body.Close()
	wait(t, "one reader", func() bool { return s.readers() == 1 })
	wait(t, "room for another", func() bool { return s.open("/events/stream", "").StatusCode == 200 })
	_ = two
}

// Every reader hears a heartbeat; those of the statistics are told metrics, but no tenant is.
func TestHeartbeatsAndMetrics(t *testing.T) {
	s := newStreaming(t, func(a *api) { a.times.beat, a.times.metrics = 30*time.Millisecond, 40*time.Millisecond })
	r := s.open("/events/stream", "")
	for range 3 {
		if got := r.next() + "\n"; got != wire.Heartbeat {
			t.Errorf("%q", got)
		}
	}
	stats := s.open("/admin/stats/stream?types=none", "")
	for text := stats.next(); ; text = stats.next() {
		if strings.HasPrefix(text, "event: metrics\n") {
			for _, part := range []string{`{"queue":"mail","available":2,"active":1,"scheduled":0,"retryable":0}`, `"throughput":{"processed_per_second":0,`, `"workers":{"total":2,"active":[{"id":`, `"activeJobs":2,"lastHeartbeatAt":"`, `"error_rate":0`} {
				if !strings.Contains(text, part) {
					t.Errorf("%s is not in %s", part, text)
				}
			}
			break
		}
		if text == "" || strings.HasPrefix(text, "id:") {
			t.Fatalf("%q", text)
		}
	}
	tenant := s.open("/admin/stats/stream", "", "X-OJS-Tenant", "acme")
	for range 6 {
		if got := tenant.next() + "\n"; got != wire.Heartbeat {
			t.Errorf("a tenant is told %q", got)
		}
	}
}

// HEAD on a stream is answered at once.
func TestHeadOnAStream(t *testing.T) {
	s := newStreaming(t, nil)
	for _, r := range Routes() {
		if !r.Stream || r.Path == "/ojs/v1/ws" {
			continue
		}
		resp, err := http.Head(s.URL + concrete(r.Path))
		if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != wire.EventStream {
			t.Errorf("%s: %v, %v", r, resp, err)
		}
	}
	if n := s.readers(); n != 0 {
		t.Errorf("%d readers", n)
	}
}

// A tenant is told of its own alone.
func TestStreamsOfATenant(t *testing.T) {
	s := newStreaming(t, nil)
	r, other := s.open("/events/stream", "", "X-OJS-Tenant", "acme"), s.open("/queues/mail/events?types=job.started", "0", "X-OJS-Tenant", "acme")
	es := some(3, "mail")
	es[1].Data = []byte(`{"state":"available","tenant_id":"acme"}`)
	s.add(es...)
	r.all(2, 2)
	s.add(job.Event{Type: "job.started", Queue: "mail", JobID: idOne, Data: []byte(`{"tenant_id":"acme"}`)}, job.Event{Type: "job.started", Queue: "mail", JobID: idOne})
	r.all(4, 4)
	if changed := other.next(); !strings.Contains(changed, "state_changed") {
		t.Error(changed)
	}
	other.all(4, 4)
}
