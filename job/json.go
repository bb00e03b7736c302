package job

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// FormatTime writes an instant as the wire has it: RFC 3339 in UTC with milliseconds (contract §1.6).
func FormatTime(t time.Time) string { return t.UTC().Format(rawjson.TimeFormat) }

// View says how a job is to be shown.
type View struct {
	// ToHolder adds the lease token, which nobody but the fetching worker may see.
	ToHolder bool
	// HideTimeout leaves out timeout in seconds, which some workers read as milliseconds.
	HideTimeout bool
}

// AppendJSON appends the job's envelope as every answer carries it (contract
// §2.1): members without a value are left out, and what the client sent is
// given back byte for byte.
func (j *Job) AppendJSON(dst []byte, v View) []byte {
	o := rawjson.Object(dst)
	o.Str("specversion", SpecVersion)
	o.Str("id", string(j.ID))
	o.Str("type", j.Type)
	o.Str("queue", j.Queue)
	o.Raw("args", j.Args)
	if j.Meta == nil {
		o.Raw("meta", json.RawMessage("{}"))
	} else {
		o.Raw("meta", j.Meta)
	}
	o.Int("priority", int64(j.Priority))
	if j.Timeout > 0 {
		o.Int("timeout_ms", j.Timeout.Milliseconds())
	}
	if !j.ScheduledAt.IsZero() && !rawjson.Has(j.Extra, "scheduled_at") {
		o.Time("scheduled_at", j.ScheduledAt)
	}
	if !j.ExpiresAt.IsZero() && !rawjson.Has(j.Extra, "expires_at") {
		o.Time("expires_at", j.ExpiresAt)
	}
	o.Raw("retry", j.Retry)
	o.Raw("unique", j.Unique)
	extra := j.Extra
	if !j.DedupFreed {
		o.Raw("deduplication", j.Deduplication)
	} else if rawjson.Has(extra, "debounce") {
		extra = rawjson.Without(extra, "debounce")
	}
	o.Optional("custom_job_id", j.CustomID)
	if v.HideTimeout && rawjson.Has(extra, "timeout") {
		extra = rawjson.Without(extra, "timeout")
	}
	o.Splice(extra)
	if j.Visibility > 0 && !rawjson.Has(j.Extra, "visibility_timeout_ms") && !rawjson.Has(j.Extra, "visibility_timeout") {
		o.Int("visibility_timeout_ms", j.Visibility.Milliseconds())
	}
	j.appendStatus(&o, v)
	return o.Close()
}

// appendStatus writes the system-managed members.
func (j *Job) appendStatus(o *rawjson.Writer, v View) {
	o.Str("state", string(j.State))
	o.Int("attempt", int64(j.Attempt))
	o.Int("max_attempts", int64(j.MaxAttempts))
	o.Time("created_at", j.CreatedAt)
	o.Time("enqueued_at", j.EnqueuedAt)
	o.Time("started_at", j.StartedAt)
	o.Time("activated_at", j.ActivatedAt)
	o.Time("rewritten_at", j.RewrittenAt)
	switch j.State {
	case Completed:
		o.Time("completed_at", j.FinishedAt)
	case Cancelled:
		o.Time("cancelled_at", j.FinishedAt)
	case Discarded:
		o.Time("completed_at", j.FinishedAt)
		o.Time("discarded_at", j.FinishedAt)
	}
	if j.Dead {
		o.Bool("dead_letter", true)
	}
	if j.RetryDelay > 0 {
		o.Int("retry_delay_ms", j.RetryDelay.Milliseconds())
	}
	o.Time("next_retry_at", j.NextRetryAt)
	o.Time("next_attempt_at", j.NextRetryAt)
	if j.State == Active {
		o.Optional("worker_id", j.Lease.Worker)
		o.Time("visible_until", j.Lease.Until)
		if v.ToHolder {
			o.Str("lease_token", j.Lease.Token)
		}
	}
	o.Raw("result", j.Result)
	o.Raw("error", j.Error)
	o.Raw("errors", j.Errors)
}

// MarshalJSON is AppendJSON for everybody's eyes: no lease token.
func (j *Job) MarshalJSON() ([]byte, error) { return j.AppendJSON(nil, View{}), nil }
