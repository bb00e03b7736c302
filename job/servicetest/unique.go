package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var uniqueness = []verdict{
	{"a job that meets its twin is rejected, and told which one", uniqueReject},
	{"on_conflict ignore answers with the stored job", uniqueIgnore},
	{"on_conflict replace cancels a twin that has not finished, and no other", uniqueReplace},
	{"a worker is told that its job was replaced, and its ACK is refused", uniqueReplaceActive},
	{"on_conflict replace_except_schedule gives a scheduled job new args and meta", uniqueRewrite},
	{"on_conflict replace_except_schedule replaces what is not scheduled", uniqueReplaceOther},
	{"replace cancels every twin that has not finished, not only the newest", uniqueReplaceAll},
	{"replace leaves alone the twins that its policy does not count", uniqueReplaceCounted},
	{"replace_except_schedule rewrites one scheduled twin and cancels the others", uniqueRewriteOne},
	{"replace_except_schedule beside a deduplication key cancels its owner among the others", uniqueRewriteBesideOwner},
	{"only the chosen dimensions make a twin", uniqueDimensions},
	{"a twin counts in the states of the new job's policy", uniqueStates},
	{"a twin counts within the period of the new job's policy", uniquePeriod},
	{"the newest of several twins decides", uniqueNewest},
	{"of many twins pushed at once one is stored", uniqueAtOnce},
	{"in a batch earlier elements count, and a reject stores nothing", uniqueBatch},
	{"a job without a policy is nobody's twin", uniqueWithout},
	{"a revived job is not checked again", uniqueRevive},
	{"a bad unique policy is refused with the name of the field", uniqueBad},
	{"an id that is stored comes before its unique key", uniqueSameID},
	{"a job whose args were overwritten is known by its id", uniqueRewrittenID},
	{"a job whose args were overwritten keeps the key that it was admitted under", uniqueRewrittenKey},
	{"a job shows when its args were overwritten, and its event what", uniqueRewrittenAt},
	{"in a batch every answer shows its job as it was stored in the end", uniqueBatchAnswers},
}

func uniqueReject(k *kit) {
	policy := unique(`{"keys":["args"]}`)
	twin := k.push(policy)
	var e *job.Error
	if err := k.untouched("reject", twin, func() error { e = k.rejects("the same again", twin, policy); return nil }); err != nil {
		k.t.Fatal(err)
	}
	if key := k.key(policy); e.Details["unique_key"] != key || e.Details["uniqueness_key"] != key {
		k.t.Errorf("details %v, want the key %s", e.Details, key)
	}
	k.rejects("with an id of its own", twin, both(policy, func(e *job.Envelope) { e.ID = newID() }))
	k.complete()
	k.fresh("after its end", policy)
}

func uniqueIgnore(k *kit) {
	policy := unique(`{"on_conflict":"ignore"}`)
	for _, change := range []func(*job.Envelope){policy, later, func(e *job.Envelope) { e.Hold = true }} {
		twin := k.push(both(policy, change))
		err := k.untouched("ignore", twin, func() error {
			k.met("the same again", job.Ignored, twin.ID, policy)
			k.met("with other args", job.Ignored, twin.ID, both(policy, args(`[2]`)))
			return nil
		})
		if err != nil {
			k.t.Error(err)
		}
		k.clear(twin)
	}
}

func uniqueReplace(k *kit) {
	policy := unique(`{"on_conflict":"replace","states":["scheduled","available","pending","active","retryable","completed","cancelled","discarded"]}`)
	for _, p := range uniquePlaces() {
		twin := p.reach(k, policy)
		if twin.State != p.state && k.read(twin.ID).State != p.state {
			k.t.Fatalf("%s: %s", p.name, text(twin))
		}
		before := k.picture(twin)
		if p.state.Terminal() {
			next := k.fresh(p.name, policy)
			k.clear(next)
			if got := k.read(twin.ID); got.State != p.state {
				k.t.Errorf("%s: it is %s now", p.name, got.State)
			}
			continue
		}
		next := k.replacing(p.name, twin.ID, policy)
		old := k.read(twin.ID)
		k.stands(old, job.Cancelled)
		if old.FinishedAt.IsZero() || next.State != job.Available {
			k.t.Errorf("%s: before\n%s\nnow %s\nand %s", p.name, before, text(old), text(next))
		}
		es := k.events(twin.ID)
		last := es[len(es)-1]
		if last.Type != "job.cancelled" {
			k.t.Errorf("%s: told %q", p.name, k.told(twin.ID))
		}
		k.expect(last.Data, "reason", `"replaced"`)
		k.expect(last.Data, "replaced_by", `"`+string(next.ID)+`"`)
		k.expect(last.Data, "previous_state", `"`+string(p.state)+`"`)
		k.clear(next)
		if _, err := k.s.ReleaseKey(k.ctx(), k.key(policy)); err != nil { // nothing of this place is met in the next
			k.t.Fatal(err)
		}
	}
}

// key is the unique key of a job.
func (k *kit) key(change func(*job.Envelope)) string {
	k.t.Helper()
	return k.explain(change).Fingerprint
}

// uniquePlace is a way of a job with a policy to a state.
type uniquePlace struct {
	name  string
	state job.State
	reach func(*kit, func(*job.Envelope)) *job.Job
}

func uniquePlaces() []uniquePlace {
	pushed := func(change func(*job.Envelope)) func(*kit, func(*job.Envelope)) *job.Job {
		return func(k *kit, policy func(*job.Envelope)) *job.Job { return k.push(both(policy, change)) }
	}
	taken := func(end func(*kit, *job.Job)) func(*kit, func(*job.Envelope)) *job.Job {
		return func(k *kit, policy func(*job.Envelope)) *job.Job {
			k.push(both(policy, func(e *job.Envelope) {
				e.Retry = json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`)
			}))
			j := k.take()
			end(k, j)
			return j
		}
	}
	return []uniquePlace{
		{"scheduled", job.Scheduled, pushed(later)},
		{"available", job.Available, pushed(func(*job.Envelope) {})},
		{"pending", job.Pending, pushed(func(e *job.Envelope) { e.Hold = true })},
		{"active", job.Active, taken(func(*kit, *job.Job) {})},
		{"retryable", job.Retryable, taken(func(k *kit, j *job.Job) { k.fail(j, job.Failure{Message: "no"}) })},
		{"completed", job.Completed, taken(func(k *kit, j *job.Job) { k.ack(j, "") })},
		{"cancelled", job.Cancelled, taken(func(k *kit, j *job.Job) { k.cancel(j) })},
		{"discarded", job.Discarded, taken(func(k *kit, j *job.Job) { k.fail(j, job.Failure{Code: "DISCARD"}) })},
	}
}

func uniqueReplaceActive(k *kit) {
	policy := unique(`{"on_conflict":"replace"}`)
	k.push(policy)
	held := k.take()
	next := k.replacing("an active twin", held.ID, policy)
	if r := k.beat(job.Beat{Jobs: []job.Claim{claimOf(held)}}); !slices.Equal(r.Cancelled, []job.ID{held.ID}) || len(r.Extended)+len(r.Lost) != 0 {
		k.t.Errorf("the beat was told %+v", r)
	}
	_, err := k.s.Ack(k.ctx(), claimOf(held), nil)
	k.is("the ACK of the replaced", err, job.Conflict)
	_, err = k.s.Fail(k.ctx(), claimOf(held), job.Failure{Message: "no"})
	k.is("the FAIL of the replaced", err, job.Conflict)
	if got := k.take(); got.ID != next.ID {
		k.t.Errorf("fetched %s, want %s", got.ID, next.ID)
	}
}

func uniqueRewrite(k *kit) {
	policy := unique(`{"on_conflict":"replace_except_schedule"}`)
	twin := k.push(both(policy, later, func(e *job.Envelope) { e.Priority, e.Meta = 7, json.RawMessage(`{"old":1}`) }))
	r := k.met("a scheduled twin", job.Rewritten, twin.ID, both(policy, args(`[ 2 ]`), func(e *job.Envelope) {
		e.Priority, e.Meta, e.Delay = 3, json.RawMessage(`{"new": 1}`), 2*time.Hour
	}))
	k.shows(r.Job, "args", `[ 2 ]`)
	k.shows(r.Job, "meta", `{"new": 1}`)
	if r.Priority != 7 || r.State != job.Scheduled || !r.ScheduledAt.Equal(twin.ScheduledAt) || !r.CreatedAt.Equal(twin.CreatedAt) {
		k.t.Errorf("before\n%s\nnow\n%s", text(twin), text(r.Job))
	}
	k.met("without a meta", job.Rewritten, twin.ID, both(policy, args(`[3]`)))
	k.shows(k.read(twin.ID), "meta", `{}`)
	if n := k.total(); n != 1 {
		k.t.Errorf("%d jobs are stored", n)
	}
	if told := k.told(twin.ID); slices.Contains(told, "job.cancelled") {
		k.t.Errorf("told %q", told)
	}
}

func uniqueReplaceOther(k *kit) {
	policy := unique(`{"on_conflict":"replace_except_schedule",` + everywhere + `}`)
	for _, p := range uniquePlaces() {
		twin := p.reach(k, policy)
		before := text(k.read(twin.ID))
		newer := both(policy, args(`["new"]`))
		switch {
		case p.state == job.Scheduled:
			k.met(p.name, job.Rewritten, twin.ID, newer)
		case p.state.Terminal():
			next := k.fresh(p.name, newer)
			k.stands(next, job.Available)
			if got := text(k.read(twin.ID)); got != before {
				k.t.Errorf("%s: it was\n%s\nand is\n%s", p.name, before, got)
			}
			k.clear(next)
		default:
			next := k.replacing(p.name, twin.ID, newer)
			k.stands(next, job.Available)
			k.shows(next, "args", `["new"]`)
			twin.State = p.state
			k.gone(p.name, next, []*job.Job{twin})
			k.clear(next)
		}
		k.frees(policy, k.read(twin.ID))
	}
}

// unlike are ways in which a job differs from the one of uniqueDimensions.
var unlike = map[string]func(*job.Envelope){
	"type": func(e *job.Envelope) { e.Type = "email.other" }, "queue": func(e *job.Envelope) { e.Queue = "zoo" },
	"spelled": args(`[ {"x":1e0,"a":"\u00e9" , "u":42.0} ]`), "spelled too": args(`[{"u":4.20e1,"a":"é","x":10E-1}]`),
	"u": args(`[{"u":43,"x":1,"a":"é"}]`), "kind of u": args(`[{"u":"42","x":1,"a":"é"}]`), "x": args(`[{"u":42,"x":2,"a":"é"}]`),
	"y": args(`[{"u":42,"x":1,"a":"é","y":null}]`), "more": args(`[{"u":42,"x":1,"a":"é"},7]`),
	"t": meta(`{"t":"b","o":1}`), "kind of t": meta(`{"t":["a"],"o":1}`), "no t": meta(`{"o":1}`), "o": meta(`{"t":"\u0061","o":2}`), "no o": meta(`{"t":"a"}`),
}

func uniqueDimensions(k *kit) {
	for policy, matter := range map[string][]string{
		`{}`:                                  {},
		`{"keys":["queue"]}`:                  {"queue"},
		`{"keys":["args"]}`:                   {"u", "kind of u", "x", "y", "more"},
		`{"keys":["args"],"args_keys":["u"]}`: {"u", "kind of u"},
		`{"keys":["args"],"args_keys":["x","u"]}`:                                                {"u", "kind of u", "x"},
		`{"keys":["meta"],"meta_keys":["t"]}`:                                                    {"t", "kind of t", "no t"},
		`{"keys":["type","queue","args","meta"],"args_keys":["x"],"meta_keys":["o","t","none"]}`: {"queue", "x", "t", "kind of t", "no t", "o", "no o"},
		`{"key":"k-1"}`:        {},
		`{"key":["u","none"]}`: {"u", "kind of u"},
		`{"key":["queue"]}`:    {"queue"},
	} {
		begin := both(unique(policy), args(`[{"u":42,"x":1,"a":"e\u0301"}]`), meta(`{"t":"a","o":1}`))
		twin := k.fresh(policy, begin)
		for what, change := range unlike {
			if what == "type" || slices.Contains(matter, what) {
				k.clear(k.fresh(policy+", another "+what, both(begin, change)))
			} else {
				k.rejects(policy+", another "+what, twin, both(begin, change))
			}
		}
		if strings.Contains(policy, `"k-1"`) {
			k.clear(k.fresh("another key", both(begin, unique(`{"key":"k-2"}`))))
		}
		k.clear(twin)
	}
}

func uniqueStates(k *kit) {
	plain := unique(`{}`)
	for _, p := range uniquePlaces() {
		for _, only := range job.States {
			twin := p.reach(k, plain)
			policy := unique(`{"states":["` + string(only) + `"],"on_conflict":"ignore"}`)
			what := fmt.Sprintf("%s, counted while %s", p.name, only)
			if only == p.state {
				k.met(what, job.Ignored, twin.ID, policy)
			} else if next := k.fresh(what, policy); next != nil {
				k.clear(next)
			}
			k.clear(k.read(twin.ID))
			if _, err := k.s.ReleaseKey(k.ctx(), k.key(plain)); err != nil {
				k.t.Fatal(err)
			}
		}
	}
}

func uniquePeriod(k *kit) {
	hour := unique(`{"period":"PT1H","states":["available","completed"]}`)
	first := k.push(hour)
	k.rejects("within an hour", first, hour)
	k.complete()
	k.rejects("within an hour, finished", first, hour)
	k.pause(60 * time.Millisecond)
	second := k.fresh("after 50 ms", unique(`{"period":"PT0.05S","states":["available","completed"]}`))
	k.rejects("within an hour of the second", second, hour)
	k.pause(60 * time.Millisecond)
	for _, spelled := range []string{`"period_ms":50`, `"within":"50ms"`} {
		next := k.fresh(spelled, unique(`{`+spelled+`}`))
		k.rejects(spelled+", and nobody's own", next, hour)
		k.pause(60 * time.Millisecond)
	}
}

func uniqueNewest(k *kit) {
	k.push(unique(`{"states":["active"]}`))
	second := k.fresh("while the first is available", unique(`{"states":["active"]}`))
	k.met("two are available", job.Ignored, second.ID, unique(`{"on_conflict":"ignore"}`))
	k.cancel(second)
	r, err := k.enqueue(unique(`{"on_conflict":"ignore"}`))
	if err != nil || !r.Existing || r.ID == second.ID {
		k.t.Errorf("one is available: %+v, %v", r, err)
	}
}

func uniqueAtOnce(k *kit) {
	const callers = 20
	var mu sync.Mutex
	var wg sync.WaitGroup
	stored := map[job.ID]bool{}
	refused := 0
	for range callers {
		wg.Go(func() {
			rs, err := k.s.Enqueue(k.ctx(), envelope(unique(`{}`)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				stored[rs[0].ID] = true
			} else if job.KindOf(err) == job.Duplicate {
				refused++
			} else {
				k.t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(stored) != 1 || refused != callers-1 || k.total() != 1 {
		k.t.Errorf("%d stored, %d refused, %d are there", len(stored), refused, k.total())
	}
}

func uniqueBatch(k *kit) {
	ignore, replace := unique(`{"on_conflict":"ignore"}`), unique(`{"on_conflict":"replace"}`)
	rs, err := k.s.Enqueue(k.ctx(), envelope(ignore), envelope(ignore), envelope(nil), envelope(both(replace, args(`[2]`))),
		envelope(both(replace, later)), envelope(both(unique(`{"on_conflict":"replace_except_schedule"}`), args(`[3]`))))
	if err != nil || len(rs) != 6 {
		k.t.Fatalf("%d receipts, %v", len(rs), err)
	}
	for i, want := range []job.Receipt{{}, {Job: rs[0].Job, Existing: true, Verdict: job.Ignored}, {}, {Replaced: rs[0].ID}, {Replaced: rs[3].ID},
		{Job: rs[4].Job, Existing: true, Verdict: job.Rewritten}} {
		got := rs[i]
		if got.Existing != want.Existing || got.Verdict != want.Verdict || got.Replaced != want.Replaced || want.Job != nil && got.ID != want.ID {
			k.t.Errorf("element %d: %+v, want %+v", i, got, want)
		}
	}
	for i, want := range map[int]job.State{0: job.Cancelled, 2: job.Available, 3: job.Cancelled, 4: job.Scheduled} {
		k.stands(k.read(rs[i].ID), want)
	}
	k.shows(k.read(rs[4].ID), "args", `[3]`)

	before := k.total()
	reject := func(e *job.Envelope) { e.Type, e.Unique = "email.reject", json.RawMessage(`{}`) }
	es := append(batch("a", "b"), envelope(reject), envelope(reject))
	es[2].ID = newID()
	_, err = k.s.Enqueue(k.ctx(), es...)
	e := k.is("a twin in the same batch", err, job.Duplicate)
	if e.Details["index"] != 3 || e.Details["existing_job_id"] != string(es[2].ID) || k.total() != before {
		k.t.Errorf("details %v, %d jobs after %d", e.Details, k.total(), before)
	}
	_, err = k.s.Enqueue(k.ctx(), append(batch("a"), envelope(unique(`{}`)))...)
	if e := k.is("a twin that is stored", err, job.Duplicate); e.Details["index"] != 1 || k.total() != before {
		k.t.Errorf("details %v, %d jobs after %d", e.Details, k.total(), before)
	}
}

func uniqueWithout(k *kit) {
	k.push(nil)
	k.push(nil)
	twin := k.fresh("the first with a policy", unique(`{}`))
	k.push(nil)
	k.rejects("the second", twin, unique(`{}`))
}

func uniqueRevive(k *kit) {
	policy := unique(`{}`)
	k.push(both(policy, func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`)
	}))
	dead := k.fail(k.take(), job.Failure{Message: "no"})
	k.fresh("beside a dead letter", policy)
	if c, err := k.s.Revive(k.ctx(), dead.ID); err != nil || c.State != job.Available {
		k.t.Errorf("revive: %+v, %v", c, err)
	}
	got := k.fetch(job.FetchRequest{Count: 9})
	if len(got) != 2 {
		k.t.Fatalf("fetched %d jobs, want both", len(got))
	}
	for _, j := range got { // neither is a dead letter that fails now, the second beside a twin
		k.fail(j, job.Failure{Code: "DISCARD"})
		if c, err := k.s.Retry(k.ctx(), j.ID); err != nil || c.State != job.Available {
			k.t.Errorf("retry: %+v, %v", c, err)
		}
	}
	for _, j := range k.fetch(job.FetchRequest{Count: 9}) {
		k.fail(j, job.Failure{Code: "DEAD_LETTER"})
	}
	third := k.fresh("beside two dead letters", policy)
	if n, err := k.s.ReviveDead(k.ctx(), job.Filter{}); n != 2 || err != nil {
		k.t.Errorf("revived %d, %v", n, err)
	}
	k.stands(k.read(third.ID), job.Available)
}

func uniqueBad(k *kit) {
	for _, tt := range []struct{ field, policy string }{
		{"unique.keys", `{"keys":["colour"]}`}, {"unique.keys", `{"keys":["args","args"]}`}, {"unique.meta_keys", `{"keys":["meta"]}`},
		{"unique.meta_keys", `{"keys":["meta"],"meta_keys":null}`}, {"unique.meta_keys", `{"keys":["meta"],"meta_keys":[]}`},
		{"unique.meta_keys", `{"keys":["type","queue","args","meta"],"args_keys":null}`}, {"unique.keys", `{"keys":["Queue"]}`},
		{"unique.args_keys", `{"keys":["args"],"args_keys":["none"]}`}, {"unique.period", `{"period":"soon"}`}, {"unique.period", `{"period":"PT0S"}`},
		{"unique.states", `{"states":[]}`}, {"unique.states", `{"states":["running"]}`}, {"unique.on_conflict", `{"on_conflict":"merge"}`},
		{"unique.mystery", `{"mystery":1}`}, {"unique.key", `{"key":1}`}, {"unique", `[]`},
		{"unique.args_keys", `{"args_keys":["user_id"],"on_conflict":"ignore"}`}, {"unique.meta_keys", `{"keys":["args"],"meta_keys":["tenant"],"on_conflict":"ignore"}`},
	} {
		_, err := k.s.Enqueue(k.ctx(), envelope(unique(tt.policy)))
		if e := k.is(tt.policy, err, job.Invalid); e.Details["field"] != tt.field || !strings.Contains(e.Message, tt.field) {
			k.t.Errorf("%s: details %v, %s; want %s", tt.policy, e.Details, e.Message, tt.field)
		}
	}
	k.empty()
}
