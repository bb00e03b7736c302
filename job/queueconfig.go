package job

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// MaxConfigBytes bounds the configuration of a queue.
const MaxConfigBytes = 64 << 10

// ParseQueueConfig reads the configuration of a queue (contract §3.13): a JSON
// object that has passed CheckJSON. A member that is null is not set. Members that
// are not known are kept in Raw, and mean nothing. Errors name the member: Invalid,
// BadRetry for default_retry, Unsupported for what this server cannot hold to.
func ParseQueueConfig(raw json.RawMessage) (QueueConfig, error) {
	c := QueueConfig{Raw: raw}
	if len(raw) == 0 {
		return QueueConfig{}, nil
	}
	if len(raw) > MaxConfigBytes {
		return QueueConfig{}, tooLarge("the configuration of a queue", len(raw), MaxConfigBytes)
	}
	if raw[0] != '{' {
		return QueueConfig{}, invalid(Invalid, "config", "must be an object, got %s", rawjson.Kind(raw))
	}
	var size, strategy json.RawMessage // max_size and overflow_policy: the short form of backpressure
	err := Members(raw, func(name string, v json.RawMessage) (err error) {
		if string(v) == "null" {
			return nil
		}
		switch name {
		case "concurrency":
			c.Concurrency, err = positive[int](v, name)
		case "rate_limit":
			c.RateLimit, err = quota(v, name)
		case "throttle":
			c.Throttle, err = quota(v, name)
		case "retention":
			c.Retention, err = retention(v)
		case "default_retry":
			c.DefaultRetry = v
			err = checkDefaultRetry(v)
		case "default_timeout":
			c.DefaultTimeout, err = span(v, name)
		case "visibility_timeout":
			c.Visibility, err = span(v, name)
		case "backpressure":
			err = c.Backpressure.read(v)
		case "max_size":
			size = v
		case "overflow_policy":
			strategy = v
		}
		return err
	})
	if err == nil {
		err = c.Backpressure.short(size, strategy)
	}
	if err != nil {
		return QueueConfig{}, err
	}
	return c, nil
}

// checkDefaultRetry holds a default policy to what holds for the policy of a job.
func checkDefaultRetry(v json.RawMessage) error {
	_, err := ParseRetry(v, true)
	if e, ok := err.(*Error); ok {
		const field = "default_retry"
		e.Message = strings.Replace(e.Message, "retry", field, 1)
		if f, ok := e.Details["field"].(string); ok {
			e.Details["field"] = strings.Replace(f, "retry", field, 1)
		}
	}
	return err
}

// read reads the member backpressure.
func (b *Backpressure) read(v json.RawMessage) error {
	if v[0] != '{' {
		return invalid(Invalid, "backpressure", "must be an object, got %s", rawjson.Kind(v))
	}
	return membersOf(v, "backpressure", func(name string, v json.RawMessage) (err error) {
		field := "backpressure." + name
		if string(v) == "null" {
			return nil
		}
		switch name {
		case "max_depth":
			b.MaxDepth, err = positive[int64](v, field)
		case "strategy":
			b.Strategy, err = strategy(v, field)
		case "warning_threshold":
			f, ok := number(v)
			if !ok || f <= 0 || f > 1 {
				return invalid(Invalid, field, "must be a number above 0 and up to 1, the part of max_depth from which on a PUSH is warned, got %s", shown(v))
			}
			b.Warning = f
		case "max_size_bytes":
			err = invalid(Unsupported, field, "is not supported: this server counts the jobs of a queue and not their bytes; set max_depth")
		}
		return err
	})
}

// short reads max_size and overflow_policy, which say what backpressure says. They
// may stand beside it where they say the same.
func (b *Backpressure) short(size, policy json.RawMessage) error {
	if size != nil {
		n, err := positive[int64](size, "max_size")
		if err != nil {
			return err
		}
		if b.MaxDepth != 0 && b.MaxDepth != n {
			return invalid(Invalid, "max_size", "is %d, and backpressure.max_depth beside it %d: one of them is enough", n, b.MaxDepth)
		}
		b.MaxDepth = n
	}
	if policy != nil {
		s, err := strategy(policy, "overflow_policy")
		if err != nil {
			return err
		}
		if b.Strategy != "" && b.Strategy != s {
			return invalid(Invalid, "overflow_policy", "is %s, and backpressure.strategy beside it %s: one of them is enough", s, b.Strategy)
		}
		b.Strategy = s
	}
	return nil
}

func strategy(v json.RawMessage, field string) (string, error) {
	s, err := text(v, field)
	if err == nil && !slices.Contains([]string{OverflowReject, OverflowBlock, OverflowDropOldest}, s) {
		err = invalid(Invalid, field, "must be reject, block or drop_oldest, got %s", shown(v))
	}
	return s, err
}

// retention reads how long finished jobs stay: one length for all of them, or one for
// each way to end.
func retention(v json.RawMessage) (r QueueRetention, err error) {
	const field = "retention"
	if v[0] != '{' {
		d, err := span(v, field)
		return QueueRetention{&d, &d, &d}, err
	}
	err = membersOf(v, field, func(name string, v json.RawMessage) error {
		into := map[string]**time.Duration{"completed": &r.Completed, "discarded": &r.Discarded, "cancelled": &r.Cancelled}[name]
		if into == nil || string(v) == "null" {
			return nil
		}
		d, err := span(v, field+"."+name)
		*into = &d
		return err
	})
	return r, err
}

// quota reads {"limit", "period"}. Without a period it is of a second.
func quota(v json.RawMessage, field string) (Quota, error) {
	if v[0] != '{' {
		return Quota{}, invalid(Invalid, field, "must be an object with limit and period, got %s", rawjson.Kind(v))
	}
	return parseQuota(v, field, field+".period", json.RawMessage(`"second"`))
}

// span reads a length of time: a number of seconds, an ISO 8601 duration, or the
// short form, such as 24h or 7d.
func span(v json.RawMessage, field string) (time.Duration, error) {
	wrong := invalid(Invalid, field, "must be a number of seconds, an ISO 8601 duration such as PT30S, or a short one such as 24h or 7d, of at most 100 years, got %s", shown(v))
	if v[0] != '"' {
		f, ok := number(v)
		if !ok || f < 0 || f > MaxDuration.Seconds() {
			return 0, wrong
		}
		return Seconds(f), nil
	}
	s, _ := text(v, field)
	if d, ok := ParseSpan(s); ok {
		return d, nil
	}
	return 0, wrong
}

// ParseSpan reads a length of time as people write it: an ISO 8601 duration, or a
// short one such as 90s, 24h, 7d or 2w, of at most MaxDuration.
func ParseSpan(s string) (time.Duration, bool) {
	if d, err := ParseDuration(s); err == nil {
		return ceilMillis(d), true
	}
	if days, ok := strings.CutSuffix(s, "w"); ok {
		s = "P" + days + "W"
	} else if days, ok := strings.CutSuffix(s, "d"); ok {
		s = "P" + days + "D"
	} else {
		d, err := time.ParseDuration(s)
		return ceilMillis(d), err == nil && shortForm.MatchString(s) && d <= MaxDuration
	}
	d, err := ParseDuration(s)
	return d, err == nil
}

// positive is an integer of 1 or more.
func positive[N int | int64](v json.RawMessage, field string) (N, error) {
	n, ok := integer(v)
	if !ok || n < 1 || n > 1<<31-1 {
		return 0, invalid(Invalid, field, "must be an integer from 1 to 2147483647, got %s", shown(v))
	}
	return N(n), nil
}

// number is a JSON number.
func number(v json.RawMessage) (f float64, ok bool) {
	return f, string(v) != "null" && json.Unmarshal(v, &f) == nil
}
