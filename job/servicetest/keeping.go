package servicetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var keeping = []verdict{
	{"an explanation says what a unique policy comes to, and changes nothing", explains},
	{"an explanation tells what would become of a job", explainsAnswers},
	{"an explanation tells when the twin counts no more", explainsPeriod},
	{"without a valid policy there is nothing to explain", explainsNothing},
	{"the unique keys that are held are listed, filtered and paged", listsClaims},
	{"the deduplication keys that are held are listed, filtered and paged", listsDedupKeys},
	{"a job that leaves its states holds its key no more", leavesClaims},
	{"a unique key is released off all its jobs, which stay", releasesKey},
	{"a key that only an older twin has is listed, explained and released", keysOfOlderTwins},
	{"a key that a finished job holds is listed again when a newer one has ended", keysOfFinishedTwins},
	{"a revived job has its key again", keysOfRevivedJobs},
}

func (k *kit) explained(change func(*job.Envelope)) (job.Explanation, error) {
	c, err := envelope(change).Check()
	if err != nil {
		return job.Explanation{}, err
	}
	return k.s.Explain(k.ctx(), c)
}

// explain says what a unique policy comes to.
func (k *kit) explain(change func(*job.Envelope)) job.Explanation {
	k.t.Helper()
	x, err := k.explained(change)
	if err != nil {
		k.t.Fatalf("explain: %v", err)
	}
	return x
}

func explains(k *kit) {
	change := both(unique(`{"keys":["queue","args"],"args_keys":["user_id"],"period":"PT1H","on_conflict":"ignore"}`), args(`[{"user_id":42.0,"name":"é"}]`))
	x := k.explain(both(change, func(e *job.Envelope) { e.Queue = "notifications" }))
	// The vector of contract §4.10.
	if string(x.Canonical) != `{"args":{"user_id":42},"queue":"notifications","type":"email.send"}` ||
		x.Fingerprint != "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f" {
		k.t.Errorf("%s has the fingerprint %s", x.Canonical, x.Fingerprint)
	}
	if x.Answer != "created" || x.Existing != nil || !x.Frees.IsZero() {
		k.t.Errorf("%+v", x)
	}
	p := x.Policy
	if !slices.Equal(p.Keys, []string{"args", "queue", "type"}) || !slices.Equal(p.ArgsKeys, []string{"user_id"}) || p.Period != time.Hour ||
		p.OnConflict != job.UniqueIgnore || p.States != job.SetOf(job.Scheduled, job.Available, job.Pending, job.Active, job.Retryable) || p.Lenient || p.Key != "" {
		k.t.Errorf("policy %+v", p)
	}
	k.empty()
	for _, raw := range []string{`{"key":"own"}`, `{"key":["user_id","none"]}`, `{"keys":["meta"],"meta_keys":["b","a"],"states":["completed"]}`} {
		want, err := job.ParseUnique([]byte(raw), true)
		if err != nil {
			k.t.Fatal(err)
		}
		got := k.explain(both(change, unique(raw))).Policy
		if got.Key != want.Key || got.Lenient != want.Lenient || got.States != want.States || !slices.Equal(got.Keys, want.Keys) ||
			!slices.Equal(got.ArgsKeys, want.ArgsKeys) || !slices.Equal(got.MetaKeys, want.MetaKeys) {
			k.t.Errorf("%s: got %+v, want %+v", raw, got, want)
		}
	}
}

func explainsAnswers(k *kit) {
	in := `"states":["scheduled","available","completed"]`
	for _, tt := range []struct {
		place string
		want  map[string]string
	}{
		{"scheduled", map[string]string{"reject": "rejected", "ignore": "ignored", "replace": "replaced", "replace_except_schedule": "rewritten"}},
		{"available", map[string]string{"reject": "rejected", "ignore": "ignored", "replace": "replaced", "replace_except_schedule": "replaced"}},
		{"completed", map[string]string{"reject": "rejected", "ignore": "ignored", "replace": "created", "replace_except_schedule": "created"}},
	} {
		twin := k.place(tt.place, unique(`{`+in+`}`))
		err := k.untouched("explaining", twin, func() error {
			for conflict, want := range tt.want {
				x := k.explain(unique(`{` + in + `,"on_conflict":"` + conflict + `"}`))
				if x.Answer != want || x.Existing == nil || text(x.Existing) != text(k.read(twin.ID)) || !x.Frees.IsZero() {
					k.t.Errorf("%s, %s: got %s and %+v, want %s", tt.place, conflict, x.Answer, x.Existing, want)
				}
			}
			return nil
		})
		if err != nil {
			k.t.Error(err)
		}
		for conflict, want := range tt.want { // and a push does what was said
			if want == "created" {
				k.fresh(conflict, unique(`{`+in+`,"on_conflict":"`+conflict+`"}`))
				break
			}
		}
		k.clear(twin)
		if _, err := k.s.ReleaseKey(k.ctx(), k.key(unique(`{}`))); err != nil {
			k.t.Fatal(err)
		}
		if x := k.explain(unique(`{` + in + `}`)); x.Answer != "created" || x.Existing != nil {
			k.t.Errorf("after the release: %s, %+v", x.Answer, x.Existing)
		}
	}
}

// place brings a job with a policy to a state.
func (k *kit) place(name string, policy func(*job.Envelope)) *job.Job {
	k.t.Helper()
	for _, p := range uniquePlaces() {
		if p.name == name {
			return p.reach(k, policy)
		}
	}
	k.t.Fatalf("there is no place %s", name)
	return nil
}

func explainsPeriod(k *kit) {
	twin := k.push(unique(`{}`))
	x := k.explain(unique(`{"period":"PT1H"}`))
	if x.Existing == nil || x.Existing.ID != twin.ID || !x.Frees.Equal(twin.CreatedAt.Add(time.Hour)) {
		k.t.Errorf("it frees at %s, created at %s", x.Frees, twin.CreatedAt)
	}
	k.pause(60 * time.Millisecond)
	if x := k.explain(unique(`{"period":"PT0.05S"}`)); x.Existing != nil || x.Answer != "created" {
		k.t.Errorf("after the period: %s, %+v", x.Answer, x.Existing)
	}
}

func explainsNothing(k *kit) {
	for what, change := range map[string]func(*job.Envelope){
		"no policy": nil, "a bad policy": unique(`{"keys":["colour"]}`), "a bad job": both(unique(`{}`), args(`{}`)),
	} {
		_, err := k.explained(change)
		k.is(what, err, job.Invalid)
	}
}

// claims lists the unique keys that are held.
func (k *kit) claims(f job.Filter) job.HeldKeys {
	k.t.Helper()
	c, err := k.s.HeldKeys(k.ctx(), f)
	if err != nil {
		k.t.Fatalf("claims %+v: %v", f, err)
	}
	return c
}

// holders are the types of the jobs that a list of keys names.
func holders(c job.HeldKeys) string {
	var types []string
	for _, v := range c.Keys {
		types = append(types, v.Type)
	}
	return strings.Join(types, " ")
}

func listsClaims(k *kit) {
	if c := k.claims(job.Filter{}); len(c.Keys) != 0 || c.Total != 0 || c.Next != "" {
		k.t.Errorf("at first: %+v", c)
	}
	of := func(name string) func(*job.Envelope) { return func(e *job.Envelope) { e.Type = name } }
	k.push(of("a.none"))
	one := k.push(both(unique(`{"period":"PT1H"}`), of("a.one")))
	k.push(both(unique(`{}`), of("a.two"), later))
	k.push(both(unique(`{"states":["active"]}`), of("a.outside")))
	k.push(both(unique(`{}`), of("b.three"), func(e *job.Envelope) { e.Queue = "zoo" }))
	for _, tt := range []struct {
		f    job.Filter
		want string
	}{
		{job.Filter{}, "b.three a.outside a.two a.one"}, {job.Filter{Queue: queue}, "a.outside a.two a.one"}, {job.Filter{Type: "a.one"}, "a.one"},
		{job.Filter{Type: "a.*"}, "a.outside a.two a.one"}, {job.Filter{States: []job.State{job.Scheduled, job.Active}}, "a.two"},
		{job.Filter{Offset: 1}, "a.outside a.two a.one"}, {job.Filter{Queue: "none"}, ""},
	} {
		c := k.claims(tt.f)
		if total := len(c.Keys) + tt.f.Offset; holders(c) != tt.want || c.Total != int64(total) || c.Next != "" {
			k.t.Errorf("%+v: got %q of %d, next %q; want %q", tt.f, holders(c), c.Total, c.Next, tt.want)
		}
	}
	var all []string
	f := job.Filter{Limit: 1}
	for range 5 {
		c := k.claims(f)
		if all = append(all, holders(c)); c.Next == "" {
			break
		}
		f.Cursor = c.Next
	}
	if got := strings.Join(all, " "); got != "b.three a.outside a.two a.one" {
		k.t.Errorf("paged: %q", got)
	}
	c := k.claims(job.Filter{Type: "a.one"}).Keys[0]
	want := job.HeldKey{Key: k.key(both(unique(`{}`), of("a.one"))), JobID: one.ID, Type: "a.one", Queue: queue, State: job.Available,
		Since: one.CreatedAt, Until: one.CreatedAt.Add(time.Hour)}
	if !c.Since.Equal(want.Since) || !c.Until.Equal(want.Until) {
		k.t.Errorf("got %+v, want %+v", c, want)
	}
	c.Since, c.Until, want.Since, want.Until = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if c != want {
		k.t.Errorf("got %+v, want %+v", c, want)
	}
	_, err := k.s.HeldKeys(k.ctx(), job.Filter{Cursor: "made up"})
	k.is("a cursor that no list gave", err, job.Invalid)
}

func listsDedupKeys(k *kit) {
	keyed := func(name, dedup string) func(*job.Envelope) {
		return func(e *job.Envelope) { e.Type, e.Deduplication = name, json.RawMessage(dedup) }
	}
	k.push(both(unique(`{}`), func(e *job.Envelope) { e.Type = "a.unique" }))
	one := k.push(keyed("a.one", `{"id":"one","ttl_ms":3600000}`))
	k.push(keyed("a.two", `{"id":"two"}`))
	k.push(keyed("a.freed", `{"id":"freed"}`))
	k.push(both(keyed("b.three", `{"id":"one"}`), func(e *job.Envelope) { e.Queue = "zoo" }))
	k.push(keyed("a.short", `{"id":"short","ttl_ms":1}`))
	k.pause(5 * time.Millisecond)
	if freed, err := k.s.ReleaseDedup(k.ctx(), queue, "freed"); err != nil || !freed {
		k.t.Fatalf("release: %v, %v", freed, err)
	}
	for _, tt := range []struct {
		f    job.Filter
		want string
	}{
		{job.Filter{}, "b.three a.two a.one"}, {job.Filter{Queue: queue}, "a.two a.one"}, {job.Filter{Type: "b.*"}, "b.three"},
		{job.Filter{States: []job.State{job.Active}}, ""}, {job.Filter{Offset: 2}, "a.one"}, {job.Filter{Queue: "none"}, ""},
	} {
		tt.f.Dedup = true
		if c := k.claims(tt.f); holders(c) != tt.want || c.Total != int64(len(c.Keys)+tt.f.Offset) || c.Next != "" {
			k.t.Errorf("%+v: got %q of %d, next %q; want %q", tt.f, holders(c), c.Total, c.Next, tt.want)
		}
	}
	first := k.claims(job.Filter{Dedup: true, Limit: 2})
	next := k.claims(job.Filter{Dedup: true, Limit: 2, Cursor: first.Next})
	if holders(first) != "b.three a.two" || holders(next) != "a.one" || next.Next != "" {
		k.t.Errorf("paged: %q, %q", holders(first), holders(next))
	}
	if c := next.Keys[0]; c.Key != "one" || c.JobID != one.ID || c.Queue != queue || c.State != job.Available || !c.Until.Equal(one.CreatedAt.Add(time.Hour)) {
		k.t.Errorf("got %+v", c)
	}
	if c := first.Keys[1]; c.Key != "two" || !c.Until.IsZero() {
		k.t.Errorf("got %+v", c)
	}
	if c := k.claims(job.Filter{}); holders(c) != "a.unique" {
		k.t.Errorf("of the unique keys: %q", holders(c))
	}
}

func leavesClaims(k *kit) {
	held := func(what, want string) {
		k.t.Helper()
		if c := k.claims(job.Filter{}); holders(c) != want {
			k.t.Errorf("%s: held by %q, want %q", what, holders(c), want)
		}
	}
	k.push(unique(`{"states":["available","active"]}`))
	held("available", "email.send")
	j := k.take()
	held("active", "email.send")
	k.ack(j, "")
	held("completed", "")
	first := k.push(unique(`{}`))
	k.replacing("replace", first.ID, unique(`{"on_conflict":"replace"}`))
	held("replaced", "email.send")
	k.pause(5 * time.Millisecond)
	k.fresh("after the period", unique(`{"states":["active","available"],"period":"PT0.001S","on_conflict":"replace"}`))
	if c := k.claims(job.Filter{}); len(c.Keys) > 1 {
		k.t.Errorf("one key is held twice: %+v", c)
	}
}

func releasesKey(k *kit) {
	policy := unique(`{"states":["available","completed"]}`)
	key := k.key(policy)
	release := func(what, key string, want int) {
		k.t.Helper()
		if n, err := k.s.ReleaseKey(k.ctx(), key); err != nil || n != want {
			k.t.Errorf("%s: %d, %v; want %d", what, n, err, want)
		}
	}
	release("a key that nobody has", key, 0)
	release("what is no key", "../jobs", 0)
	release("an empty key", "", 0)
	first := k.push(policy)
	k.complete()
	second := k.fresh("beside it", unique(`{}`))
	release("off both", key, 2)
	release("again", key, 0)
	k.stands(k.read(first.ID), job.Completed)
	k.stands(k.read(second.ID), job.Available)
	if c := k.claims(job.Filter{}); c.Total != 0 {
		k.t.Errorf("held after the release: %+v", c)
	}
	third := k.fresh("after the release", policy)
	k.rejects("after that", third, policy)
	if got := k.fetch(job.FetchRequest{Count: 9}); len(got) != 2 {
		k.t.Errorf("fetched %d jobs, want 2", len(got))
	}
}
