package servicetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var retrying = []verdict{
	{"the backoff follows its formula and its cap", backoff},
	{"the worker may choose the delay, up to the cap", chosenDelay},
	{"max_attempts is an exact bound", exactBound},
	{"the newest 25 errors stay, oldest first", errorHistory},
}

// cycle pushes a job that fails n times with no delay asked for, and returns its delays.
func (k *kit) cycle(policy string, n int) (delays []time.Duration) {
	k.t.Helper()
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(policy) })
	var j *job.Job
	for range n {
		j = k.fail(k.take(), job.Failure{Message: "no"})
		delays = append(delays, j.RetryDelay)
		k.shows(j, "retry_delay_ms", fmt.Sprint(j.RetryDelay.Milliseconds()))
	}
	k.clear(j)
	return delays
}

func backoff(k *kit) {
	const base = `{"max_attempts":9,"initial_interval_ms":10,"jitter":false,`
	for _, tt := range []struct {
		policy string
		want   []int
	}{
		{base + `"backoff_coefficient":2}`, []int{10, 20, 40}},
		{base + `"backoff_coefficient":3,"max_interval_ms":25}`, []int{10, 25, 25}},
		{base + `"backoff_coefficient":1}`, []int{10, 10, 10}},
		{base + `"backoff_strategy":"linear","backoff_coefficient":9}`, []int{10, 20, 30}},
		{base + `"backoff_strategy":"none"}`, []int{10, 10, 10}},
		{base + `"backoff_strategy":"constant"}`, []int{10, 10, 10}},
		{base + `"backoff_strategy":"polynomial","backoff_coefficient":2}`, []int{10, 40, 90}},
	} {
		for i, got := range k.cycle(tt.policy, 3) {
			if want := time.Duration(tt.want[i]) * time.Millisecond; got != want {
				k.t.Errorf("%s: delay %d is %s, want %s", tt.policy, i+1, got, want)
			}
		}
	}
	for range 20 {
		got := k.cycle(`{"initial_interval_ms":1000,"max_interval_ms":1200}`, 1)[0]
		if got < 500*time.Millisecond || got > 1200*time.Millisecond {
			k.t.Errorf("with jitter the delay is %s, want 0.5 s to 1.2 s", got)
		}
	}
	if got := k.cycle(`{"max_attempts":2}`, 1)[0]; got < 500*time.Millisecond || got > 1500*time.Millisecond { // rounded to milliseconds
		k.t.Errorf("the defaults give %s, want 0.5 s to 1.5 s", got)
	}
}

func chosenDelay(k *kit) {
	for _, tt := range []struct{ asked, want time.Duration }{{0, 0}, {70 * time.Millisecond, 70 * time.Millisecond}, {time.Hour, time.Minute}} {
		k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval":"PT30S","max_interval":"PT1M"}`) })
		held := k.take()
		j := k.fail(held, job.Failure{Message: "no", RetryAfter: ptr(tt.asked)})
		if j.State != job.Retryable || j.RetryDelay != tt.want {
			k.t.Errorf("asked for %s: %s", tt.asked, text(j))
		}
		k.clear(j)
	}
}

func exactBound(k *kit) {
	for _, tt := range []struct{ max, runs int }{{0, 1}, {1, 1}, {2, 2}, {4, 4}} {
		k.push(func(e *job.Envelope) {
			e.Retry = json.RawMessage(fmt.Sprintf(`{"max_attempts":%d,"initial_interval_ms":1,"max_interval_ms":1}`, tt.max))
		})
		for n := 1; n <= tt.runs; n++ {
			j := k.fail(k.take(), job.Failure{Message: "no"})
			want := job.Retryable
			if n == tt.runs {
				want = job.Discarded
			}
			if j.State != want || j.Attempt != n || j.MaxAttempts != tt.max {
				k.t.Errorf("max_attempts %d, run %d: %s", tt.max, n, text(j))
			}
		}
		k.none()
	}
}

func errorHistory(k *kit) {
	const runs = 28
	pushed := k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":40,"initial_interval_ms":1,"max_interval_ms":1}`)
	})
	for n := 1; n <= runs; n++ {
		k.fail(k.take(), job.Failure{Type: "e.x", Message: fmt.Sprint("run ", n)})
	}
	j := k.read(pushed.ID)
	entries := k.history(j)
	if len(entries) != 25 {
		k.t.Fatalf("%d entries, want 25", len(entries))
	}
	for i, e := range entries {
		n := runs - 25 + 1 + i
		k.expect(e, "attempt", fmt.Sprint(n))
		k.expect(e, "message", fmt.Sprintf("%q", fmt.Sprint("run ", n)))
	}
	k.expect(j.Error, "message", fmt.Sprintf("%q", fmt.Sprint("run ", runs)))
}
