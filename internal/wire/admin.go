package wire

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What an administrator is shown (contract §3.23). Every list there is under "items"
// alone.

// AppendAdminJobs appends a page of jobs, or of dead letters.
func AppendAdminJobs(dst []byte, page job.Page, p Paging, dead bool) []byte {
	b := rawjson.Object(dst)
	appendJobs(&b, "items", page.Jobs, dead)
	pages(&b, p, p.listed(len(page.Jobs), page.Total, page.AtLeast, page.Next))
	return b.Close()
}

// AppendJobDetail appends all that is known of one job: the job at the top level and
// under "job", the policy that holds for it, and its times, of which those are null that
// have not come.
func AppendJobDetail(dst []byte, d job.Detail) []byte {
	j := d.AppendJSON(nil, job.View{})
	b := rawjson.Object(dst)
	b.Splice(j)
	if d.Errors == nil && rawjson.Member(j, "errors") == nil {
		b.Array("errors").EndArray()
	}
	b.Raw("job", j)
	retryPolicy(&b, "retry_policy", d.Policy)
	b.Object("metadata")
	ended := func(s job.State) time.Time {
		if d.State != s {
			return time.Time{}
		}
		return d.FinishedAt
	}
	for _, at := range []struct {
		name string
		time time.Time
	}{{"created_at", d.CreatedAt}, {"enqueued_at", d.EnqueuedAt}, {"scheduled_at", d.ScheduledAt}, {"started_at", d.StartedAt},
		{"completed_at", ended(job.Completed)}, {"cancelled_at", ended(job.Cancelled)}, {"discarded_at", ended(job.Discarded)}} {
		if at.time.IsZero() {
			b.Null(at.name)
		} else {
			b.Time(at.name, at.time)
		}
	}
	return b.End().Close()
}

// retryPolicy appends an effective policy, in the members of ojs-retry.md §2.1.
func retryPolicy(b *rawjson.Writer, name string, p job.RetryPolicy) {
	b.Object(name)
	b.Int("max_attempts", int64(p.MaxAttempts))
	b.Str("initial_interval", job.Period(p.InitialInterval))
	float(b, "backoff_coefficient", p.BackoffCoefficient)
	b.Str("max_interval", job.Period(p.MaxInterval))
	b.Bool("jitter", p.Jitter)
	rawjson.Strings(b, "non_retryable_errors", p.NonRetryableErrors)
	b.Str("on_exhaustion", p.OnExhaustion)
	b.Str("backoff_strategy", p.Strategy)
	b.End()
}

// policyObject is a policy as retryPolicy writes it.
type policyObject struct {
	MaxAttempts int      `json:"max_attempts"`
	Initial     string   `json:"initial_interval"`
	Coefficient float64  `json:"backoff_coefficient"`
	Max         string   `json:"max_interval"`
	Jitter      bool     `json:"jitter"`
	Final       []string `json:"non_retryable_errors"`
	End         string   `json:"on_exhaustion"`
	Strategy    string   `json:"backoff_strategy"`
}

// ReadJobDetail reads all that is known of one job.
func ReadJobDetail(body []byte) (d job.Detail, err error) {
	if d.Job, err = ReadJob(body); err != nil {
		return job.Detail{}, err
	}
	var r struct {
		Policy *policyObject `json:"retry_policy"`
	}
	if err := read(body, &r); err != nil {
		return job.Detail{}, err
	}
	if r.Policy == nil {
		return job.Detail{}, unread(job.Errorf(job.Malformed, "there is no retry_policy in it"))
	}
	p := r.Policy
	if len(p.Final) == 0 {
		p.Final = nil
	}
	d.Policy = job.RetryPolicy{MaxAttempts: p.MaxAttempts, BackoffCoefficient: p.Coefficient, Jitter: p.Jitter,
		NonRetryableErrors: p.Final, OnExhaustion: p.End, Strategy: p.Strategy}
	if d.Policy.InitialInterval, err = job.ParseDuration(p.Initial); err == nil {
		d.Policy.MaxInterval, err = job.ParseDuration(p.Max)
	}
	if err != nil {
		return job.Detail{}, unread(err)
	}
	return d, nil
}

// AppendRetries appends the attempts of a job that failed, the oldest first (contract
// §3.17). A retry that has come already has no next_retry_at any more.
func AppendRetries(dst []byte, d job.Detail) []byte {
	b := rawjson.Object(dst)
	b.Str("job_id", string(d.ID)).Str("state", string(d.State)).Int("attempt", int64(d.Attempt))
	var failed []struct {
		Attempt int       `json:"attempt"`
		Message string    `json:"message"`
		Type    string    `json:"type"`
		At      time.Time `json:"occurred_at"`
	}
	_ = json.Unmarshal(d.Errors, &failed) // the law has written it
	b.Array("retries")
	for i, f := range failed {
		b.Begin().Int("attempt", int64(f.Attempt)).Str("state", "failed").Str("error", f.Message).Str("error_type", f.Type)
		b.Null("started_at") // of the attempts before the present one only the end is kept
		b.Time("failed_at", f.At)
		if i == len(failed)-1 && d.State == job.Retryable {
			b.Time("next_retry_at", d.NextRetryAt)
		} else {
			b.Null("next_retry_at")
		}
		b.End()
	}
	b.EndArray()
	retryPolicy(&b, "policy", d.Policy)
	return b.Close()
}

// AppendTrace appends what has become of a job step by step, the oldest first (contract
// §3.23).
func AppendTrace(dst []byte, id job.ID, es []job.Event) []byte {
	b := rawjson.Object(dst)
	b.Str("job_id", string(id))
	b.Array("snapshots")
	for _, e := range es {
		b.Begin()
		b.Str("event", e.Type)
		b.Optional("state", string(stateAfter(e)))
		b.Time("timestamp", e.Time)
		if e.Data != nil {
			b.Raw("data", e.Data)
		}
		b.End()
	}
	return b.EndArray().Close()
}

// AppendAdminWorkers appends a page of all workers, and counts all of them.
func AppendAdminWorkers(dst []byte, ws []job.WorkerInfo, p Paging) []byte {
	b := rawjson.Object(dst)
	shown, l := byName(ws, p, func(w job.WorkerInfo) string { return w.ID })
	objects(&b, "items", shown, appendWorker)
	b.Object("summary")
	workerCounts(&b, ws)
	b.End()
	pages(&b, p, l)
	return b.Close()
}

// workerCounts appends how many workers there are, by what they do.
func workerCounts(b *rawjson.Writer, ws []job.WorkerInfo) {
	n := job.CountWorkers(ws)
	b.Int("total", int64(len(ws))).Int("running", n.Running).Int("quiet", n.Quiet).Int("stale", n.Stale)
}

// AppendForgotten appends the answer to the removal of a stale worker.
func AppendForgotten(dst []byte, id string, released []job.ID) []byte {
	return AppendDeregistered(dst, id, released)
}

// DecodePurgeDead reads a purge of dead letters (contract §3.14): the instant before which
// they died, from the body or else the query. Without older_than it is all that are dead
// at now. An administrator must say confirm:true in the body.
func DecodePurgeDead(q url.Values, raw []byte, confirm bool, now time.Time) (before time.Time, err error) {
	before, confirmed := now.Add(time.Millisecond), false
	if err := only(q, "older_than"); err != nil {
		return before, err
	}
	if older := q.Get("older_than"); older != "" {
		if before, err = ageText(older, now); err != nil {
			return before, err
		}
	}
	if len(raw) > 0 {
		err = object(raw, "", func(member string, v json.RawMessage) (err error) {
			switch member {
			case "older_than":
				before, err = age(v, member, now)
			case "confirm":
				confirmed, err = boolean(v, member)
			default:
				err = refuse(short(member), "is not known; a purge has older_than and confirm")
			}
			return err
		})
	}
	if err == nil && confirm && !confirmed {
		err = refuse("confirm", "must be true: the dead letters are removed for good")
	}
	return before, err
}
