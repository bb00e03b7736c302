package sidecar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
)

// RET-05, RET-06, ojs-retry.md §5.1: the server draws the jitter of each failure
// anew, over the whole of [0.5, 1.5), and the cap holds after it. A tenth of the
// range that 300 draws all miss would be one run in 10^12.
func TestJitterIsDrawn(t *testing.T) {
	t.Parallel()
	s := sidecar.New(openStore(t), sidecar.Options{})
	for _, tt := range []struct {
		retry     string
		low, high time.Duration // of the range before the cap
		limit     time.Duration
		draws     int
	}{
		{`{"max_attempts":2}`, 500 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Minute, 200},
		{`{"initial_interval":"PT100S","max_interval":"PT120S"}`, 50 * time.Second, 150 * time.Second, 120 * time.Second, 200},
		{`{"initial_interval":"PT100S","max_interval":"PT120S","jitter":false}`, 100 * time.Second, 100 * time.Second, 120 * time.Second, 10},
	} {
		tenths := map[int]int{}
		for range tt.draws {
			_, err := s.Enqueue(t.Context(), job.Envelope{Type: "a.b", Args: json.RawMessage(`[]`), Retry: json.RawMessage(tt.retry)})
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := s.Fetch(t.Context(), job.FetchRequest{Queues: []string{"default"}})
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			j, err := s.Fail(t.Context(), job.Claim{ID: jobs[0].ID}, job.Failure{Type: "net.x", Message: "no"})
			if err != nil {
				t.Fatal(err)
			}
			d := j.RetryDelay
			if d < tt.low || d > min(tt.high, tt.limit) {
				t.Fatalf("%s: a delay of %s", tt.retry, d)
			}
			if at := j.NextRetryAt.Sub(occurred(t, j)); at != d {
				t.Fatalf("%s: the retry is %s after the failure, the delay %s", tt.retry, at, d)
			}
			if tt.high > tt.low {
				tenths[min(int(10*(d-tt.low)/(tt.high-tt.low)), 9)]++ // rounded up, a delay may touch the end
			}
		}
		for n := range int(10 * (min(tt.high, tt.limit) - tt.low) / max(1, tt.high-tt.low)) {
			if tenths[n] == 0 {
				t.Errorf("%s: of %d delays none lies in tenth %d of the range: %v", tt.retry, tt.draws, n, tenths)
			}
		}
		if over := tenths[7]; tt.limit < tt.high && over < 40 { // 3 of 10 pass the cap
			t.Errorf("%s: %d of 300 delays are the cap", tt.retry, over)
		}
	}
}

// occurred is when a job's newest failure was.
func occurred(t *testing.T, j *job.Job) time.Time {
	t.Helper()
	var e struct {
		At time.Time `json:"occurred_at"`
	}
	if err := json.Unmarshal(j.Error, &e); err != nil {
		t.Fatal(err)
	}
	return e.At
}

// schemaOf is the JSON Schema of ojs-retry.md §14, as far as it uses the language.
type schemaOf struct {
	Type       string
	Minimum    *float64
	MinLength  int
	Pattern    string
	Enum       []string
	Items      *schemaOf
	Properties map[string]*schemaOf
	Additional bool `json:"additionalProperties"`
}

// takes reports whether a schema lets a value through.
func (s *schemaOf) takes(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			p := s.Properties[name]
			if p == nil && !s.Additional || p != nil && !p.takes(value) {
				return false
			}
		}
		return s.Type == "object"
	case []any:
		for _, value := range v {
			if s.Items != nil && !s.Items.takes(value) {
				return false
			}
		}
		return s.Type == "array"
	case string:
		return s.Type == "string" && len(v) >= s.MinLength && (s.Enum == nil || slices.Contains(s.Enum, v)) && s.matches(v)
	case bool:
		return s.Type == "boolean"
	case float64:
		return (s.Type == "number" || s.Type == "integer" && v == float64(int64(v))) && (s.Minimum == nil || v >= *s.Minimum)
	}
	return false // null
}

// matches is the pattern of a schema, of which package regexp knows all but the two looks ahead.
func (s *schemaOf) matches(v string) bool {
	if s.Pattern == "" {
		return true
	}
	plain := strings.NewReplacer("(?!$)", "", `(?=\d)`, "").Replace(s.Pattern)
	return regexp.MustCompile(plain).MatchString(v) && v != "P" && !strings.HasSuffix(v, "T")
}

// length is how long a duration is that the schema takes; every part has at most two digits.
func length(v string) (sec float64) {
	units := map[string]float64{"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "TH": 3600, "TM": 60, "TS": 1}
	date, clock, _ := strings.Cut(strings.TrimPrefix(v, "P"), "T")
	for prefix, part := range map[string]string{"": date, "T": clock} {
		for _, m := range regexp.MustCompile(`([\d.]+)([A-Z])`).FindAllStringSubmatch(part, -1) {
			var n float64
			_, _ = fmt.Sscan(m[1], &n) // the expression lets only numbers through
			sec += n * units[prefix+m[2]]
		}
	}
	return sec
}

// aDuration makes durations that are right, or perhaps wrong.
func aDuration(t *rapid.T, label string, wrong bool) string {
	part := func(unit string) string {
		switch rapid.IntRange(0, 3).Draw(t, label+unit) {
		case 0:
			return fmt.Sprint(rapid.IntRange(0, 59).Draw(t, label)) + unit
		case 1:
			if !wrong {
				return ""
			}
			return rapid.SampledFrom([]string{"", "", "", unit, "-1" + unit, "1" + strings.ToLower(unit), " 1" + unit, "0.5" + unit, "1." + unit}).Draw(t, label)
		}
		return ""
	}
	if !wrong {
		date, clock := part("Y")+part("M")+part("D"), part("H")+part("M")+part("S")
		if clock != "" {
			clock = "T" + clock
		}
		if date+clock == "" {
			return "PT1S"
		}
		return "P" + date + clock
	}
	return rapid.SampledFrom([]string{"P", "P", "P", "P", "p", "", "-P", "+P"}).Draw(t, label) + part("Y") + part("M") + part("D") +
		rapid.SampledFrom([]string{"T", "T", "T", ""}).Draw(t, label) + part("H") + part("M") + part("S")
}

var oddValues = []any{nil, true, "", "yes", -1.0, 0.0, 0.999, 1.0, 1.5, 7.0, []any{}, []any{"a.b", "c.*"}, []any{""}, []any{1.0}, []any{nil}, []any{[]any{}},
	map[string]any{}, "discard", "dead_letter", "Discard", "PT1S"}

// aPolicy makes policies of the members of a schema, about half of them right.
func aPolicy(t *rapid.T, raw []byte, schema *schemaOf) map[string]any {
	var whole struct {
		Properties map[string]struct{ Default any }
	}
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	policy := map[string]any{}
	wrong := rapid.Bool().Draw(t, "perhaps wrong")
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		switch rapid.IntRange(0, 11).Draw(t, name) {
		case 0:
			if !wrong {
				continue
			}
			policy[name] = rapid.SampledFrom(oddValues).Draw(t, name)
		case 1, 2, 3, 4:
			if policy[name] = whole.Properties[name].Default; schema.Properties[name].Pattern != "" {
				policy[name] = aDuration(t, name, wrong)
			}
		}
	}
	if wrong && rapid.IntRange(0, 20).Draw(t, "more") == 0 {
		policy[rapid.SampledFrom([]string{"retries", "Max_attempts", "max_attempts ", "", "timeout"}).Draw(t, "name")] = 1.0
	}
	return policy
}

// ordered holds the rules of ojs-retry.md §11.1 that the schema cannot say, and
// our own limit of 100 years, for a policy that the schema takes.
func ordered(policy map[string]any) bool {
	first, most := 1.0, 300.0
	if v, ok := policy["initial_interval"].(string); ok {
		first = length(v)
	}
	if v, ok := policy["max_interval"].(string); ok {
		most = length(v)
	}
	return first > 0 && most >= first && max(first, most) <= job.MaxDuration.Seconds()
}

// posted sends a policy and compares what the server makes of it.
func posted(t *rapid.T, server *httptest.Server, policy string, want bool) {
	w, err := server.Client().Post(server.URL+"/ojs/v1/jobs", "", strings.NewReader(inOptions(policy)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	var answer struct {
		Error struct {
			Type    string
			Details map[string]any
		}
	}
	err = json.NewDecoder(w.Body).Decode(&answer)
	if status := map[bool]int{true: 201, false: 422}[want]; err != nil || w.StatusCode != status {
		t.Fatalf("%s: %d %v, %v; want %d", policy, w.StatusCode, answer, err, status)
	}
	if !want && (answer.Error.Type != "validation_error" || answer.Error.Details["error_type"] != "validation.retry_policy_invalid") {
		t.Fatalf("%s: %v", policy, answer)
	}
}

// RET-20, ojs-retry.md §14 and §11.1: the server takes exactly the policies that
// the document's own schema and its rules take, and tells the others by their error type.
func TestPoliciesAgreeWithTheSchema(t *testing.T) {
	raw := []byte(example(t, "retry-14"))
	var schema schemaOf
	if err := json.Unmarshal(raw, &schema); err != nil || len(schema.Properties) != 7 || schema.Additional {
		t.Fatalf("the document has changed: %v, %d members", err, len(schema.Properties))
	}
	_, server := realServer(t)
	verdicts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		for n := range 20 {
			policy := aPolicy(t, raw, &schema)
			want := schema.takes(policy) && ordered(policy)
			sent, _ := json.Marshal(policy) // maps of plain values
			_, err := job.ParseRetry(sent, false)
			if verdicts[want]++; (err == nil) != want || err != nil && job.KindOf(err) != job.BadRetry {
				t.Fatalf("%s: %v, want it taken: %v", sent, err, want)
			}
			if n == 0 {
				posted(t, server, string(sent), want)
			}
		}
	})
	if tried := verdicts[true] + verdicts[false]; min(verdicts[true], verdicts[false]) < tried/20 {
		t.Errorf("the policies are too much alike: %v", verdicts)
	}
}
