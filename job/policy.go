package job

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// ParseRetry merges a supplied policy over the defaults and checks the result
// (ojs-retry.md §8.1, §11). nil is the default policy. short also takes
// durations such as "1s", which the examples of ojs-core.md §13 write. Two
// spellings of one member are refused. Errors are BadRetry.
func ParseRetry(raw json.RawMessage, short bool) (RetryPolicy, error) {
	return parseRetry(raw, short, true)
}

// parseRetry is ParseRetry, which takes of several spellings the last if once is false.
func parseRetry(raw json.RawMessage, short, once bool) (RetryPolicy, error) {
	p := DefaultRetry()
	if raw == nil {
		return p, nil
	}
	if raw[0] != '{' {
		return p, invalid(BadRetry, "retry", "must be an object, got %s", kindOfJSON(raw))
	}
	var said [len(policyMembers)]string
	err := Members(raw, func(name string, v json.RawMessage) error {
		if i := policyMember(name); i >= 0 {
			if once && said[i] != "" {
				return invalid(BadRetry, "retry."+name, "is given beside retry.%s: one of them is enough", said[i])
			}
			said[i] = name
		}
		return p.set(name, v, short)
	})
	if err != nil {
		if KindOf(err) != BadRetry {
			err = invalid(BadRetry, "retry", "%v", err)
		}
		return p, err
	}
	if p.MaxInterval < p.InitialInterval {
		return p, invalid(BadRetry, "retry.max_interval", "is %s, shorter than initial_interval %s; set max_interval as well", p.MaxInterval, p.InitialInterval)
	}
	return p, nil
}

// policyMembers are the members of a policy that have several spellings (contract §2.4).
var policyMembers = [...][]string{
	{"max_attempts", "maxAttempts"},
	{"initial_interval", "initialInterval", "initial_interval_ms", "base_delay_ms"},
	{"max_interval", "maxInterval", "max_interval_ms"},
	{"backoff_coefficient", "backoffCoefficient"},
	{"non_retryable_errors", "nonRetryableErrors"},
	{"on_exhaustion", "onExhaustion"},
	{"backoff_strategy", "backoff_type", "strategy", "backoff"},
}

// policyMember is the index in policyMembers of a spelling, or -1.
func policyMember(name string) int {
	return slices.IndexFunc(policyMembers[:], func(spellings []string) bool { return slices.Contains(spellings, name) })
}

// set reads one member of a policy.
func (p *RetryPolicy) set(name string, v json.RawMessage, short bool) (err error) {
	field := "retry." + name
	switch name {
	case "max_attempts", "maxAttempts":
		n, ok := integer(v)
		if !ok || n < 0 || n > math.MaxInt32 {
			return invalid(BadRetry, "retry.max_attempts", "must be a non-negative integer, got %s", shown(v))
		}
		p.MaxAttempts = int(n)
	case "initial_interval", "initialInterval", "initial_interval_ms", "base_delay_ms":
		if p.InitialInterval, err = interval(v, field, short); err == nil && p.InitialInterval <= 0 {
			err = invalid(BadRetry, field, "must be greater than zero")
		}
	case "max_interval", "maxInterval", "max_interval_ms":
		p.MaxInterval, err = interval(v, field, short)
	case "backoff_coefficient", "backoffCoefficient":
		var f float64
		if json.Unmarshal(v, &f) != nil || string(v) == "null" || f < 1 {
			return invalid(BadRetry, "retry.backoff_coefficient", "must be a number of 1.0 or more, got %s", shown(v))
		}
		p.BackoffCoefficient = f
	case "jitter":
		if p.Jitter, err = boolean(v); err != nil {
			return invalid(BadRetry, field, "must be true or false, got %s", shown(v))
		}
	case "non_retryable_errors", "nonRetryableErrors":
		p.NonRetryableErrors, err = nonEmptyStrings(v, field)
	case "on_exhaustion", "onExhaustion":
		return oneOf(v, field, &p.OnExhaustion, OnExhaustionDiscard, OnExhaustionDeadLetter)
	case "backoff_strategy", "backoff_type", "strategy", "backoff":
		return oneOf(v, field, &p.Strategy, "none", "constant", "linear", "exponential", "polynomial")
	default:
		if !strings.HasPrefix(name, "x_") {
			return invalid(BadRetry, field, "is not a member of a retry policy")
		}
	}
	return err
}

// interval reads a duration of a policy: ISO 8601, whole milliseconds for *_ms, "1s" if short.
func interval(v json.RawMessage, field string, short bool) (time.Duration, error) {
	if strings.HasSuffix(field, "_ms") {
		n, ok := integer(v)
		if !ok || n < 0 || n > MaxDuration.Milliseconds() {
			return 0, invalid(BadRetry, field, "must be a whole number of milliseconds, got %s", shown(v))
		}
		return time.Duration(n) * time.Millisecond, nil
	}
	s, err := text(v, field)
	if err != nil {
		return 0, invalid(BadRetry, field, "must be an ISO 8601 duration such as PT30S, got %s", shown(v))
	}
	if short && shortForm.MatchString(s) {
		if days, ok := strings.CutSuffix(s, "d"); ok {
			s = "P" + days + "D"
		} else if d, err := time.ParseDuration(s); err == nil && d <= MaxDuration {
			return d, nil
		}
	}
	d, err := ParseDuration(s)
	if err != nil {
		return 0, invalid(BadRetry, field, "%v", err)
	}
	return d, nil
}

func nonEmptyStrings(v json.RawMessage, field string) ([]string, error) {
	var list []string
	bad := v[0] != '[' || json.Unmarshal(v, &list) != nil
	for _, s := range list {
		bad = bad || s == ""
	}
	if bad {
		return nil, invalid(BadRetry, field, "must be an array of non-empty strings, got %s", shown(v))
	}
	return list, nil
}

func oneOf(v json.RawMessage, field string, into *string, words ...string) error {
	s, err := text(v, field)
	for _, w := range words {
		if err == nil && s == w {
			*into = s
			return nil
		}
	}
	return invalid(BadRetry, field, "must be one of %s, got %s", strings.Join(words, ", "), shown(v))
}
