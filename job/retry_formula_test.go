package job

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ojs-retry.md §3 and §5, appendix A, in the plainest form: the delay of a
// strategy, the cap, the jitter r of [0.5, 1.5) on what is capped, the cap again.
func formula(p RetryPolicy, n int, r float64) float64 {
	power := func(base float64, times int) float64 {
		v := 1.0
		for range times {
			v *= base
		}
		return v
	}
	i, limit := p.InitialInterval.Seconds(), p.MaxInterval.Seconds()
	d := map[string]float64{"none": i, "constant": i, "linear": i * float64(n), "exponential": i * power(p.BackoffCoefficient, n-1),
		"polynomial": i * power(float64(n), int(p.BackoffCoefficient))}[p.Strategy]
	d = min(d, limit)
	if p.Jitter {
		d = min(d*(0.5+r), limit)
	}
	return d
}

// RET-04 to RET-06 and §3.5: every delay is that of the formula to the
// millisecond, never below half of the capped delay and never above the cap.
func TestDelayIsTheFormula(t *testing.T) {
	capped, jittered := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := RetryPolicy{
			InitialInterval:    time.Duration(rapid.IntRange(1, 100_000).Draw(t, "initial")) * time.Millisecond,
			BackoffCoefficient: float64(rapid.IntRange(1, 6).Draw(t, "coefficient")),
			Jitter:             rapid.Bool().Draw(t, "jitter"),
			Strategy:           rapid.SampledFrom([]string{"none", "constant", "linear", "exponential", "polynomial"}).Draw(t, "strategy"),
		}
		p.MaxInterval = p.InitialInterval + time.Duration(rapid.IntRange(0, 10_000_000).Draw(t, "above"))*time.Millisecond
		n, r := rapid.IntRange(1, 200).Draw(t, "n"), rapid.Float64Range(0, 1-1e-9).Draw(t, "r")
		got, want := p.Delay(n, r).Seconds(), formula(p, n, r)
		if got < want-0.001 || got > want+0.001 {
			t.Fatalf("retry %d of %+v with r %v waits %v s, want %v s", n, p, r, got, want)
		}
		plain := p
		plain.Jitter = false
		if whole := formula(plain, n, r); got > p.MaxInterval.Seconds() || got < whole/2-0.001 || p.Jitter && got >= whole*1.5+0.001 {
			t.Fatalf("retry %d of %+v with r %v waits %v s, without jitter %v s", n, p, r, got, whole)
		}
		if p.Delay(n, r) == p.MaxInterval {
			capped++
		}
		if p.Jitter && p.Delay(n, 0) < p.Delay(n, 0.5) {
			jittered++
		}
	})
	if capped == 0 || jittered == 0 {
		t.Errorf("%d delays met the cap, %d the jitter: the policies are too much alike", capped, jittered)
	}
}
