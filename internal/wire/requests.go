package wire

import (
	"bytes"
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

// What the client sends. Bodies are written by hand, because encoding/json
// would compact and escape the raw JSON that must arrive as it is.

// PushBody is the body of POST /ojs/v1/jobs. The envelope must be valid.
func PushBody(e *job.Envelope) []byte {
	return e.AppendPush(make([]byte, 0, 256+len(e.Args)+len(e.Meta)+len(e.Extra)))
}

// BatchBody is the body of POST /ojs/v1/jobs/batch. The envelopes must be valid.
func BatchBody(es []job.Envelope) []byte {
	b := append(make([]byte, 0, 16+256*len(es)), '{')
	b = array(b, "jobs", len(es), func(b []byte, i int) []byte { return es[i].AppendPush(b) })
	return append(b, '}')
}

// FetchBody is the body of a FETCH (contract §3.8).
func FetchBody(f job.FetchRequest) []byte {
	b := someStrings(begin(), "queues", f.Queues)
	if f.Count > 0 {
		b = num(b, "count", int64(f.Count))
	}
	b = someText(b, "worker_id", f.Worker)
	b = someMillis(b, "visibility_timeout_ms", f.Visibility)
	return append(someMillis(b, "block_ms", f.Wait), '}')
}

// AckBody is the body of an ACK (contract §3.9). A nil result is left out;
// another must be JSON.
func AckBody(c job.Claim, result json.RawMessage) []byte {
	return append(someJSON(holder(begin(), c), "result", result), '}')
}

// NackBody is the body of a FAIL (contract §3.10). The failure must be valid. It
// always has a type or a code, and a message, which may be empty.
func NackBody(c job.Claim, f job.Failure) []byte {
	b := holder(begin(), c)
	if f.Requeue {
		b = flag(b, "requeue", true)
		if f.Type == "" && f.Message == "" && f.Code == "" {
			return append(b, '}')
		}
	}
	if f.RetryAfter != nil {
		b = num(b, "delay_ms", ceilMillis(max(0, min(*f.RetryAfter, job.MaxDuration))))
	}
	b = append(key(b, "error"), '{')
	if f.Type == "" && f.Code == "" {
		f.Type = f.ErrorType()
	}
	b = someText(b, "type", f.Type)
	b = str(b, "message", f.Message)
	b = someText(b, "code", f.Code)
	if f.Retryable != nil {
		b = flag(b, "retryable", *f.Retryable)
	}
	b = someJSON(b, "details", f.Details)
	b = someStrings(b, "backtrace", f.Backtrace)
	if len(f.Extra) > 2 {
		if further := bytes.TrimSpace(f.Extra[1 : len(f.Extra)-1]); len(further) > 0 {
			b = append(append(b, ','), further...)
		}
	}
	return append(b, '}', '}')
}

// BeatBody is the body of a BEAT (contract §3.11). BeatAt, Active and Directive
// are the server's.
func BeatBody(beat job.Beat) []byte {
	w := beat.Worker
	b := someText(begin(), "worker_id", w.ID)
	b = array(b, "active_jobs", len(beat.Jobs), func(b []byte, i int) []byte {
		return rawjson.AppendString(b, string(beat.Jobs[i].ID))
	})
	leases := map[string]string{}
	for _, c := range beat.Jobs {
		if c.Token != "" {
			leases[string(c.ID)] = c.Token
		}
	}
	b = someMap(b, "leases", leases)
	b = someText(b, "state", w.State)
	b = someMillis(b, "visibility_timeout_ms", beat.Visibility)
	b = someText(b, "hostname", w.Hostname)
	if w.PID > 0 {
		b = num(b, "pid", int64(w.PID))
	}
	b = someStrings(b, "queues", w.Queues)
	if w.Concurrency > 0 {
		b = num(b, "concurrency", int64(w.Concurrency))
	}
	b = someMap(b, "labels", w.Labels)
	b = someText(b, "version", w.Version)
	return append(at(b, "started_at", w.StartedAt), '}')
}

// CancelBody is the optional body of a CANCEL (contract §3.5), nil when there
// is nothing to say.
func CancelBody(by, reason string) []byte {
	if by == "" && reason == "" {
		return nil
	}
	return append(someText(someText(begin(), "cancelled_by", by), "reason", reason), '}')
}

// JobsQuery is the query of a list of jobs or dead letters (contract §3.3,
// §3.14). Dead is not in it: it is another path, which knows the type of the
// error and no states.
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
	return query(map[string]string{
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

// The writers below leave a member out that has no value.

func begin() []byte { return append(make([]byte, 0, 256), '{') }

func someText(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	return str(b, name, v)
}

func someMillis(b []byte, name string, d time.Duration) []byte {
	if d <= 0 {
		return b
	}
	return num(b, name, ceilMillis(d)) // 0 would ask for the default
}

// ceilMillis is d in whole milliseconds, rounded up: nothing must come early for its way over the wire.
func ceilMillis(d time.Duration) int64 {
	n := d.Milliseconds()
	if time.Duration(n)*time.Millisecond < d {
		n++
	}
	return n
}

func someJSON(b []byte, name string, v json.RawMessage) []byte {
	if v == nil {
		return b
	}
	return append(key(b, name), v...)
}

func someStrings(b []byte, name string, vs []string) []byte {
	if len(vs) == 0 {
		return b
	}
	return array(b, name, len(vs), func(b []byte, i int) []byte { return rawjson.AppendString(b, vs[i]) })
}

func someMap(b []byte, name string, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	b = append(key(b, name), '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendString(b, k), ':')
		b = rawjson.AppendString(b, m[k])
	}
	return append(b, '}')
}

// holder writes the members that name an attempt.
func holder(b []byte, c job.Claim) []byte {
	b = someText(b, "job_id", string(c.ID))
	b = someText(b, "lease_token", c.Token)
	return someText(b, "worker_id", c.Worker)
}
