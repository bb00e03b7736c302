package servicetest

import (
	"github.com/outrider-jobs/outrider/job"
)

func uniqueSameID(k *kit) {
	policy := both(unique(`{"on_conflict":"replace"}`), func(e *job.Envelope) { e.ID = "01970000-0000-7000-8000-00000000beef" })
	twin := k.push(policy)
	err := k.untouched("the same id again", twin, func() error {
		k.met("the same id again", job.SameID, twin.ID, policy)
		return nil
	})
	if err != nil {
		k.t.Error(err)
	}
	rs, err := k.s.Enqueue(k.ctx(), envelope(policy), envelope(both(unique(`{"on_conflict":"ignore"}`), args(`[2]`))))
	if err != nil || len(rs) != 2 || rs[0].Verdict != job.SameID || rs[1].Verdict != job.Ignored || rs[1].ID != twin.ID {
		k.t.Errorf("in a batch: %+v, %v", rs, err)
	}
}

func uniqueRewrittenID(k *kit) {
	policy := both(unique(`{"on_conflict":"replace_except_schedule"}`), later)
	first := both(policy, func(e *job.Envelope) { e.ID = "01970000-0000-7000-8000-00000000beef" })
	twin := k.push(first)
	k.met("newer args", job.Rewritten, twin.ID, both(policy, args(`[2]`)))
	r := k.met("the first again, as after a lost answer", job.SameID, twin.ID, first)
	k.shows(r.Job, "args", `[2]`)
	other := both(first, func(e *job.Envelope) { e.Type = "email.other" })
	_, err := k.enqueue(other)
	k.is("the same id with another type", err, job.Duplicate)
}

// Two policies may choose other members and come to one key. What is overwritten
// would have another by its own policy, and must not lose its place for that.
func uniqueRewrittenKey(k *kit) {
	wide := both(unique(`{"key":["a","b"]}`), later, args(`[{"a":1}]`))
	narrow := both(unique(`{"key":["a"],"on_conflict":"replace_except_schedule"}`), args(`[{"a":1,"b":2}]`))
	twin := k.push(wide)
	k.met("other members, the same key", job.Rewritten, twin.ID, narrow)
	k.met("and again", job.Rewritten, twin.ID, narrow)
	k.rejects("the first policy and args", twin, wide)
	if c := k.claims(job.Filter{}); c.Total != 1 || c.Keys[0].Key != k.key(wide) {
		k.t.Errorf("held are %+v, want %s", c, k.key(wide))
	}
	k.fresh("what its own policy would make of its args now", both(wide, args(`[{"a":1,"b":2}]`)))
}

func uniqueRewrittenAt(k *kit) {
	policy := unique(`{"on_conflict":"replace_except_schedule"}`)
	twin := k.push(both(policy, later))
	k.shows(twin, "rewritten_at", "")
	r := k.met("a scheduled twin", job.Rewritten, twin.ID, both(policy, args(`[2]`)))
	if r.RewrittenAt.Before(twin.CreatedAt) {
		k.t.Errorf("rewritten at %s, created at %s", r.RewrittenAt, twin.CreatedAt)
	}
	k.shows(r.Job, "rewritten_at", `"`+job.FormatTime(r.RewrittenAt)+`"`)
	k.tells(twin.ID, fact{"job.scheduled", nil}, fact{"job.updated", map[string]string{"fields": `["args","meta"]`, "reason": `"replace_except_schedule"`}})
	if es := k.events(twin.ID); !es[len(es)-1].Time.Equal(r.RewrittenAt) {
		k.t.Errorf("told at %s, rewritten at %s", es[len(es)-1].Time, r.RewrittenAt)
	}
}

func uniqueBatchAnswers(k *kit) {
	replace, rewrite := unique(`{"on_conflict":"replace"}`), unique(`{"on_conflict":"replace_except_schedule"}`)
	ignore, key := unique(`{"on_conflict":"ignore"}`), dedup(`{"id":"d","replace":true}`)
	stored := k.push(both(key, later))
	rs, err := k.s.Enqueue(k.ctx(), envelope(replace), envelope(ignore), envelope(both(replace, later)), envelope(ignore),
		envelope(both(rewrite, args(`[2]`))), envelope(both(rewrite, args(`[3]`))), envelope(dedup(`{"id":"d"}`)), envelope(key))
	if err != nil || len(rs) != 8 {
		k.t.Fatalf("%d receipts, %v", len(rs), err)
	}
	for i, as := range []int{0, 0, 2, 2, 2, 2, 6, 7} {
		if rs[i].ID != rs[as].ID {
			k.t.Errorf("element %d is answered by %s, want %s", i, rs[i].ID, rs[as].ID)
		}
		if got, want := text(rs[i].Job), text(k.read(rs[i].ID)); got != want {
			k.t.Errorf("element %d:\n got %s\nwant %s", i, got, want)
		}
	}
	if rs[6].ID != stored.ID || rs[7].Replaced != stored.ID {
		k.t.Errorf("%s answers, %s is replaced; want %s", rs[6].ID, rs[7].Replaced, stored.ID)
	}
	k.stands(rs[0].Job, job.Cancelled)
	k.shows(rs[2].Job, "args", `[3]`)
	k.stands(rs[6].Job, job.Cancelled)
}
