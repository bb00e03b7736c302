package servicetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// limiting is contract §4.12 and §3.25.
var limiting = []verdict{
	{"no more jobs of a key are active than its concurrency, also in one fetch", (*kit).limitConcurrency},
	{"a limited job lets those behind it go first", (*kit).limitHidesNothing},
	{"jobs of one key keep their order", (*kit).limitOrder},
	{"max_per_second spaces the jobs of a queue that carry it", (*kit).limitSpacing},
	{"keys are independent of one another", (*kit).limitKeys},
	{"a job may be dropped, or put off, when its limit is reached", (*kit).limitOn},
	{"the newest job defines its key, unless an operator does", (*kit).limitDefinition},
	{"limits are listed by key", (*kit).limitList},
	{"a rate limit that is none is refused, and its member is named", (*kit).limitRefused},
	{"no more jobs of a queue are active than its concurrency, also in one fetch", (*kit).limitQueue},
	{"the rate and the throttle of a queue hold for all of its jobs, and hide no other queue", (*kit).limitQueueRate},
	{"whoever waits for a full queue gets its next job when one ends, and when the limit is raised", (*kit).limitQueueWaits},
}

func limited(format string, args ...any) func(*job.Envelope) {
	return func(e *job.Envelope) { e.RateLimit = json.RawMessage(fmt.Sprintf(format, args...)) }
}

func (k *kit) claim(j *job.Job) job.Claim { return job.Claim{ID: j.ID, Token: j.Lease.Token} }

// gets fetches at once, and compares ids.
func (k *kit) gets(count int, want ...*job.Job) []*job.Job {
	k.t.Helper()
	got := k.fetch(job.FetchRequest{Count: count})
	var a, b []job.ID
	for _, j := range got {
		a = append(a, j.ID)
	}
	for _, j := range want {
		b = append(b, j.ID)
	}
	if !slices.Equal(a, b) {
		k.t.Fatalf("fetched %v, want %v", a, b)
	}
	return got
}

func (k *kit) limitConcurrency() {
	var js []*job.Job
	for range 4 {
		js = append(js, k.push(limited(`{"key":"k","concurrency":2}`)))
	}
	got := k.gets(4, js[:2]...)
	k.stands(k.read(js[2].ID), job.Available)
	k.gets(4)
	k.ack(got[0], "null")
	third := k.gets(4, js[2])[0]
	if _, err := k.s.Fail(k.ctx(), k.claim(got[1]), job.Failure{Requeue: true}); err != nil {
		k.t.Fatal(err)
	}
	k.gets(4, js[1])
	if _, err := k.s.Cancel(k.ctx(), third.ID, "", ""); err != nil {
		k.t.Fatal(err)
	}
	k.gets(4, js[3])
	info, err := k.s.Limit(k.ctx(), "k")
	if err != nil || info.Key != "k" || info.Pace != (job.Pace{Concurrency: 2}) || info.Active != 2 || info.Waiting != 0 || info.Override != nil || info.Permits != (job.Permits{Limit: 2}) {
		k.t.Errorf("%+v, %v", info, err)
	}
}

func (k *kit) limitHidesNothing() {
	one := limited(`{"key":"k","concurrency":1}`)
	runs := k.push(one)
	k.push(one)
	k.push(func(e *job.Envelope) { one(e); e.Priority = 9 })
	plain := k.push(nil)
	other := k.push(limited(`{"key":"l","concurrency":1}`))
	late := k.push(nil)
	high := k.fetch(job.FetchRequest{Count: 1})
	if len(high) != 1 || high[0].Priority != 9 {
		k.t.Fatalf("%v", high)
	}
	k.gets(1, plain)
	k.gets(9, other, late)
	k.ack(high[0], "null")
	k.gets(9, runs)
}

func (k *kit) limitOrder() {
	push := func(priority int) *job.Job {
		return k.push(func(e *job.Envelope) { limited(`{"key":"k","concurrency":1}`)(e); e.Priority = priority })
	}
	a, b, c, d := push(0), push(5), push(0), push(5)
	for _, want := range []*job.Job{b, d, a, c} {
		k.ack(k.gets(3, want)[0], "null")
	}
}

func (k *kit) limitSpacing() {
	a, b := k.push(limited(`{"max_per_second":1}`)), k.push(limited(`{"max_per_second":1}`))
	plain := k.push(nil)
	first := k.gets(2, a, plain)[0]
	k.ack(first, "null")
	k.gets(2)
	k.stands(k.read(b.ID), job.Available)
	second := k.one(job.FetchRequest{})
	if gap := second.StartedAt.Sub(first.StartedAt); second.ID != b.ID || gap < time.Second {
		k.t.Errorf("%s came after %s", second.ID, gap)
	}
}

func (k *kit) limitKeys() {
	a, b := k.push(limited(`{"key":"a","rate":1,"period":"hour"}`)), k.push(limited(`{"key":"b","rate":1,"period":"hour"}`))
	k.push(limited(`{"key":"a","rate":1,"period":"hour"}`))
	k.gets(5, a, b)
	info, err := k.s.Limit(k.ctx(), "a")
	if err != nil || info.Limit != 1 || info.Left != 0 || info.After <= 50*time.Minute || info.After > time.Hour || info.Waiting != 1 {
		k.t.Errorf("%+v, %v", info, err)
	}
}

func (k *kit) limitOn() {
	a := k.push(limited(`{"key":"k","rate":1,"period":"hour"}`))
	dropped := k.push(limited(`{"key":"k","rate":1,"period":"hour","on_limit":"drop"}`))
	put := k.push(limited(`{"key":"k","rate":1,"period":"hour","on_limit":"reschedule"}`))
	waits := k.push(limited(`{"key":"k","rate":1,"period":"hour","on_limit":"wait"}`))
	plain := k.push(nil)
	k.gets(5, a, plain)
	k.stands(k.read(put.ID), job.Scheduled)
	k.stands(k.read(waits.ID), job.Available)
	if j := k.read(dropped.ID); j.State != job.Discarded || j.ErrorCode() != "rate_limited" || j.Dead {
		k.t.Errorf("%s with the error %s, dead %v", j.State, j.Error, j.Dead)
	}
	if told := k.told(put.ID); told[len(told)-1] != "job.scheduled" {
		k.t.Errorf("told %v", told)
	}
}

func (k *kit) limitDefinition() {
	var js []*job.Job
	for range 3 {
		js = append(js, k.push(limited(`{"key":"k","concurrency":1}`)))
	}
	k.gets(9, js[0])
	js = append(js, k.push(limited(`{"key":"k","concurrency":2}`)))
	k.gets(9, js[1])
	info, err := k.s.OverrideLimit(k.ctx(), "k", job.Pace{Concurrency: 3, Rate: job.Quota{Limit: 100, Period: 90 * time.Second}})
	if err != nil || info.Override == nil || *info.Override != info.Pace || info.Pace.Concurrency != 3 || info.Pace.Rate.Period != 90*time.Second || info.Active != 2 || info.Waiting != 2 {
		k.t.Errorf("%+v, %v", info, err)
	}
	k.gets(9, js[2])
	k.push(limited(`{"key":"k","concurrency":9}`))
	k.gets(9)
	if info, err = k.s.DropLimitOverride(k.ctx(), "k"); err != nil || info.Override != nil || info.Pace != (job.Pace{Concurrency: 9}) {
		k.t.Errorf("%+v, %v", info, err)
	}
	if got := k.fetch(job.FetchRequest{Count: 9}); len(got) != 2 {
		k.t.Errorf("%d jobs", len(got))
	}
	_, err = k.s.DropLimitOverride(k.ctx(), "never")
	k.is("no override", err, job.NotFound)
	_, err = k.s.OverrideLimit(k.ctx(), "-bad", job.Pace{Concurrency: 1})
	k.is("a bad key", err, job.Invalid)
	for _, p := range []job.Pace{{}, {Concurrency: -1}, {Rate: job.Quota{Limit: 1}}, {Throttle: job.Quota{Period: time.Second}}} {
		_, err = k.s.OverrideLimit(k.ctx(), "k", p)
		k.is(fmt.Sprintf("%+v", p), err, job.Invalid)
	}
}

func (k *kit) limitList() {
	_, err := k.s.Limit(k.ctx(), "never")
	k.is("no limit", err, job.NotFound)
	want := []string{"a", "b", "c"}
	for _, key := range []string{"b", "c", "a"} {
		k.push(limited(`{"key":%q,"concurrency":1}`, key))
	}
	var got []string
	for f := (job.LimitFilter{Limit: 2}); ; {
		page, err := k.s.Limits(k.ctx(), f)
		if err != nil || page.Total != 3 {
			k.t.Fatal(page, err)
		}
		for _, l := range page.Limits {
			got = append(got, l.Key)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	page, err := k.s.Limits(k.ctx(), job.LimitFilter{Offset: 2})
	if err != nil || len(page.Limits) != 1 || page.Limits[0].Key != "c" || !slices.Equal(got, want) {
		k.t.Errorf("%v, %+v, %v", got, page, err)
	}
	_, err = k.s.Limits(k.ctx(), job.LimitFilter{Limit: -1})
	k.is("a limit of -1", err, job.Invalid)
}

func (k *kit) limitRefused() {
	for body, field := range map[string]string{`{"key":"k","concurrency":0}`: "rate_limit.concurrency", `{"concurrency":1}`: "rate_limit.key", `{"key":"k","on_limit":"no"}`: "rate_limit.on_limit"} {
		_, err := k.s.Enqueue(k.ctx(), envelope(limited("%s", body)))
		if e := k.is(body, err, job.Invalid); e != nil && e.Details["field"] != field {
			k.t.Errorf("%s: the field is %v", body, e.Details["field"])
		}
	}
	k.none()
}

// tenancy is contract §4.19.
var tenancy = []verdict{
	{"a tenant's name is written into the meta of its jobs", (*kit).tenantPush},
	{"a tenant finds its own jobs alone", (*kit).tenantReads},
	{"a fetch for a tenant gets its jobs alone, in their order, and waits for them", (*kit).tenantFetch},
	{"a tenant gets nothing of a paused queue, and is woken when it is resumed", (*kit).tenantPaused},
}

func (k *kit) as(tenant string) context.Context { return job.WithTenant(k.ctx(), tenant) }

func (k *kit) pushFor(tenant string, change func(*job.Envelope)) *job.Job {
	k.t.Helper()
	rs, err := k.s.Enqueue(k.as(tenant), envelope(change))
	if err != nil {
		k.t.Fatal(err)
	}
	return rs[0].Job
}

func (k *kit) tenantPush() {
	for meta, want := range map[string]string{"": `{"tenant_id":"acme"}`, `{}`: `{"tenant_id":"acme"}`, `{"n":1e2}`: `{"tenant_id":"acme","n":1e2}`, `{"tenant_id":"acme"}`: `{"tenant_id":"acme"}`} {
		j := k.pushFor("acme", func(e *job.Envelope) {
			if meta != "" {
				e.Meta = json.RawMessage(meta)
			}
		})
		if string(j.Meta) != want {
			k.t.Errorf("of %s became %s", meta, j.Meta)
		}
	}
	for _, meta := range []string{`{"tenant_id":"other"}`, `{"tenant_id":null}`, `{"tenant_id":5}`} {
		_, err := k.s.Enqueue(k.as("acme"), envelope(func(e *job.Envelope) { e.Meta = json.RawMessage(meta) }))
		k.is(meta, err, job.Invalid)
	}
	for _, bad := range []string{"-a", "a b", "ä"} {
		_, err := k.s.Enqueue(k.as(bad), envelope(nil))
		if !errors.Is(err, context.Canceled) {
			k.is(bad, err, job.Invalid)
		}
	}
	st, err := k.s.TenantStats(k.ctx(), "acme")
	if err != nil || st.Total != 4 || st.Counts[job.Available] != 4 || st.Queues[queue] != 4 || st.Tenant != "acme" {
		k.t.Errorf("%+v, %v", st, err)
	}
	if st, err := k.s.TenantStats(k.ctx(), "nobody"); err != nil || st.Total != 0 {
		k.t.Errorf("%+v, %v", st, err)
	}
}

func (k *kit) tenantReads() {
	own, other, free := k.pushFor("acme", nil), k.pushFor("zeta", func(e *job.Envelope) { e.Hold = true }), k.push(nil)
	for _, j := range []*job.Job{other, free} {
		_, err := k.s.Job(k.as("acme"), j.ID)
		k.is("a foreign job", err, job.NotFound)
		_, err = k.s.Cancel(k.as("acme"), j.ID, "", "")
		k.is("to cancel a foreign job", err, job.NotFound)
		_, err = k.s.Activate(k.as("acme"), j.ID)
		k.is("to activate a foreign job", err, job.NotFound)
		if _, err := k.s.Job(k.ctx(), j.ID); err != nil {
			k.t.Error(err)
		}
	}
	if j, err := k.s.Job(k.as("acme"), own.ID); err != nil || j.ID != own.ID {
		k.t.Error(j, err)
	}
	page, err := k.s.Jobs(k.as("acme"), job.Filter{})
	if err != nil || page.Total != 1 || len(page.Jobs) != 1 || page.Jobs[0].ID != own.ID {
		k.t.Errorf("%+v, %v", page, err)
	}
	es, err := k.s.Events(k.as("zeta"), job.EventFilter{})
	if err != nil || len(es) != 1 || es[0].JobID != other.ID {
		k.t.Errorf("%+v, %v", es, err)
	}
	if _, err := k.s.Activate(k.as("zeta"), other.ID); err != nil {
		k.t.Error(err)
	}
	if _, err := k.s.Cancel(k.as("acme"), own.ID, "", ""); err != nil {
		k.t.Error(err)
	}
}

func (k *kit) tenantFetch() {
	k.push(nil)
	k.pushFor("zeta", nil)
	low := k.pushFor("acme", nil)
	high := k.pushFor("acme", func(e *job.Envelope) { e.Priority = 5 })
	fetch := func(tenant string, wait time.Duration) []*job.Job {
		jobs, err := k.s.Fetch(k.as(tenant), job.FetchRequest{Queues: []string{queue}, Count: 9, Wait: wait})
		if err != nil {
			k.t.Error(err)
		}
		return jobs
	}
	if got := fetch("acme", 0); len(got) != 2 || got[0].ID != high.ID || got[1].ID != low.ID {
		k.t.Fatalf("%v", got)
	}
	if got := fetch("acme", 0); len(got) != 0 {
		k.t.Errorf("%v", got)
	}
	type answer struct {
		tenant string
		jobs   []*job.Job
	}
	answers := make(chan answer, 2)
	if got := k.fetch(job.FetchRequest{Count: 9}); len(got) != 2 {
		k.t.Fatalf("without a tenant: %v", got)
	}
	for _, tenant := range []string{"acme", "zeta"} {
		go func() { answers <- answer{tenant, fetch(tenant, patience)} }()
	}
	k.pause(blink)
	began := time.Now()
	want := map[string]job.ID{}
	for _, tenant := range []string{"zeta", "acme"} {
		want[tenant] = k.pushFor(tenant, nil).ID
	}
	for range want {
		if a := <-answers; len(a.jobs) != 1 || a.jobs[0].ID != want[a.tenant] {
			k.t.Errorf("%s got %v, want %s", a.tenant, a.jobs, want[a.tenant])
		}
	}
	if d := time.Since(began); d > soon {
		k.t.Errorf("they came after %s", d)
	}
}

func (k *kit) limitQueue() {
	k.configure(queue, `{"concurrency":2}`)
	var js []*job.Job
	for i := range 5 {
		js = append(js, k.push(func(e *job.Envelope) {
			if i == 1 || i == 2 { // which obey the limit of their key, too
				limited(`{"key":"k","concurrency":1}`)(e)
			}
		}))
	}
	urgent := k.push(func(e *job.Envelope) { e.Priority = 5 })
	got := k.gets(9, urgent, js[0])
	k.gets(9)
	k.stands(k.read(js[1].ID), job.Available)
	k.ack(got[0], "null")
	one := k.gets(9, js[1])[0]
	if _, err := k.s.Fail(k.ctx(), k.claim(got[1]), job.Failure{Requeue: true}); err != nil {
		k.t.Fatal(err)
	}
	k.gets(9, js[0])
	k.configure(queue, `{"concurrency":3}`)
	k.gets(9, js[3]) // past the second of the key
	if _, err := k.s.Cancel(k.ctx(), one.ID, "", ""); err != nil {
		k.t.Fatal(err)
	}
	k.gets(9, js[2])
	k.configure(queue, `{"concurrency":1}`)
	k.gets(9)
	k.configure(queue, `{}`)
	k.gets(9, js[4])
}

func (k *kit) limitQueueRate() {
	in := func(name string) func(*job.Envelope) { return func(e *job.Envelope) { e.Queue = name } }
	k.configure(job.TemplateQueue, `{"rate_limit":{"limit":2,"period":"hour"}}`)
	k.configure("other", `{"rate_limit":{"limit":1000,"period":"second"},"throttle":{"limit":1,"period":"second"}}`)
	a, b, c := k.push(nil), k.push(nil), k.push(nil)
	spaced, next := k.push(in("other")), k.push(in("other"))
	both := job.FetchRequest{Queues: []string{queue, "other"}, Count: 9}
	var ids []job.ID
	for _, j := range k.fetch(both) {
		ids = append(ids, j.ID)
		k.ack(j, "null")
	}
	if want := []job.ID{a.ID, b.ID, spaced.ID}; !slices.Equal(ids, want) {
		k.t.Fatalf("fetched %v, want %v", ids, want)
	}
	k.gets(9)
	k.stands(k.read(c.ID), job.Available)
	both.Wait = 5 * time.Second
	j := k.one(both)
	if gap := j.StartedAt.Sub(k.read(spaced.ID).StartedAt); j.ID != next.ID || gap < time.Second {
		k.t.Errorf("%s came after %s", j.ID, gap)
	}
	k.configure(job.TemplateQueue, `{}`)
	k.gets(9, c)
}

func (k *kit) limitQueueWaits() {
	k.configure(queue, `{"concurrency":1}`)
	for range 3 {
		k.push(nil)
	}
	held := k.take()
	for what, free := range []func(){
		func() { k.ack(held, "null") },
		func() { k.configure(queue, `{"concurrency":2}`) },
	} {
		got := make(chan []*job.Job)
		go func() {
			jobs, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Wait: patience})
			if err != nil {
				k.t.Error(err)
			}
			got <- jobs
		}()
		k.pause(blink) // for it to wait, mostly; if it comes later it finds the job
		began := time.Now()
		free()
		if jobs := <-got; len(jobs) != 1 || time.Since(began) > soon {
			k.t.Fatalf("case %d: got %d jobs after %s", what, len(jobs), time.Since(began))
		}
	}
}

func (k *kit) tenantPaused() {
	k.turn(queue, job.QueuePaused)
	j := k.pushFor("acme", nil)
	fetch := func(wait time.Duration) []*job.Job {
		jobs, err := k.s.Fetch(k.as("acme"), job.FetchRequest{Queues: []string{queue}, Wait: wait})
		if err != nil {
			k.t.Error(err)
		}
		return jobs
	}
	if got := fetch(0); len(got) != 0 {
		k.t.Errorf("fetched %v of a paused queue", got)
	}
	got := make(chan []*job.Job)
	go func() { got <- fetch(patience) }()
	k.pause(blink) // for it to wait, mostly
	began := time.Now()
	k.turn(queue, job.QueueActive)
	if jobs := <-got; len(jobs) != 1 || jobs[0].ID != j.ID || time.Since(began) > soon {
		k.t.Errorf("got %v after %s", jobs, time.Since(began))
	}
}
