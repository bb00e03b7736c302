package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a request says in several spellings, or in two places (contract §2.2,
// §2.4): what holds, or which field is refused.
func TestSpellingsOfARequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{ // of the body without type and args
		{`"max_attempts":7`, `max 7 retry {"max_attempts":7}`},
		{`"max_attempts":0`, `max 0 retry {"max_attempts":0}`},
		{`"max_attempts":3`, `max 3 retry `}, // what the answer shows of a job without a policy asks for none
		{`"max_attempts":null`, `max 3 retry `},
		{`"max_attempts":7,"retry":{"jitter":false}`, `max 7 retry {"max_attempts":7,"jitter":false}`},
		{`"max_attempts":7,"retry":{"maxAttempts": 7}`, `max 7 retry {"maxAttempts": 7}`},
		{`"max_attempts":3,"retry":{}`, `max 3 retry {}`},
		{`"max_attempts":7,"retry":{"max_attempts":2}`, `422 retry.max_attempts`},
		{`"max_attempts":7,"options":{"retry":{"max_attempts":2}}`, `max 2 retry {"max_attempts":2}`},
		{`"max_attempts":7,"options":{"retry":{"jitter":true}}`, `max 7 retry {"max_attempts":7,"jitter":true}`},
		{`"max_attempts":7,"options":{"max_attempts":2}`, `max 2 retry {"max_attempts":2}`},
		{`"retry":{"max_attempts":7},"options":{"max_attempts":2}`, `max 2 retry {"max_attempts":2}`},
		{`"retry":{"maxAttempts":7,"jitter":true},"options":{"max_attempts":2}`, `max 2 retry {"max_attempts":2,"jitter":true}`},
		{`"options":{"max_attempts":2,"retry":{"max_attempts":7}}`, `422 retry.max_attempts`},
		{`"max_attempts":-1`, `422 retry.max_attempts`},
		{`"max_attempts":"7"`, `422 retry.max_attempts`},
		{`"options":{"max_attempts":7.5}`, `422 retry.max_attempts`},
		{`"max_attempts":7,"retry":"x"`, `422 retry`},

		{`"retry":{"max_attempts":1,"maxAttempts":1}`, `422 retry.maxAttempts`},
		{`"max_attempts":1,"retry":{"max_attempts":1,"maxAttempts":1}`, `422 retry.maxAttempts`},
		{`"max_attempts":7,"retry":{"maxAttempts":1,"max_attempts":2}`, `422 retry.max_attempts`},
		{`"retry":{"max_attempts":1,"maxAttempts":2},"options":{"max_attempts":7}`, `422 retry.maxAttempts`},
		{`"max_attempts":7,"options":{"retry":{"strategy":"none","backoff":"none"}}`, `422 retry.backoff`},
		{`"retry":{"initial_interval":"PT1S","initial_interval_ms":1000}`, `422 retry.initial_interval_ms`},
		{`"retry":{"base_delay_ms":1,"initialInterval":"PT1S"}`, `422 retry.initialInterval`},
		{`"retry":{"max_interval":"PT9M","max_interval_ms":5}`, `422 retry.max_interval_ms`},
		{`"retry":{"max_interval":"PT9M","maxInterval":"PT9M"}`, `422 retry.maxInterval`},
		{`"retry":{"backoff_coefficient":2,"backoffCoefficient":3}`, `422 retry.backoffCoefficient`},
		{`"retry":{"non_retryable_errors":[],"nonRetryableErrors":["a"]}`, `422 retry.nonRetryableErrors`},
		{`"retry":{"on_exhaustion":"discard","onExhaustion":"dead_letter"}`, `422 retry.onExhaustion`},
		{`"retry":{"strategy":"linear","backoff":"constant"}`, `422 retry.backoff`},
		{`"retry":{"backoff_strategy":"linear","backoff_type":"linear"}`, `422 retry.backoff_type`},
		{`"retry":{"max_attempts":1,"initial_interval_ms":5,"x_a":1,"x_b":2}`, `max 1 retry {"max_attempts":1,"initial_interval_ms":5,"x_a":1,"x_b":2}`},
		{`"retry":{},"retry_policy":{"max_attempts":9}`, `422 retry_policy`},
		{`"options":{"retry":{},"retry_policy":{}}`, `422 retry_policy`},
		{`"retry":{"max_attempts":1},"options":{"retry_policy":{"max_attempts":9}}`, `max 9 retry {"max_attempts":9}`},

		{`"custom_job_id":"c"`, `custom c`},
		{`"options":{"custom_job_id":"c"}`, `custom c`},
		{`"custom_job_id":"c","options":{"job_id":"c","jobId":"c"}`, `custom c`},
		{`"custom_job_id":"c","options":{"job_id":"d"}`, `custom d`},
		{`"custom_job_id":"c","job_id":"d"`, `400 custom_job_id`},
		{`"options":{"job_id":"c","jobId":"d"}`, `400 options.jobId`},
		{`"custom_job_id":""`, `400 custom_job_id`},
		{`"custom_job_id":7`, `400 custom_job_id`},
		{`"custom_job_id":null`, `custom `},

		{`"scheduled_at":"2030-01-01T00:00:00Z","delay_until":"2030-01-01T01:00:00+01:00"`, `at 2030-01-01T00:00:00.000Z`},
		{`"scheduled_at":"2030-01-01T00:00:00Z","delay_until":"2031-01-01T00:00:00Z"`, `400 delay_until`},
		{`"scheduled_at":"2030-01-01T00:00:00Z","delay_ms":5`, `400 delay_ms`},
		{`"scheduled_at":"2030-01-01T00:00:00Z","delay_ms":0`, `at 2030-01-01T00:00:00.000Z`},
		{`"delay":2,"delay_ms":2000,"delay_until":"PT2S"`, `in 2s`},
		{`"delay":2,"delay_ms":2001`, `400 delay_ms`},
		{`"scheduled_at":"2030-01-01T00:00:00Z","options":{"delay_ms":5}`, `in 5ms`},
		{`"delay":9,"options":{"scheduled_at":"2030-01-01T00:00:00Z"}`, `at 2030-01-01T00:00:00.000Z`},
		{`"expires_at":"2030-01-01T00:00:00Z","ttl_ms":5`, `400 ttl_ms`},
		{`"ttl_ms":5000,"enqueue_ttl":5`, `ttl 5s`},
		{`"ttl_ms":5000,"enqueue_ttl":6`, `400 enqueue_ttl`},
		{`"expires_at":"2030-01-01T00:00:00Z","options":{"enqueue_ttl":6}`, `ttl 6s`},

		{`"timeout":5,"timeout_ms":1500`, `timeout 1.5s extra {"timeout":5}`},
		{`"timeout_ms":1500,"options":{"timeout":5}`, `timeout 5s extra {"timeout":5}`},
		{`"timeout":5,"options":{"timeout_ms":1500}`, `timeout 1.5s extra `},
		{`"visibility_timeout":5,"visibility_timeout_ms":1500`, `visibility 1.5s extra {"visibility_timeout":5,"visibility_timeout_ms":1500}`},
		{`"visibility_timeout_ms":1500,"options":{"visibility_timeout":5}`, `visibility 5s extra {"visibility_timeout":5}`},
		{`"visibility_timeout":5,"options":{"visibility_timeout_ms":1500}`, `visibility 1.5s extra {"visibility_timeout_ms":1500}`},

		{`"meta":{"a":1},"metadata":{"a":2,"b":3},"options":{"meta":{"b":4,"c":5}}`, `meta {"a":1,"b":4,"c":5}`}, // contract §2.2
		{`"deduplication":{"id":"a"},"debounce":{"id":"b"}`, `dedup {"id":"a"} extra {"debounce":{"id":"b"}}`},   // contract §2.6
	} {
		e, err := parseEnvelope([]byte(`{"type":"a.b","args":[],` + tt.body + `}`))
		got := ""
		if err != nil {
			got = fmt.Sprint(map[Kind]int{Invalid: 400, BadRetry: 422}[KindOf(err)], " ", err.(*Error).Details["field"])
			if !strings.Contains(err.Error(), fmt.Sprint(err.(*Error).Details["field"])) {
				t.Errorf("%s: the message does not name the field: %v", tt.body, err)
			}
		} else {
			for _, word := range strings.Fields(tt.want) {
				switch word {
				case "max", "retry", "custom", "at", "in", "ttl", "timeout", "visibility", "meta", "dedup", "extra":
					got += word + " " + map[string]string{"max": fmt.Sprint(e.MaxAttempts), "retry": string(e.Retry), "custom": e.CustomID,
						"at": FormatTime(e.ScheduledAt), "in": fmt.Sprint(e.Delay), "ttl": fmt.Sprint(e.TTL), "timeout": fmt.Sprint(e.Timeout),
						"visibility": fmt.Sprint(e.Visibility), "meta": string(e.Meta), "dedup": string(e.Deduplication), "extra": string(e.Extra)}[word] + " "
				}
			}
			got = strings.TrimSuffix(got, " ")
		}
		if got != tt.want {
			t.Errorf("%s: got %q (%v), want %q", tt.body, got, err, tt.want)
		}
	}
}

// A policy with two spellings of one member, or one that is given twice, has one
// answer, whatever stands beside it (contract §1.5, §2.4).
func TestAPolicyIsRefusedAlikeBesideMaxAttempts(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		`{"max_attempts":1,"max_attempts":2}`:                   "400 retry.max_attempts is given twice",
		`{"maxAttempts":7,"maxAttempts":7}`:                     "400 retry.maxAttempts is given twice",
		`{"jitter":true,"jitter":true}`:                         "400 retry.jitter is given twice",
		`{"x_a":1,"max_attempts":7,"x_a":2}`:                    "400 retry.x_a is given twice",
		`{"max_attempts":7,"maxAttempts":7}`:                    "422 retry.maxAttempts is given beside retry.max_attempts: one of them is enough (validation.retry_policy_invalid)",
		`{"backoff":"none","max_attempts":7,"strategy":"none"}`: "422 retry.strategy is given beside retry.backoff: one of them is enough (validation.retry_policy_invalid)",
	} {
		for _, body := range []string{
			`"retry":%s`, `"max_attempts":7,"retry":%s`, `"max_attempts":3,"retry":%s`, `"retry":%s,"options":{"max_attempts":7}`,
			`"options":{"retry":%s}`, `"options":{"max_attempts":7,"retry":%s}`, `"max_attempts":7,"options":{"retry_policy":%s}`,
		} {
			_, err := parseEnvelope([]byte(`{"type":"a.b","args":[],` + fmt.Sprintf(body, policy) + `}`))
			if got := fmt.Sprint(map[Kind]int{Invalid: 400, BadRetry: 422}[KindOf(err)], " ", err); got != want {
				t.Errorf(body+": got %q, want %q", policy, got, want)
			}
		}
	}
}

// A job that was stored when two spellings in a policy were taken keeps the
// policy that it has had.
func TestAStoredPolicyIsReadAsItWas(t *testing.T) {
	t.Parallel()
	j := &Job{Envelope: Envelope{Retry: json.RawMessage(`{"max_attempts":9,"initial_interval":"PT1S","initial_interval_ms":7000}`)}}
	if p := j.policy(); p.MaxAttempts != 9 || p.InitialInterval != 7*time.Second {
		t.Errorf("got %+v", p)
	}
}

// Whatever a member is named, it is kept and given back, unless the documents or
// contract §2.2 give it a meaning (ojs-core.md §5.5(4)).
func TestUnknownMembersAreKeptWhateverTheirName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", " ", "x", "État", "a\"b", "\n", "Type", "QUEUE", "arg", "jobs", "job", "version", "dead", "lease",
		"total_attempts", "releases", "seq", "due_at", "retries", "maxAttempts", "progress_note", "error_count", "warnings", "hold", "extra", "cron_name",
		"__proto__", "constructor", "specversion_", "keep", "told", "fingerprint", "dedup_until", "re_enqueued_at", "unknown"} {
		for _, value := range []string{`1e2`, `null`, `{"a":[1.0]}`} {
			for _, where := range []string{`%s:%s`, `"options":{%s:%s}`} {
				member := fmt.Sprintf(where, quote(name), value)
				keeps(t, member)
			}
		}
	}
	for _, name := range []string{"id", "type", "args", "specversion", "options", "dead_letter", "replaced", "lease_token", "rewritten_at"} {
		keeps(t, `"options":{`+quote(name)+`:{"a":1}}`) // among the options they mean nothing
	}
}

func keeps(t *testing.T, member string) {
	t.Helper()
	body := []byte(`{"type":"a.b","args":[],` + member + `}`)
	for _, pass := range []string{"as it came", "as a client sends it again"} {
		e, err := parseEnvelope(body)
		if err != nil {
			t.Errorf("%s, %s: %v", body, pass, err)
			return
		}
		j := &Job{Envelope: e}
		must(t, j.push(time.UnixMilli(1e12)))
		shown := j.AppendJSON(nil, View{})
		if !strings.Contains(string(shown), member) {
			t.Errorf("%s, %s: lost in %s", member, pass, shown)
		}
		read, err := ParseJob(shown)
		must(t, err)
		if again := read.AppendJSON(nil, View{}); string(again) != string(shown) {
			t.Errorf("%s: read back as %s", shown, again)
		}
		body = appendPush(e)
	}
}

// What is answered may be sent again: it asks for the same job.
func TestAnAnswerMayBeSentAgain(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"type":"a.b","args":[]}`,
		`{"type":"a.b","args":[1e2],"queue":"q","meta":{"a":1},"priority":"HIGH","timeout":5,"options":{"job_id":"c","max_attempts":9,"visibility_timeout":"PT1M","x":1}}`,
		`{"type":"a.b","args":[],"scheduled_at":"2030-01-01T00:00:00+01:00","ttl_ms":5000,"tags":["a"],"retry":{"maxAttempts":4},"deduplication":{"id":"d"},"unique":{"keys":["type"]}}`,
		`{"type":"a.b","args":[],"retry":{"max_attempts":1,"on_exhaustion":"dead_letter"},"own":null}`,
	} {
		e, err := parseEnvelope([]byte(body))
		must(t, err)
		e.ID = "019539a4-b68c-7def-8000-1a2b3c4d5e6f"
		j := &Job{Envelope: e}
		must(t, j.push(time.UnixMilli(1e12)))
		first := pushedAgain(t, j)
		if j.State == Available { // and after all that may have happened to it
			must(t, j.Start(j.CreatedAt, Lease{Token: "t", Worker: "w", Length: time.Minute}))
			if got := pushedAgain(t, j); got != first {
				t.Errorf("active, %s\n got %s\nwant %s", body, got, first)
			}
			must(t, j.Fail(j.CreatedAt, Claim{ID: j.ID}, Failure{Type: "E", Message: "no", Code: "DEAD_LETTER"}, 0))
			if got := pushedAgain(t, j); got != first {
				t.Errorf("failed, %s\n got %s\nwant %s", body, got, first)
			}
		}
	}
}

// pushedAgain is the job that comes of sending what is shown of j, whose
// envelope must be the one that j has.
func pushedAgain(t *testing.T, j *Job) string {
	t.Helper()
	shown := j.AppendJSON(nil, View{ToHolder: true})
	e, err := parseEnvelope(shown)
	if err != nil {
		t.Fatalf("%s: %v", shown, err)
	}
	if e.MaxAttempts != j.MaxAttempts || e.CustomID != j.CustomID || string(e.Retry) != string(j.Retry) || e.Timeout != j.Timeout {
		t.Errorf("%s asks for %d attempts by %s, %s, %s", shown, e.MaxAttempts, e.Retry, e.CustomID, e.Timeout)
	}
	again := &Job{Envelope: e}
	must(t, again.push(time.UnixMilli(1e12)))
	return string(again.AppendJSON(nil, View{}))
}

// Each run of a schedule has a name of its own, in whatever spelling.
func TestATemplateNamesNoJob(t *testing.T) {
	t.Parallel()
	for _, template := range []string{`{"type":"a.b","args":[],"custom_job_id":"c"}`, `{"type":"a.b","args":[],"options":{"custom_job_id":"c"}}`,
		`{"type":"a.b","args":[],"options":{"job_id":"c"}}`, `{"type":"a.b","args":[],"options":{"jobId":"c"}}`, `{"type":"a.b","args":[],"id":"c"}`} {
		s := CronSpec{Name: "n", Template: json.RawMessage(template)}
		if _, err := s.Validate(); KindOf(err) != Invalid || !strings.Contains(err.Error(), "job_template.id") {
			t.Errorf("%s: %v", template, err)
		}
	}
}
