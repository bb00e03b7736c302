package httpapi

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/outrider-jobs/outrider/job"
)

// aKey is the unique key of the tests.
const aKey = "71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f"

// held is a job that holds a deduplication key.
func held() *job.Job {
	e := job.Envelope{ID: idTwo, Type: "mail.send", Queue: "mail", Args: json.RawMessage(`[]`),
		Deduplication: json.RawMessage(`{"id":"order:17","ttl":30}`)}
	return push(e)
}

// met is the stored job that answers for a new one of some types, and why.
func met(jobType string) (*job.Job, job.Verdict) {
	switch jobType {
	case "unique.ignored":
		return mail(idTwo), job.Ignored
	case "unique.rewritten":
		return mail(idTwo), job.Rewritten
	case "dedup.suppressed":
		return held(), job.Deduplicated
	case "custom.again":
		j := mail(idTwo)
		j.CustomID = "order-17"
		return j, job.SameCustomID
	case "id.again":
		return mail(idTwo), job.SameID
	}
	return nil, job.Created
}

// rejected is the error of a unique policy for element i of several.
func rejected(of, i int) error {
	e := job.Errorf(job.Duplicate, "a job matching the uniqueness key already exists: %s is active", idTwo)
	e.Details = map[string]any{"existing_job_id": string(idTwo), "existing_job_state": "active", "uniqueness_key": aKey, "unique_key": aKey}
	if of == 1 {
		return e
	}
	wrapped := job.Errorf(job.Duplicate, "jobs[%d]: %w", i, e)
	wrapped.Details = maps.Clone(e.Details)
	wrapped.Details["index"] = i
	return wrapped
}

// keeping fills in what is asked of keys.
func keeping(f *fake) {
	f.explain = func(_ context.Context, c job.Checked) (job.Explanation, error) {
		e := c.Envelope()
		var twins []*job.Job
		if e.Type != "unique.free" {
			twin := mail(idTwo)
			if e.Type == "unique.done" {
				twin = started(idTwo)
				if err := twin.Complete(noon, job.Claim{ID: idTwo}, nil); err != nil {
					return job.Explanation{}, err
				}
			}
			twins = append(twins, twin)
		}
		return c.Explain(noon, twins)
	}
	f.claims = func(_ context.Context, q job.Filter) (job.HeldKeys, error) {
		one := job.HeldKey{Key: aKey, JobID: idTwo, Type: "mail.send", Queue: "mail", State: job.Active, Since: noon}
		two := one
		two.JobID, two.Until = idOne, noon.Add(3600e9)
		return job.HeldKeys{Keys: []job.HeldKey{one, two}[:min(2, q.Limit)], Total: 45, Next: "next"}, nil
	}
	f.releaseKey = func(context.Context, string) (int, error) { return 2, nil }
	f.dedupOwner = func(_ context.Context, queue, id string) (*job.Job, error) {
		if queue == "mail" && id != "free" {
			return held(), nil
		}
		e := job.Errorf(job.NotFound, "no job of queue %s holds the deduplication key %q", queue, id)
		e.Details = map[string]any{"resource_type": "deduplication", "resource_id": id, "queue": queue}
		return nil, e
	}
	f.releaseDedup = func(_ context.Context, queue, id string) (bool, error) { return queue == "mail" && id != "free", nil }
}
