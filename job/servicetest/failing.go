package servicetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

var failing = []verdict{
	{"a failure is recorded with its type, message and time", failureRecorded},
	{"the handler's code decides before the policy does", handlerCodes},
	{"a failure of a kind that is not retryable is final", nonRetryable},
	{"the derived type of a failure follows contract §2.7", failureTypes},
	{"an error is kept whole, also what nobody knows of it", wholeErrors},
	{"an error that cannot be kept whole is refused", refusedErrors},
}

func failureRecorded(k *kit) {
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`) })
	frames := make([]string, 60)
	for i := range frames {
		frames[i] = strings.Repeat("f", 300)
	}
	j := k.fail(k.take(), job.Failure{Type: "net.refused", Message: "no\nway", Retryable: ptr(true), Backtrace: frames,
		Details: json.RawMessage(`{"host": "a", "n":1.10}`)})
	entry := k.history(j)[0]
	for _, e := range []json.RawMessage{j.Error, entry, k.read(j.ID).Error, k.history(k.read(j.ID))[0]} {
		for name, want := range map[string]string{"type": `"net.refused"`, "message": `"no\nway"`, "code": `"RETRY"`,
			"retryable": `true`, "details": `{"host": "a", "n":1.10}`, "attempt": `1`} {
			k.expect(e, name, want)
		}
		at, err := time.Parse(`"`+rawjson.TimeFormat+`"`, member(k.t, e, "occurred_at"))
		if err != nil || at.Before(j.StartedAt) {
			k.t.Errorf("occurred at %s, %v; started at %s", at, err, j.StartedAt)
		}
		var kept []string
		if err := json.Unmarshal([]byte(member(k.t, e, "backtrace")), &kept); err != nil || len(kept) > 50 || len(strings.Join(kept, "")) > 10_000 || len(kept) == 0 {
			k.t.Errorf("kept %d frames of %d characters, %v", len(kept), len(strings.Join(kept, "")), err)
		}
	}
	k.expect(entry, "timestamp", member(k.t, entry, "occurred_at"))
	if j.State != job.Retryable || j.Attempt != 1 || j.NextRetryAt.IsZero() {
		k.t.Errorf("%s", text(j))
	}
	k.shows(j, "next_retry_at", `"`+job.FormatTime(j.NextRetryAt)+`"`)
	k.shows(j, "next_attempt_at", `"`+job.FormatTime(j.NextRetryAt)+`"`)
	k.shows(j, "worker_id", "")
}

func handlerCodes(k *kit) {
	const bury = `{"on_exhaustion":"dead_letter","initial_interval":"PT1H","max_interval":"PT1H","non_retryable_errors":["auth.*"]}`
	const drop = `{"initial_interval":"PT1H","max_interval":"PT1H","non_retryable_errors":["auth.*"]}`
	for _, tt := range []struct {
		policy  string
		failure job.Failure
		want    job.State
		dead    bool
	}{
		{bury, job.Failure{Code: "DISCARD"}, job.Discarded, false},
		{bury, job.Failure{Code: "FAIL"}, job.Discarded, false},
		{drop, job.Failure{Code: "DEAD_LETTER"}, job.Discarded, true},
		{drop, job.Failure{Code: "RETRY"}, job.Retryable, false},
		{drop, job.Failure{Code: "RETRY", Retryable: ptr(false)}, job.Retryable, false},
		{bury, job.Failure{Code: "RETRY", Type: "auth.x"}, job.Discarded, true},
		{drop, job.Failure{Message: "plain"}, job.Retryable, false},
		{drop, job.Failure{Message: "plain", Retryable: ptr(false)}, job.Discarded, false},
		{bury, job.Failure{Message: "plain", Retryable: ptr(false)}, job.Discarded, true},
		{bury, job.Failure{Type: "auth.x", Retryable: ptr(true)}, job.Discarded, true},
		{drop, job.Failure{Code: "discard"}, job.Retryable, false},
		{drop, job.Failure{Code: "handler_error"}, job.Retryable, false},
		{bury, job.Failure{Code: "DEAD_LETTER", Retryable: ptr(true)}, job.Discarded, true},
	} {
		k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(tt.policy) })
		j := k.fail(k.take(), tt.failure)
		if j.State != tt.want || k.read(j.ID).Dead != tt.dead {
			k.t.Errorf("%+v under %s: %s, dead %v; want %s, %v", tt.failure, tt.policy, j.State, j.Dead, tt.want, tt.dead)
		}
		if tt.want == job.Discarded {
			k.shows(j, "discarded_at", member(k.t, []byte(text(j)), "completed_at"))
			if j.FinishedAt.IsZero() {
				k.t.Errorf("%+v: no time of its end", tt.failure)
			}
		}
		k.clear(j)
	}
}

func nonRetryable(k *kit) {
	policy := json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H","non_retryable_errors":["validation.payload_invalid","auth.*","*","E_FATAL"]}`)
	for _, tt := range []struct {
		failure job.Failure
		final   bool
	}{
		{job.Failure{Type: "validation.payload_invalid"}, true}, {job.Failure{Type: "validation.schema_error"}, false},
		{job.Failure{Type: "auth.token_expired"}, true}, {job.Failure{Type: "auth.forbidden"}, true},
		{job.Failure{Type: "auth"}, false}, {job.Failure{Type: "external.auth.failure"}, false}, {job.Failure{Type: "AuthError"}, false},
		{job.Failure{Type: "Auth.x"}, false}, {job.Failure{Type: "other", Code: "E_FATAL"}, true},
		{job.Failure{Type: "other", Message: "E_FATAL"}, false},
		{job.Failure{Message: "x", Details: json.RawMessage(`{"error_class":"auth.x"}`)}, true},
		{job.Failure{Type: "other", Details: json.RawMessage(`{"error_class":"auth.x"}`)}, true},
	} {
		k.push(func(e *job.Envelope) { e.Retry = policy })
		j := k.fail(k.take(), tt.failure)
		if final := j.State == job.Discarded; final != tt.final || len(k.history(j)) != 1 {
			k.t.Errorf("%+v: %s, want final %v", tt.failure, j.State, tt.final)
		}
		k.clear(j)
	}
}

func failureTypes(k *kit) {
	for _, tt := range []struct {
		failure job.Failure
		want    string
	}{
		{job.Failure{Type: "a.b", Code: "c"}, "a.b"},
		{job.Failure{Code: "c", Details: json.RawMessage(`{"error_class":"Smtp","type":"t"}`)}, "Smtp"},
		{job.Failure{Code: "c", Details: json.RawMessage(`{"type":"t"}`)}, "t"},
		{job.Failure{Code: "c"}, "c"},
		{job.Failure{Code: "RETRY", Message: "x"}, "Error"},
		{job.Failure{Message: "x"}, "Error"},
	} {
		k.push(nil)
		j := k.fail(k.take(), tt.failure)
		if got := member(k.t, j.Error, "type"); got != fmt.Sprintf("%q", tt.want) {
			k.t.Errorf("%+v: type %s, want %q", tt.failure, got, tt.want)
		}
		k.clear(j)
	}
}
