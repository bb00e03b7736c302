package servicetest

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// unique gives an envelope a policy.
func unique(policy string) func(*job.Envelope) {
	return func(e *job.Envelope) { e.Unique = json.RawMessage(policy) }
}

// both makes several changes to an envelope.
func both(changes ...func(*job.Envelope)) func(*job.Envelope) {
	return func(e *job.Envelope) {
		for _, change := range changes {
			change(e)
		}
	}
}

// args gives an envelope its args.
func args(raw string) func(*job.Envelope) {
	return func(e *job.Envelope) { e.Args = json.RawMessage(raw) }
}

// meta gives an envelope its meta.
func meta(raw string) func(*job.Envelope) {
	return func(e *job.Envelope) { e.Meta = json.RawMessage(raw) }
}

func later(e *job.Envelope) { e.Delay = time.Hour }

// enqueue pushes one job and returns its receipt.
func (k *kit) enqueue(change func(*job.Envelope)) (job.Receipt, error) {
	k.t.Helper()
	rs, err := k.s.Enqueue(k.ctx(), envelope(change))
	if err != nil {
		return job.Receipt{}, err
	}
	if len(rs) != 1 {
		k.t.Fatalf("%d receipts for one job", len(rs))
	}
	return rs[0], nil
}

// met pushes a job that a stored one must answer for.
func (k *kit) met(what string, want job.Verdict, stored job.ID, change func(*job.Envelope)) job.Receipt {
	k.t.Helper()
	r, err := k.enqueue(change)
	k.receipt(what, r, err, job.Receipt{Job: &job.Job{Envelope: job.Envelope{ID: stored}}, Existing: true, Verdict: want})
	return r
}

// receipt compares all of a receipt. The job in it must be the one that is stored.
func (k *kit) receipt(what string, got job.Receipt, err error, want job.Receipt) {
	k.t.Helper()
	if err != nil {
		k.t.Fatalf("%s: %v", what, err)
	}
	if got.Existing != want.Existing || got.Verdict != want.Verdict || got.Replaced != want.Replaced || want.Job != nil && got.ID != want.ID {
		k.t.Fatalf("%s: got existing %v, verdict %q, replaced %q, job %s; want %v, %q, %q, %+v", what, got.Existing, got.Verdict,
			got.Replaced, got.ID, want.Existing, want.Verdict, want.Replaced, want.Job)
	}
	if stored := text(k.read(got.ID)); text(got.Job) != stored {
		k.t.Errorf("%s: the receipt has\n%s\nstored is\n%s", what, text(got.Job), stored)
	}
}

// fresh pushes a job that must be stored beside everything else.
func (k *kit) fresh(what string, change func(*job.Envelope)) *job.Job {
	k.t.Helper()
	return k.replacing(what, "", change)
}

// replacing pushes a job that must be stored in the place of another.
func (k *kit) replacing(what string, old job.ID, change func(*job.Envelope)) *job.Job {
	k.t.Helper()
	r, err := k.enqueue(change)
	k.receipt(what, r, err, job.Receipt{Replaced: old})
	return r.Job
}

// rejects makes sure that a push is a Duplicate of a stored job.
func (k *kit) rejects(what string, twin *job.Job, change func(*job.Envelope)) *job.Error {
	k.t.Helper()
	before := k.total()
	_, err := k.enqueue(change)
	e := k.is(what, err, job.Duplicate)
	if e.Details["existing_job_id"] != string(twin.ID) || e.Details["existing_job_state"] != string(k.read(twin.ID).State) {
		k.t.Errorf("%s: details %v, want the job %s", what, e.Details, twin.ID)
	}
	if after := k.total(); after != before {
		k.t.Errorf("%s: %d jobs are stored after %d", what, after, before)
	}
	return e
}

// total is how many jobs are stored.
func (k *kit) total() int64 {
	k.t.Helper()
	page, err := k.s.Jobs(k.ctx(), job.Filter{Limit: 1})
	if err != nil {
		k.t.Fatal(err)
	}
	return page.Total
}

// complete brings the job that is next in the queue to a good end.
func (k *kit) complete() {
	k.t.Helper()
	k.ack(k.take(), "")
}
