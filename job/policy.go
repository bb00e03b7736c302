package job

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// ParseRetry merges a supplied policy over the defaults and checks the result
// (ojs-retry.md §8.1, §11). nil is the default policy. short also takes
// durations such as "1s", which the examples of ojs-core.md §13 write. Errors are
// BadRetry, but for a member that is given twice, which is Invalid (contract §1.5).
func ParseRetry(raw json.RawMessage, short bool) (RetryPolicy, error) {
	return mergeRetry(DefaultRetry(), raw, short, true)
}

// mergeRetry is ParseRetry over another policy than the default. It takes of
// several spellings the last if once is false.
func mergeRetry(p RetryPolicy, raw json.RawMessage, short, once bool) (RetryPolicy, error) {
	if raw == nil {
		return p, nil
	}
	if raw[0] != '{' {
		return p, invalid(BadRetry, "retry", "must be an object, got %s", rawjson.Kind(raw))
	}
	said := map[string]bool{}
	err := eachOfPolicy(raw, once, func(spelling, name string, v json.RawMessage) error {
		said[name] = true
		return p.set(spelling, name, v, short)
	})
	if err != nil {
		return p, err
	}
	if p.MaxInterval < p.InitialInterval {
		return p, p.crossed(said["initial_interval"], said["max_interval"])
	}
	return p, nil
}

// crossed is the BadRetry for a policy whose first delay is longer than its longest one
// (contract C-48); first and longest report which of the two the policy itself has named.
func (p RetryPolicy) crossed(first, longest bool) error {
	i, x := Period(p.InitialInterval), Period(p.MaxInterval)
	switch {
	case first && !longest:
		return invalid(BadRetry, "retry.max_interval", "is inherited as %s, shorter than the initial_interval %s of this policy; set max_interval to %[2]s or more as well", x, i)
	case longest && !first:
		return invalid(BadRetry, "retry.max_interval", "is %s, shorter than the inherited initial_interval %s; set it to %[2]s or more, or a shorter initial_interval as well", x, i)
	}
	return invalid(BadRetry, "retry.max_interval", "is %s, shorter than initial_interval %s; set it to %[2]s or more", x, i)
}

// policyNames are the members of a policy by their spellings (contract §2.4).
var policyNames = map[string]string{
	"max_attempts": "max_attempts", "maxAttempts": "max_attempts",
	"initial_interval": "initial_interval", "initialInterval": "initial_interval",
	"initial_interval_ms": "initial_interval", "base_delay_ms": "initial_interval",
	"max_interval": "max_interval", "maxInterval": "max_interval", "max_interval_ms": "max_interval",
	"backoff_coefficient": "backoff_coefficient", "backoffCoefficient": "backoff_coefficient",
	"jitter":               "jitter",
	"non_retryable_errors": "non_retryable_errors", "nonRetryableErrors": "non_retryable_errors",
	"on_exhaustion": "on_exhaustion", "onExhaustion": "on_exhaustion",
	"backoff_strategy": "backoff_strategy", "backoff_type": "backoff_strategy",
	"strategy": "backoff_strategy", "backoff": "backoff_strategy",
}

// eachOfPolicy calls fn for the members of a policy, with the name that their
// spelling means, empty for others. One that is given twice is refused, and, if
// once, one in two spellings.
func eachOfPolicy(raw json.RawMessage, once bool, fn func(spelling, name string, v json.RawMessage) error) error {
	var room [8]string
	said := room[:0]
	return membersOf(raw, "retry", func(spelling string, v json.RawMessage) error {
		name := policyNames[spelling]
		if once && name != "" {
			for _, s := range said {
				if policyNames[s] == name {
					return invalid(BadRetry, "retry."+spelling, "is given beside retry.%s: one of them is enough", s)
				}
			}
			said = append(said, spelling)
		}
		return fn(spelling, name, v)
	})
}

// set reads one member of a policy.
func (p *RetryPolicy) set(spelling, name string, v json.RawMessage, short bool) (err error) {
	field := "retry." + spelling
	switch name {
	case "max_attempts":
		n, ok := integer(v)
		if !ok || n < 0 || n > math.MaxInt32 {
			return invalid(BadRetry, "retry.max_attempts", "must be a non-negative integer, got %s", shown(v))
		}
		p.MaxAttempts = int(n)
	case "initial_interval":
		if p.InitialInterval, err = interval(v, field, short); err == nil && p.InitialInterval <= 0 {
			err = invalid(BadRetry, field, "must be greater than zero")
		}
	case "max_interval":
		p.MaxInterval, err = interval(v, field, short)
	case "backoff_coefficient":
		var f float64
		if json.Unmarshal(v, &f) != nil || string(v) == "null" || f < 1 {
			return invalid(BadRetry, "retry.backoff_coefficient", "must be a number of 1.0 or more, got %s", shown(v))
		}
		p.BackoffCoefficient = f
	case "jitter":
		if p.Jitter, err = boolean(v); err != nil {
			return invalid(BadRetry, field, "must be true or false, got %s", shown(v))
		}
	case "non_retryable_errors":
		p.NonRetryableErrors, err = nonEmptyStrings(v, field)
	case "on_exhaustion":
		return oneOf(v, field, &p.OnExhaustion, OnExhaustionDiscard, OnExhaustionDeadLetter)
	case "backoff_strategy":
		return oneOf(v, field, &p.Strategy, "none", "constant", "linear", "exponential", "polynomial")
	default:
		if !strings.HasPrefix(spelling, "x_") {
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
