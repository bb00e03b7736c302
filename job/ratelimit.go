package job

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Pace is how many jobs of one key may start, and be active at once (contract §4.12).
// The zero value bounds nothing.
type Pace struct {
	Concurrency int   // active at once; 0 is as many as there are
	Rate        Quota // in no window of its Period more starts than its Limit
	Throttle    Quota // the starts lie Period/Limit apart
}

// Quota is a number of starts in a time. The zero value is no quota.
type Quota struct {
	Limit  int
	Period time.Duration // whole milliseconds, at least one
}

// gap is how far apart the starts of a throttle lie.
func (q Quota) gap() time.Duration { return max(1, q.Period/time.Duration(q.Limit)) }

// OnLimit is what becomes of a job that comes up and may not start yet.
type OnLimit string

// The three answers of contract §4.12.
const (
	WaitOnLimit       OnLimit = "wait"       // it stays available, and lets those behind it go first
	RescheduleOnLimit OnLimit = "reschedule" // it is scheduled until the next permit
	DropOnLimit       OnLimit = "drop"       // it is discarded with rate_limited
)

// LimitAsk is what the rate_limit of a job asks for.
type LimitAsk struct {
	Key     string // of a job without one, the name of its queue behind an @: no client can ask for that
	Own     string // the key as it was asked for, empty without one
	Pace    Pace   // zero where it names a key and leaves open what that allows
	OnLimit OnLimit
}

// Asks reports whether a job has a rate limit.
func (e *Envelope) Asks() bool { return e.RateLimit != nil }

// LimitAsk is what the rate limit of a job asks for; its Key is empty without one.
func (e *Envelope) LimitAsk() LimitAsk {
	if e.RateLimit == nil {
		return LimitAsk{}
	}
	a, _ := parseLimit(e.RateLimit, e.Queue) // it has been checked
	return a
}

// QueueKey is the key of the jobs of a queue that have a max_per_second and no key.
func QueueKey(queue string) string { return "@" + queue }

// ValidLimitKey reports whether a limit can have a key: one that a job may name, or
// that of a queue.
func ValidLimitKey(key string) bool {
	if q, ok := strings.CutPrefix(key, "@"); ok {
		return ValidQueue(q)
	}
	return checkLimitKey(key, "") == nil
}

// InvalidLimitKey is the Invalid for text that can be the key of no limit.
func InvalidLimitKey(key string) error {
	return invalid(Invalid, "key", "must be 1 to %d letters, digits, points, underscores, colons and hyphens, starting with a letter or digit, or @ and the name of a queue, got %.60q", maxLimitKey, key)
}

const maxLimitKey = 255

func checkLimitKey(s, field string) error {
	ok := s != "" && len(s) <= maxLimitKey
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && strings.IndexByte("._:-", c) >= 0
	}
	if !ok {
		return invalid(Invalid, field, "must be 1 to %d letters, digits, points, underscores, colons and hyphens, starting with a letter or digit, got %.60q", maxLimitKey, s)
	}
	return nil
}

var limitMembers = []string{"key", "concurrency", "rate", "throttle", "period", "on_limit", "max_per_second"}

// parseLimit reads the rate_limit of a job of a queue. raw must have passed CheckJSON.
// Errors are Invalid and name the member.
func parseLimit(raw json.RawMessage, queue string) (a LimitAsk, err error) {
	const field = "rate_limit"
	if len(raw) == 0 || raw[0] != '{' {
		return a, invalid(Invalid, field, "must be an object, got %s", rawjson.Kind(raw))
	}
	given, err := closed(raw, field, "a rate limit", limitMembers)
	if err != nil {
		return a, err
	}
	if v := given.set("key"); v != nil {
		if a.Key, err = text(v, field+".key"); err == nil {
			err = checkLimitKey(a.Key, field+".key")
		}
		if err != nil {
			return a, err
		}
	}
	a.Own = a.Key
	if a.Pace, err = parsePace(given, field); err != nil {
		return a, err
	}
	if err := a.perSecond(given.set("max_per_second"), field); err != nil {
		return a, err
	}
	if a.Key == "" {
		if a.Pace.Concurrency != 0 || a.Pace.Rate.Limit != 0 || a.Pace.Throttle.Limit == 0 || given.set("throttle") != nil {
			return a, invalid(Invalid, field+".key", "is required: a name that the jobs which share the limit have in common; without one there is max_per_second alone, for the jobs of the queue")
		}
		a.Key = QueueKey(queueOf(queue))
	}
	a.OnLimit = WaitOnLimit
	if v := given.set("on_limit"); v != nil {
		s, err := text(v, field+".on_limit")
		if a.OnLimit = OnLimit(s); err != nil {
			return a, err
		}
		if !slices.Contains([]OnLimit{WaitOnLimit, RescheduleOnLimit, DropOnLimit}, a.OnLimit) {
			return a, invalid(Invalid, field+".on_limit", "must be wait, reschedule or drop, got %.60q", s)
		}
	}
	return a, nil
}

// perSecond reads max_per_second, which is a throttle.
func (a *LimitAsk) perSecond(v json.RawMessage, field string) error {
	if v == nil {
		return nil
	}
	if a.Pace.Throttle.Limit != 0 {
		return invalid(Invalid, under(field, "max_per_second"), "is given beside %s: one of them is enough", under(field, "throttle"))
	}
	n, err := limitNumber(v, under(field, "max_per_second"))
	a.Pace.Throttle = Quota{n, time.Second}
	return err
}

// ParsePace reads what an operator sets: an object with concurrency, rate and throttle,
// of which one at least must be there. Errors are Invalid and name the member.
func ParsePace(raw json.RawMessage) (Pace, error) {
	_, p, err := paceAtTop(raw)
	if err == nil && p == (Pace{}) {
		err = invalid(Invalid, "concurrency", "or rate or throttle is required: a limit that bounds nothing is none")
	}
	return p, err
}

// Validate holds a pace that a Go program has made to the same rules. Errors are Invalid.
func (p Pace) Validate() error {
	if p == (Pace{}) {
		return invalid(Invalid, "concurrency", "or rate or throttle is required: a limit that bounds nothing is none")
	}
	if p.Concurrency < 0 || p.Concurrency > math.MaxInt32 {
		return invalid(Invalid, "concurrency", "must be a whole number from 1 to %d, got %d", math.MaxInt32, p.Concurrency)
	}
	for name, q := range map[string]Quota{"rate": p.Rate, "throttle": p.Throttle} {
		if q == (Quota{}) {
			continue
		}
		if q.Limit < 1 || q.Limit > math.MaxInt32 {
			return invalid(Invalid, name+".limit", "must be a whole number from 1 to %d, got %d", math.MaxInt32, q.Limit)
		}
		if q.Period < time.Millisecond || q.Period > MaxDuration || q.Period%time.Millisecond != 0 {
			return invalid(Invalid, name+".period", "must be whole milliseconds, from one to 100 years, got %s", q.Period)
		}
	}
	return nil
}

func trimmed(raw json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.TrimSpace(string(raw)))
}

// parsePace reads concurrency, rate, throttle and the period beside them.
func parsePace(given fields, field string) (p Pace, err error) {
	if v := given.set("concurrency"); v != nil {
		if p.Concurrency, err = limitNumber(v, under(field, "concurrency")); err != nil {
			return p, err
		}
	}
	beside := given.set("period")
	for _, q := range [...]struct {
		name string
		v    json.RawMessage
		into *Quota
	}{{"rate", given.set("rate"), &p.Rate}, {"throttle", given.set("throttle"), &p.Throttle}} {
		if q.v != nil {
			if *q.into, err = parseQuota(q.v, under(field, q.name), under(field, "period"), beside); err != nil {
				return p, err
			}
		}
	}
	if beside != nil && p.Rate.Limit == 0 && p.Throttle.Limit == 0 {
		return p, invalid(Invalid, under(field, "period"), "is of a rate or a throttle, and neither is given")
	}
	return p, nil
}

func under(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// parseQuota reads {limit, period}, or a number whose period stands beside it.
func parseQuota(v json.RawMessage, field, besideField string, beside json.RawMessage) (q Quota, err error) {
	if v[0] != '{' {
		if q.Limit, err = limitNumber(v, field); err != nil {
			return q, err
		}
		if beside == nil {
			return q, invalid(Invalid, besideField, "is required beside a %s that is a number: second, minute, hour, day, a number of seconds or an ISO 8601 duration", field)
		}
		q.Period, err = limitPeriod(beside, besideField)
		return q, err
	}
	given, err := closed(v, field, "a quota", []string{"limit", "period"})
	if err != nil {
		return q, err
	}
	limit, period := given.set("limit"), given.set("period")
	if limit == nil {
		return q, invalid(Invalid, field+".limit", "is required: how many jobs may start in the period")
	}
	if q.Limit, err = limitNumber(limit, field+".limit"); err != nil {
		return q, err
	}
	name := field + ".period"
	if period == nil {
		period, name = beside, besideField
	}
	if period == nil {
		return q, invalid(Invalid, field+".period", "is required: second, minute, hour, day, a number of seconds or an ISO 8601 duration")
	}
	q.Period, err = limitPeriod(period, name)
	return q, err
}

func limitNumber(v json.RawMessage, field string) (int, error) {
	n, ok := integer(v)
	if !ok || n < 1 || n > math.MaxInt32 {
		return 0, invalid(Invalid, field, "must be a whole number from 1 to %d, got %s", math.MaxInt32, shown(v))
	}
	return int(n), nil
}

// namedPeriods are the periods that have a name.
var namedPeriods = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// limitPeriod reads the length of a window, in whole milliseconds.
func limitPeriod(v json.RawMessage, field string) (d time.Duration, err error) {
	if v[0] != '"' {
		d, err = seconds(v, field)
	} else {
		s, terr := text(v, field)
		if d = namedPeriods[s]; terr == nil && d == 0 {
			d, err = ParseDuration(s)
		}
		if terr != nil || err != nil {
			return 0, invalid(Invalid, field, "must be second, minute, hour, day, a number of seconds or an ISO 8601 duration, got %s", shown(v))
		}
	}
	if err == nil && d < time.Millisecond {
		err = invalid(Invalid, field, "must be at least a millisecond, got %s", shown(v))
	}
	return d, err
}

func (p *parser) rateLimit() error {
	name, v := p.get("rate_limit")
	if v == nil {
		return nil
	}
	_, err := parseLimit(v, p.e.Queue)
	if name != "" {
		p.e.RateLimit = v
	}
	return err
}

func (c *Checked) readLimit() error {
	if c.e.RateLimit == nil {
		return nil
	}
	_, err := parseLimit(c.e.RateLimit, c.e.Queue)
	return err
}

// takeLane notes in which lane a job that is pushed waits, where it waits.
func (j *Job) takeLane() {
	if j.RateLimit == nil {
		return
	}
	if a := j.LimitAsk(); a.OnLimit == WaitOnLimit {
		j.Lane = a.Key
	}
}

// InLine reports whether a FETCH may find the job: it is available, and no other of its
// lane comes first.
func (j *Job) InLine() bool { return j.State == Available && !j.Behind }

// Before reports whether a job comes before another of its queue (contract §4.2). One
// that has no place yet comes behind all that have.
func (j *Job) Before(other *Job) bool {
	if j.Priority != other.Priority {
		return j.Priority > other.Priority
	}
	return j.Seq != 0 && (other.Seq == 0 || j.Seq < other.Seq)
}

// Drop discards an available job that may not start yet and does not want to wait
// (contract §4.12). It is no dead letter: it has not failed.
func (j *Job) Drop(now time.Time, key string) error {
	if err := j.move(onLimit, Discarded, now); err != nil {
		return err
	}
	j.RetryDelay, j.Lost = 0, nil
	f := Failure{Type: "rate_limited", Code: "rate_limited", Message: "the limit of " + strconv.Quote(key) + " was reached when the job came up, and its on_limit is drop"}
	j.Error = f.append(nil, j.Attempt, now, false)
	j.addDiscarded(now, f)
	return nil
}

// Defer takes an available job that may not start yet out of its queue until an
// instant (contract §4.12).
func (j *Job) Defer(now, until time.Time) error {
	if err := j.move(onLimit, Scheduled, now); err != nil {
		return err
	}
	j.DueAt = earlier(until, j.ExpiresAt)
	j.addEvent("job.scheduled", now, func(o *rawjson.Writer) {
		o.Time("scheduled_at", until)
		j.notFrom(o, None)
	})
	return nil
}
