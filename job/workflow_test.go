package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

func work(kind string) job.Envelope {
	return job.Envelope{Type: kind, Args: json.RawMessage(`[]`)}
}

// Each fault is told with its path, and nothing of the workflow is used (contract §3.16).
func TestBadWorkflows(t *testing.T) {
	t.Parallel()
	charge, ship := job.Do("charge", work("order.charge")), job.Do("ship", work("order.ship"))
	deep := job.Chain("", charge)
	for range job.MaxWorkflowDepth {
		deep = job.Chain("", job.Inside("", deep))
	}
	many := job.Group("")
	for range job.MaxWorkflowSteps + 1 {
		many.Steps = append(many.Steps, job.Do("", work("a.b")))
	}
	withID := work("a.b")
	withID.ID = "01980000-0000-7000-8000-000000000001"
	for name, tt := range map[string]struct {
		spec       job.WorkflowSpec
		path, says string
	}{
		"a slip":              {job.Graph("", charge, ship, job.Do("mail", work("a.b")).After("chrage")), "steps[2].depends_on[0]", `no step "chrage"; did you mean "charge"?`},
		"nobody":              {job.Graph("", charge, ship.After("x")), "steps[1].depends_on[0]", `no step "x"`},
		"itself":              {job.Graph("", charge.After("charge")), "steps[0].depends_on[0]", "depends on itself"},
		"twice":               {job.Graph("", charge, ship.After("charge", "charge")), "steps[1].depends_on[1]", "twice"},
		"a circle":            {job.Graph("", charge.After("ship"), ship.After("charge")), "steps[1].depends_on[0]", `a circle: "charge" waits for "ship" waits for "charge"`},
		"on a callback":       {job.Graph("", charge, ship.After("on_complete")).On(job.OnComplete, work("a.b")), "steps[1].depends_on[0]", "is a callback"},
		"of a chain":          {job.Chain("", charge, ship.After("charge")), "steps[1].depends_on", "only the steps of a dag"},
		"two of one id":       {job.Group("", charge, charge), "jobs[1].id", `"charge"`},
		"empty":               {job.Chain(""), "steps", "at least one step"},
		"no callback":         {job.Batch("", charge), "callbacks", "at least one of on_complete"},
		"callback of a group": {job.Group("", charge).On(job.OnComplete, work("a.b")), "callbacks", "only a batch"},
		"unknown callback":    {job.Batch("", charge).On("on_fire", work("a.b")), "callbacks.on_fire", "on_complete, on_success or on_failure"},
		"unknown kind":        {job.WorkflowSpec{Kind: "list", Steps: []job.Step{charge}}, "type", `"list"`},
		"bad job":             {job.Chain("", charge, job.Do("x", work("No"))), "steps[1]", "type"},
		"job with an id":      {job.Chain("", charge, job.Do("x", withID)), "steps[1].job_id", "must be left out"},
		"no job":              {job.Chain("", job.Step{ID: "x"}), "steps[0]", "needs a type"},
		"nested":              {job.Chain("", charge, job.Inside("both", job.Group("", ship, ship))), "steps[1].jobs[1].id", `"ship"`},
		"too deep":            {deep, strings.Repeat("steps[0].", job.MaxWorkflowDepth-1) + "steps[0]", "nested deeper than 8"},
		"too many":            {many, "jobs", "at most 10000 steps"},
		"long name":           {job.Chain(strings.Repeat("x", 256), charge), "name", "at most 255"},
	} {
		_, err := tt.spec.Compile()
		var e *job.Error
		if !errors.As(err, &e) || e.Kind != job.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list, _ := e.Details["validation_errors"].([]map[string]any)
		if len(list) == 0 || list[0]["path"] != tt.path || !strings.Contains(fmt.Sprint(list[0]["message"]), tt.says) || !strings.HasPrefix(err.Error(), tt.path+": ") {
			t.Errorf("%s: %v with %v, want %s: … %s", name, err, list, tt.path, tt.says)
		}
	}
	bad := job.WorkflowSpec{ID: "x", Kind: job.KindChain, Steps: []job.Step{charge}}
	if _, err := bad.Compile(); job.KindOf(err) != job.Invalid {
		t.Errorf("a bad id: %v", err)
	}
}

// A graph of the largest size is cut in a moment, and one path of it is no recursion.
func TestLargeGraph(t *testing.T) {
	t.Parallel()
	s := job.Graph("")
	for i := range job.MaxWorkflowSteps {
		st := job.Do(fmt.Sprint("s", i), work("a.b"))
		if i > 0 {
			st = st.After(fmt.Sprint("s", i-1))
		}
		s.Steps = append(s.Steps, st)
	}
	f, err := s.Compile()
	if err != nil || f.Count != job.MaxWorkflowSteps+1 {
		t.Fatal(f, err)
	}
	s.Steps[0] = s.Steps[0].After(fmt.Sprint("s", job.MaxWorkflowSteps-1))
	if _, err := s.Compile(); job.KindOf(err) != job.Invalid {
		t.Errorf("a circle of all steps: %v", err)
	}
}

// The digest is that of what is asked for, and not of how it is written.
func TestWorkflowDigest(t *testing.T) {
	t.Parallel()
	digest := func(s job.WorkflowSpec) string {
		f, err := s.Compile()
		if err == nil {
			err = f.Sign()
		}
		if err != nil {
			t.Fatal(err)
		}
		return f.Digest
	}
	with := func(args string) job.Envelope {
		return job.Envelope{Type: "a.b", Args: json.RawMessage(args)}
	}
	one := digest(job.Chain("n", job.Do("", with(`[{"a":1,"b":2}]`))))
	if digest(job.Chain("n", job.Do("", with(`[ {"b":2, "a":1} ]`)))) != one {
		t.Error("the order of members counts")
	}
	for i, other := range []job.WorkflowSpec{job.Chain("m", job.Do("", with(`[{"a":1,"b":2}]`))), job.Group("n", job.Do("", with(`[{"a":1,"b":2}]`))),
		job.Chain("n", job.Do("", with(`[{"a":1,"b":3}]`))), job.Chain("n", job.Do("x", with(`[{"a":1,"b":2}]`)))} {
		if digest(other) == one {
			t.Errorf("%d is the same", i)
		}
	}
}

// Contract §4.17: a step that is named as a callback is one if it depends on all steps that
// are none.
func TestWhichStepsAreCallbacks(t *testing.T) {
	t.Parallel()
	step := func(id string, on ...string) job.Step { return job.Do(id, work("a.b")).After(on...) }
	for name, tt := range map[string]struct {
		steps []job.Step
		told  map[string]string
		want  string
	}{
		"named":                      {[]job.Step{step("a"), step("on_complete", "a"), step("on-failure", "a")}, nil, "on_complete=on_complete on-failure=on_failure"},
		"told":                       {[]job.Step{step("a"), step("z", "a")}, map[string]string{"z": "on-success"}, "z=on_success"},
		"not of all":                 {[]job.Step{step("a"), step("b"), step("on_complete", "a")}, nil, ""},
		"of none":                    {[]job.Step{step("a"), step("on_complete")}, nil, ""},
		"one that is none is a step": {[]job.Step{step("a"), step("b"), step("on_failure", "a"), step("on_success", "on_failure", "b", "a")}, nil, "on_success=on_success"},
		"two with another order":     {[]job.Step{step("on_complete", "b", "a"), step("a"), step("on_success", "a", "b"), step("b", "a")}, nil, "on_complete=on_complete on_success=on_success"},
		"one beside the callbacks":   {[]job.Step{step("a"), step("b"), step("on_complete", "a", "b"), step("on_success", "a")}, nil, ""},
		"all":                        {[]job.Step{step("on_complete", "on_success"), step("on_success")}, nil, "on_complete=on_complete"},
	} {
		s := job.Graph("", tt.steps...)
		s.MarkCallbacks(func(i int) string { return tt.told[s.Steps[i].ID] })
		var got []string
		for _, st := range s.Steps {
			if st.Callback != "" {
				got = append(got, st.ID+"="+st.Callback)
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
