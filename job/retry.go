package job

import (
	"encoding/json"
	"math"
	"strings"
	"time"
)

// RetryPolicy is an effective policy: what a job supplied, merged over the
// defaults of ojs-retry.md §8.
type RetryPolicy struct {
	MaxAttempts        int
	InitialInterval    time.Duration
	BackoffCoefficient float64
	MaxInterval        time.Duration
	Jitter             bool
	NonRetryableErrors []string
	OnExhaustion       string // "discard" or "dead_letter"
	Strategy           string // "none", "constant", "linear", "exponential" or "polynomial"
}

// DefaultRetry returns the policy of a job that supplied none (ojs-retry.md §8).
func DefaultRetry() RetryPolicy {
	return RetryPolicy{
		MaxAttempts:        3,
		InitialInterval:    time.Second,
		BackoffCoefficient: 2,
		MaxInterval:        5 * time.Minute,
		Jitter:             true,
		OnExhaustion:       OnExhaustionDiscard,
		Strategy:           "exponential",
	}
}

// Delay is the backoff before retry n, the first being 1 (ojs-retry.md §3 to
// §5): raw delay, cap, jitter with r in [0,1) mapped to [0.5,1.5), cap again,
// rounded up to whole milliseconds.
func (p RetryPolicy) Delay(n int, r float64) time.Duration {
	i, c := float64(p.InitialInterval), p.BackoffCoefficient
	raw := i
	switch p.Strategy {
	case "linear":
		raw = i * float64(n)
	case "exponential":
		raw = i * math.Pow(c, float64(n-1))
	case "polynomial":
		raw = i * math.Pow(float64(n), c)
	}
	limit := float64(p.MaxInterval)
	d := math.Min(raw, limit) // also where raw is +Inf
	if p.Jitter {
		d = math.Min(d*(0.5+r), limit)
	}
	return ceilMillis(time.Duration(d))
}

// final reports whether one of the failure's names is listed as non-retryable:
// the same text, or a prefix where the entry ends in ".*" (ojs-retry.md §6.2).
func (p RetryPolicy) final(names ...string) bool {
	for _, entry := range p.NonRetryableErrors {
		for _, name := range names {
			if name == "" {
				continue
			}
			if name == entry || strings.HasSuffix(entry, ".*") && strings.HasPrefix(name, entry[:len(entry)-1]) {
				return true
			}
		}
	}
	return false
}

// verdict is what a failed attempt leads to.
type verdict int

const (
	retry verdict = iota
	exhausted
	discard
	deadLetter
)

// judge decides a failure in the order of contract §4.4: the handler's word,
// then the error's nature, then the attempts that are left.
func (j *Job) judge(p RetryPolicy, f Failure) verdict {
	switch {
	case DiscardCode(f.Code):
		return discard
	case f.Code == "DEAD_LETTER":
		return deadLetter
	}
	if f.Code != "RETRY" && f.Retryable != nil && !*f.Retryable {
		return exhausted
	}
	code := f.Code
	if responseCodes[code] {
		code = ""
	}
	if p.final(f.ErrorType(), f.Type, code, detail(f.Details, "error_class")) {
		return exhausted
	}
	if j.spent(p) {
		return exhausted
	}
	return retry
}

// DiscardCode reports whether a worker that answers with the code discards the
// job on purpose, whatever the policy says (ojs-retry.md §7.2).
func DiscardCode(code string) bool { return code == "DISCARD" || code == "FAIL" }

// spent reports whether every execution that the policy allows has begun.
// A MaxAttempts of 0 still allows the first one.
func (j *Job) spent(p RetryPolicy) bool {
	return j.Attempt-j.Releases >= max(p.MaxAttempts, 1)
}

var responseCodes = map[string]bool{"RETRY": true, "DISCARD": true, "DEAD_LETTER": true, "FAIL": true}

// detail is a string member of a details object, or empty.
func detail(raw json.RawMessage, name string) string {
	if len(raw) == 0 || raw[0] != '{' {
		return ""
	}
	var m map[string]json.RawMessage
	var s string
	if json.Unmarshal(raw, &m) != nil || json.Unmarshal(m[name], &s) != nil {
		return ""
	}
	return s
}
