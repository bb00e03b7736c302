package servicetest

import (
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var operating = []verdict{
	{"any job that has not finished can be cancelled, and again", cancels},
	{"a pending job waits until it is activated", activates},
	{"a pending job with a schedule is activated into it", activatesIntoSchedule},
	{"queues are listed with their counters, the default one always", queues},
	{"jobs are listed newest first, filtered and paged", lists},
	{"a read changes nothing", readsChangeNothing},
	{"the service measures its health", health},
}

func cancels(k *kit) {
	for _, p := range places() {
		if p.state.Terminal() {
			continue
		}
		j := p.reach(k)
		before := k.read(j.ID)
		c, err := k.s.Cancel(k.ctx(), j.ID, "ada", "not needed")
		if err != nil || c.State != job.Cancelled || c.Previous != p.state || c.Attempt != before.Attempt {
			k.t.Errorf("%s: %+v, %v", p.name, c, err)
			continue
		}
		for _, now := range []*job.Job{c.Job, k.read(j.ID)} {
			k.shows(now, "cancelled_at", `"`+job.FormatTime(now.FinishedAt)+`"`)
			for _, gone := range []string{"completed_at", "discarded_at", "next_retry_at", "worker_id", "visible_until"} {
				k.shows(now, gone, "")
			}
		}
		err = k.untouched("the second cancel", j, func() error {
			again, err := k.s.Cancel(k.ctx(), j.ID, "bob", "again")
			if err == nil && text(again.Job) != text(c.Job) {
				k.t.Errorf("%s: cancelled again\n got %s\nwant %s", p.name, text(again.Job), text(c.Job))
			}
			return err
		})
		if err != nil {
			k.t.Errorf("%s: cancelled again: %v", p.name, err)
		}
	}
	k.none()
}

func activates(k *kit) {
	j := k.push(func(e *job.Envelope) { e.Type, e.Hold = "held", true })
	k.named("later")
	k.order(k.fetch(job.FetchRequest{Count: 9}), "later")
	k.named("last")
	c, err := k.s.Activate(k.ctx(), j.ID)
	if err != nil || c.State != job.Available || c.Previous != job.Pending || c.ActivatedAt.IsZero() || !c.EnqueuedAt.Equal(c.ActivatedAt) {
		k.t.Fatalf("activate: %+v, %v", c, err)
	}
	if got := text(k.read(j.ID)); got != text(c.Job) {
		k.t.Errorf("read %s, activate said %s", got, text(c.Job))
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "last", "held") // its place is given now
}

func activatesIntoSchedule(k *kit) {
	at := time.Now().Add(25 * blink)
	j := k.push(func(e *job.Envelope) { e.Hold, e.ScheduledAt = true, at })
	c, err := k.s.Activate(k.ctx(), j.ID)
	if err != nil || c.State != job.Scheduled || !c.EnqueuedAt.IsZero() || c.ActivatedAt.IsZero() {
		k.t.Fatalf("activate: %+v, %v", c, err)
	}
	if got := k.take(); got.StartedAt.Before(at.Truncate(time.Millisecond)) {
		k.t.Errorf("scheduled for %s, started at %s", at, got.StartedAt)
	}
	past := k.push(func(e *job.Envelope) { e.Hold, e.ScheduledAt = true, time.Now().Add(-time.Hour) })
	if c, err := k.s.Activate(k.ctx(), past.ID); err != nil || c.State != job.Available {
		k.t.Errorf("a schedule of the past: %+v, %v", c, err)
	}
}

func queues(k *kit) {
	if qs, err := k.s.Queues(k.ctx()); err != nil || len(qs) != 1 || qs[0].Name != job.DefaultQueue {
		k.t.Errorf("at first: %+v, %v", qs, err)
	}
	if q, err := k.s.Queue(k.ctx(), job.DefaultQueue); err != nil || q.Name != job.DefaultQueue || q.Depth() != 0 {
		k.t.Errorf("the default queue, which is listed, at first: %+v, %v", q, err)
	}
	for _, p := range places() {
		p.reach(k)
		if p.state == job.Available {
			k.fetch(job.FetchRequest{Worker: "hoarder"})
		}
	}
	k.push(func(e *job.Envelope) { e.Queue = "zoo" })
	qs, err := k.s.Queues(k.ctx())
	var names []string
	for _, q := range qs {
		names = append(names, q.Name)
	}
	if err != nil || !slices.Equal(names, []string{"default", queue, "zoo"}) {
		k.t.Errorf("queues %q, %v", names, err)
	}
	q, err := k.s.Queue(k.ctx(), queue)
	if err != nil || q.Dead != 1 || q.Paused || q.Depth() != 6 {
		k.t.Errorf("%+v with depth %d, %v", q, q.Depth(), err)
	}
	for st, want := range map[job.State]int64{job.Scheduled: 1, job.Available: 0, job.Pending: 1, job.Active: 3, job.Retryable: 1,
		job.Completed: 1, job.Cancelled: 2, job.Discarded: 3} {
		if q.Counts[st] != want {
			k.t.Errorf("%d %s, want %d", q.Counts[st], st, want)
		}
	}
	_, err = k.s.Queue(k.ctx(), "never")
	if e := k.is("a queue that never was", err, job.NotFound); e.Details["resource_type"] != "queue" || e.Details["resource_id"] != "never" {
		k.t.Errorf("details %v", e.Details)
	}
}

func lists(k *kit) {
	for _, name := range []string{"mail.a", "mail.b", "report.a", "mail.c"} {
		k.named(name)
	}
	k.push(func(e *job.Envelope) { e.Type, e.Queue, e.Hold = "mail.d", "zoo", true })
	for _, tt := range []struct {
		f    job.Filter
		want []string
	}{
		{job.Filter{}, []string{"mail.d", "mail.c", "report.a", "mail.b", "mail.a"}},
		{job.Filter{Queue: "zoo"}, []string{"mail.d"}}, {job.Filter{Type: "mail.b"}, []string{"mail.b"}},
		{job.Filter{Type: "mail.*", Queue: queue}, []string{"mail.c", "mail.b", "mail.a"}},
		{job.Filter{States: []job.State{job.Pending, job.Active}}, []string{"mail.d"}},
		{job.Filter{Since: time.Now().Add(time.Hour)}, nil}, {job.Filter{Until: time.Now().Add(-time.Hour)}, nil},
	} {
		page, err := k.s.Jobs(k.ctx(), tt.f)
		if err != nil || page.Total != int64(len(tt.want)) || page.Next != "" {
			k.t.Errorf("%+v: total %d, next %q, %v", tt.f, page.Total, page.Next, err)
		}
		k.order(page.Jobs, tt.want...)
	}
	var all []*job.Job
	f := job.Filter{Limit: 2}
	for range 4 {
		page, err := k.s.Jobs(k.ctx(), f)
		if err != nil || page.Total != 5 || len(page.Jobs) > 2 {
			k.t.Fatalf("%+v, %v", page, err)
		}
		if all = append(all, page.Jobs...); page.Next == "" {
			break
		}
		f.Cursor = page.Next
	}
	k.order(all, "mail.d", "mail.c", "report.a", "mail.b", "mail.a")
	_, err := k.s.Jobs(k.ctx(), job.Filter{Cursor: "made up"})
	k.is("a cursor that no list gave", err, job.Invalid)
}

func readsChangeNothing(k *kit) {
	for _, p := range places() {
		j := p.reach(k)
		k.untouched("reading", j, func() error {
			for range 3 {
				k.read(j.ID)
			}
			_, err := k.s.Jobs(k.ctx(), job.Filter{Limit: 1000})
			return err
		})
		k.clear(j)
	}
}

func health(k *kit) {
	k.push(nil)
	k.beat(job.Beat{})
	h, err := k.s.Health(k.ctx())
	if err != nil || !h.OK || h.Backend == "" || h.Problem != "" || h.Workers != 1 || h.StaleNow != 0 || h.Paused != 0 || h.Queues < 1 {
		k.t.Errorf("%+v, %v", h, err)
	}
	if off := time.Since(h.Time).Abs(); off > patience || h.Latency < 0 || h.Uptime < 0 {
		k.t.Errorf("its clock is %s off: %+v", off, h)
	}
}
