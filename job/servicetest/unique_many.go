package servicetest

import (
	"encoding/json"
	"slices"

	"github.com/outrider-jobs/outrider/job"
)

// many are jobs with one key that stand side by side, the oldest first: the
// policies under which they were pushed counted none of those before.
func (k *kit) many(places ...string) (jobs []*job.Job) {
	k.t.Helper()
	for _, p := range places {
		aside := unique(`{"states":["discarded"]}`)
		if p == "active" || p == "retryable" || p == "completed" { // of a queue of its own, so that it is the one that is fetched
			k.pauseOthers(p, aside, &jobs)
			continue
		}
		jobs = append(jobs, k.place(p, aside))
	}
	return jobs
}

// pauseOthers brings a job to a state behind a FETCH without touching those that wait already.
func (k *kit) pauseOthers(place string, policy func(*job.Envelope), jobs *[]*job.Job) {
	k.t.Helper()
	queue := "q" + place
	k.push(both(policy, func(e *job.Envelope) { e.Queue = queue }))
	got := k.fetch(job.FetchRequest{Queues: []string{queue}})
	if len(got) != 1 {
		k.t.Fatalf("fetched %d jobs of %s", len(got), queue)
	}
	switch j := got[0]; place {
	case "retryable":
		*jobs = append(*jobs, k.fail(j, job.Failure{Message: "no"}))
	case "completed":
		*jobs = append(*jobs, k.ack(j, ""))
	default:
		*jobs = append(*jobs, j)
	}
}

// gone checks that the jobs were cancelled in favour of the heir, each with its own event.
func (k *kit) gone(what string, heir *job.Job, jobs []*job.Job) {
	k.t.Helper()
	for _, j := range jobs {
		k.stands(k.read(j.ID), job.Cancelled)
		es := k.events(j.ID)
		last := es[len(es)-1]
		if last.Type != "job.cancelled" {
			k.t.Errorf("%s: %s, which was %s, was told %q", what, j.ID, j.State, k.told(j.ID))
			continue
		}
		k.expect(last.Data, "reason", `"replaced"`)
		k.expect(last.Data, "previous_state", `"`+string(j.State)+`"`)
		k.expect(last.Data, "replaced_by", `"`+string(heir.ID)+`"`)
	}
}

// gaveWay compares the ids that a receipt names with the jobs that are gone, the newest of which comes first.
func (k *kit) gaveWay(what string, r job.Receipt, gone []*job.Job) {
	k.t.Helper()
	want := []job.ID{}
	for _, j := range gone {
		want = append(want, j.ID)
	}
	got := slices.Clone(r.AllReplaced)
	slices.Sort(want)
	slices.Sort(got)
	if newest := gone[len(gone)-1].ID; r.Replaced != newest || !slices.Equal(got, want) || r.AllReplaced[0] != newest {
		k.t.Errorf("%s: replaced %s and %v, want %s and %v", what, r.Replaced, r.AllReplaced, newest, want)
	}
}

var crowd = []string{"retryable", "scheduled", "available", "active", "available", "pending", "scheduled", "available"}

func uniqueReplaceAll(k *kit) {
	for _, conflict := range []string{"replace", "replace_except_schedule"} {
		jobs := k.many(append([]string{"completed"}, crowd...)...)
		r, err := k.enqueue(unique(`{"on_conflict":"` + conflict + `"}`))
		if err != nil || r.Existing {
			k.t.Fatalf("%s: %+v, %v", conflict, r, err)
		}
		k.stands(k.read(jobs[0].ID), job.Completed)
		k.gone(conflict, r.Job, jobs[1:])
		k.gaveWay(conflict, r, jobs[1:])
		_, err = k.s.Ack(k.ctx(), claimOf(jobs[4]), nil)
		k.is("the ACK of one that was replaced while it ran", err, job.Conflict)
		k.clear(r.Job)
	}
}

func uniqueRewriteOne(k *kit) {
	crowd := append(slices.Clone(crowd), "scheduled") // the newest that gives way is behind the one that is rewritten
	jobs := k.many(append(slices.Clone(crowd), "completed", "scheduled")...)
	last := jobs[len(jobs)-1]
	r := k.newest(unique(`{"on_conflict":"replace_except_schedule"}`), last, args(`["new"]`))
	k.shows(r.Job, "args", `["new"]`)
	k.stands(k.read(last.ID), job.Scheduled)
	k.gone("rewritten", last, jobs[:len(crowd)])
	k.gaveWay("rewritten", r, jobs[:len(crowd)])
	if told := k.told(last.ID); told[len(told)-1] != "job.updated" {
		k.t.Errorf("what was rewritten was told %q", told)
	}
}

// uniqueRewriteBesideOwner: who holds the deduplication key is not evicted, as no
// job is stored, and gives way as the twin that it is: here as the newest of them.
func uniqueRewriteBesideOwner(k *kit) {
	jobs := k.many("available", "pending", "scheduled")
	owner := k.place("scheduled", both(unique(`{"states":["discarded"]}`), dedup(`{"id":"d"}`)))
	r := k.newest(both(unique(`{"on_conflict":"replace_except_schedule"}`), dedup(`{"id":"d","replace":true}`)), jobs[2], args(`["new"]`))
	gone := []*job.Job{jobs[0], jobs[1], owner}
	k.gone("beside an owner", jobs[2], gone)
	k.gaveWay("beside an owner", r, gone)
}

// newest pushes a job that must be written into the last of many.
func (k *kit) newest(policy func(*job.Envelope), last *job.Job, change func(*job.Envelope)) job.Receipt {
	k.t.Helper()
	r, err := k.enqueue(both(policy, change))
	if err != nil || !r.Existing || r.Verdict != job.Rewritten || r.ID != last.ID {
		k.t.Fatalf("%+v, %v; want %s rewritten", r, err, last.ID)
	}
	return r
}

// uniqueReplaceCounted leaves alone what the policy does not count.
func uniqueReplaceCounted(k *kit) {
	jobs := k.many("scheduled", "available", "active", "available", "pending")
	r, err := k.enqueue(unique(`{"on_conflict":"replace","states":["available","active","completed"]}`))
	if err != nil || r.Existing {
		k.t.Fatalf("%+v, %v", r, err)
	}
	k.gone("counted", r.Job, jobs[1:4])
	k.gaveWay("counted", r, jobs[1:4])
	k.stands(k.read(jobs[0].ID), job.Scheduled)
	k.stands(k.read(jobs[4].ID), job.Pending)
}

// keysOfOlderTwins: who holds a key is listed, explained and released, also
// where a newer job had it and has ended.
func keysOfOlderTwins(k *kit) {
	jobs := k.many("available", "scheduled", "available")
	key := k.key(unique(`{}`))
	for i := len(jobs) - 1; i >= 0; i-- {
		c := k.claims(job.Filter{})
		if c.Total != 1 || len(c.Keys) != 1 || c.Keys[0].Key != key || c.Keys[0].JobID != jobs[i].ID {
			k.t.Errorf("with %d alive the list has %+v, want %s", i+1, c, jobs[i].ID)
		}
		if x := k.explain(unique(`{}`)); x.Existing == nil || x.Existing.ID != jobs[i].ID {
			k.t.Errorf("with %d alive %+v is met, want %s", i+1, x.Existing, jobs[i].ID)
		}
		if i > 0 {
			k.cancel(jobs[i])
		}
	}
	if n, err := k.s.ReleaseKey(k.ctx(), key); n != 3 || err != nil {
		k.t.Errorf("released %d, %v", n, err)
	}
	if c := k.claims(job.Filter{}); c.Total != 0 {
		k.t.Errorf("after the release the list has %+v", c)
	}
	k.fresh("after the release", unique(`{}`))
}

// keysOfFinishedTwins: a finished job that its policy counts is listed again
// when a newer one, of a policy that did not count it, has ended as well.
func keysOfFinishedTwins(k *kit) {
	window := unique(`{"states":["available","active","scheduled","retryable","pending","completed"],"on_conflict":"ignore"}`)
	done := k.push(window)
	k.complete()
	next := k.fresh("a policy that does not count it", unique(`{}`))
	if c := k.claims(job.Filter{}); c.Total != 1 || c.Keys[0].JobID != next.ID {
		k.t.Errorf("beside a job that is alive the list has %+v", c)
	}
	k.cancel(next)
	if c := k.claims(job.Filter{}); c.Total != 1 || c.Keys[0].JobID != done.ID || c.Keys[0].State != job.Completed {
		k.t.Errorf("the list has %+v, want %s", c, done.ID)
	}
	k.met("and it answers", job.Ignored, done.ID, window)
}

// keysOfRevivedJobs: a job that was brought back counts again.
func keysOfRevivedJobs(k *kit) {
	k.push(both(unique(`{}`), func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`) }))
	dead := k.fail(k.take(), job.Failure{Message: "no"})
	if c := k.claims(job.Filter{}); c.Total != 0 {
		k.t.Errorf("a dead letter is listed: %+v", c)
	}
	if _, err := k.s.Revive(k.ctx(), dead.ID); err != nil {
		k.t.Fatal(err)
	}
	if c := k.claims(job.Filter{}); c.Total != 1 || c.Keys[0].JobID != dead.ID {
		k.t.Errorf("the list has %+v, want %s", c, dead.ID)
	}
	k.rejects("the same again", dead, unique(`{}`))
}
