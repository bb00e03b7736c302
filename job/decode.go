package job

import (
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// ParseJob reads a job object as [Job.AppendJSON] writes it: what a server
// answers becomes a Job again, and writing that Job gives the same bytes. JSON
// that the job carries is not decoded. Members that are no part of a job go to
// Extra, and so do scheduled_at and expires_at when they are not written in
// [TimeFormat]. What is never sent (Seq, DueAt, Releases, Lost, Hold, the
// length of the lease) stays zero.
//
// An error is Malformed or Invalid and names the member. raw must not be
// changed afterwards: the job points into it.
func ParseJob(raw []byte) (*Job, error) {
	// Not CheckJSON: an answer may nest deeper than any request, because the
	// server puts what it was sent inside objects of its own.
	if _, ok := rawjson.Valid(raw); !ok || !utf8.Valid(raw) {
		return nil, Errorf(Malformed, "a job is not valid JSON in UTF-8")
	}
	return ParseCheckedJob(raw)
}

// ParseCheckedJob is ParseJob for bytes that are known to be valid JSON in UTF-8, such
// as an element of a list that was checked as a whole.
func ParseCheckedJob(raw []byte) (*Job, error) {
	d := decoder{j: &Job{}, extra: rawjson.Object(nil)}
	if err := Members(raw, d.member); err != nil {
		return nil, err
	}
	if len(d.extra) > 1 {
		d.j.Extra = d.extra.Close()
	}
	if d.j.State != Active {
		d.j.Lease = Lease{}
	}
	return d.j, nil
}

// decoder fills a job from its members. In a job object null says the same as
// a member that is left out, save for the result.
type decoder struct {
	j     *Job
	extra rawjson.Writer
}

func (d *decoder) member(name string, v json.RawMessage) error {
	for _, read := range []func(string, json.RawMessage) (bool, error){d.asked, d.happened, d.instant} {
		if mine, err := read(name, v); mine || err != nil {
			return err
		}
	}
	d.extra.Quoted(name, v)
	return nil
}

// asked reads a member of the envelope, and reports whether name is one.
func (d *decoder) asked(name string, v json.RawMessage) (bool, error) {
	switch name {
	case "specversion":
		return true, nil
	case "id":
		return true, readText(name, v, (*string)(&d.j.ID))
	case "type":
		return true, readText(name, v, &d.j.Type)
	case "queue":
		return true, readText(name, v, &d.j.Queue)
	case "args":
		return true, readRaw(v, &d.j.Args)
	case "meta":
		return true, readRaw(v, &d.j.Meta)
	case "retry":
		return true, readRaw(v, &d.j.Retry)
	case "unique":
		return true, readRaw(v, &d.j.Unique)
	case "deduplication":
		return true, readRaw(v, &d.j.Deduplication)
	case "custom_job_id":
		return true, readText(name, v, &d.j.CustomID)
	case "priority":
		return true, readInt(name, v, &d.j.Priority)
	case "max_attempts":
		return true, readInt(name, v, &d.j.MaxAttempts)
	case "timeout_ms":
		return true, readMillis(name, v, &d.j.Timeout)
	case "visibility_timeout_ms", "visibility_timeout":
		return false, d.visibility(name, v)
	}
	return false, nil
}

// happened reads a member of the status that is no instant.
func (d *decoder) happened(name string, v json.RawMessage) (bool, error) {
	switch name {
	case "state":
		return true, readText(name, v, (*string)(&d.j.State))
	case "attempt":
		return true, readInt(name, v, &d.j.Attempt)
	case "retry_delay_ms":
		return true, readMillis(name, v, &d.j.RetryDelay)
	case "worker_id":
		return true, readText(name, v, &d.j.Lease.Worker)
	case "lease_token":
		return true, readText(name, v, &d.j.Lease.Token)
	case "result":
		d.j.Result = v
		return true, nil
	case "error":
		return true, readRaw(v, &d.j.Error)
	case "errors":
		return true, readRaw(v, &d.j.Errors)
	case "dead_letter":
		d.j.Dead = string(v) == "true"
		return true, nil
	case "next_attempt_at", "previous_state", // the one repeats next_retry_at, the others tell of a verb
		"deduplicated", "duplicate_job_id", "replaced", "replaced_job_id", "replaced_job_ids":
		return true, nil
	}
	return false, nil
}

// instant reads a member that is a time. The two that a client sets keep their
// spelling in Extra.
func (d *decoder) instant(name string, v json.RawMessage) (bool, error) {
	var into *time.Time
	switch name {
	case "scheduled_at":
		into = &d.j.ScheduledAt
	case "expires_at":
		into = &d.j.ExpiresAt
	case "created_at":
		into = &d.j.CreatedAt
	case "enqueued_at":
		into = &d.j.EnqueuedAt
	case "started_at":
		into = &d.j.StartedAt
	case "activated_at":
		into = &d.j.ActivatedAt
	case "completed_at", "cancelled_at", "discarded_at":
		into = &d.j.FinishedAt
	case "rewritten_at":
		into = &d.j.RewrittenAt
	case "next_retry_at":
		into = &d.j.NextRetryAt
	case "visible_until":
		into = &d.j.Lease.Until
	default:
		return false, nil
	}
	if string(v) == "null" {
		return true, nil
	}
	t, relative, err := moment(v, name)
	if err == nil && (relative != 0 || t.IsZero()) {
		err = invalid(Invalid, name, "must be an RFC 3339 time, got %s", shown(v))
	}
	if err != nil {
		return true, err
	}
	*into = t.UTC()
	own := name == "scheduled_at" || name == "expires_at"
	return !own || string(v) == `"`+FormatTime(t)+`"`, nil
}

// visibility reads either spelling; the one in milliseconds beats the other.
// Both stay in Extra.
func (d *decoder) visibility(name string, v json.RawMessage) (err error) {
	older := name == "visibility_timeout"
	switch {
	case string(v) == "null" || older && d.j.Visibility > 0:
	case older && v[0] == '"':
		d.j.Visibility, err = isoText(v, name)
	case older:
		d.j.Visibility, err = count(v, name, time.Second)
	default:
		d.j.Visibility, err = count(v, name, time.Millisecond)
	}
	return err
}

func readRaw(v json.RawMessage, into *json.RawMessage) error {
	if string(v) != "null" {
		*into = v
	}
	return nil
}

func readText(name string, v json.RawMessage, into *string) (err error) {
	if string(v) != "null" {
		*into, err = text(v, name)
	}
	return err
}

func readInt(name string, v json.RawMessage, into *int) error {
	if string(v) == "null" {
		return nil
	}
	n, ok := integer(v)
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return invalid(Invalid, name, "must be an integer, got %s", shown(v))
	}
	*into = int(n)
	return nil
}

func readMillis(name string, v json.RawMessage, into *time.Duration) (err error) {
	if string(v) != "null" {
		*into, err = count(v, name, time.Millisecond)
	}
	return err
}

// AppendPush appends the body of an enqueue that [ParseEnvelope] reads back to
// the same envelope. JSON in it is copied as it stands. Times and durations are
// sent in whole milliseconds, rounded up as [Checked.Push] rounds them. A Delay is
// sent instead of ScheduledAt, and a TTL instead of ExpiresAt, as Push lets them win.
func (c *Checked) AppendPush(dst []byte) []byte {
	e := &c.e
	o := rawjson.Object(dst)
	o.Str("specversion", SpecVersion)
	o.Optional("id", string(e.ID))
	o.Str("type", e.Type)
	o.Optional("queue", e.Queue)
	o.Raw("args", e.Args)
	e.appendAsked(&o)
	return o.Close()
}

// AppendOptions appends the object of all that AppendPush sends but the id, the
// type and the args. With those three beside its members it is the flat envelope
// of ojs-core.md §5, which its specversion says. Where nothing is asked for, it
// is {}.
func (c *Checked) AppendOptions(dst []byte) []byte {
	e := &c.e
	o := rawjson.Object(dst)
	o.Str("specversion", SpecVersion)
	bare := len(o)
	if e.Queue != DefaultQueue {
		o.Optional("queue", e.Queue)
	}
	e.appendAsked(&o)
	if len(o) == bare {
		o = rawjson.Object(dst)
	}
	return o.Close()
}

// appendAsked writes every member but the id, the type, the queue and the args.
func (e *Envelope) appendAsked(o *rawjson.Writer) {
	given := names.Set(e.Extra)
	o.Raw("meta", e.Meta)
	if e.Priority != 0 {
		o.Int("priority", int64(e.Priority))
	}
	if e.Timeout > 0 || given["timeout"] { // milliseconds beat the seconds in Extra
		o.Int("timeout_ms", ceilMillis(e.Timeout).Milliseconds())
	}
	if e.Visibility > 0 && !given["visibility_timeout_ms"] && !given["visibility_timeout"] {
		o.Int("visibility_timeout_ms", ceilMillis(e.Visibility).Milliseconds())
	}
	drop := e.appendTimes(o, given)
	if e.Hold {
		o.Bool("pending", true)
	}
	o.Raw("retry", e.Retry)
	o.Raw("unique", e.Unique)
	o.Raw("deduplication", e.Deduplication)
	if e.CustomID != "" {
		inner := rawjson.Object(nil)
		inner.Str("job_id", e.CustomID)
		inner.Splice(rawjson.Member(e.Extra, "options"))
		o.Raw("options", inner.Close())
		drop = append(drop, "options")
	}
	extra := e.Extra
	for _, name := range drop {
		extra = rawjson.Without(extra, name)
	}
	o.Splice(extra)
}

// appendTimes writes when the job starts and ends, and names the members of
// Extra that would say it a second time.
func (e *Envelope) appendTimes(o *rawjson.Writer, given map[string]bool) (drop []string) {
	for _, t := range []struct {
		name, relative string
		at             time.Time
		in             time.Duration
	}{{"scheduled_at", "delay_ms", e.ScheduledAt, e.Delay}, {"expires_at", "ttl_ms", e.ExpiresAt, e.TTL}} {
		switch {
		case t.in > 0:
			o.Int(t.relative, ceilMillis(t.in).Milliseconds())
			if given[t.name] {
				drop = append(drop, t.name)
			}
		case !given[t.name]:
			o.Time(t.name, ceilInstant(t.at))
		}
	}
	return drop
}
