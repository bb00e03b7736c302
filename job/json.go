package job

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// TimeFormat is how every instant is written: RFC 3339 in UTC with milliseconds (contract §1.6).
const TimeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime writes t in TimeFormat.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeFormat) }

// object writes a JSON object member by member, without reflection: every
// answer on the hot path is a job.
type object struct {
	b     []byte
	start int
}

func newObject(dst []byte) *object { return &object{append(dst, '{'), len(dst) + 1} }

func (o *object) key(name string) {
	if len(o.b) > o.start {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) str(name, v string) {
	o.key(name)
	o.b = AppendString(o.b, v)
}

func (o *object) optional(name, v string) {
	if v != "" {
		o.str(name, v)
	}
}

func (o *object) int(name string, v int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) bool(name string, v bool) {
	o.key(name)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) time(name string, t time.Time) {
	if t.IsZero() {
		return
	}
	o.key(name)
	o.b = append(appendTime(append(o.b, '"'), t), '"')
}

// appendTime is AppendFormat with TimeFormat, without reading the format each time.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, TimeFormat)
	}
	hour, minute, second := t.Clock()
	dst = digits(digits(dst, year/100), year%100)
	dst = digits(append(dst, '-'), int(month))
	dst = digits(append(dst, '-'), day)
	dst = digits(append(dst, 'T'), hour)
	dst = digits(append(dst, ':'), minute)
	dst = digits(append(dst, ':'), second)
	ms := t.Nanosecond() / 1e6
	dst = append(dst, '.', byte('0'+ms/100))
	return append(digits(dst, ms%100), 'Z')
}

// digits appends two digits.
func digits(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

func (o *object) raw(name string, v json.RawMessage) {
	if v == nil {
		return
	}
	o.key(name)
	o.b = append(o.b, v...)
}

func (o *object) strings(name string, vs []string) {
	o.key(name)
	o.b = append(o.b, '[')
	for i, v := range vs {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = AppendString(o.b, v)
	}
	o.b = append(o.b, ']')
}

// splice adds the members of another object as they stand.
func (o *object) splice(obj json.RawMessage) {
	if len(obj) < 2 {
		return
	}
	members := bytes.TrimSpace(obj[1 : len(obj)-1])
	if len(members) == 0 {
		return
	}
	if len(o.b) > o.start {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, members...)
}

func (o *object) close() []byte {
	o.b = append(o.b, '}')
	return o.b
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			q, _ := json.Marshal(s) // a string always marshals
			return append(dst, q...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

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
	o := newObject(dst)
	o.str("specversion", SpecVersion)
	o.str("id", string(j.ID))
	o.str("type", j.Type)
	o.str("queue", j.Queue)
	o.raw("args", j.Args)
	if j.Meta == nil {
		o.raw("meta", json.RawMessage("{}"))
	} else {
		o.raw("meta", j.Meta)
	}
	o.int("priority", int64(j.Priority))
	if j.Timeout > 0 {
		o.int("timeout_ms", j.Timeout.Milliseconds())
	}
	if !j.ScheduledAt.IsZero() && !hasMember(j.Extra, "scheduled_at") {
		o.time("scheduled_at", j.ScheduledAt)
	}
	if !j.ExpiresAt.IsZero() && !hasMember(j.Extra, "expires_at") {
		o.time("expires_at", j.ExpiresAt)
	}
	o.raw("retry", j.Retry)
	o.raw("unique", j.Unique)
	extra := j.Extra
	if !j.DedupFreed {
		o.raw("deduplication", j.Deduplication)
	} else if hasMember(extra, "debounce") {
		extra = without(extra, "debounce")
	}
	o.optional("custom_job_id", j.CustomID)
	if v.HideTimeout && hasMember(extra, "timeout") {
		extra = without(extra, "timeout")
	}
	o.splice(extra)
	if j.Visibility > 0 && !hasMember(j.Extra, "visibility_timeout_ms") && !hasMember(j.Extra, "visibility_timeout") {
		o.int("visibility_timeout_ms", j.Visibility.Milliseconds())
	}
	j.appendStatus(o, v)
	return o.close()
}

// appendStatus writes the system-managed members.
func (j *Job) appendStatus(o *object, v View) {
	o.str("state", string(j.State))
	o.int("attempt", int64(j.Attempt))
	o.int("max_attempts", int64(j.MaxAttempts))
	o.time("created_at", j.CreatedAt)
	o.time("enqueued_at", j.EnqueuedAt)
	o.time("started_at", j.StartedAt)
	o.time("activated_at", j.ActivatedAt)
	o.time("rewritten_at", j.RewrittenAt)
	switch j.State {
	case Completed:
		o.time("completed_at", j.FinishedAt)
	case Cancelled:
		o.time("cancelled_at", j.FinishedAt)
	case Discarded:
		o.time("completed_at", j.FinishedAt)
		o.time("discarded_at", j.FinishedAt)
	}
	if j.Dead {
		o.bool("dead_letter", true)
	}
	if j.RetryDelay > 0 {
		o.int("retry_delay_ms", j.RetryDelay.Milliseconds())
	}
	o.time("next_retry_at", j.NextRetryAt)
	o.time("next_attempt_at", j.NextRetryAt)
	if j.State == Active {
		o.optional("worker_id", j.Lease.Worker)
		o.time("visible_until", j.Lease.Until)
		if v.ToHolder {
			o.str("lease_token", j.Lease.Token)
		}
	}
	o.raw("result", j.Result)
	o.raw("error", j.Error)
	o.raw("errors", j.Errors)
}

// MarshalJSON is AppendJSON for everybody's eyes: no lease token.
func (j *Job) MarshalJSON() ([]byte, error) { return j.AppendJSON(nil, View{}), nil }
