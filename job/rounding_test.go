package job

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"
)

// What is waited for is rounded up to the milliseconds that are stored, and what
// is whole milliseconds stays what it is.
func TestDurationsAreRoundedUp(t *testing.T) {
	const ms = time.Millisecond
	for s, want := range map[string]time.Duration{
		"PT0.0001S": ms, "PT0.001S": ms, "PT0.0011S": 2 * ms, "PT1.1S": 1100 * ms, "PT0.07S": 70 * ms, "PT0S": 0,
		"P1DT0.000000001S": 24*time.Hour + ms, "P99Y": 99 * 365 * 24 * time.Hour, "P99YT0.5S": 99*365*24*time.Hour + 500*ms,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", s, got, err, want)
		}
	}
	for _, body := range []string{`"delay":0.0011`, `"delay":"PT0.0011S"`, `"delay_until":"+PT0.0011S"`} {
		e, err := parseEnvelope(json.RawMessage(`{"type":"a.b","args":[],` + body + `}`))
		if err != nil || e.Delay != 2*ms {
			t.Errorf("%s is %s, %v", body, e.Delay, err)
		}
	}
	for _, body := range []string{`{"within":"1100us"}`, `{"period":"PT0.0011S"}`, `{"period":"1.1ms"}`} {
		if p, err := ParseUnique(json.RawMessage(body), true); err != nil || p.Period != 2*ms {
			t.Errorf("%s is %s, %v", body, p.Period, err)
		}
	}
	e := Envelope{Type: "a.b", Args: json.RawMessage(`[]`), Delay: 1500 * time.Microsecond, TTL: time.Hour + 1, Timeout: 1, Visibility: ms + 1}
	got, err := parseEnvelope(appendPush(e))
	if err != nil || got.Delay != 2*ms || got.TTL != time.Hour+ms || got.Timeout != ms || got.Visibility != 2*ms {
		t.Errorf("sent on: %+v, %v", got, err)
	}
	if e.Delay != 1500*time.Microsecond {
		t.Errorf("what was sent has changed: %s", e.Delay)
	}
	if got := ceilMillis(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("the longest duration is rounded to %s", got)
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 6_000_001, time.UTC)
	e = Envelope{Type: "a.b", Args: json.RawMessage(`[]`), ScheduledAt: at, ExpiresAt: at}
	if got, err = parseEnvelope(appendPush(e)); err != nil || got.ScheduledAt.Before(at) || got.ExpiresAt.Before(at) {
		t.Errorf("%s is sent on as %s, %v", at, got.ScheduledAt, err)
	}
}

// A backoff is never shorter than ojs-retry.md §3 computes it, nor by a whole
// millisecond longer, and never longer than its cap.
func TestBackoffIsRoundedUp(t *testing.T) {
	for _, c := range []float64{1, 1.1, 1.37, 2} {
		for _, jitter := range []bool{false, true} {
			p := RetryPolicy{InitialInterval: 333 * time.Millisecond, BackoffCoefficient: c, MaxInterval: 5 * time.Second, Jitter: jitter, Strategy: "exponential"}
			for n := 1; n < 12; n++ {
				for _, r := range []float64{0, 0.1, 0.12345, 0.5, 0.999} {
					want := math.Min(float64(p.InitialInterval)*math.Pow(c, float64(n-1)), float64(p.MaxInterval))
					if jitter {
						want = math.Min(want*(0.5+r), float64(p.MaxInterval))
					}
					got := p.Delay(n, r)
					if what := fmt.Sprint(c, jitter, n, r); got%time.Millisecond != 0 || got < time.Duration(want) || got-time.Duration(want) >= time.Millisecond || got > p.MaxInterval {
						t.Errorf("%s: %s, computed %s", what, got, time.Duration(want))
					}
				}
			}
		}
	}
}
