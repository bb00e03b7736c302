package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// flowText is a workflow in short: kinds, ids, dependencies, callbacks and jobs.
func flowText(s *job.WorkflowSpec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s(", s.Kind)
	for i, st := range append(append([]job.Step(nil), s.Steps...), s.Callbacks...) {
		if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(st.ID)
		if st.Callback != "" {
			b.WriteString("!" + st.Callback)
		}
		if len(st.DependsOn) > 0 {
			b.WriteString("<" + strings.Join(st.DependsOn, ","))
		}
		if st.Workflow != nil {
			b.WriteString(":" + flowText(st.Workflow))
			continue
		}
		e := st.Job.Envelope()
		fmt.Fprintf(&b, ":%s/%s/%s/%d/%s%s", e.Type, e.Queue, e.Args, e.MaxAttempts, e.Retry, e.Extra)
	}
	return b.String() + ")"
}

// Every dialect of contract §3.16 is read as what it means.
func TestDecodeWorkflow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, want string }{
		"chain, args left out": {`{"type":"chain","name":"n","steps":[{"type":"a.one","name":"x"},{"type":"a.two","args":[1e2]}]}`,
			`chain(:a.one/default/[]/3/ :a.two/default/[1e2]/3/)`},
		"group": {`{"type":"group","jobs":[{"type":"a.b","options":{"queue":"q","retry":{"max_attempts":1}}}]}`, `group(:a.b/q/[]/1/{"max_attempts":1})`},
		"batch": {`{"type":"batch","jobs":[{"type":"a.b"}],"callbacks":{"on_failure":{"type":"c.d"},"on_complete":{"type":"e.f","args":[2]},"on_success":null}}`,
			`batch(:a.b/default/[]/3/ !on_complete:e.f/default/[2]/3/ !on_failure:c.d/default/[]/3/)`},
		"nested, as JS sends it": {`{"type":"chain","steps":[{"type":"group","jobs":[{"type":"a.b"},{"type":"c.d"}]},{"id":"in","type":"chain","steps":[{"type":"e.f"}]}]}`,
			`chain(:group(:a.b/default/[]/3/ :c.d/default/[]/3/) in:chain(:e.f/default/[]/3/))`},
		"chain is a type of jobs, too":     {`{"type":"group","jobs":[{"type":"chain"}]}`, `group(:chain/default/[]/3/)`},
		"JS writes retry in camelCase":     {`{"type":"chain","steps":[{"type":"a.b","options":{"retry":{"maxAttempts":7,"backoffCoefficient":3,"backoff":"linear"}}}]}`, `chain(:a.b/default/[]/7/{"maxAttempts":7,"backoffCoefficient":3,"backoff":"linear"})`},
		"options of a step over the whole": {`{"steps":[{"id":"a","type":"a.b","args":[],"options":{"queue":"own"}},{"id":"b","type":"c.d","args":[]}],"options":{"queue":"all","tags":["t"]}}`, `dag(a:a.b/own/[]/3/{"tags":["t"]} b:c.d/all/[]/3/{"tags":["t"]})`},
		"and what stands beside them":      {`{"steps":[{"id":"a","type":"a.b","queue":"own"}],"options":{"queue":"all"}}`, `dag(a:a.b/own/[]/3/)`},
		"Go's chain":                       {`{"name":"n","steps":[{"id":"a","type":"a.b","args":[]},{"id":"b","type":"c.d","args":[],"depends_on":["a"]}]}`, `dag(a:a.b/default/[]/3/ b<a:c.d/default/[]/3/)`},
		"Go's batch": {`{"steps":[{"id":"job-0","type":"a.b","args":[]},{"id":"job-1","type":"a.b","args":[]},{"id":"on-complete","type":"c.d","args":[],"depends_on":["job-1","job-0"]},{"id":"on-failure","type":"c.d","args":[],"depends_on":["job-0","job-1"]}]}`,
			`dag(job-0:a.b/default/[]/3/ job-1:a.b/default/[]/3/ on-complete!on_complete<job-1,job-0:c.d/default/[]/3/ on-failure!on_failure<job-0,job-1:c.d/default/[]/3/)`},
		"Python's callback": {`{"steps":[{"id":"a","type":"a.b"},{"id":"z","type":"c.d","depends_on":["a"],"options":{"callback_type":"on_success"}}]}`,
			`dag(a:a.b/default/[]/3/ z!on_success<a:c.d/default/[]/3/{"options":{"callback_type":"on_success"}})`},
		"the name alone makes no callback": {`{"steps":[{"id":"a","type":"a.b"},{"id":"b","type":"a.b"},{"id":"on_complete","type":"c.d","depends_on":["a"]}]}`,
			`dag(a:a.b/default/[]/3/ b:a.b/default/[]/3/ on_complete<a:c.d/default/[]/3/)`},
	} {
		s, err := DecodeWorkflow([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := flowText(&s); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tt.want)
		}
		if _, err := s.Compile(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		again, err := DecodeWorkflow(WorkflowBody(s))
		if err != nil {
			t.Errorf("%s, sent by our client: %v", name, err)
			continue
		}
		if got, want := flowText(&again), flowText(&s); got != want && !strings.Contains(tt.body, "callback") && s.Steps[len(s.Steps)-1].Callback == "" {
			t.Errorf("%s, sent by our client:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

// What is wrong is told with its path (contract §3.16).
func TestDecodeWorkflowRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                                     "steps: is required",
		`{"type":"list","steps":[]}`:             "type: must be chain",
		`{"type":1,"steps":[]}`:                  "type: must be a string",
		`{"type":"group","steps":[{}]}`:          "jobs: is required: a group has",
		`{"type":"chain","steps":{}}`:            "steps: must be an array",
		`{"type":"chain","steps":[1]}`:           "steps[0]: must be an object",
		`{"type":"chain","steps":[{"args":[]}]}`: "steps[0].type: type is required",
		`{"type":"chain","steps":[{"type":"a.b"},{"type":"a.b","args":1}]}`:                        "steps[1].args: args must be an array",
		`{"type":"chain","steps":[{"type":"a.b","options":{"retry":{"max_attempts":-1}}}]}`:        "steps[0].retry.max_attempts",
		`{"type":"group","jobs":[{"type":"a.b","options":{"queue":"No"}}]}`:                        "jobs[0].queue",
		`{"type":"group","jobs":[{"type":"a.b"}],"options":[]}`:                                    "options: must be an object",
		`{"steps":[{"id":"a","type":"a.b","depends_on":"b"}]}`:                                     "steps[0].depends_on: must be an array",
		`{"steps":[{"id":"a","type":"a.b","depends_on":[1]}]}`:                                     "steps[0].depends_on[0]: must be a string",
		`{"type":"batch","jobs":[{"type":"a.b"}],"callbacks":{"on_fire":{}}}`:                      "callbacks.on_fire: is none",
		`{"type":"batch","jobs":[{"type":"a.b"}],"callbacks":{"on_success":{"type":"No"}}}`:        "callbacks.on_success.type",
		`{"type":"chain","steps":[{"type":"group","jobs":[{"type":"a.b"},{"type":"no-hyphen"}]}]}`: "steps[0].jobs[1].type",
	} {
		_, err := DecodeWorkflow([]byte(body))
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Invalid || !strings.HasPrefix(e.Message, want) || e.Details["validation_errors"] == nil {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	deep := strings.Repeat(`{"type":"chain","steps":[`, 9) + `{"type":"a.b"}` + strings.Repeat("]}", 9)
	if _, err := DecodeWorkflow([]byte(deep)); err == nil || !strings.Contains(err.Error(), "nested deeper than 8") {
		t.Errorf("nine deep: %v", err)
	}
	for _, body := range []string{``, `[]`, `{"type":"chain"`} {
		if _, err := DecodeWorkflow([]byte(body)); job.KindOf(err) != job.Malformed {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := DecodeWorkflow([]byte(`{"type":"chain","type":"group","jobs":[]}`)); job.KindOf(err) == job.Internal || err == nil {
		t.Errorf("a name twice: %v", err)
	}
}
