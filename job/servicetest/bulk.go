package servicetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var inBulk = []verdict{
	{"of many jobs each is stored for itself", bulkPartial},
	{"of many jobs all are stored or none", bulkAtomic},
	{"many jobs that are named are cancelled, retried or deleted", bulkNamed},
	{"many jobs of a filter are cancelled, retried or deleted", bulkFiltered},
	{"a bulk request that only counts changes nothing", bulkDry},
	{"a bulk request that asks for nothing is refused", bulkRefused},
}

// bulkJobs are envelopes as a bulk request has them; an empty type is one that breaks a rule.
func bulkJobs(k *kit, types ...string) (all []job.BulkJob) {
	for _, typ := range types {
		c, err := envelope(func(e *job.Envelope) { e.Type = typ }).Check()
		if (typ == "") != (err != nil) {
			k.t.Fatal(err)
		}
		all = append(all, job.BulkJob{Checked: c, Err: err})
	}
	return all
}

func statuses(r job.BulkResult) (all []string) {
	for i, it := range r.Items {
		if it.Index != i {
			return []string{"not in order"}
		}
		all = append(all, it.Status)
	}
	return all
}

func bulkPartial(k *kit) {
	once := bulkJobs(k, "once")[0]
	if err := once.SetID("019a0000-0000-7000-8000-000000000001"); err != nil {
		k.t.Fatal(err)
	}
	jobs := append(bulkJobs(k, "a", "", "b"), once, once)
	r, err := k.s.PushEach(k.ctx(), job.BulkPush{Jobs: jobs})
	if err != nil || r.Total != 5 || r.Succeeded != 3 || r.Failed != 2 || !slices.Equal(statuses(r), []string{"created", "failed", "created", "created", "duplicate"}) {
		k.t.Fatalf("%+v, %v", r, err)
	}
	if r.Items[0].Job == nil || r.Items[0].Job.Type != "a" || r.Items[1].Err == nil || job.KindOf(r.Items[4].Err) != job.Duplicate {
		k.t.Errorf("%+v", r.Items)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "a", "b", "once")
	k.configure(queue, `{"backpressure":{"max_depth":4}}`)
	if r, err = k.s.PushEach(k.ctx(), job.BulkPush{Jobs: bulkJobs(k, "c", "d")}); err != nil || r.Succeeded != 1 || job.KindOf(r.Items[1].Err) != job.QueueFull {
		k.t.Errorf("into a queue with room for one: %+v, %v", r, err)
	}
	if r, err = k.s.PushEach(k.ctx(), job.BulkPush{Jobs: bulkJobs(k, "", "")}); err != nil || r.Succeeded != 0 || r.Failed != 2 {
		k.t.Errorf("none that can be stored: %+v, %v", r, err)
	}
}

func bulkAtomic(k *kit) {
	r, err := k.s.PushEach(k.ctx(), job.BulkPush{Jobs: bulkJobs(k, "a", "", "b"), Atomic: true})
	if err != nil || r.Total != 3 || r.Failed != 3 || r.Succeeded != 0 || !r.Atomic {
		k.t.Errorf("%+v, %v", r, err)
	}
	k.none()
	k.configure(queue, `{"backpressure":{"max_depth":2}}`)
	if r, err = k.s.PushEach(k.ctx(), job.BulkPush{Jobs: bulkJobs(k, "a", "b", "c"), Atomic: true}); err != nil || r.Failed != 3 {
		k.t.Errorf("more than there is room for: %+v, %v", r, err)
	}
	k.none()
	if r, err = k.s.PushEach(k.ctx(), job.BulkPush{Jobs: bulkJobs(k, "a", "b"), Atomic: true}); err != nil || r.Succeeded != 2 || r.Items[1].Job.Type != "b" {
		k.t.Errorf("%+v, %v", r, err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "a", "b")
}

func bulkNamed(k *kit) {
	gone := job.ID("019a0000-0000-7000-8000-000000000001")
	a, b, done := k.named("a"), k.named("b"), k.push(func(e *job.Envelope) { e.Queue = "other" })
	k.ack(k.fetch(job.FetchRequest{Queues: []string{"other"}})[0], "")
	r, err := k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkCancel, IDs: []job.ID{a.ID, gone, done.ID, b.ID, a.ID}})
	if err != nil || r.Total != 5 || r.Succeeded != 2 || r.Failed != 2 || r.Skipped != 1 || !slices.Equal(statuses(r), []string{"succeeded", "failed", "failed", "succeeded", "skipped"}) {
		k.t.Errorf("cancel: %+v, %v", r, err)
	}
	if job.KindOf(r.Items[1].Err) != job.NotFound || k.read(a.ID).State != job.Cancelled || k.read(done.ID).State != job.Completed {
		k.t.Errorf("%+v", r.Items)
	}
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval":"PT1M"}`) })
	later := k.fail(k.take(), job.Failure{Type: "x"})
	if r, err = k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkRetry, IDs: []job.ID{later.ID, a.ID}}); err != nil || r.Succeeded != 1 || r.Failed != 1 {
		k.t.Errorf("retry: %+v, %v", r, err)
	}
	if j := k.read(later.ID); j.State != job.Available {
		k.t.Errorf("it is %s", j.State)
	}
	if r, err = k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkDelete, IDs: []job.ID{later.ID, a.ID, done.ID}}); err != nil || r.Succeeded != 2 || r.Failed != 1 {
		k.t.Errorf("delete: %+v, %v", r, err)
	}
	if _, err := k.s.Job(k.ctx(), a.ID); job.KindOf(err) != job.NotFound {
		k.t.Errorf("it is still there: %v", err)
	}
	k.read(later.ID)
}

func bulkFiltered(k *kit) {
	meta := func(v string) func(*job.Envelope) {
		return func(e *job.Envelope) {
			e.Type, e.Meta, e.Priority = "m."+v, json.RawMessage(`{"tenant":"`+v+`","n":1.0}`), 7
		}
	}
	a, b := k.push(meta("a")), k.push(meta("b"))
	for range 40 {
		k.push(nil)
	}
	seven := 7
	for name, f := range map[string]*job.BulkFilter{
		"meta":     {Meta: map[string]json.RawMessage{"tenant": json.RawMessage(`"b"`), "n": json.RawMessage(`1`)}},
		"type":     {Filter: job.Filter{Type: "m.b"}},
		"priority": {Filter: job.Filter{Type: "m.*", Since: b.CreatedAt.Add(-time.Minute)}, Priority: &seven, Meta: map[string]json.RawMessage{"tenant": json.RawMessage(`"b"`)}},
	} {
		r, err := k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkCancel, Filter: f, DryRun: true})
		if err != nil || r.Total != 1 || r.Succeeded != 1 || r.Items[0].ID != b.ID {
			k.t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	r, err := k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkCancel, Filter: &job.BulkFilter{Filter: job.Filter{Queue: queue, States: []job.State{job.Available}, Type: "email.*"}}, By: "ada"})
	if err != nil || r.Total != 40 || r.Succeeded != 40 || len(r.Items) != 40 {
		k.t.Errorf("cancel: %d of %d, %v", r.Succeeded, r.Total, err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 90}), "m.a", "m.b")
	r, err = k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkDelete, Filter: &job.BulkFilter{Filter: job.Filter{Queue: queue}}})
	if err != nil || r.Total != 42 || r.Succeeded != 40 || r.Skipped != 2 || r.Failed != 0 {
		k.t.Errorf("delete: %+v, %v", r, err)
	}
	k.read(a.ID)
	if r, err = k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkCancel, Filter: &job.BulkFilter{OlderThan: a.CreatedAt}}); err != nil || r.Total != 0 {
		k.t.Errorf("older than the oldest: %+v, %v", r, err)
	}
}

func bulkDry(k *kit) {
	a := k.named("a")
	for _, ids := range [][]job.ID{{a.ID}, nil} {
		act := job.BulkAct{Action: job.BulkCancel, IDs: ids, DryRun: true}
		if ids == nil {
			act.Filter = &job.BulkFilter{Filter: job.Filter{Queue: queue}}
		}
		r, err := k.s.Bulk(k.ctx(), act)
		if err != nil || r.Total != 1 || r.Succeeded != 1 || !r.DryRun {
			k.t.Errorf("%+v, %v", r, err)
		}
	}
	k.order(k.fetch(job.FetchRequest{}), "a")
}

func bulkRefused(k *kit) {
	f := &job.BulkFilter{Filter: job.Filter{Queue: queue}}
	for _, a := range []job.BulkAct{
		{Action: "burn", Filter: f}, {Action: job.BulkCancel}, {Action: job.BulkCancel, Filter: &job.BulkFilter{}},
		{Action: job.BulkCancel, Filter: f, IDs: []job.ID{"x"}}, {Action: job.BulkCancel, Filter: f, Idempotency: job.Idempotency{Key: strings.Repeat("k", 257)}},
	} {
		if _, err := k.s.Bulk(k.ctx(), a); job.KindOf(err) != job.Invalid {
			k.t.Errorf("%+v: %v", a, err)
		}
	}
	if _, err := k.s.Bulk(k.ctx(), job.BulkAct{Action: job.BulkCancel, IDs: make([]job.ID, job.MaxBatch+1)}); job.KindOf(err) != job.TooLarge {
		k.t.Errorf("too many: %v", err)
	}
	if _, err := k.s.PushEach(k.ctx(), job.BulkPush{}); job.KindOf(err) != job.Invalid {
		k.t.Errorf("no jobs: %v", err)
	}
}
