package job

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// QueueLimitKey is the key under which is kept what the rate and the throttle of a whole
// queue remember (contract §3.13). No job and no operator can name it, and it comes
// before all keys that they can.
func QueueLimitKey(queue string) string { return queueLimitMark + queue }

const queueLimitMark = "#"

// BeforeLimitKeys comes behind the keys of whole queues, and before all others.
const BeforeLimitKeys = "$"

// IsQueueLimit reports whether a key is that of a whole queue.
func IsQueueLimit(key string) bool { return strings.HasPrefix(key, queueLimitMark) }

// NoLimit is the NotFound for a key that has no limit.
func NoLimit(key string) error {
	return Errorf(NotFound, "there is no limit %.80q: no job has named this rate_limit.key, or none for so long that it counts as new", key).
		With(map[string]any{"resource_type": "rate_limit", "resource_id": key})
}

// Limits reports whether a queue is limited as a whole.
func (c *QueueConfig) Limits() bool {
	return c.Concurrency != 0 || c.RateLimit.Limit != 0 || c.Throttle.Limit != 0
}

// Pace is what limits a queue as a whole.
func (c *QueueConfig) Pace() Pace {
	return Pace{Concurrency: c.Concurrency, Rate: c.RateLimit, Throttle: c.Throttle}
}

// Remembers reports whether what may start depends on what has started before.
func (p Pace) Remembers() bool { return p.Rate.Limit != 0 || p.Throttle.Limit != 0 }

// Room is how many jobs may start at now, up to most.
func (l *Limit) Room(now time.Time, most int) (n int) {
	p := l.Holds()
	if p.Concurrency > 0 {
		most = min(most, p.Concurrency-l.Active)
	}
	if !p.Remembers() {
		return max(0, most)
	}
	for ahead := l.Clone(); n < most; n++ {
		if open, _ := ahead.Open(now); !open {
			break
		}
		ahead.Started(now)
	}
	return n
}

// ParseQueueLimits reads what limits a whole queue: an object with concurrency, rate and
// throttle (contract §3.13), of which one at least must be there. It returns the patch of
// its configuration that sets them, and takes those away that are null. Errors are Invalid
// and name the member.
func ParseQueueLimits(raw json.RawMessage) (patch json.RawMessage, err error) {
	given, p, err := paceAtTop(raw)
	if err != nil {
		return nil, err
	}
	o, some := rawjson.Object(nil), false
	for _, m := range [...]struct {
		name, member string
		set          bool
		write        func(name string)
	}{
		{"concurrency", "concurrency", p.Concurrency != 0, func(name string) { o.Int(name, int64(p.Concurrency)) }},
		{"rate", "rate_limit", p.Rate.Limit != 0, func(name string) { o.Quoted(name, p.Rate.JSON()) }},
		{"throttle", "throttle", p.Throttle.Limit != 0, func(name string) { o.Quoted(name, p.Throttle.JSON()) }},
	} {
		named := m.set || given.of(m.name) != nil
		some = some || named
		switch {
		case m.set:
			m.write(m.member)
		case named:
			o.Quoted(m.member, json.RawMessage("null"))
		}
	}
	if !some {
		return nil, invalid(Invalid, "concurrency", "or rate or throttle is required: what limits the queue, or null to take it away")
	}
	return json.RawMessage(o.Close()), nil
}

// Period is a length of time as ISO 8601 has it, in seconds.
func Period(d time.Duration) string {
	return "PT" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "S"
}

// JSON is a quota as a configuration has it: limit and period.
func (q Quota) JSON() json.RawMessage {
	o := rawjson.Object(nil)
	o.Int("limit", int64(q.Limit))
	o.Str("period", Period(q.Period))
	return json.RawMessage(o.Close())
}

// paceAtTop reads a document that is a pace.
func paceAtTop(raw json.RawMessage) (given fields, p Pace, err error) {
	if err := CheckJSON(raw); err != nil {
		return nil, p, err
	}
	if raw = trimmed(raw); raw[0] != '{' {
		return nil, p, invalid(Invalid, "concurrency", "must stand in an object, got %s", rawjson.Kind(raw))
	}
	given, err = closed(raw, "", "a limit", []string{"concurrency", "rate", "throttle", "period", "max_per_second"})
	var e *Error
	if errors.As(err, &e) {
		if field, ok := e.Details["field"].(string); ok {
			e.Message, e.Details["field"] = strings.TrimPrefix(e.Message, "."), strings.TrimPrefix(field, ".")
		}
	}
	if err != nil {
		return nil, p, err
	}
	var a LimitAsk
	if a.Pace, err = parsePace(given, ""); err == nil {
		err = a.perSecond(given.set("max_per_second"), "")
	}
	return given, a.Pace, err
}
