package wire

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What the client sends. Bodies are written by hand, because encoding/json would
// compact and escape the raw JSON that must arrive unchanged.

// PushBody is the body of POST /ojs/v1/jobs.
func PushBody(c *job.Checked) []byte { return c.AppendPush(make([]byte, 0, 256)) }

// BatchBody is the body of POST /ojs/v1/jobs/batch.
func BatchBody(cs []job.Checked) []byte {
	b := rawjson.Object(make([]byte, 0, 16+256*len(cs)))
	b.Array("jobs")
	for i := range cs {
		b.Element()
		b = cs[i].AppendPush(b)
	}
	b.EndArray()
	return b.Close()
}

// FetchBody is the body of a FETCH (contract §3.8).
func FetchBody(f job.FetchRequest) []byte {
	b := begin()
	fetchBody(&b, f)
	return b.Close()
}

func fetchBody(b *rawjson.Writer, f job.FetchRequest) {
	someStrings(b, "queues", f.Queues)
	someInt(b, "count", f.Count)
	b.Optional("worker_id", f.Worker)
	someMillis(b, "visibility_timeout_ms", f.Visibility)
	someMillis(b, "block_ms", f.Wait)
	if f.Versions != nil {
		b.Raw("versions", f.Versions.JSON())
	}
}

// AckBody is the body of an ACK (contract §3.9). A nil result is left out;
// another must be JSON.
func AckBody(c job.Claim, result json.RawMessage) []byte {
	b := begin()
	holder(&b, c)
	return b.Raw("result", result).Close()
}

// NackBody is the body of a FAIL (contract §3.10). The failure must be valid. It
// always has a type or a code, and a message, which may be empty.
func NackBody(c job.Claim, f job.Failure) []byte {
	b := begin()
	holder(&b, c)
	if f.Requeue {
		b.Bool("requeue", true)
		if f.Type == "" && f.Message == "" && f.Code == "" {
			return b.Close()
		}
	}
	if f.RetryAfter != nil {
		b.Int("delay_ms", ceilMillis(max(0, min(*f.RetryAfter, job.MaxDuration))))
	}
	b.Object("error")
	if f.Type == "" && f.Code == "" {
		f.Type = f.ErrorType()
	}
	b.Optional("type", f.Type).Str("message", f.Message).Optional("code", f.Code)
	if f.Retryable != nil {
		b.Bool("retryable", *f.Retryable)
	}
	b.Raw("details", f.Details)
	someStrings(&b, "backtrace", f.Backtrace)
	b.Splice(f.Extra)
	return b.End().Close()
}

// BeatBody is the body of a BEAT (contract §3.11). BeatAt, Active and Directive
// are the server's.
func BeatBody(beat job.Beat) []byte {
	w := beat.Worker
	b := begin()
	b.Optional("worker_id", w.ID)
	ids, leases := make([]job.ID, len(beat.Jobs)), map[string]string{}
	for i, c := range beat.Jobs {
		ids[i] = c.ID
		if c.Token != "" {
			leases[string(c.ID)] = c.Token
		}
	}
	rawjson.Strings(&b, "active_jobs", ids)
	someMap(&b, "leases", leases)
	b.Optional("state", w.State)
	someMillis(&b, "visibility_timeout_ms", beat.Visibility)
	b.Optional("hostname", w.Hostname)
	someInt(&b, "pid", w.PID)
	someStrings(&b, "queues", w.Queues)
	someInt(&b, "concurrency", w.Concurrency)
	appendLabels(&b, w)
	return b.Optional("version", w.Version).Time("started_at", w.StartedAt).Close()
}

// CancelBody is the optional body of a CANCEL (contract §3.5), nil when there
// is nothing to say.
func CancelBody(by, reason string) []byte {
	if by == "" && reason == "" {
		return nil
	}
	b := begin()
	return b.Optional("cancelled_by", by).Optional("reason", reason).Close()
}

// JobsQuery is the query of a list of jobs or dead letters (contract §3.3, §3.14).
// Dead letters have a path of their own; only their list takes the type of the error,
// and it takes no states.
func JobsQuery(f job.Filter) url.Values {
	if f.Dead {
		f.States = nil
	} else {
		f.ErrorType = ""
	}
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = string(s)
	}
	kind := ""
	if f.Dedup {
		kind = kindDedup
	}
	return query(map[string]string{
		"kind":       kind,
		"state":      strings.Join(states, ","),
		"queue":      f.Queue,
		"type":       f.Type,
		"error_type": f.ErrorType,
		"cursor":     f.Cursor,
		"since":      timeText(f.Since),
		"until":      timeText(f.Until),
		"limit":      countText(f.Limit),
		"offset":     countText(f.Offset),
	})
}

// EventsQuery is the query of the event log (contract §3.18).
func EventsQuery(f job.EventFilter) url.Values {
	return query(map[string]string{
		"types":     strings.Join(f.Types, ","),
		"queues":    strings.Join(f.Queues, ","),
		"job_types": strings.Join(f.JobTypes, ","),
		"job_id":    string(f.JobID),
		"since":     timeText(f.Since),
		"until":     timeText(f.Until),
		"after":     countText(f.After),
		"limit":     countText(f.Limit),
	})
}

// query holds the parameters that have a value.
func query(params map[string]string) url.Values {
	q := url.Values{}
	for name, v := range params {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return job.FormatTime(t)
}

func countText[N int | int64](n N) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// The writers below leave out a member that has no value.

func begin() rawjson.Writer { return rawjson.Object(make([]byte, 0, 256)) }

func someInt(b *rawjson.Writer, name string, n int) {
	if n > 0 {
		b.Int(name, int64(n))
	}
}

func someMillis(b *rawjson.Writer, name string, d time.Duration) {
	if d > 0 { // 0 would ask for the default
		b.Int(name, ceilMillis(d))
	}
}

// ceilMillis is d in whole milliseconds, rounded up: nothing may happen early because
// it was sent.
func ceilMillis(d time.Duration) int64 {
	n := d.Milliseconds()
	if time.Duration(n)*time.Millisecond < d {
		n++
	}
	return n
}

func someStrings(b *rawjson.Writer, name string, vs []string) {
	if len(vs) > 0 {
		rawjson.Strings(b, name, vs)
	}
}

func someMap(b *rawjson.Writer, name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	b.Object(name)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.Quoted(k, rawjson.AppendString(nil, m[k]))
	}
	b.End()
}

// holder writes the members that name an attempt.
func holder(b *rawjson.Writer, c job.Claim) {
	b.Optional("job_id", string(c.ID)).Optional("lease_token", c.Token).Optional("worker_id", c.Worker)
}
