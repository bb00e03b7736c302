package sidecar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// durations are those that the examples of ojs-retry.md write.
var durations = map[string]time.Duration{"PT1S": time.Second, "PT10S": 10 * time.Second, "PT15S": 15 * time.Second,
	"PT30S": 30 * time.Second, "PT5M": 5 * time.Minute, "PT15M": 15 * time.Minute, "PT1H": time.Hour}

// policyOf reads a whole policy as the document prints it.
func policyOf(t *testing.T, text string) job.RetryPolicy {
	t.Helper()
	var p struct {
		MaxAttempts        int      `json:"max_attempts"`
		InitialInterval    string   `json:"initial_interval"`
		BackoffCoefficient float64  `json:"backoff_coefficient"`
		MaxInterval        string   `json:"max_interval"`
		Jitter             bool     `json:"jitter"`
		NonRetryableErrors []string `json:"non_retryable_errors"`
		OnExhaustion       string   `json:"on_exhaustion"`
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil || durations[p.InitialInterval] == 0 || durations[p.MaxInterval] == 0 {
		t.Fatalf("%v in %s", err, text)
	}
	return job.RetryPolicy{MaxAttempts: p.MaxAttempts, InitialInterval: durations[p.InitialInterval], BackoffCoefficient: p.BackoffCoefficient,
		MaxInterval: durations[p.MaxInterval], Jitter: p.Jitter, NonRetryableErrors: p.NonRetryableErrors, OnExhaustion: p.OnExhaustion,
		Strategy: "exponential"} // contract C-39
}

// effective is the policy that the server goes by: what it gives back as retry, read as it reads it.
func effective(t *testing.T, j object) job.RetryPolicy {
	t.Helper()
	var raw json.RawMessage
	if j["retry"] != nil {
		raw = json.RawMessage(write(t, j["retry"]))
	}
	p, err := job.ParseRetry(raw, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inOptions is an enqueue with a policy.
func inOptions(retry string) string {
	return `{"type":"a.b","args":[],"options":{"retry":` + retry + `}}`
}

// ojs-retry.md §2.1, §8, §8.1, §12.1 to §12.6: the effective policy.
func TestExamplesOfPolicies(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		own := func(name string) string { // of a job that prints the whole policy
			return write(t, decode(t, example(t, name))["options"].(object)["retry"])
		}
		for _, tt := range []struct{ section, body, want string }{
			{"2.1", inOptions(example(t, "retry-2.1")), example(t, "retry-2.1")},
			{"2.1 is 8", `{"type":"a.b","args":[]}`, example(t, "retry-2.1")},
			{"8", `{"type":"a.b","args":[]}`, example(t, "retry-8")},
			{"8.1", `{"type":"a.b","args":[],"options":` + example(t, "retry-8.1") + `}`, example(t, "retry-8.1-2")},
			{"12.1", example(t, "retry-12.1"), example(t, "retry-12.1-2")},
			{"12.2", example(t, "retry-12.2"), example(t, "retry-12.2-2")},
			{"12.3", example(t, "retry-12.3"), own("retry-12.3")},
			{"12.4", example(t, "retry-12.4"), own("retry-12.4")},
			{"12.5", example(t, "retry-12.5"), own("retry-12.5")},
			{"12.6", example(t, "retry-12.6"), strings.Replace(strings.Replace(example(t, "retry-8"), `"max_attempts": 3`, `"max_attempts": 1`, 1),
				`"discard"`, `"dead_letter"`, 1)}, // §8.1: merged with the defaults
		} {
			j := d.push(tt.body)
			got, want := effective(t, j), policyOf(t, tt.want)
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || write(t, j["max_attempts"]) != fmt.Sprint(want.MaxAttempts) {
				t.Errorf("§%s: got %+v, max_attempts %v; want %+v", tt.section, got, j["max_attempts"], want)
			}
			if sent := decode(t, tt.body)["options"]; sent != nil && !reflect.DeepEqual(j["retry"], sent.(object)["retry"]) {
				t.Errorf("§%s: retry comes back as %v", tt.section, j["retry"])
			}
		}
	})
}

func spans(seconds ...int) (ds []time.Duration) {
	for _, s := range seconds {
		ds = append(ds, time.Duration(s)*time.Second)
	}
	return ds
}

// ojs-retry.md §12.1 to §12.7: every failure, the delay behind it, never early,
// and the end. The jitter is 1, as in the document's "before jitter".
func TestExamplesOfRetrying(t *testing.T) {
	t.Parallel()
	const plain = `{"type":"external.server_error","message":"500"}`
	failing := func(kind string) string { return `{"type":"` + kind + `","message":"no"}` }
	charge := example(t, "retry-12.3")
	polynomial := strings.Replace(charge, `"max_attempts"`, `"backoff_strategy":"polynomial","max_attempts"`, 1)
	hours := func(n int, first ...int) []time.Duration {
		return append(spans(first...), slices.Repeat(spans(3600), n)...)
	}
	for _, tt := range []struct {
		name, body, failure string
		delays              []time.Duration
		final               bool // the last attempt is discarded, and dead or not
		dead                bool
	}{
		{"12.1 no retry", example(t, "retry-12.1"), plain, nil, true, false},
		{"12.2 default", example(t, "retry-12.2"), plain, spans(1, 2), true, false},
		{"12.3 as sent is exponential, contract C-39", charge, plain, hours(20, 15, 60, 240, 960), true, true},
		{"12.3 the document's table", polynomial, plain, hours(21, 15, 240, 1215), true, true},
		{"12.3 stolen", charge, failing("payment.card_stolen"), nil, true, true},
		{"12.3 expired", charge, failing("payment.card_expired"), nil, true, true},
		{"12.3 validation", charge, failing("validation.any.thing"), nil, true, true},
		{"12.4 credentials", example(t, "retry-12.4"), failing("auth.invalid_credentials"), nil, true, true},
		{"12.4 not found", example(t, "retry-12.4"), failing("resource.not_found"), nil, true, true},
		{"12.4 503", example(t, "retry-12.4"), failing("external.crm.service_unavailable"), spans(30, 60, 120, 240), true, true},
		{"12.5 polling", example(t, "retry-12.5"), plain, slices.Repeat(spans(10), 59), true, true},
		{"12.6 dead letter", example(t, "retry-12.6"), plain, nil, true, true},
		{"12.7 declined", charge, `{"type":"payment.card_declined","code":"DISCARD","message":"no"}`, nil, true, false},
		{"12.7 stolen", example(t, "retry-12.2"), `{"type":"payment.card_stolen","code":"DEAD_LETTER","message":"no"}`, nil, true, true},
		{"12.7 timeout", example(t, "retry-12.2"), `{"type":"external.timeout","code":"RETRY","message":"no"}`, spans(1), false, false},
		{"12.7 no code", example(t, "retry-12.2"), plain, spans(1), false, false},
		{"7.3 discard", charge, example(t, "retry-7.3"), nil, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) {
				j := d.push(tt.body)
				for n, want := range tt.delays {
					got := d.nack(d.fetch(j), decode(t, tt.failure))
					if got["state"] != "retryable" || write(t, got["retry_delay_ms"]) != fmt.Sprint(want.Milliseconds()) || write(t, got["attempt"]) != fmt.Sprint(n+1) {
						t.Fatalf("failure %d: %v, want a delay of %s", n+1, got, want)
					}
					d.pass(want - time.Millisecond)
					if early := d.fetch(j); early != nil {
						t.Fatalf("retry %d came before %s", n+1, want)
					}
					d.pass(time.Millisecond)
				}
				if !tt.final {
					return
				}
				if got := d.nack(d.fetch(j), decode(t, tt.failure)); got["state"] != "discarded" || write(t, got["attempt"]) != fmt.Sprint(len(tt.delays)+1) {
					t.Errorf("the last failure: %v", got)
				}
				d.dead(j, tt.dead)
			})
		})
	}
}

// ojs-retry.md §12.6: "manually re-enqueue the job".
func TestExampleOfAManualRetry(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		j := d.push(example(t, "retry-12.6"))
		d.nack(d.fetch(j), object{"type": "E", "message": "no"})
		again := d.ask(200, "POST", "/ojs/v1/dead-letter/"+j["id"].(string)+"/retry", "")["job"].(object)
		if again["state"] != "available" || write(t, again["attempt"]) != "0" || again["error"] != nil {
			t.Errorf("%v", again)
		}
		d.take(j)
	})
}

// ojs-retry.md §7.3 and §10.1: the error object, and its entry in the history.
func TestExamplesOfErrors(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		j := d.push(example(t, "retry-12.1"))
		d.nack(d.take(j), decode(t, example(t, "retry-7.3")))
		d.holds(d.info(j["id"])["error"].(object), decode(t, example(t, "retry-7.3")), "attempt", "occurred_at")

		entry := decode(t, example(t, "retry-10.1"))
		sent := maps.Clone(entry)
		delete(sent, "attempt") // those two are the server's
		delete(sent, "timestamp")
		j = d.push(example(t, "retry-12.2"))
		d.nack(d.take(j), object{"type": "E", "message": "first"})
		d.nack(d.take(j), sent)
		errs := d.info(j["id"])["errors"].([]any)
		if len(errs) != 2 {
			t.Fatalf("%v", errs)
		}
		d.holds(errs[1].(object), entry, "occurred_at")
	})
}

// ojs-retry.md §5.3: the table of delays and their jitter.
func TestExampleOfJitter(t *testing.T) {
	t.Parallel()
	p := job.DefaultRetry()
	p.InitialInterval = 10 * time.Second
	for n, want := range [][2]int{{5, 15}, {10, 30}, {20, 60}, {40, 120}, {80, 240}, {150, 300}} {
		low, high := p.Delay(n+1, 0), p.Delay(n+1, 1-1e-9)
		top := time.Duration(want[1]) * time.Second
		if low != time.Duration(want[0])*time.Second || high > top || high < top-time.Millisecond {
			t.Errorf("retry %d waits from %s to %s, want %v", n+1, low, high, want)
		}
	}
}

// ojs-retry.md §14: the server accepts and refuses what the document's own JSON Schema does.
func TestSchemaOfPolicies(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties map[string]struct {
			Type    string
			Minimum *float64
			Enum    []string
			Default json.RawMessage
		}
		AdditionalProperties bool `json:"additionalProperties"`
	}
	if err := json.Unmarshal([]byte(example(t, "retry-14")), &schema); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"integer": "7", "number": "7.5", "string": `"PT30S"`, "boolean": "false", "array": `["a.b"]`, "object": "{}", "null": "null"}
	fits := map[string][]string{"number": {"integer", "number"}}
	atDesk(t, func(d *desk) {
		for name, p := range schema.Properties {
			try := func(status int, value string) {
				t.Helper()
				d.ask(status, "POST", "/ojs/v1/jobs", inOptions(`{"`+name+`":`+value+`}`))
			}
			if j := d.push(inOptions(`{"` + name + `":` + string(p.Default) + `}`)); fmt.Sprintf("%+v", effective(t, j)) != fmt.Sprintf("%+v", job.DefaultRetry()) {
				t.Errorf("the default of %s makes %+v", name, effective(t, j))
			}
			for kind, value := range values {
				if kind != p.Type && !slices.Contains(fits[p.Type], kind) {
					try(422, value)
				}
			}
			if p.Minimum != nil {
				try(201, fmt.Sprint(*p.Minimum))
				try(422, fmt.Sprint(*p.Minimum-1))
			}
			for _, word := range p.Enum {
				try(201, `"`+word+`"`)
				try(422, `"`+strings.ToUpper(word)+`"`)
			}
		}
		d.ask(422, "POST", "/ojs/v1/jobs", inOptions(`{"non_retryable_errors":[""]}`)) // minLength
		if schema.AdditionalProperties {
			t.Error("the document has changed")
		}
		d.ask(422, "POST", "/ojs/v1/jobs", inOptions(`{"max_retries":3}`))
	})
}

// ojs-retry.md §4.1 and §4.2: the table of durations, and the date components.
func TestExampleOfDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"PT0.5S": 500 * time.Millisecond, "PT1S": time.Second, "PT5S": 5 * time.Second, "PT30S": 30 * time.Second, "PT1M": time.Minute,
		"PT5M": 5 * time.Minute, "PT15M": 15 * time.Minute, "PT1H": time.Hour, "PT24H": 24 * time.Hour,
		"P1D": 24 * time.Hour, "P1W": 7 * 24 * time.Hour, "P1M": 30 * 24 * time.Hour, "P1Y": 365 * 24 * time.Hour, "P1DT1H1M1.25S": 25*time.Hour + 61250*time.Millisecond,
	} {
		if got, err := job.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
}
