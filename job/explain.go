package job

import (
	"encoding/json"
	"slices"
	"time"
)

// Explanation says what a unique policy makes of an envelope.
type Explanation struct {
	Policy      UniquePolicy
	Canonical   json.RawMessage // what the fingerprint is the hash of (§4.1)
	Fingerprint string
	Existing    *Job      // the job that a PUSH would meet now, of several the newest; nil: none, it would be stored
	Frees       time.Time // when Existing stops counting by the policy's period; zero: when it leaves the policy's states
	Answer      string    // what a PUSH would come to by the unique policy alone, before middleware: created, rejected, ignored, replaced or rewritten
}

// Explain says what an envelope would meet at now among its twins. Invalid when
// it has no unique policy.
func (c *Checked) Explain(now time.Time, twins []*Job) (Explanation, error) {
	if c.UniqueKey() == "" {
		return Explanation{}, invalid(Invalid, "unique", "is not given: without a policy a job is never a duplicate")
	}
	p := c.keys.unique
	text, err := p.canonical(&c.e)
	x := Explanation{Policy: p, Canonical: text, Fingerprint: c.keys.fingerprint, Answer: "created"}
	if x.Existing = p.twin(now, twins); x.Existing == nil {
		return x, err
	}
	if p.Period > 0 {
		x.Frees = x.Existing.CreatedAt.Add(p.Period)
	}
	switch {
	case p.OnConflict == UniqueReject:
		x.Answer = "rejected"
	case p.OnConflict == UniqueIgnore:
		x.Answer = "ignored"
	case p.OnConflict == UniqueReplaceExceptSchedule && x.Existing.State == Scheduled:
		x.Answer = "rewritten"
	case slices.ContainsFunc(twins, func(t *Job) bool { return !t.State.Terminal() && p.matches(now, t) }):
		x.Answer = "replaced"
	}
	return x, err
}

// HeldKey is a unique key and the job that holds it, as a list shows them.
type HeldKey struct {
	Key   string // the fingerprint
	JobID ID
	Type  string
	Queue string
	State State
	Since time.Time // when the job was created
	Until time.Time // the end of the job's own period; zero: it has none
}

// HeldKeys is one page of the keys that are held.
type HeldKeys struct {
	Keys    []HeldKey
	Total   int64
	AtLeast bool   // as of a [Page]
	Next    string // empty on the last page
}

// HeldKey is what a list shows of a job that Holds its key.
func (j *Job) HeldKey() HeldKey {
	c := HeldKey{Key: j.Fingerprint, JobID: j.ID, Type: j.Type, Queue: j.Queue, State: j.State, Since: j.CreatedAt}
	if p := j.policyOfKey(); p.Period > 0 {
		c.Until = j.CreatedAt.Add(p.Period)
	}
	return c
}

// HeldDedup is what a list shows of a job that holds a deduplication key.
func (j *Job) HeldDedup() HeldKey {
	id, until := j.DedupKey()
	return HeldKey{Key: id, JobID: j.ID, Type: j.Type, Queue: j.Queue, State: j.State, Since: j.CreatedAt, Until: until}
}
