package servicetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var following = []verdict{
	{"a follower is told of every event once, in order, from where it wants", followsAll},
	{"a follower from now on is told of nothing before", followsFromNow},
	{"a follower is told of what its filter lets through", followsSome},
	{"a follower behind an event that is not there is told of the gap", followsGap},
	{"a follower ends with its context, and with its own error", followsUntil},
	{"the events of a job say from which state to which it went", followsStates},
}

// heard is what a follower was told.
type heard struct {
	mu   sync.Mutex
	news []job.News
	more chan struct{} // has room for one
	done chan error    // what Follow has returned
	stop context.CancelFunc
}

// follow begins to follow, and returns once fn was called for the first time.
func (k *kit) follow(f job.EventFilter) *heard {
	k.t.Helper()
	ctx, stop := context.WithCancel(k.ctx())
	h := &heard{more: make(chan struct{}, 1), done: make(chan error, 1), stop: stop}
	go func() {
		h.done <- k.s.Follow(ctx, f, func(n job.News) error {
			h.mu.Lock()
			h.news = append(h.news, n)
			h.mu.Unlock()
			select {
			case h.more <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	k.t.Cleanup(stop)
	select {
	case <-h.more:
	case err := <-h.done:
		k.t.Fatalf("follow %+v: %v", f, err)
	case <-time.After(patience):
		k.t.Fatalf("follow %+v: nothing was told", f)
	}
	return h
}

// events are all that were told.
func (h *heard) events() (es []job.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.news {
		es = append(es, n.Events...)
	}
	return es
}

// until waits for n events.
func (h *heard) until(k *kit, n int) []job.Event {
	k.t.Helper()
	over := time.After(patience)
	for len(h.events()) < n {
		select {
		case <-h.more:
		case <-over:
			k.t.Fatalf("%d events were told, want %d", len(h.events()), n)
		}
	}
	return h.events()
}

// same compares what was told with the log.
func (k *kit) same(got, want []job.Event) {
	k.t.Helper()
	if !slices.EqualFunc(got, want, func(a, b job.Event) bool {
		return a.Seq == b.Seq && a.Type == b.Type && a.Time.Equal(b.Time) && a.JobID == b.JobID && a.JobType == b.JobType && a.Queue == b.Queue && string(a.Data) == string(b.Data)
	}) {
		k.t.Errorf("told\n%+v\nwant\n%+v", got, want)
	}
}

func (k *kit) log(f job.EventFilter) []job.Event {
	k.t.Helper()
	f.Limit = 1000
	es, err := k.s.Events(k.ctx(), f)
	if err != nil {
		k.t.Fatal(err)
	}
	return es
}

func followsAll(k *kit) {
	for range 3 {
		k.push(nil)
	}
	old := k.log(job.EventFilter{})
	all, behind := k.follow(job.EventFilter{}), k.follow(job.EventFilter{After: old[1].Seq})
	for range 5 {
		j := k.take()
		k.push(func(e *job.Envelope) { e.Queue = "other" })
		k.ack(j, `{"n": 1e2}`)
		k.push(nil)
	}
	want := k.log(job.EventFilter{})
	k.same(all.until(k, len(want)), want)
	k.same(behind.until(k, len(want)-2), want[2:])
	for _, h := range []*heard{all, behind} {
		h.mu.Lock()
		for _, n := range h.news {
			if last := len(n.Events) - 1; n.Gap || last >= 0 && n.Seen < n.Events[last].Seq {
				k.t.Errorf("gap %v, seen %d, events %+v", n.Gap, n.Seen, n.Events)
			}
		}
		h.mu.Unlock()
	}
}

func followsFromNow(k *kit) {
	k.push(nil)
	before := k.log(job.EventFilter{})
	h := k.follow(job.EventFilter{After: job.FromNow})
	h.mu.Lock()
	if n := h.news[0]; len(h.news) != 1 || len(n.Events) != 0 || n.Seen != before[len(before)-1].Seq {
		k.t.Errorf("told at the beginning: %+v", h.news)
	}
	h.mu.Unlock()
	j := k.push(nil)
	if es := h.until(k, 1); es[0].JobID != j.ID || es[0].Type != "job.enqueued" {
		k.t.Errorf("%+v", es)
	}
}

func followsSome(k *kit) {
	one := k.push(func(e *job.Envelope) { e.Type = "a.one" })
	filters := []job.EventFilter{
		{Types: []string{"job:completed", "job.started"}}, {Queues: []string{"zoo"}}, {JobTypes: []string{"b.two"}}, {JobID: one.ID},
		{Tenant: "acme"}, {Types: []string{"job.*"}, Queues: []string{queue, "zoo"}},
	}
	var hs []*heard
	for _, f := range filters {
		hs = append(hs, k.follow(f))
	}
	k.push(func(e *job.Envelope) { e.Type, e.Queue = "b.two", "zoo" })
	k.push(func(e *job.Envelope) { e.Meta = []byte(`{"tenant_id":"acme"}`) })
	for range 2 {
		k.ack(k.take(), "")
	}
	for i, f := range filters {
		want := k.log(f)
		if len(want) == 0 {
			k.t.Fatalf("%+v lets nothing through", f)
		}
		k.same(hs[i].until(k, len(want)), want)
	}
}

func followsGap(k *kit) {
	k.push(nil)
	span, err := k.s.EventSpan(k.ctx())
	want := k.log(job.EventFilter{})
	if err != nil || span.First != want[0].Seq || span.Last != want[len(want)-1].Seq || span.Count() != int64(len(want)) {
		k.t.Errorf("%+v, %v; the log is %+v", span, err, want)
	}
	h := k.follow(job.EventFilter{After: span.Last + 1000})
	k.same(h.until(k, len(want)), want)
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.IndexFunc(h.news, func(n job.News) bool { return len(n.Events) > 0 }); !slices.ContainsFunc(h.news[:i+1], func(n job.News) bool { return n.Gap }) {
		k.t.Errorf("told without a gap: %+v", h.news)
	}
}

func followsUntil(k *kit) {
	h := k.follow(job.EventFilter{})
	h.stop()
	select {
	case err := <-h.done:
		k.is("a follower whose context has ended", err, job.Unavailable)
	case <-time.After(patience):
		k.t.Error("it goes on behind the end of its context")
	}
	own := errors.New("enough")
	if err := k.s.Follow(k.ctx(), job.EventFilter{}, func(job.News) error { return own }); err != own {
		k.t.Errorf("fn has returned %v, and Follow %v", own, err)
	}
}

// followsStates goes with jobs through their states, and compares what the events say.
func followsStates(k *kit) {
	j := k.push(func(e *job.Envelope) {
		e.Retry = []byte(`{"max_attempts":2,"initial_interval":"PT0.001S","jitter":false}`)
	})
	k.fail(k.take(), job.Failure{Type: "E", Message: "m"})
	k.fail(k.take(), job.Failure{Type: "E", Message: "m"})
	if _, err := k.s.Retry(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	k.ack(k.take(), "")
	held := k.push(func(e *job.Envelope) { e.Hold = true })
	if _, err := k.s.Activate(k.ctx(), held.ID); err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.s.Fail(k.ctx(), claimOf(k.take()), job.Failure{Type: "E", Message: "m", Requeue: true}); err != nil {
		k.t.Fatal(err)
	}
	k.cancel(held)
	for id, want := range map[job.ID][]job.State{
		j.ID:    {job.None, job.Available, job.Active, job.Retryable, job.Available, job.Active, job.Discarded, job.Available, job.Active, job.Completed},
		held.ID: {job.None, job.Pending, job.Available, job.Active, job.Available, job.Cancelled},
	} {
		got := []job.State{job.None}
		for _, e := range k.events(id) {
			from, to, ok := e.Transition()
			if ok && from != got[len(got)-1] {
				k.t.Errorf("%s of %s comes from %q, and the job is %q", e.Type, id, from, got[len(got)-1])
			}
			if ok {
				got = append(got, to)
			}
		}
		if !slices.Equal(got, want) {
			k.t.Errorf("%s went through %q, want %q", id, got, want)
		}
	}
}
