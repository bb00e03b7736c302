package servicetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var deadLetters = []verdict{
	{"dead letters are listed, newest first, and counted", deadLists},
	{"a revived job begins anew at the end of its queue", revives},
	{"a deleted dead letter is gone for good", deletesDead},
	{"many dead letters are revived, those that died first in front", revivesMany},
	{"a dead letter is revived behind many that have expired", revivesBehindExpired},
	{"dead letters from before an instant are purged, and no others", purgesDead},
}

// bury makes a dead letter.
func (k *kit) bury(name, errType string) *job.Job {
	k.t.Helper()
	k.push(func(e *job.Envelope) {
		e.Type, e.Retry = name, json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`)
	})
	return k.fail(k.take(), job.Failure{Type: errType, Message: "no"})
}

func deadLists(k *kit) {
	if st, err := k.s.DeadStats(k.ctx()); err != nil || st.Total != 0 || !st.Oldest.IsZero() || !st.Newest.IsZero() {
		k.t.Errorf("at first: %+v, %v", st, err)
	}
	a := k.bury("a", "net.x")
	k.pause(2 * time.Millisecond) // deaths in one millisecond have no order
	k.bury("b", "net.y")
	k.pause(2 * time.Millisecond)
	c := k.bury("c", "net.x")
	k.push(nil)
	k.fail(k.take(), job.Failure{Code: "DISCARD"})
	for _, tt := range []struct {
		f    job.Filter
		want []string
	}{
		{job.Filter{Dead: true}, []string{"c", "b", "a"}}, {job.Filter{Dead: true, ErrorType: "net.x"}, []string{"c", "a"}},
		{job.Filter{Dead: true, Type: "b"}, []string{"b"}}, {job.Filter{Dead: true, Queue: "zoo"}, nil},
		{job.Filter{Dead: true, Since: c.FinishedAt}, []string{"c"}}, {job.Filter{Dead: true, Until: c.FinishedAt}, []string{"b", "a"}},
	} {
		page, err := k.s.Jobs(k.ctx(), tt.f)
		if err != nil || page.Total != int64(len(tt.want)) {
			k.t.Errorf("%+v: total %d, %v", tt.f, page.Total, err)
		}
		k.order(page.Jobs, tt.want...)
		for _, j := range page.Jobs {
			if j.State != job.Discarded || !j.Dead || len(k.history(j)) != 1 || j.Error == nil {
				k.t.Errorf("%+v: %s", tt.f, text(j))
			}
		}
	}
	for _, since := range []time.Time{{}, a.CreatedAt} { // counted by queues, and by looking
		page, err := k.s.Jobs(k.ctx(), job.Filter{ErrorType: "net.x", Since: since})
		if err != nil || page.Total != 4 || len(page.Jobs) != 4 {
			k.t.Errorf("the type of an error counts with Dead only: got %+v, %v; want all 4 jobs", page, err)
		}
	}
	st, err := k.s.DeadStats(k.ctx())
	if err != nil || st.Total != 3 || st.ByQueue[queue] != 3 || st.ByType["b"] != 1 || st.ByErrorType["net.x"] != 2 ||
		!st.Oldest.Equal(a.FinishedAt) || !st.Newest.Equal(c.FinishedAt) {
		k.t.Errorf("%+v, %v", st, err)
	}
}

func revives(k *kit) {
	dead := k.bury("dead", "net.x")
	k.named("waits")
	c, err := k.s.Revive(k.ctx(), dead.ID)
	if err != nil || c.State != job.Available || c.Previous != job.Discarded || c.Attempt != 0 || c.Dead {
		k.t.Fatalf("%+v, %v", c, err)
	}
	if !c.EnqueuedAt.After(dead.EnqueuedAt) && !c.EnqueuedAt.Equal(dead.FinishedAt) {
		k.t.Errorf("enqueued at %s, before %s", c.EnqueuedAt, dead.EnqueuedAt)
	}
	for _, j := range []*job.Job{c.Job, k.read(dead.ID)} {
		for _, gone := range []string{"error", "errors", "discarded_at", "completed_at", "dead_letter", "started_at", "retry_delay_ms"} {
			k.shows(j, gone, "")
		}
	}
	_, err = k.s.Revive(k.ctx(), dead.ID)
	k.is("revived twice", err, job.NotFound)
	got := k.fetch(job.FetchRequest{Count: 9})
	k.order(got, "waits", "dead")
	again := k.fail(got[1], job.Failure{Message: "no"})
	if again.State != job.Discarded || !again.Dead || again.Attempt != 1 || len(k.history(again)) != 1 {
		k.t.Errorf("the second life ends as the first: %s", text(again))
	}
}

func deletesDead(k *kit) {
	dead := k.bury("dead", "net.x")
	if err := k.s.DeleteDead(k.ctx(), dead.ID); err != nil {
		k.t.Fatal(err)
	}
	_, err := k.s.Job(k.ctx(), dead.ID)
	k.is("read", err, job.NotFound)
	k.is("deleted twice", k.s.DeleteDead(k.ctx(), dead.ID), job.NotFound)
	_, err = k.s.Revive(k.ctx(), dead.ID)
	k.is("revived", err, job.NotFound)
	if st, err := k.s.DeadStats(k.ctx()); err != nil || st.Total != 0 {
		k.t.Errorf("%+v, %v", st, err)
	}
	if q, err := k.s.Queue(k.ctx(), queue); err != nil || q.Dead != 0 || q.Counts[job.Discarded] != 0 {
		k.t.Errorf("%+v, %v", q, err)
	}
	k.push(func(e *job.Envelope) { e.ID = dead.ID })
}

// deadNames lists the dead letters that are left, newest first.
func (k *kit) deadNames(want ...string) {
	k.t.Helper()
	page, err := k.s.Jobs(k.ctx(), job.Filter{Dead: true})
	if err != nil {
		k.t.Fatal(err)
	}
	k.order(page.Jobs, want...)
}

// buryMany makes dead letters that died in different milliseconds.
func (k *kit) buryMany(names ...string) (dead []*job.Job) {
	k.t.Helper()
	for _, name := range names {
		dead = append(dead, k.bury(name, "net."+name[len(name)-1:]))
		k.pause(2 * time.Millisecond)
	}
	return dead
}

func revivesMany(k *kit) {
	dead := k.buryMany("mail.a", "mail.b", "report.a", "mail.c", "report.b", "last.z")
	for _, tt := range []struct {
		name string
		f    job.Filter
		want []string // that come back
	}{
		{"none fits", job.Filter{Queue: "zoo"}, nil},
		{"error and type", job.Filter{ErrorType: "net.a", Type: "report.*"}, []string{"report.a"}},
		{"a window", job.Filter{Since: dead[4].FinishedAt, Until: dead[5].FinishedAt}, []string{"report.b"}},
		{"two of a queue", job.Filter{Queue: queue, Limit: 2}, []string{"mail.a", "mail.b"}},
		{"all", job.Filter{}, []string{"mail.c", "last.z"}},
		{"all of nothing", job.Filter{}, nil},
	} {
		n, err := k.s.ReviveDead(k.ctx(), tt.f)
		if err != nil || n != int64(len(tt.want)) {
			k.t.Errorf("%s: %d, %v; want %d", tt.name, n, err, len(tt.want))
		}
		back := k.fetch(job.FetchRequest{Count: 9})
		k.order(back, tt.want...)
		for _, j := range back {
			if j.Attempt != 1 || j.Errors != nil || j.Dead {
				k.t.Errorf("%s: %s", tt.name, text(j))
			}
		}
	}
	k.deadNames()
	if want := []string{"job.enqueued", "job.started", "job.failed", "job.discarded", "job.retried", "job.enqueued", "job.started"}; !slices.Equal(k.told(dead[0].ID), want) {
		k.t.Errorf("told %q", k.told(dead[0].ID))
	}
}

// Those that have expired stay, and are more than are looked at together.
func revivesBehindExpired(k *kit) {
	dead := make([]job.Envelope, 40)
	expires := time.Now().Add(time.Second)
	for i := range dead {
		dead[i] = envelope(func(e *job.Envelope) {
			e.Retry, e.ExpiresAt = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`), expires
		})
	}
	if _, err := k.s.Enqueue(k.ctx(), dead...); err != nil {
		k.t.Fatal(err)
	}
	for _, j := range k.fetch(job.FetchRequest{Count: len(dead)}) {
		k.fail(j, job.Failure{Message: "no"})
	}
	k.pause(2 * time.Millisecond)
	k.bury("last", "net.x")
	k.pause(time.Until(expires) + time.Millisecond)
	if n, err := k.s.ReviveDead(k.ctx(), job.Filter{}); n != 1 || err != nil {
		k.t.Errorf("%d are revived, %v; want 1", n, err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "last")
}

func purgesDead(k *kit) {
	dead := k.buryMany("a", "b", "c")
	k.push(nil)
	ended := k.fail(k.take(), job.Failure{Code: "DISCARD"})
	if n, err := k.s.PurgeDead(k.ctx(), dead[0].FinishedAt); n != 0 || err != nil {
		k.t.Errorf("before the first: %d, %v", n, err)
	}
	if n, err := k.s.PurgeDead(k.ctx(), dead[2].FinishedAt); n != 2 || err != nil {
		k.t.Errorf("before the last: %d, %v", n, err)
	}
	k.deadNames("c")
	_, err := k.s.Job(k.ctx(), dead[0].ID)
	k.is("read", err, job.NotFound)
	_, err = k.s.History(k.ctx(), dead[0].ID)
	k.is("its history", err, job.NotFound)
	_, err = k.s.PurgeDead(k.ctx(), time.Time{})
	k.is("no instant", err, job.Invalid)
	if n, err := k.s.PurgeDead(k.ctx(), time.Now().Add(time.Hour)); n != 1 || err != nil {
		k.t.Errorf("all: %d, %v", n, err)
	}
	k.deadNames()
	k.stands(k.read(ended.ID), job.Discarded)
}
