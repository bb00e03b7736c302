package sidecar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// The model of the keys knows no index and no key that is held: each decision
// looks at all jobs, in the words of contract §4.10 and §4.11.

// policyPlan is a unique policy.
type policyPlan struct {
	dims     []string // besides the type
	argsKeys []string // nil: all of args
	states   []job.State
	period   time.Duration
	conflict string
}

type dedupPlan struct {
	id              string
	ttl             time.Duration
	extend, replace bool
}

// keyedPlan is what a job is pushed with.
type keyedPlan struct {
	planJob
	typ    string
	a, b   int // within args
	m      int // within meta; 0: no meta
	odd    bool
	unique *policyPlan
	dedup  *dedupPlan
	custom string
}

// args is spelled in two ways that mean the same.
func (p keyedPlan) args() string {
	if p.odd {
		return fmt.Sprintf(`[ {"b":%d.0, "a":%de0} ]`, p.b, p.a)
	}
	return fmt.Sprintf(`[{"a":%d,"b":%d}]`, p.a, p.b)
}

func (p keyedPlan) meta() string {
	if p.m == 0 {
		return ""
	}
	return fmt.Sprintf(`{"trace":"%v","m":%d}`, p.odd, p.m)
}

func (p keyedPlan) envelope() job.Envelope {
	e := job.Envelope{Type: p.typ, Queue: p.queue, Args: json.RawMessage(p.args()), Delay: p.delay, TTL: p.ttl, Hold: p.hold, CustomID: p.custom}
	if p.m != 0 {
		e.Meta = json.RawMessage(p.meta())
	}
	if p.plan.own {
		e.Retry = json.RawMessage(p.plan.asPolicy)
	}
	if u := p.unique; u != nil {
		m := map[string]any{}
		if len(u.dims) > 0 {
			m["keys"] = u.dims
		}
		if u.argsKeys != nil {
			m["args_keys"] = u.argsKeys
		}
		if slices.Contains(u.dims, "meta") {
			m["meta_keys"] = []string{"m"}
		}
		if u.period > 0 {
			m["period"] = fmt.Sprintf("PT%dS", int(u.period.Seconds()))
		}
		if u.states != nil {
			m["states"] = u.states
		}
		if u.conflict != "" {
			m["on_conflict"] = u.conflict
		}
		e.Unique, _ = json.Marshal(m)
	}
	if d := p.dedup; d != nil {
		m := map[string]any{"id": d.id}
		if d.ttl > 0 {
			m["ttl"] = d.ttl.Seconds()
		}
		if d.extend {
			m["extend"] = true
		}
		if d.replace {
			m["replace"] = true
		}
		e.Deduplication, _ = json.Marshal(m)
	}
	return e
}

// fingerprint is contract §4.10, over a text that is written here in its canonical form.
func (p keyedPlan) fingerprint() string {
	if p.unique == nil {
		return ""
	}
	var members []string
	has := func(dim string) bool { return slices.Contains(p.unique.dims, dim) }
	values := map[string]int{"a": p.a, "b": p.b}
	switch {
	case has("args") && p.unique.argsKeys != nil:
		var named []string
		for _, k := range slices.Sorted(slices.Values(p.unique.argsKeys)) {
			named = append(named, fmt.Sprintf("%q:%d", k, values[k]))
		}
		members = append(members, `"args":{`+strings.Join(named, ",")+`}`)
	case has("args"):
		members = append(members, fmt.Sprintf(`"args":[{"a":%d,"b":%d}]`, p.a, p.b))
	}
	if has("meta") {
		if p.m == 0 {
			members = append(members, `"meta":{}`)
		} else {
			members = append(members, fmt.Sprintf(`"meta":{"m":%d}`, p.m))
		}
	}
	if has("queue") {
		members = append(members, fmt.Sprintf(`"queue":%q`, p.queue))
	}
	members = append(members, fmt.Sprintf(`"type":%q`, p.typ))
	sum := sha256.Sum256([]byte("{" + strings.Join(members, ",") + "}"))
	return hex.EncodeToString(sum[:])
}

// counts reports whether the states of the policy hold a state.
func (u *policyPlan) counts(s job.State) bool {
	if u.states == nil {
		return !s.Terminal()
	}
	return slices.Contains(u.states, s)
}

// keyedJob is a job of the model.
type keyedJob struct {
	*modelJob
	plan           keyedPlan
	args, meta     string
	fingerprint    string
	created, ended time.Time
	until          time.Time // of its deduplication window; zero: it has none
	freed          bool      // somebody has taken its deduplication key off it
}

// keeps reports whether a job holds its deduplication key (contract §4.11).
func (j *keyedJob) keeps(now time.Time) bool {
	switch {
	case j.deleted || j.plan.dedup == nil || j.freed || j.state == job.Cancelled:
		return false
	case j.until.IsZero():
		return !j.state.Terminal()
	}
	return now.Before(j.until)
}

// window is how long a finished job must stay although its retention is over (contract §4.21).
func (j *keyedJob) window(now time.Time) (until time.Time) {
	until = j.counts()
	if j.keeps(now) && j.until.After(until) {
		until = j.until
	}
	return until
}

// counts is how long a finished job may be met as a twin.
func (j *keyedJob) counts() time.Time {
	u := j.plan.unique
	switch {
	case j.fingerprint == "" || !u.counts(job.Completed) && !u.counts(job.Cancelled) && !u.counts(job.Discarded):
		return time.Time{}
	case u.period == 0:
		return job.Forever
	}
	return j.created.Add(max(u.period, 30*day))
}

// outlived reports whether a newer twin decides wherever a finished job would.
func (x *uniqueMachine) outlived(j *keyedJob, stored map[job.ID]*job.Job) bool {
	if j.keeps(x.now) || j.fingerprint == "" {
		return false
	}
	newer := x.keyed[slices.Index(x.keyed, j)+1:]
	return slices.ContainsFunc(newer, func(k *keyedJob) bool {
		s := stored[k.id]
		return s != nil && !s.Dead && k.fingerprint == j.fingerprint && k.state == j.state && !k.counts().Before(j.counts())
	})
}

// answer is what becomes of a job that is pushed.
type answer struct {
	verdict  job.Verdict
	by       *keyedJob
	replaced job.ID            // as the receipt says
	all      []job.ID          // all that gave way
	stopped  map[job.ID]string // who was cancelled, and why
	refused  map[string]any    // the details of the Duplicate
}

// uniqueMachine is a machine that pushes jobs with keys.
type uniqueMachine struct {
	machine
	keep   Retention
	dims   []string    // of most policies
	keyed  []*keyedJob // one for each of m.jobs
	serial int         // of the ids that were given
	told   []string    // the events that the decisions of one call come to
	heard  int64       // Seq of the last of them that was looked at
}

func serialID(n int) job.ID { return job.ID(fmt.Sprintf("0197f6a0-0000-7000-8000-%012x", n)) }

// plainStore can do what every store can, and nothing that is optional.
type plainStore struct{ job.Store }

func (s plainStore) Update(ctx context.Context, fn func(job.Tx) error) error {
	return s.Store.Update(ctx, func(tx job.Tx) error {
		return fn(struct {
			job.WorkTx
			job.JobWriter
		}{tx, tx})
	})
}

// Whatever was pushed with whatever keys, and whatever became of it: each new
// job is decided as a look at all jobs decides it.
func TestKeysFollowTheModel(t *testing.T) {
	chooseSequences(t, 400, 15)
	playSequences(t, func(_ *testing.T, r *rapid.T, store *sqlitestore.Store) {
		x := &uniqueMachine{machine: machine{now: genesis, bound: job.DefaultReleases}}
		x.keep = rapid.SampledFrom([]Retention{{}, {}, {Completed: 2 * time.Second, Cancelled: time.Second, Discarded: 3 * time.Second, Dead: 4 * time.Second},
			{Completed: -1, Cancelled: -1, Discarded: -1, Dead: -1}, {Completed: 20 * time.Second, Cancelled: -1, Discarded: time.Second, Dead: 2 * day}}).Draw(r, "retention")
		x.dims = rapid.SampledFrom(dimLists).Draw(r, "most dims")
		x.Sidecar = New(rapid.SampledFrom([]job.Store{store, store, plainStore{store}}).Draw(r, "store"), Options{Log: x.logErrors(), Now: func() time.Time { return x.now }, Rand: func() float64 { return 0.5 }, Retention: x.keep,
			NewID: func() job.ID { x.serial++; return serialID(x.serial) }})
		x.keep, x.m.standard = x.o.Retention, x.o.Timeout // with the defaults
		r.Repeat(map[string]func(*rapid.T){
			"": x.check, "push": x.push, "push one more": x.push, "push another": x.push, "send again": x.sendAgain, "explain": x.explain,
			"fetch": x.fetch, "ack": x.ack, "fail": x.failJob, "requeue": x.requeue, "beat": x.beat, "cancel": x.cancel, "activate": x.activate,
			"revive": x.revive, "retry": x.retry, "delete": x.remove, "release key": x.releaseKey, "release dedup": x.releaseDedup,
			"time": x.pass, "fetch again": x.fetch, "more time": x.pass,
		})
		storetest.Audit(r, store)
	})
}

var (
	dimLists  = [][]string{nil, {"type"}, {"args"}, {"args", "type"}, {"queue"}, {"args", "queue"}, {"meta"}, {"type", "queue", "args", "meta"}}
	argLists  = [][]string{nil, nil, {"a"}, {"b", "a"}}
	stateSets = [][]job.State{nil, nil, nil, job.States, {job.Available}, {job.Active}, {job.Retryable}, {job.Pending}, {job.Completed}, {job.Scheduled, job.Available},
		{job.Cancelled, job.Discarded}, {job.Available, job.Active, job.Completed}, {job.Available, job.Scheduled, job.Retryable, job.Discarded}}
	periods   = []time.Duration{0, 0, time.Second, 10 * time.Second, 40 * day}
	conflicts = []string{"", "reject", "ignore", "replace", "replace", "replace_except_schedule", "replace_except_schedule"}
	dedupIDs  = []string{"d1", "d:2"}
)

// drawPolicy mostly takes the dimensions that this sequence began with, so that jobs meet.
func (x *uniqueMachine) drawPolicy(r *rapid.T) *policyPlan {
	dims := x.dims
	if rapid.IntRange(0, 4).Draw(r, "other dims") == 4 {
		dims = rapid.SampledFrom(dimLists).Draw(r, "dims")
	}
	u := &policyPlan{
		dims:     dims,
		states:   rapid.SampledFrom(stateSets).Draw(r, "states"),
		period:   rapid.SampledFrom(periods).Draw(r, "period"),
		conflict: rapid.SampledFrom(conflicts).Draw(r, "on_conflict"),
	}
	if slices.Contains(u.dims, "args") {
		u.argsKeys = rapid.SampledFrom(argLists).Draw(r, "args_keys")
	}
	return u
}

func (x *uniqueMachine) drawKeyed(r *rapid.T) keyedPlan {
	p := keyedPlan{
		planJob: planJob{
			queue: rapid.SampledFrom([]string{"a", "a", "a", "a", "b"}).Draw(r, "queue"),
			delay: rapid.SampledFrom([]time.Duration{0, 0, time.Second, 5 * time.Second, 40 * time.Second}).Draw(r, "delay"),
			ttl:   rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 0, 20 * time.Second}).Draw(r, "ttl"),
			hold:  rapid.IntRange(0, 7).Draw(r, "hold") == 7,
			plan:  rapid.SampledFrom(plans).Draw(r, "plan"),
		},
		typ: rapid.SampledFrom([]string{"a.b", "a.b", "a.b", "c.d"}).Draw(r, "type"),
		a:   rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(r, "a"), b: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(r, "b"), m: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(r, "m"),
		odd: rapid.Bool().Draw(r, "odd"),
	}
	if rapid.IntRange(0, 4).Draw(r, "unique") > 0 {
		p.unique = x.drawPolicy(r)
	}
	if rapid.IntRange(0, 2).Draw(r, "dedup") == 2 {
		p.dedup = &dedupPlan{id: rapid.SampledFrom(dedupIDs).Draw(r, "dedup id"), extend: rapid.Bool().Draw(r, "extend"), replace: rapid.Bool().Draw(r, "replace"),
			ttl: rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second, 90 * time.Second}).Draw(r, "dedup ttl")}
	}
	if rapid.IntRange(0, 11).Draw(r, "custom") == 11 {
		p.custom = rapid.SampledFrom([]string{"c1", "c2"}).Draw(r, "custom id")
	}
	return p
}

// owner is who holds a deduplication key: of several, the newest.
func (x *uniqueMachine) owner(queue, id string) (owner *keyedJob) {
	for _, j := range x.keyed {
		if j.queue == queue && j.keeps(x.now) && j.plan.dedup.id == id {
			owner = j // they are in the order of their creation
		}
	}
	return owner
}

// meets is the newest job that p meets under its policy, other than the one that is evicted.
func (x *uniqueMachine) meets(p keyedPlan, evicted *keyedJob) (met *keyedJob) {
	for _, j := range x.allMet(p) {
		if j != evicted {
			met = j
		}
	}
	return met
}

// allMet are the jobs that p meets under its policy, the oldest first.
func (x *uniqueMachine) allMet(p keyedPlan) (met []*keyedJob) {
	for _, j := range x.keyed {
		if p.unique != nil && !j.deleted && j.fingerprint == p.fingerprint() && p.unique.counts(j.state) &&
			(p.unique.period == 0 || j.created.Add(p.unique.period).After(x.now)) {
			met = append(met, j)
		}
	}
	return met
}

// oust ends all that p meets and that has not ended, but the spared one.
func (x *uniqueMachine) oust(p keyedPlan, spared *keyedJob, a *answer) {
	for _, j := range x.allMet(p) { // the newest comes last
		if j == spared || j.state.Terminal() {
			continue
		}
		j.end(job.Cancelled)
		a.replaced, a.stopped[j.id] = j.id, "replaced"
		a.all = append(a.all, j.id)
	}
}

// admit decides about one job, and does to the model what the decision is.
func (x *uniqueMachine) admit(p keyedPlan, id job.ID) answer {
	for _, j := range x.keyed {
		if p.custom != "" && !j.deleted && j.queue == p.queue && j.plan.custom == p.custom {
			x.tell("job.duplicated", j.id)
			return answer{verdict: job.SameCustomID, by: j}
		}
	}
	var owner *keyedJob
	if p.dedup != nil {
		owner = x.owner(p.queue, p.dedup.id)
	}
	if owner != nil && !(p.dedup.replace && owner.state == job.Scheduled) {
		if p.dedup.extend && p.dedup.ttl > 0 && !owner.until.IsZero() {
			owner.until = x.now.Add(p.dedup.ttl)
		}
		x.tell("job.debounced", owner.id, p.dedup.id)
		x.tell("job.deduplicated", owner.id, p.dedup.id, string(id))
		return answer{verdict: job.Deduplicated, by: owner}
	}
	a := answer{stopped: map[job.ID]string{}}
	if met := x.meets(p, owner); met != nil {
		switch {
		case p.unique.conflict == "" || p.unique.conflict == "reject":
			return answer{refused: map[string]any{"existing_job_id": string(met.id), "existing_job_state": string(met.state),
				"uniqueness_key": p.fingerprint(), "unique_key": p.fingerprint()}}
		case p.unique.conflict == "ignore":
			return answer{verdict: job.Ignored, by: met}
		case p.unique.conflict == "replace_except_schedule" && met.state == job.Scheduled:
			met.args, met.meta = p.args(), p.meta()
			a.verdict, a.by = job.Rewritten, met
			x.oust(p, met, &a)
			return a
		}
		x.oust(p, owner, &a) // which gives way as the owner that it is
	}
	a.by = &keyedJob{modelJob: x.m.push(p.planJob, x.now), plan: p, args: p.args(), meta: p.meta(), fingerprint: p.fingerprint(), created: x.now}
	a.by.id = id
	if p.dedup != nil && p.dedup.ttl > 0 {
		a.by.until = x.now.Add(p.dedup.ttl)
	}
	if owner != nil {
		owner.end(job.Cancelled)
		if a.stopped[owner.id] = "debounced"; a.replaced == "" {
			a.replaced = owner.id
		}
		a.all = append(a.all, owner.id)
		if p.dedup.ttl > 0 && !p.dedup.extend && !owner.until.IsZero() {
			a.by.until = owner.until
		}
		x.tell("job.debounced", id, p.dedup.id)
		x.tell("job.deduplicated", id, p.dedup.id, string(owner.id))
	}
	x.keyed = append(x.keyed, a.by)
	return a
}

func (x *uniqueMachine) tell(kind string, id job.ID, more ...string) {
	x.told = append(x.told, strings.Join(append([]string{kind, string(id)}, more...), " "))
}

// undoer remembers the model, and gives back what brings it there again.
func (x *uniqueMachine) undoer() (undo func()) {
	states, keys, rank := make([]modelJob, len(x.m.jobs)), make([]keyedJob, len(x.keyed)), x.m.rank
	for i, j := range x.keyed {
		states[i], keys[i] = *x.m.jobs[i], *j
	}
	return func() {
		x.m.jobs, x.keyed, x.m.rank, x.told = x.m.jobs[:len(states)], x.keyed[:len(keys)], rank, nil
		for i := range states {
			*x.m.jobs[i], *x.keyed[i] = states[i], keys[i]
		}
	}
}

// push stores one job, or some at once: all or none, the earlier ones count for the later ones.
func (x *uniqueMachine) push(r *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(r, "calls") {
		x.pushOnce(r)
	}
}

func (x *uniqueMachine) pushOnce(r *rapid.T) {
	n := rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(r, "jobs")
	undo := x.undoer()
	var es []job.Envelope
	var answers []answer
	var refused map[string]any
	for i := range n {
		p := x.drawKeyed(r)
		es = append(es, p.envelope())
		if refused != nil {
			continue
		}
		a := x.admit(p, serialID(x.serial+1+i))
		if answers = append(answers, a); a.refused != nil {
			if refused = a.refused; n > 1 {
				refused["index"] = i
			}
			undo()
		}
	}
	rs, err := x.Enqueue(context.Background(), es...)
	if refused != nil {
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Duplicate || !maps.Equal(e.Details, refused) {
			r.Fatalf("pushed %q: %#v, want a Duplicate with %v", describeAll(es...), err, refused)
		}
	} else if err != nil || len(rs) != n {
		r.Fatalf("pushed %q: %d receipts, %v", describeAll(es...), len(rs), err)
	}
	for i, got := range rs {
		want := answers[i]
		if got.Verdict != want.verdict || got.Existing != (want.verdict != job.Created) || got.ID != want.by.id || got.Replaced != want.replaced {
			r.Fatalf("pushed %s at %s: %q by %s, replaced %q; want %q by %s, replaced %q", describeAll(es[i]), x.now, got.Verdict, got.ID, got.Replaced,
				want.verdict, want.by.id, want.replaced)
		}
		all, wantAll := slices.Sorted(slices.Values(got.AllReplaced)), slices.Sorted(slices.Values(want.all))
		if len(wantAll) == 1 {
			wantAll = nil // Replaced says it
		}
		if !slices.Equal(all, wantAll) {
			r.Fatalf("pushed %s at %s: %v gave way, want %v", describeAll(es[i]), x.now, all, wantAll)
		}
		stored, err := x.Job(context.Background(), got.ID)
		if err != nil || string(got.AppendJSON(nil, job.View{})) != string(stored.AppendJSON(nil, job.View{})) {
			r.Fatalf("pushed %q: receipt %d has\n%+v\nstored is\n%+v, %v", describeAll(es...), i, got.Job, stored, err)
		}
		for id, reason := range want.stopped {
			x.wasStopped(r, id, reason)
		}
	}
	x.hear(r)
}

func describeAll(es ...job.Envelope) (all []string) {
	for _, e := range es {
		all = append(all, fmt.Sprintf("%s in %s, args %s, unique %s, dedup %s, delay %s", e.Type, e.Queue, e.Args, e.Unique, e.Deduplication, e.Delay))
	}
	return all
}

// wasStopped looks for the event that says why a job was cancelled.
func (x *uniqueMachine) wasStopped(r *rapid.T, id job.ID, reason string) {
	es, err := x.History(context.Background(), id)
	if err != nil {
		r.Fatal(err)
	}
	i := slices.IndexFunc(es, func(e job.Event) bool { return e.Type == "job.cancelled" })
	if i < 0 || !strings.Contains(string(es[i].Data), `"reason":"`+reason+`"`) {
		r.Fatalf("%s was to be cancelled as %s: %+v", id, reason, es)
	}
}

// hear compares the events about keys with those that the model expects.
func (x *uniqueMachine) hear(r *rapid.T) {
	es, err := x.Events(context.Background(), job.EventFilter{Types: []string{"job.debounced", "job.deduplicated", "job.duplicated"}, After: x.heard, Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	var got []string
	for _, e := range es {
		var data struct {
			Debounce string `json:"debounce_id"`
			Dedup    string `json:"deduplication_id"`
			Other    string `json:"deduplicated_job_id"`
		}
		if len(e.Data) > 0 {
			if err := json.Unmarshal(e.Data, &data); err != nil {
				r.Fatal(err)
			}
		}
		got = append(got, strings.Join(strings.Fields(strings.Join([]string{e.Type, string(e.JobID), data.Debounce, data.Dedup, data.Other}, " ")), " "))
		x.heard = e.Seq
	}
	if !slices.Equal(got, x.told) {
		r.Fatalf("told %q\nwant %q", got, x.told)
	}
	x.told = nil
}

// anyKeyed draws a job that is stored.
func (x *uniqueMachine) anyKeyed(r *rapid.T, fit func(*keyedJob) bool) *keyedJob {
	in := slices.DeleteFunc(slices.Clone(x.keyed), func(j *keyedJob) bool { return j.deleted || !fit(j) })
	if len(in) == 0 {
		r.Skip("there is no such job")
	}
	return rapid.SampledFrom(in).Draw(r, "stored job")
}

// sendAgain is a producer that did not hear the answer: he must meet his own
// job, also where another has given it other args since.
func (x *uniqueMachine) sendAgain(r *rapid.T) {
	rewritten := rapid.Bool().Draw(r, "rewritten")
	j := x.anyKeyed(r, func(j *keyedJob) bool { return !rewritten || j.args != j.plan.args() || j.meta != j.plan.meta() })
	e := j.plan.envelope()
	e.ID = j.id
	rs, err := x.Enqueue(context.Background(), e)
	if err != nil || rs[0].Verdict != job.SameID || !rs[0].Existing || rs[0].ID != j.id || rs[0].Replaced != "" {
		r.Fatalf("sent %s again, which is %s: %+v, %v", j.id, j.state, rs, err)
	}
	x.hear(r)
}

func (x *uniqueMachine) explain(r *rapid.T) {
	p := x.drawKeyed(r)
	if p.unique == nil {
		p.unique = x.drawPolicy(r)
	}
	c, err := p.envelope().Check()
	if err != nil {
		r.Fatal(err)
	}
	got, err := x.Explain(context.Background(), c)
	if err != nil {
		r.Fatal(err)
	}
	want, id, frees := "created", job.ID(""), time.Time{}
	if met := x.meets(p, nil); met != nil {
		if id = met.id; p.unique.period > 0 {
			frees = met.created.Add(p.unique.period)
		}
		switch {
		case p.unique.conflict == "ignore":
			want = "ignored"
		case p.unique.conflict == "" || p.unique.conflict == "reject":
			want = "rejected"
		case p.unique.conflict == "replace_except_schedule" && met.state == job.Scheduled:
			want = "rewritten"
		case slices.ContainsFunc(x.allMet(p), func(j *keyedJob) bool { return !j.state.Terminal() }):
			want = "replaced"
		}
	}
	var met job.ID
	if got.Existing != nil {
		met = got.Existing.ID
	}
	if got.Answer != want || met != id || !got.Frees.Equal(frees) || got.Fingerprint != p.fingerprint() {
		r.Fatalf("explained %s as %+v, met %q; want %q, %q until %s", describeAll(p.envelope()), got, met, want, id, frees)
	}
}

func (x *uniqueMachine) releaseKey(r *rapid.T) {
	key := x.anyKeyed(r, func(j *keyedJob) bool { return j.fingerprint != "" }).fingerprint
	want := 0
	for _, j := range x.keyed {
		if !j.deleted && j.fingerprint == key {
			j.fingerprint = ""
			want++
		}
	}
	if n, err := x.ReleaseKey(context.Background(), key); n != want || err != nil {
		r.Fatalf("released %s of %d jobs, %v; want %d", key, n, err, want)
	}
}

// releaseDedup frees a key: whoever holds it, nobody does then.
func (x *uniqueMachine) releaseDedup(r *rapid.T) {
	queue, id := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "queue"), rapid.SampledFrom(dedupIDs).Draw(r, "dedup id")
	want := x.owner(queue, id) != nil
	for o := x.owner(queue, id); o != nil; o = x.owner(queue, id) {
		o.freed = true
	}
	if got, err := x.ReleaseDedup(context.Background(), queue, id); got != want || err != nil {
		r.Fatalf("released %s in %s: %v, %v; want %v", id, queue, got, err, want)
	}
}

// revive also forgets when the job had ended: it may end again before anybody looks.
func (x *uniqueMachine) revive(r *rapid.T) {
	x.machine.revive(r)
	x.forgetEnds()
}

func (x *uniqueMachine) retry(r *rapid.T) {
	x.machine.retry(r)
	x.forgetEnds()
}

func (x *uniqueMachine) forgetEnds() {
	for _, j := range x.keyed {
		if !j.state.Terminal() {
			j.ended = time.Time{}
		}
	}
}

func (x *uniqueMachine) pass(r *rapid.T) {
	target := x.now.Add(rapid.SampledFrom([]time.Duration{tick, 999 * tick, time.Second, time.Second, 3 * time.Second, 10 * time.Second, 70 * time.Second, 31 * day}).Draw(r, "time"))
	x.passUntil(target, func() { x.check(r) })
}

func (x *uniqueMachine) check(r *rapid.T) {
	x.settle(r)
	page, err := x.Jobs(context.Background(), job.Filter{Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	stored := map[job.ID]*job.Job{}
	for _, s := range page.Jobs {
		stored[s.ID] = s
		if s.State == job.Scheduled && !s.ScheduledAt.After(x.now) || s.State == job.Retryable && !s.NextRetryAt.After(x.now) {
			r.Fatalf("at %s job %s is left behind: %s", x.now, s.ID, s.AppendJSON(nil, job.View{}))
		}
	}
	x.pruned(r, stored)
	x.compare(r)
	x.compareKeys(r, stored)
}

// retention is how long a job stays that has ended (contract §4.21).
func (x *uniqueMachine) retention(j *keyedJob) time.Duration {
	switch {
	case j.dead:
		return max(0, x.keep.Dead)
	case j.state == job.Completed:
		return max(0, x.keep.Completed)
	case j.state == job.Cancelled:
		return max(0, x.keep.Cancelled)
	}
	return max(0, x.keep.Discarded)
}

// pruned learns which jobs are gone, and makes sure that they could be spared.
func (x *uniqueMachine) pruned(r *rapid.T, stored map[job.ID]*job.Job) {
	for _, j := range x.keyed {
		if !j.state.Terminal() {
			j.ended = time.Time{}
		} else if j.ended.IsZero() {
			j.ended = x.now
		}
		if j.deleted {
			continue
		}
		over := j.state.Terminal() && !x.now.Before(j.ended.Add(x.retention(j)))
		open := j.window(x.now).After(x.now)
		switch s := stored[j.id]; {
		case s == nil && over && (!open || x.outlived(j, stored)):
			j.deleted, j.dead = true, false
		case s == nil:
			r.Fatalf("at %s job %s is gone, which is %s since %s and has a window until %s", x.now, j.id, j.state, j.ended, j.window(x.now))
		case j.dead && !s.Dead && over:
			j.dead = false // a window still needs it, or may have, and the list does not
		case j.dead && !s.Dead:
			r.Fatalf("at %s job %s is no dead letter any more, since %s, with a window until %s", x.now, j.id, j.ended, j.window(x.now))
		case over && !open && x.retention(j) < time.Hour:
			r.Fatalf("at %s job %s is still there, which is %s since %s, with a window until %s", x.now, j.id, j.state, j.ended, j.window(x.now))
		}
	}
}

// compareKeys compares all that shows of the keys.
func (x *uniqueMachine) compareKeys(r *rapid.T, stored map[job.ID]*job.Job) {
	holders, claims := map[string]job.ID{}, map[string]job.ID{} // the newest that has not ended, else the holder
	for _, j := range x.keyed {
		if j.fingerprint != "" && !j.deleted && !j.state.Terminal() {
			claims[j.fingerprint] = j.id
		}
	}
	for _, j := range x.keyed {
		s := stored[j.id]
		if s == nil {
			continue
		}
		if string(s.Args) != j.args || string(s.Meta) != j.meta || s.Fingerprint != j.fingerprint || s.CustomID != j.plan.custom {
			r.Fatalf("%s has args %s, meta %s, key %s, custom id %q; want %+v", s.ID, s.Args, s.Meta, s.Fingerprint, s.CustomID, *j)
		}
		if s.Holds == 0 {
			continue
		}
		if holders[s.Fingerprint] != "" || !s.Holds.Has(s.State) {
			r.Fatalf("%s, %s, holds %s beside %q", s.ID, s.State, s.Fingerprint, holders[s.Fingerprint])
		}
		if holders[s.Fingerprint] = s.ID; claims[s.Fingerprint] == "" {
			claims[s.Fingerprint] = s.ID
		}
	}
	list, err := x.HeldKeys(context.Background(), job.Filter{Limit: 1000})
	if err != nil || list.Total != int64(len(claims)) || len(list.Keys) != len(claims) {
		r.Fatalf("the keys %+v are listed, %v; want %v", list, err, claims)
	}
	for _, c := range list.Keys {
		if claims[c.Key] != c.JobID {
			r.Fatalf("the key %s is listed with %s, want %s", c.Key, c.JobID, claims[c.Key])
		}
	}
	err = x.store.View(context.Background(), func(tx job.ReadTx) error {
		for _, queue := range []string{"a", "b"} {
			for _, id := range dedupIDs {
				want := x.owner(queue, id)
				got, err := tx.DedupOwner(queue, id, x.now)
				if err != nil || (got == nil) != (want == nil) || got != nil && (got.ID != want.id || !got.DedupUntil.Equal(want.until)) {
					r.Fatalf("at %s %s in %s is held by %+v, %v; want %+v", x.now, id, queue, got, err, want)
				}
			}
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
}
