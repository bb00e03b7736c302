package servicetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var deduplicating = []verdict{
	{"a deduplication key is held until its job has ended", dedupSimple},
	{"a deduplication key with a ttl is held as long, whatever becomes of its job", dedupThrottle},
	{"a scheduled owner gives way to a job that replaces it, and no other owner does", dedupDebounce},
	{"a window begins anew only for who asks to extend it", dedupExtend},
	{"a replaced owner leaves its window behind", dedupWindow},
	{"a custom id names one job of its queue as long as that is stored", dedupCustomID},
	{"a custom id comes before a deduplication key, and that before a unique key", dedupOrder},
	{"a deduplication key is one of its queue", dedupQueues},
	{"a deduplication key is released, and its job stays", dedupRelease},
	{"a cancelled job frees its deduplication key", dedupCancel},
	{"a deduplication key may be any text", dedupOddKeys},
	{"in a batch earlier elements hold their keys", dedupBatch},
	{"every decision of a deduplication key tells its events", dedupEvents},
	{"events of deduplication are no part of a job's history", dedupHistory},
	{"a conflict of unique keys tells no events of deduplication", dedupNoEvents},
	{"a bad deduplication is refused with the name of the field", dedupBad},
}

// dedup gives an envelope a deduplication.
func dedup(raw string) func(*job.Envelope) {
	return func(e *job.Envelope) { e.Deduplication = json.RawMessage(raw) }
}

// custom gives an envelope a custom id.
func custom(id string) func(*job.Envelope) { return func(e *job.Envelope) { e.CustomID = id } }

// owner reads who holds a deduplication key of the tests' queue.
func (k *kit) owner(id string) *job.Job {
	k.t.Helper()
	j, err := k.s.DedupOwner(k.ctx(), queue, id)
	if err != nil {
		k.t.Fatalf("owner of %q: %v", id, err)
	}
	if got, want := text(j), text(k.read(j.ID)); got != want {
		k.t.Errorf("owner of %q:\n got %s\nwant %s", id, got, want)
	}
	return j
}

// unowned makes sure that nobody holds a deduplication key.
func (k *kit) unowned(what, in, id string) {
	k.t.Helper()
	_, err := k.s.DedupOwner(k.ctx(), in, id)
	if e := k.is(what, err, job.NotFound); e.Details["resource_type"] != "deduplication" || e.Details["resource_id"] != id {
		k.t.Errorf("%s: details %v", what, e.Details)
	}
}

func dedupSimple(k *kit) {
	key := dedup(`{"id":"k"}`)
	k.unowned("at first", queue, "k")
	for _, change := range []func(*job.Envelope){later, func(e *job.Envelope) { e.Hold = true }} {
		j := k.push(both(key, change))
		k.met(string(j.State), job.Deduplicated, j.ID, both(key, args(`[2]`)))
		k.clear(j)
	}
	first := k.push(both(key, func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`)
	}))
	err := k.untouched("asking who holds it", first, func() error {
		_, err := k.s.DedupOwner(k.ctx(), queue, "k") // reading is no decision, so it tells nothing
		return err
	})
	if err != nil {
		k.t.Error(err)
	}
	k.met("available", job.Deduplicated, first.ID, key)
	taken := k.take()
	k.met("active", job.Deduplicated, first.ID, key)
	k.fail(taken, job.Failure{Message: "no"})
	k.met("retryable", job.Deduplicated, first.ID, both(key, func(e *job.Envelope) { e.Type = "email.other" }))
	if j := k.owner("k"); j.ID != first.ID || j.DedupMode() != "simple" || !j.DedupUntil.IsZero() {
		k.t.Errorf("%s in mode %s until %s", j.ID, j.DedupMode(), j.DedupUntil)
	}
	k.clear(first)
	k.fresh("cancelled", key)
	k.complete()
	k.unowned("after its end", queue, "k")
	k.clear(k.fresh("after its end", key))
	for _, p := range uniquePlaces() {
		j := p.reach(k, key)
		if p.state.Terminal() {
			k.unowned(p.name, queue, "k")
			j = k.fresh(p.name, key)
		} else {
			k.met(p.name, job.Deduplicated, j.ID, both(key, args(`[2]`), unique(`{}`), func(e *job.Envelope) { e.Type = "email.other" }))
		}
		k.clear(j)
	}
	k.push(both(key, func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`) }))
	k.fail(k.take(), job.Failure{Message: "no"})
	k.fresh("beside a dead letter", key)
}

func dedupThrottle(k *kit) {
	key := dedup(`{"id":"k","ttl":3600}`)
	first := k.push(key)
	k.complete()
	k.met("completed, within its ttl", job.Deduplicated, first.ID, key)
	k.met("asked without a ttl", job.Deduplicated, first.ID, dedup(`{"id":"k"}`))
	if j := k.owner("k"); j.DedupMode() != "throttle" || !j.DedupUntil.Equal(first.CreatedAt.Add(time.Hour)) {
		k.t.Errorf("mode %s until %s, created at %s", j.DedupMode(), j.DedupUntil, first.CreatedAt)
	}
	short := dedup(`{"id":"s","ttl_ms":50}`)
	k.push(short)
	k.pause(60 * time.Millisecond)
	k.unowned("after its ttl", queue, "s")
	next := k.fresh("available, after its ttl", dedup(`{"id":"s","ttl":0.05}`))
	k.pause(60 * time.Millisecond)
	k.fresh("again", short)
	k.stands(k.read(next.ID), job.Available)
	k.fetch(job.FetchRequest{Count: 9}) // so that the next place has the queue for itself
	for _, p := range uniquePlaces() {
		j := p.reach(k, both(key, dedup(`{"id":"p","ttl":3600}`)))
		if p.state == job.Cancelled { // as a removal (contract §4.11)
			k.unowned(p.name, queue, "p")
			continue
		}
		k.met(p.name, job.Deduplicated, j.ID, dedup(`{"id":"p","ttl":60}`))
		if owner := k.owner("p"); owner.State != p.state || !owner.DedupUntil.Equal(j.CreatedAt.Add(time.Hour)) {
			k.t.Errorf("%s: %s until %s, created at %s", p.name, owner.State, owner.DedupUntil, j.CreatedAt)
		}
		k.releases("p", true)
		k.clear(j)
	}
}

func dedupDebounce(k *kit) {
	key := both(dedup(`{"id":"k","replace":true}`), later)
	first := k.push(key)
	if j := k.owner("k"); j.DedupMode() != "debounce" {
		k.t.Errorf("mode %s", j.DedupMode())
	}
	second := k.replacing("a scheduled owner", first.ID, both(key, args(`[2]`)))
	old := k.read(first.ID)
	k.stands(old, job.Cancelled)
	es := k.events(first.ID)
	k.expect(es[len(es)-1].Data, "reason", `"debounced"`)
	k.expect(es[len(es)-1].Data, "replaced_by", `"`+string(second.ID)+`"`)
	k.met("who does not replace", job.Deduplicated, second.ID, both(dedup(`{"id":"k"}`), later))
	third := k.replacing("by one that is not delayed", second.ID, dedup(`{"id":"k","replace":true}`))
	if j := k.owner("k"); j.ID != third.ID || j.DedupMode() != "replace" {
		k.t.Errorf("owner %s in mode %s, want %s", j.ID, j.DedupMode(), third.ID)
	}
	k.met("an available owner", job.Deduplicated, third.ID, key)
	taken := k.take()
	k.met("an active owner", job.Deduplicated, third.ID, key)
	k.ack(taken, "")
	k.clear(k.fresh("after its end", key))
	within := dedup(`{"id":"w","ttl":3600,"replace":true}`)
	for _, p := range uniquePlaces() { // by one that is delayed and one that is not
		for _, change := range []func(*job.Envelope){later, func(*job.Envelope) {}} {
			owner := p.reach(k, within)
			var j *job.Job
			switch p.state {
			case job.Scheduled:
				j = k.replacing(p.name, owner.ID, both(within, change))
				k.stands(k.read(owner.ID), job.Cancelled)
			case job.Cancelled:
				j = k.fresh(p.name, both(within, change))
			default:
				j = k.met(p.name, job.Deduplicated, owner.ID, both(within, change)).Job
				k.stands(j, p.state)
			}
			k.releases("w", true)
			k.clear(j)
		}
	}
}

func dedupExtend(k *kit) {
	first := k.push(dedup(`{"id":"k","ttl":3600}`))
	until := k.owner("k").DedupUntil
	k.met("without extend", job.Deduplicated, first.ID, dedup(`{"id":"k","ttl":7200}`))
	if got := k.owner("k").DedupUntil; !got.Equal(until) {
		k.t.Errorf("the window ends at %s, not at %s", got, until)
	}
	k.complete()
	begin := time.Now()
	k.met("with extend", job.Deduplicated, first.ID, dedup(`{"id":"k","ttl":7200,"extend":true}`))
	if got := k.owner("k").DedupUntil; got.Before(begin.Add(2*time.Hour-time.Second)) || got.After(time.Now().Add(2*time.Hour+time.Second)) {
		k.t.Errorf("the window ends at %s, want two hours after %s", got, begin)
	}
	k.releases("k", true)
	delayed := both(dedup(`{"id":"k","ttl":3600,"replace":true}`), later)
	owner := k.push(delayed)
	for _, tt := range []struct {
		options string
		want    func(owner, j *job.Job) time.Time
	}{
		{`{"id":"k","ttl":7200,"extend":true,"replace":true}`, func(_, j *job.Job) time.Time { return j.CreatedAt.Add(2 * time.Hour) }},
		{`{"id":"k","ttl":60,"replace":true}`, func(owner, _ *job.Job) time.Time { return owner.DedupUntil }},
		{`{"id":"k","ttl":60,"extend":true,"replace":true}`, func(_, j *job.Job) time.Time { return j.CreatedAt.Add(time.Minute) }},
	} {
		before := k.owner("k")
		j := k.replacing(tt.options, owner.ID, both(dedup(tt.options), later))
		if got := k.owner("k"); got.ID != j.ID || !got.DedupUntil.Equal(tt.want(before, j)) {
			k.t.Errorf("%s: %s holds it until %s, want %s until %s", tt.options, got.ID, got.DedupUntil, j.ID, tt.want(before, j))
		}
		owner = j
	}
}

func dedupWindow(k *kit) {
	first := k.push(both(dedup(`{"id":"k","ttl":3600}`), later))
	until := k.owner("k").DedupUntil
	second := k.replacing("without extend", first.ID, both(dedup(`{"id":"k","ttl":7200,"replace":true}`), later))
	if j := k.owner("k"); j.ID != second.ID || !j.DedupUntil.Equal(until) {
		k.t.Errorf("%s holds it until %s, want %s until %s", j.ID, j.DedupUntil, second.ID, until)
	}
	third := k.replacing("with extend", second.ID, both(dedup(`{"id":"k","ttl":7200,"extend":true,"replace":true}`), later))
	if j := k.owner("k"); j.ID != third.ID || !j.DedupUntil.Equal(third.CreatedAt.Add(2*time.Hour)) {
		k.t.Errorf("%s holds it until %s, want %s", j.ID, j.DedupUntil, third.ID)
	}
	fourth := k.replacing("without a ttl", third.ID, both(dedup(`{"id":"k","replace":true}`), later))
	if j := k.owner("k"); j.ID != fourth.ID || !j.DedupUntil.IsZero() {
		k.t.Errorf("%s holds it until %s, want %s until its end", j.ID, j.DedupUntil, fourth.ID)
	}
}

func dedupCustomID(k *kit) {
	first := k.push(custom("order-17"))
	k.shows(first, "custom_job_id", `"order-17"`)
	for range 2 {
		k.met("another content", job.SameCustomID, first.ID, both(custom("order-17"), args(`[2]`), func(e *job.Envelope) { e.Type = "email.other" }))
		k.complete()
		k.stands(k.read(first.ID), job.Completed)
		k.push(nil) // something to complete
	}
	k.fetch(job.FetchRequest{Count: 9}) // so that the next place has the queue for itself
	for _, p := range uniquePlaces() {
		name := custom("in " + p.name)
		j := p.reach(k, name)
		k.met(p.name, job.SameCustomID, j.ID, both(name, args(`[2]`), later))
		k.stands(k.read(j.ID), p.state)
		k.clear(j)
		k.met(p.name+", ended", job.SameCustomID, j.ID, name)
	}
	k.fresh("as long as may be", custom(strings.Repeat("é", 255)))
	k.fresh("in another queue", both(custom("order-17"), func(e *job.Envelope) { e.Queue = "zoo" }))
	k.fresh("another custom id", custom("order-18"))
	k.fresh("the same in another case", custom("Order-17"))
	for _, bad := range []string{string(make([]byte, 256)), "\xff"} {
		_, err := k.enqueue(custom(bad))
		k.is("a bad custom id", err, job.Invalid)
	}
	removed := k.deletes(both(custom("dead"), dedup(`{"id":"dead","ttl":3600}`)))
	if next := k.fresh("removed", custom("dead")); next.ID == removed.ID {
		k.t.Errorf("%s is there again", next.ID)
	}
}

// deletes makes a dead letter and removes it.
func (k *kit) deletes(change func(*job.Envelope)) *job.Job {
	k.t.Helper()
	j := k.push(both(change, func(e *job.Envelope) { e.Queue = "graves" }))
	if got := k.fetch(job.FetchRequest{Queues: []string{"graves"}}); len(got) != 1 || got[0].ID != j.ID {
		k.t.Fatalf("fetched %d jobs, want %s", len(got), j.ID)
	} else {
		j = k.fail(got[0], job.Failure{Code: "DEAD_LETTER"})
	}
	again := func(e *job.Envelope) { e.Queue = "graves" }
	for _, want := range []bool{true, false} {
		r, err := k.enqueue(both(change, again))
		if err != nil || r.Existing != want {
			k.t.Errorf("removed %v: %+v, %v", !want, r, err)
		}
		if want {
			if err := k.s.DeleteDead(k.ctx(), j.ID); err != nil {
				k.t.Fatal(err)
			}
		} else {
			k.clear(r.Job)
		}
	}
	return j
}

func dedupOrder(k *kit) {
	one := k.push(custom("c"))
	two := k.push(dedup(`{"id":"k"}`))
	three := k.push(unique(`{}`))
	all := both(custom("c"), dedup(`{"id":"k"}`), unique(`{}`))
	k.met("all of them", job.SameCustomID, one.ID, all)
	k.met("without the custom id", job.Deduplicated, two.ID, both(all, custom("d")))
	k.rejects("the unique key alone", three, both(all, custom("d"), dedup(`{"id":"l"}`)))
	k.fresh("none of them", both(custom("d"), dedup(`{"id":"l"}`), unique(`{"key":"u"}`)))
}

func dedupQueues(k *kit) {
	key := dedup(`{"id":"k"}`)
	first := k.push(key)
	k.unowned("in another queue", "zoo", "k")
	k.fresh("in another queue", both(key, func(e *job.Envelope) { e.Queue = "zoo" }))
	k.fresh("another key", dedup(`{"id":"K"}`))
	k.met("the same", job.Deduplicated, first.ID, key)
}

// releases takes a deduplication key off its owner, or finds none.
func (k *kit) releases(id string, want bool) {
	k.t.Helper()
	if got, err := k.s.ReleaseDedup(k.ctx(), queue, id); err != nil || got != want {
		k.t.Errorf("release of %q: %v, %v; want %v", id, got, err, want)
	}
}

func dedupRelease(k *kit) {
	for _, raw := range []string{`{"id":"k"}`, `{"id":"k","ttl":3600}`} {
		k.releases("k", false)
		first := k.push(dedup(raw))
		k.releases("k", true)
		k.releases("k", false)
		k.unowned("after its release", queue, "k")
		k.stands(k.read(first.ID), job.Available)
		k.shows(first, "deduplication", raw)
		k.shows(k.read(first.ID), "deduplication", "")
		second := k.fresh("after its release", dedup(raw))
		k.met("the new owner", job.Deduplicated, second.ID, dedup(raw))
		k.complete()
		if raw == `{"id":"k"}` {
			k.met("the first has ended", job.Deduplicated, second.ID, dedup(raw))
		}
		k.releases("k", true)
		k.clear(second)
	}
}

func dedupCancel(k *kit) {
	for _, raw := range []string{`{"id":"k"}`, `{"id":"k","ttl":3600}`} {
		k.cancel(k.push(dedup(raw)))
		k.unowned("after a cancel", queue, "k")
		k.cancel(k.fresh("after a cancel", dedup(raw)))
		for _, p := range uniquePlaces() {
			if j := p.reach(k, dedup(raw)); !p.state.Terminal() {
				k.cancel(k.read(j.ID))
				k.unowned(p.name+", cancelled", queue, "k")
				k.clear(k.fresh(p.name+", cancelled", dedup(raw)))
			} else if raw != `{"id":"k"}` && p.state != job.Cancelled {
				k.releases("k", true)
			}
		}
	}
	k.deletes(dedup(`{"id":"k","ttl":3600}`))
}

func dedupOddKeys(k *kit) {
	for _, id := range []string{"order:17/2 %2F?#", "..", ".", "a/", "/", "é\u0301", "{\"id\":1}", " "} {
		raw, err := json.Marshal(map[string]string{"id": id})
		if err != nil {
			k.t.Fatal(err)
		}
		first := k.push(dedup(string(raw)))
		if j := k.owner(id); j.ID != first.ID {
			k.t.Errorf("%q is held by %s, want %s", id, j.ID, first.ID)
		}
		k.met(id, job.Deduplicated, first.ID, dedup(string(raw)))
		k.releases(id, true)
		k.unowned(id, queue, id)
	}
	k.unowned("an empty key", queue, "")
	k.releases("", false)
}

func dedupBatch(k *kit) {
	key, debounce := dedup(`{"id":"k"}`), both(dedup(`{"id":"d","replace":true}`), later)
	rs, err := k.s.Enqueue(k.ctx(), envelope(key), envelope(key), envelope(debounce), envelope(debounce), envelope(custom("c")),
		envelope(custom("c")), envelope(both(key, unique(`{"on_conflict":"ignore"}`))), envelope(unique(`{"on_conflict":"ignore"}`)),
		envelope(unique(`{"on_conflict":"ignore"}`)))
	if err != nil || len(rs) != 9 {
		k.t.Fatalf("%d receipts, %v", len(rs), err)
	}
	for i, want := range []struct {
		as       int // the element whose job answers
		verdict  job.Verdict
		replaced int
	}{{0, "", -1}, {0, job.Deduplicated, -1}, {2, "", -1}, {3, "", 2}, {4, "", -1}, {4, job.SameCustomID, -1}, {0, job.Deduplicated, -1}, {7, "", -1}, {7, job.Ignored, -1}} {
		r := rs[i]
		if r.ID != rs[want.as].ID || r.Verdict != want.verdict || r.Existing != (want.verdict != "") || want.replaced >= 0 && r.Replaced != rs[want.replaced].ID ||
			want.replaced < 0 && r.Replaced != "" {
			k.t.Errorf("element %d: %s, existing %v, verdict %q, replaced %q; want %+v", i, r.ID, r.Existing, r.Verdict, r.Replaced, want)
		}
	}
	k.stands(k.read(rs[2].ID), job.Cancelled)
	if n := k.total(); n != 5 {
		k.t.Errorf("%d jobs are stored, want 5", n)
	}
}

func dedupEvents(k *kit) {
	first := k.push(both(dedup(`{"id":"k","replace":true}`), later))
	asked := newID()
	k.met("suppressed", job.Deduplicated, first.ID, both(dedup(`{"id":"k"}`), func(e *job.Envelope) { e.ID = asked }))
	k.tells(first.ID, fact{"job.scheduled", nil}, fact{"job.debounced", map[string]string{"debounce_id": `"k"`}},
		fact{"job.deduplicated", map[string]string{"deduplication_id": `"k"`, "deduplicated_job_id": `"` + string(asked) + `"`}})
	second := k.replacing("replaced", first.ID, both(dedup(`{"id":"k","replace":true}`), later))
	if told := k.told(first.ID); told[len(told)-1] != "job.cancelled" {
		k.t.Errorf("told %q of the owner before", told)
	}
	var data []byte
	for _, e := range k.events(second.ID) {
		if e.Type == "job.deduplicated" {
			data = e.Data
		}
	}
	k.expect(data, "deduplicated_job_id", `"`+string(first.ID)+`"`)
	if told := k.told(second.ID); !slices.Contains(told, "job.debounced") || !slices.Contains(told, "job.scheduled") {
		k.t.Errorf("told %q of the new owner", told)
	}
	named := k.push(custom("c"))
	k.met("the custom id again", job.SameCustomID, named.ID, custom("c"))
	k.tells(named.ID, enqueued, fact{"job.duplicated", nil})
	es, err := k.s.Events(k.ctx(), job.EventFilter{Types: []string{"job.debounced", "job.deduplicated", "job.duplicated"}})
	if err != nil || len(es) != 5 {
		k.t.Errorf("%d events, %v: %+v", len(es), err, es)
	}
}

func dedupHistory(k *kit) {
	lives := func(j *job.Job, want ...string) {
		k.t.Helper()
		es, err := k.s.History(k.ctx(), j.ID)
		var got []string
		for _, e := range es {
			got = append(got, e.Type)
		}
		if err != nil || !slices.Equal(got, want) {
			k.t.Errorf("the history of %s is %q, %v; want %q", j.ID, got, err, want)
		}
	}
	key := both(dedup(`{"id":"k","replace":true}`), later)
	first := k.push(key)
	for range job.HistoryLimit + 1 {
		k.met("suppressed", job.Deduplicated, first.ID, both(dedup(`{"id":"k"}`), later))
	}
	lives(first, "job.scheduled")
	second := k.replacing("replaced", first.ID, both(key, custom("c")))
	lives(first, "job.scheduled", "job.cancelled")
	k.met("the custom id again", job.SameCustomID, second.ID, custom("c"))
	lives(second, "job.scheduled")
	if told := k.told(second.ID); len(told) != 4 {
		k.t.Errorf("told %q", told)
	}
}

func dedupNoEvents(k *kit) {
	twin := k.push(unique(`{}`))
	k.rejects("reject", twin, unique(`{}`))
	k.met("ignore", job.Ignored, twin.ID, unique(`{"on_conflict":"ignore"}`))
	k.tells(twin.ID, enqueued)
}

func dedupBad(k *kit) {
	for _, tt := range []struct{ field, raw string }{
		{"deduplication.id", `{}`}, {"deduplication.id", `{"id":""}`}, {"deduplication.id", `{"id":1}`}, {"deduplication.ttl", `{"id":"k","ttl":0}`},
		{"deduplication.ttl", `{"id":"k","ttl":"PT1S"}`}, {"deduplication.extend", `{"id":"k","extend":"yes"}`}, {"deduplication.replace", `{"id":"k","replace":1}`},
		{"deduplication.mystery", `{"id":"k","mystery":1}`}, {"deduplication", `[]`},
	} {
		_, err := k.enqueue(dedup(tt.raw))
		if e := k.is(tt.raw, err, job.Invalid); e.Details["field"] != tt.field {
			k.t.Errorf("%s: details %v, %s; want %s", tt.raw, e.Details, e.Message, tt.field)
		}
	}
	k.empty()
}
