package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// A workflow comes in one of two dialects: with a type, its steps in the order in which
// they run, or all at once; or without one, as steps that depend on others by their ids
// (contract §3.16). A step is what a PUSH sends, with its options over those of the
// workflow, or a workflow of its own.

var callbackNames = []string{OnComplete, OnSuccess, OnFailure}

// ParseWorkflow reads the body of POST /ojs/v1/workflows, which must not be changed afterwards. All that is wrong with it is
// told at once: see [BadWorkflow].
func ParseWorkflow(raw []byte) (WorkflowSpec, error) {
	if err := CheckJSON(raw); err != nil {
		return WorkflowSpec{}, err
	}
	if err := Members(raw, func(string, json.RawMessage) error { return nil }); err != nil { // it may be no object
		return WorkflowSpec{}, err
	}
	d := flowParser{}
	s := d.workflow(raw, "", nil, 1)
	switch {
	case d.err != nil:
		return WorkflowSpec{}, d.err
	case len(d.faults) > 0:
		return WorkflowSpec{}, BadWorkflow(d.faults)
	}
	return *s, nil
}

type flowParser struct {
	faults []FlowFault
	steps  int
	err    error // of a kind of its own
}

func (d *flowParser) fault(path, format string, args ...any) {
	d.faults = append(d.faults, FlowFault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (d *flowParser) failed(path string, err error) {
	if k := KindOf(err); k == TooLarge || k == Malformed && path == "" {
		d.err = err
		return
	}
	field := ""
	if e, ok := err.(*Error); ok {
		field, _ = e.Details["field"].(string)
	}
	d.fault(under(path, field), "%s", err)
}

// members of an object that was checked, without those that are null.
func (d *flowParser) members(raw []byte, path string, fn func(name string, v json.RawMessage)) {
	if err := Members(raw, func(name string, v json.RawMessage) error {
		if string(v) != "null" {
			fn(name, v)
		}
		return nil
	}); err != nil {
		d.failed(path, err)
	}
}

// str is a string.
func (d *flowParser) str(v json.RawMessage, path string) string {
	if v[0] != '"' {
		d.fault(path, "must be a string, got %s", shown(v))
		return ""
	}
	return rawjson.Unquote(v)
}

// workflow reads one workflow; options are those of the workflow that it is in.
func (d *flowParser) workflow(raw json.RawMessage, path string, options json.RawMessage, depth int) *WorkflowSpec {
	s := &WorkflowSpec{}
	var steps, jobs, callbacks json.RawMessage
	if raw[0] != '{' {
		d.fault(path, "must be an object, got %s", shown(raw))
		return s
	}
	typed := false
	d.members(raw, path, func(name string, v json.RawMessage) {
		switch at := under(path, name); name {
		case "id":
			if path == "" {
				s.ID = ID(d.str(v, at))
			}
		case "type":
			s.Kind, typed = WorkflowKind(d.str(v, at)), true
		case "name":
			s.Name = d.str(v, at)
		case "steps":
			steps = v
		case "jobs":
			jobs = v
		case "callbacks":
			callbacks = v
		case "options":
			if v[0] != '{' {
				d.fault(at, "must be an object, got %s", shown(v))
				return
			}
			options = over(v, options, nil)
		}
	})
	if !typed {
		s.Kind = KindGraph
	}
	list, name := steps, "steps"
	switch s.Kind {
	case KindChain, KindGraph:
	case KindGroup, KindBatch:
		list, name = jobs, "jobs"
	default:
		d.fault(under(path, "type"), "must be chain, group, batch or dag, or be left out for steps that depend on others, got %.80q", s.Kind)
		return s
	}
	if list == nil {
		if other := map[string]json.RawMessage{"steps": jobs, "jobs": steps}[name]; other != nil {
			d.fault(under(path, name), "is required: a %s has its elements there", s.Kind)
			return s
		}
		d.fault(under(path, name), "is required: an array of at least one step")
		return s
	}
	told := d.list(s, list, under(path, name), options, depth)
	s.MarkCallbacks(func(i int) string { return told[i] })
	if callbacks != nil {
		d.callbacks(s, callbacks, under(path, "callbacks"), options)
	}
	return s
}

// list reads the steps of a workflow, and what they ask to be called as.
func (d *flowParser) list(s *WorkflowSpec, list json.RawMessage, path string, options json.RawMessage, depth int) (told []string) {
	if list[0] != '[' {
		d.fault(path, "must be an array, got %s", shown(list))
		return nil
	}
	if err := Elements(list, func(i int, v json.RawMessage) error {
		if d.steps++; d.steps > MaxWorkflowSteps {
			return Errorf(Invalid, "a workflow has at most %d steps in all", MaxWorkflowSteps)
		}
		st, as := d.step(v, fmt.Sprintf("%s[%d]", path, i), options, depth)
		s.Steps, told = append(s.Steps, st), append(told, as)
		return nil
	}); err != nil {
		d.fault(path, "%s", strings.TrimSpace(err.Error()))
	}
	return told
}

func (d *flowParser) callbacks(s *WorkflowSpec, v json.RawMessage, path string, options json.RawMessage) {
	if v[0] != '{' {
		d.fault(path, "must be an object, got %s", shown(v))
		return
	}
	found := map[string]Step{}
	d.members(v, path, func(name string, v json.RawMessage) {
		if !slices.Contains(callbackNames, name) {
			d.fault(under(path, wording.Printable(name)), "is none: there are on_complete, on_success and on_failure")
			return
		}
		st, _ := d.step(v, under(path, name), options, MaxWorkflowDepth)
		st.ID, st.Callback = "", name
		found[name] = st
	})
	for _, name := range callbackNames {
		if st, ok := found[name]; ok {
			s.Callbacks = append(s.Callbacks, st)
		}
	}
}

// step reads one step. as is what it asks to be called as, empty for most.
func (d *flowParser) step(raw json.RawMessage, path string, options json.RawMessage, depth int) (st Step, as string) {
	if raw[0] != '{' {
		d.fault(path, "must be an object, got %s", shown(raw))
		return st, ""
	}
	var own json.RawMessage
	said := map[string]bool{}
	nested, args := false, false
	b := rawjson.Object(nil)
	d.members(raw, path, func(name string, v json.RawMessage) {
		at := under(path, name)
		switch name {
		case "id":
			st.ID = d.str(v, at)
		case "name":
		case "depends_on", "dependsOn":
			if v[0] != '[' {
				d.fault(at, "must be an array of ids of steps, got %s", shown(v))
				return
			}
			_ = Elements(v, func(i int, e json.RawMessage) error { // it is JSON
				st.DependsOn = append(st.DependsOn, d.str(e, fmt.Sprintf("%s[%d]", at, i)))
				return nil
			})
		case "steps", "jobs":
			nested = nested || v[0] == '['
		case "options":
			if v[0] != '{' {
				d.fault(at, "must be an object, got %s", shown(v))
				return
			}
			own = v
		default:
			args = args || name == "args"
			said[name] = true
			b.Quoted(name, v)
		}
	})
	if nested {
		if depth >= MaxWorkflowDepth {
			d.fault(path, "is nested deeper than %d", MaxWorkflowDepth)
			return st, ""
		}
		st.Workflow = d.workflow(raw, path, options, depth+1)
		return st, ""
	}
	if v := rawjson.Member(own, "callback_type"); len(v) > 0 && v[0] == '"' {
		as = rawjson.Unquote(v)
	}
	if !args {
		b.Raw("args", []byte("[]"))
	}
	if all := over(own, options, said); all != nil {
		b.Raw("options", all)
	}
	var err error
	if st.Job, err = ParseChecked(b.Close()); err != nil {
		d.failed(path, err)
	}
	return st, as
}

// over is the options of a step with those of the workflow that it, or what it says beside
// its options, does not have; nil for none.
func over(own, under json.RawMessage, said map[string]bool) json.RawMessage {
	if under == nil {
		return own
	}
	b := rawjson.Object(nil)
	b.Splice(own)
	_ = rawjson.Walk(under, func(quoted, v json.RawMessage) error { // it is an object
		if name := rawjson.Unquote(quoted); !said[name] && !rawjson.Has(own, name) {
			b.Quoted(name, v)
		}
		return nil
	})
	return json.RawMessage(b.Close())
}
