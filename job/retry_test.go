package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

// The tables of ojs-retry.md §3 and §12.3, row by row.
func TestDelayTables(t *testing.T) {
	sec := func(ns ...int) (ds []time.Duration) {
		for _, n := range ns {
			ds = append(ds, time.Duration(n)*time.Second)
		}
		return ds
	}
	for _, tt := range []struct {
		name   string
		policy string
		want   []time.Duration
	}{
		{"3.1 none", `{"initial_interval":"PT5S","backoff_strategy":"none","jitter":false}`, sec(5, 5, 5, 5)},
		{"3.1 constant", `{"initial_interval":"PT5S","backoff_strategy":"constant","jitter":false}`, sec(5, 5, 5, 5)},
		{"3.2 linear", `{"initial_interval":"PT5S","backoff_strategy":"linear","jitter":false}`, sec(5, 10, 15, 20)},
		{"3.3 exponential", `{"jitter":false}`, sec(1, 2, 4, 8, 16, 32, 64, 128, 256, 300)},
		{"3.4 polynomial", `{"backoff_coefficient":4.0,"backoff_strategy":"polynomial","jitter":false}`, sec(1, 16, 81, 256, 300)},
		{"12.3 payment", `{"initial_interval":"PT15S","backoff_coefficient":4.0,"max_interval":"PT1H","backoff_strategy":"polynomial","jitter":false}`, sec(15, 240, 1215, 3600, 3600)},
		{"coefficient 1 is constant", `{"backoff_coefficient":1,"jitter":false}`, sec(1, 1, 1)},
		{"cap", `{"initial_interval":"PT1S","backoff_coefficient":10,"max_interval":"PT2S","jitter":false}`, sec(1, 2, 2)},
	} {
		p, err := ParseRetry(json.RawMessage(tt.policy), false)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for i, want := range tt.want {
			if got := p.Delay(i+1, 0.99); got != want {
				t.Errorf("%s: retry %d waits %s, want %s", tt.name, i+1, got, want)
			}
		}
	}
}

// ojs-retry.md §5: jitter is in [0.5, 1.5) and never passes the cap; no number
// of retries overflows.
func TestJitterStaysInBounds(t *testing.T) {
	p := DefaultRetry()
	p.InitialInterval = 10 * time.Second
	for n := 1; n < 5000; n += 7 {
		plain := p
		plain.Jitter = false
		base := plain.Delay(n, 0)
		low, high := p.Delay(n, 0), p.Delay(n, 0.999999)
		if low != base/2 || high > p.MaxInterval || high > base*3/2 || high < base {
			t.Fatalf("retry %d: base %s, jitter %s to %s", n, base, low, high)
		}
	}
}

func TestDefaultPolicyIsThatOfTheSpecification(t *testing.T) {
	got, err := ParseRetry(json.RawMessage(`{}`), false)
	if err != nil || fmt.Sprintf("%+v", got) != "{MaxAttempts:3 InitialInterval:1s BackoffCoefficient:2 MaxInterval:5m0s Jitter:true NonRetryableErrors:[] OnExhaustion:discard Strategy:exponential}" {
		t.Errorf("%+v, %v", got, err)
	}
	// §8.1: a partial policy keeps the other defaults.
	got, err = ParseRetry(json.RawMessage(`{"max_attempts":10,"on_exhaustion":"dead_letter"}`), false)
	if err != nil || got.MaxAttempts != 10 || got.OnExhaustion != "dead_letter" || got.InitialInterval != time.Second || !got.Jitter {
		t.Errorf("%+v, %v", got, err)
	}
}

// The table of ojs-retry.md §6.2.
func TestNonRetryableMatching(t *testing.T) {
	p := RetryPolicy{NonRetryableErrors: []string{"validation.payload_invalid", "auth.*"}}
	for name, want := range map[string]bool{
		"validation.payload_invalid": true, "validation.schema_error": false, "auth.token_expired": true,
		"auth.forbidden": true, "auth": false, "external.auth.failure": false, "AuthError": false,
	} {
		if got := p.final(name); got != want {
			t.Errorf("%s matches: %v, want %v", name, got, want)
		}
	}
	if (RetryPolicy{NonRetryableErrors: []string{"*"}}).final("anything") {
		t.Error("* alone is no wildcard")
	}
}

// ojs-retry.md §7.2: what the handler says comes before the policy.
func TestHandlerCodes(t *testing.T) {
	no := false
	for _, tt := range []struct {
		name, policy string
		f            Failure
		want         State
		dead         bool
	}{
		{"plain", `{}`, Failure{Type: "E"}, Retryable, false},
		{"DISCARD", `{"on_exhaustion":"dead_letter"}`, Failure{Type: "E", Code: "DISCARD"}, Discarded, false},
		{"FAIL", `{"on_exhaustion":"dead_letter"}`, Failure{Type: "E", Code: "FAIL"}, Discarded, false},
		{"DEAD_LETTER", `{"on_exhaustion":"discard"}`, Failure{Type: "E", Code: "DEAD_LETTER"}, Discarded, true},
		{"RETRY beats retryable:false", `{}`, Failure{Type: "E", Code: "RETRY", Retryable: &no}, Retryable, false},
		{"RETRY still asks the policy", `{"non_retryable_errors":["E"]}`, Failure{Type: "E", Code: "RETRY"}, Discarded, false},
		{"retryable:false", `{"on_exhaustion":"dead_letter"}`, Failure{Type: "E", Retryable: &no}, Discarded, true},
		{"custom code is no word", `{}`, Failure{Type: "E", Code: "x_slow"}, Retryable, false},
		{"code is matched", `{"non_retryable_errors":["x_slow"]}`, Failure{Type: "E", Code: "x_slow"}, Discarded, false},
		{"error_class is matched", `{"non_retryable_errors":["Smtp.*"]}`, Failure{Code: "handler_error", Details: json.RawMessage(`{"error_class":"Smtp.Refused"}`)}, Discarded, false},
		{"codes are exact", `{}`, Failure{Type: "E", Code: "discard"}, Retryable, false},
		{"one attempt", `{"max_attempts":1}`, Failure{Type: "E"}, Discarded, false},
		{"no attempt is one", `{"max_attempts":0,"on_exhaustion":"dead_letter"}`, Failure{Type: "E"}, Discarded, true},
	} {
		j := started(t, tt.policy)
		if err := j.Fail(j.StartedAt, Claim{ID: j.ID}, tt.f, 0.5); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if j.State != tt.want || j.Dead != tt.dead {
			t.Errorf("%s: %s, dead %v; want %s, dead %v", tt.name, j.State, j.Dead, tt.want, tt.dead)
		}
	}
}

// started is an active job, on its first attempt.
func started(t *testing.T, policy string) *Job {
	t.Helper()
	now := time.UnixMilli(1_800_000_000_000).UTC()
	j := &Job{Envelope: Envelope{ID: "0197f6a0-0000-7000-8000-000000000001", Type: "a.b", Args: json.RawMessage(`[]`)}}
	if policy != "" {
		j.Retry = json.RawMessage(policy)
	}
	c, err := j.Check()
	if err != nil {
		t.Fatal(err)
	}
	if j, err = c.Push(now); err != nil {
		t.Fatal(err)
	}
	if err := j.Start(now, Lease{Token: "t1", Worker: "w1", Length: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	return j
}

// Exactly MaxAttempts executions, whatever ends them; a release costs none.
func TestAttemptsAreAnExactBound(t *testing.T) {
	j := started(t, `{"max_attempts":3,"jitter":false}`)
	now := j.StartedAt
	if err := j.Fail(now, Claim{ID: j.ID}, Failure{Requeue: true}, 0); err != nil || j.State != Available {
		t.Fatalf("requeue: %v, %s", err, j.State)
	}
	for n := 1; ; n++ {
		if err := j.Start(now, Lease{Token: fmt.Sprint("t", n), Length: time.Second}); err != nil {
			t.Fatal(err)
		}
		var err error
		if n%2 == 0 {
			err = j.Lose(now, "visibility_timeout", 0)
		} else {
			err = j.Fail(now, Claim{ID: j.ID}, Failure{Type: "E"}, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if j.State == Discarded {
			if n != 3 {
				t.Errorf("%d executions, want 3", n)
			}
			return
		}
		if want := time.Duration(1<<(n-1)) * time.Second; j.RetryDelay != want {
			t.Errorf("delay after execution %d is %s, want %s", n, j.RetryDelay, want)
		}
		now = j.NextRetryAt
		if err := j.Ready(now); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHistoryKeepsTheNewest25(t *testing.T) {
	j := started(t, `{"max_attempts":100,"backoff_strategy":"none"}`)
	for range 40 {
		if err := j.Fail(j.StartedAt, Claim{ID: j.ID}, Failure{Type: "E", Message: fmt.Sprint("no ", j.Attempt)}, 0); err != nil {
			t.Fatal(err)
		}
		if err := j.Ready(j.NextRetryAt); err != nil {
			t.Fatal(err)
		}
		if err := j.Start(j.EnqueuedAt, Lease{Token: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	var errs []struct {
		Attempt                        int
		Type, Message, Code, Timestamp string
		OccurredAt                     string `json:"occurred_at"`
	}
	if err := json.Unmarshal(j.Errors, &errs); err != nil {
		t.Fatal(err)
	}
	if len(errs) != 25 || errs[0].Attempt != 16 || errs[24].Attempt != 40 || errs[24].Code != "RETRY" || errs[24].Timestamp != errs[24].OccurredAt || errs[24].Timestamp == "" {
		t.Errorf("%d entries, first %+v, last %+v", len(errs), errs[0], errs[len(errs)-1])
	}
}

// ojs-retry.md §11.1 and contract §2.4: each bad policy names its field.
func TestBadPolicies(t *testing.T) {
	for policy, field := range map[string]string{
		`{"max_attempts":-1}`:                 "retry.max_attempts",
		`{"max_attempts":1.5}`:                "retry.max_attempts",
		`{"max_attempts":"3"}`:                "retry.max_attempts",
		`{"max_attempts":null}`:               "retry.max_attempts",
		`{"initial_interval":"1s"}`:           "retry.initial_interval",
		`{"initial_interval":"PT0S"}`:         "retry.initial_interval",
		`{"initial_interval":"-PT1S"}`:        "retry.initial_interval",
		`{"initial_interval":"P"}`:            "retry.initial_interval",
		`{"initial_interval":"PT"}`:           "retry.initial_interval",
		`{"initial_interval":"P1DT"}`:         "retry.initial_interval",
		`{"initial_interval":"PT1.5M"}`:       "retry.initial_interval",
		`{"initial_interval":5}`:              "retry.initial_interval",
		`{"initial_interval":"P101Y"}`:        "retry.initial_interval",
		`{"initial_interval_ms":0}`:           "retry.initial_interval_ms",
		`{"initial_interval":"PT10M"}`:        "retry.max_interval",
		`{"max_interval":"PT0.5S"}`:           "retry.max_interval",
		`{"max_interval":"five"}`:             "retry.max_interval",
		`{"backoff_coefficient":0.9}`:         "retry.backoff_coefficient",
		`{"backoff_coefficient":"2"}`:         "retry.backoff_coefficient",
		`{"jitter":"yes"}`:                    "retry.jitter",
		`{"jitter":1}`:                        "retry.jitter",
		`{"jitter":"true"}`:                   "retry.jitter",
		`{"non_retryable_errors":"E"}`:        "retry.non_retryable_errors",
		`{"non_retryable_errors":[1]}`:        "retry.non_retryable_errors",
		`{"non_retryable_errors":[""]}`:       "retry.non_retryable_errors",
		`{"on_exhaustion":"explode"}`:         "retry.on_exhaustion",
		`{"backoff_strategy":"magic"}`:        "retry.backoff_strategy",
		`{"attempts":3}`:                      "retry.attempts",
		`{"max_attempts":1,"maxAttempts":20}`: "retry.maxAttempts",
		`[]`:                                  "retry",
	} {
		_, err := ParseRetry(json.RawMessage(policy), false)
		if KindOf(err) != BadRetry || err.(*Error).Details["field"] != field {
			t.Errorf("%s: %v, details %v, want field %s", policy, err, err, field)
		}
	}
	for _, policy := range []string{
		`{"initial_interval_ms":1500,"maxAttempts":2}`, `{"x_note":1}`, `{"initial_interval":"PT0.5S"}`,
		`{"max_interval":"P1Y2M3W4DT5H6M7.5S"}`, `{"max_attempts":0}`, `{"max_attempts":3.0}`,
	} {
		if _, err := ParseRetry(json.RawMessage(policy), false); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if p, err := ParseRetry(json.RawMessage(`{"initial_interval":"1s","max_interval":"300s"}`), true); err != nil || p.MaxInterval != 5*time.Minute {
		t.Errorf("the short form of ojs-core.md §13: %+v, %v", p, err)
	}
}

// A late ACK is heard from the holder before, in its time, and from nobody else
// (ojs-delivery-guarantees.md §8).
func TestLateAck(t *testing.T) {
	type step func(j *Job, at time.Time)
	lose := func(j *Job, at time.Time) { must(t, j.Lose(at, "visibility_timeout", 0)) }
	refetch := func(j *Job, at time.Time) {
		must(t, j.Start(at, Lease{Token: "t2", Worker: "w2", Length: time.Minute}))
	}
	for _, tt := range []struct {
		name  string
		steps []step
		claim Claim
		after time.Duration
		want  bool
	}{
		{"available, its token", []step{lose}, Claim{Token: "t1"}, time.Second, true},
		{"available, its name", []step{lose}, Claim{Worker: "w1"}, time.Second, true},
		{"available, nameless", []step{lose}, Claim{}, time.Second, true},
		{"available, another token", []step{lose}, Claim{Token: "tx"}, time.Second, false},
		{"available, another name", []step{lose}, Claim{Worker: "w9"}, time.Second, false},
		{"held by the next, its token", []step{lose, refetch}, Claim{Token: "t1"}, time.Second, true},
		{"held by the next, its name", []step{lose, refetch}, Claim{Worker: "w1"}, time.Second, true},
		{"lost twice, the newer claim's token", []step{lose, refetch, lose}, Claim{Token: "t2"}, time.Second, true},
		{"lost twice, the older token", []step{lose, refetch, lose}, Claim{Token: "t1"}, time.Second, false},
		{"two claims later", []step{lose, refetch, lose, refetch}, Claim{Token: "t1"}, time.Second, false},
		{"after the grace", []step{lose}, Claim{Token: "t1"}, 61 * time.Second, false},
		{"cancelled in between", []step{lose, func(j *Job, at time.Time) { must(t, j.Cancel(at, "", "")) }}, Claim{Token: "t1"}, time.Second, false},
	} {
		j := started(t, "")
		j.MaxAttempts = 3
		at := j.StartedAt.Add(30 * time.Second)
		for _, s := range tt.steps {
			s(j, at)
		}
		tt.claim.ID = j.ID
		err := j.Complete(at.Add(tt.after), tt.claim, json.RawMessage(`1`))
		if got := err == nil && j.State == Completed; got != tt.want {
			t.Errorf("%s: %v, state %s, want heard %v", tt.name, err, j.State, tt.want)
		}
	}
}

// A zombie of the life before a manual retry is a stranger, although the
// attempt number is the same.
func TestReviveEndsAllClaims(t *testing.T) {
	j := started(t, `{"max_attempts":1,"on_exhaustion":"dead_letter"}`)
	now := j.StartedAt
	must(t, j.Fail(now, Claim{ID: j.ID, Token: "t1"}, Failure{Type: "E"}, 0))
	must(t, j.Revive(now))
	must(t, j.Start(now, Lease{Token: "t2", Worker: "w1", Length: time.Minute}))
	if j.Attempt != 1 || j.Errors != nil || j.Error != nil {
		t.Fatalf("attempt %d, errors %s", j.Attempt, j.Errors)
	}
	for name, err := range map[string]error{
		"ack":    j.Complete(now, Claim{ID: j.ID, Token: "t1"}, nil),
		"fail":   j.Fail(now, Claim{ID: j.ID, Token: "t1"}, Failure{Type: "E"}, 0),
		"extend": j.Extend(now, Claim{ID: j.ID, Token: "t1"}, time.Hour),
	} {
		if KindOf(err) != Conflict || err == nil {
			t.Errorf("%s with the old token: %v", name, err)
		}
	}
	if j.State != Active || j.Lease.Token != "t2" {
		t.Errorf("state %s, lease %+v", j.State, j.Lease)
	}
}

// contract §4.6: a job that brought a policy backs off after a stall, another is available at once.
func TestLose(t *testing.T) {
	with, without := started(t, `{"max_attempts":3}`), started(t, "")
	at := with.StartedAt.Add(time.Minute)
	must(t, with.Lose(at, "visibility_timeout", 0.5))
	must(t, without.Lose(at, "visibility_timeout", 0.5))
	if with.State != Retryable || with.RetryDelay != time.Second || without.State != Available || !without.StartedAt.IsZero() || without.Error == nil {
		t.Errorf("with a policy %s after %s, without %s", with.State, with.RetryDelay, without.State)
	}
	without.MaxAttempts = 1
	without.Retry = json.RawMessage(`{"max_attempts":1}`)
	must(t, without.Start(at, Lease{Token: "t2"}))
	must(t, without.Lose(at, "visibility_timeout", 0.5))
	if without.State != Discarded {
		t.Errorf("a stall of the last attempt leads to %s", without.State)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBacktraceIsShortened(t *testing.T) {
	long := slices.Repeat([]string{"frame " + string(make([]byte, 300))}, 80)
	got := shorten(long)
	n := 0
	for _, f := range got {
		n += len([]rune(f))
	}
	if len(got) > 50 || n > 10_000 || n < 9_000 {
		t.Errorf("%d frames, %d characters", len(got), n)
	}
}
