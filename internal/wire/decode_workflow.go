package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// A workflow comes in one of two dialects: with a type, its steps in the order in which
// they run, or all at once; or without one, as steps that depend on others by their ids
// (contract §3.16). A step is what a PUSH sends, with its options over those of the
// workflow, or a workflow of its own.

var callbackNames = []string{job.OnComplete, job.OnSuccess, job.OnFailure}

// DecodeWorkflow reads the body of POST /ojs/v1/workflows. All that is wrong with it is
// told at once: see [job.BadWorkflow].
func DecodeWorkflow(raw []byte) (job.WorkflowSpec, error) {
	if err := job.CheckJSON(raw); err != nil {
		return job.WorkflowSpec{}, err
	}
	d := flowDecoder{}
	s := d.workflow(raw, "", nil, 1)
	switch {
	case d.err != nil:
		return job.WorkflowSpec{}, d.err
	case len(d.faults) > 0:
		return job.WorkflowSpec{}, job.BadWorkflow(d.faults)
	}
	return *s, nil
}

type flowDecoder struct {
	faults []job.FlowFault
	steps  int
	err    error // of a kind of its own
}

func (d *flowDecoder) fault(path, format string, args ...any) {
	d.faults = append(d.faults, job.FlowFault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (d *flowDecoder) failed(path string, err error) {
	if k := job.KindOf(err); k == job.TooLarge || k == job.Malformed && path == "" {
		d.err = err
		return
	}
	field := ""
	if e, ok := err.(*job.Error); ok {
		field, _ = e.Details["field"].(string)
	}
	d.fault(joined(path, field), "%s", err)
}

func joined(path, name string) string {
	switch {
	case path == "":
		return name
	case name == "":
		return path
	}
	return path + "." + name
}

// members of an object that was checked, without those that are null.
func (d *flowDecoder) members(raw []byte, path string, fn func(name string, v json.RawMessage)) {
	if err := job.Members(raw, func(name string, v json.RawMessage) error {
		if !isNull(v) {
			fn(name, v)
		}
		return nil
	}); err != nil {
		d.failed(path, err)
	}
}

// str is a string.
func (d *flowDecoder) str(v json.RawMessage, path string) string {
	if v[0] != '"' {
		d.fault(path, "must be a string%s", got(v))
		return ""
	}
	return rawjson.Unquote(v)
}

// workflow reads one workflow; options are those of the workflow that it is in.
func (d *flowDecoder) workflow(raw json.RawMessage, path string, options json.RawMessage, depth int) *job.WorkflowSpec {
	s := &job.WorkflowSpec{}
	var steps, jobs, callbacks json.RawMessage
	if raw[0] != '{' {
		d.fault(path, "must be an object%s", got(raw))
		return s
	}
	typed := false
	d.members(raw, path, func(name string, v json.RawMessage) {
		switch at := joined(path, name); name {
		case "id":
			if path == "" {
				s.ID = job.ID(d.str(v, at))
			}
		case "type":
			s.Kind, typed = job.WorkflowKind(d.str(v, at)), true
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
				d.fault(at, "must be an object%s", got(v))
				return
			}
			options = over(v, options, nil)
		}
	})
	if !typed {
		s.Kind = job.KindGraph
	}
	list, name := steps, "steps"
	switch s.Kind {
	case job.KindChain, job.KindGraph:
	case job.KindGroup, job.KindBatch:
		list, name = jobs, "jobs"
	default:
		d.fault(joined(path, "type"), "must be chain, group, batch or dag, or be left out for steps that depend on others, got %.80q", s.Kind)
		return s
	}
	if list == nil {
		if other := map[string]json.RawMessage{"steps": jobs, "jobs": steps}[name]; other != nil {
			d.fault(joined(path, name), "is required: a %s has its elements there", s.Kind)
			return s
		}
		d.fault(joined(path, name), "is required: an array of at least one step")
		return s
	}
	told := d.list(s, list, joined(path, name), options, depth)
	s.MarkCallbacks(func(i int) string { return told[i] })
	if callbacks != nil {
		d.callbacks(s, callbacks, joined(path, "callbacks"), options)
	}
	return s
}

// list reads the steps of a workflow, and what they ask to be called as.
func (d *flowDecoder) list(s *job.WorkflowSpec, list json.RawMessage, path string, options json.RawMessage, depth int) (told []string) {
	if list[0] != '[' {
		d.fault(path, "must be an array%s", got(list))
		return nil
	}
	if err := job.Elements(list, func(i int, v json.RawMessage) error {
		if d.steps++; d.steps > job.MaxWorkflowSteps {
			return refuse("", fmt.Sprintf("a workflow has at most %d steps in all", job.MaxWorkflowSteps))
		}
		st, as := d.step(v, fmt.Sprintf("%s[%d]", path, i), options, depth)
		s.Steps, told = append(s.Steps, st), append(told, as)
		return nil
	}); err != nil {
		d.fault(path, "%s", strings.TrimSpace(err.Error()))
	}
	return told
}

func (d *flowDecoder) callbacks(s *job.WorkflowSpec, v json.RawMessage, path string, options json.RawMessage) {
	if v[0] != '{' {
		d.fault(path, "must be an object%s", got(v))
		return
	}
	found := map[string]job.Step{}
	d.members(v, path, func(name string, v json.RawMessage) {
		if !slices.Contains(callbackNames, name) {
			d.fault(joined(path, short(name)), "is none: there are on_complete, on_success and on_failure")
			return
		}
		st, _ := d.step(v, joined(path, name), options, job.MaxWorkflowDepth)
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
func (d *flowDecoder) step(raw json.RawMessage, path string, options json.RawMessage, depth int) (st job.Step, as string) {
	if raw[0] != '{' {
		d.fault(path, "must be an object%s", got(raw))
		return st, ""
	}
	var own json.RawMessage
	said := map[string]bool{}
	nested, args := false, false
	b := begin()
	d.members(raw, path, func(name string, v json.RawMessage) {
		at := joined(path, name)
		switch name {
		case "id":
			st.ID = d.str(v, at)
		case "name":
		case "depends_on", "dependsOn":
			if v[0] != '[' {
				d.fault(at, "must be an array of ids of steps%s", got(v))
				return
			}
			_ = job.Elements(v, func(i int, e json.RawMessage) error { // it is JSON
				st.DependsOn = append(st.DependsOn, d.str(e, fmt.Sprintf("%s[%d]", at, i)))
				return nil
			})
		case "steps", "jobs":
			nested = nested || v[0] == '['
		case "options":
			if v[0] != '{' {
				d.fault(at, "must be an object%s", got(v))
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
		if depth >= job.MaxWorkflowDepth {
			d.fault(path, "is nested deeper than %d", job.MaxWorkflowDepth)
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
	if st.Job, err = job.ParseChecked(b.Close()); err != nil {
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
	b := begin()
	b.Splice(own)
	_ = rawjson.Walk(under, func(quoted, v json.RawMessage) error { // it is an object
		if name := rawjson.Unquote(quoted); !said[name] && !rawjson.Has(own, name) {
			b.Quoted(name, v)
		}
		return nil
	})
	return json.RawMessage(b.Close())
}

// WorkflowBody is the body of POST /ojs/v1/workflows. The workflow must be valid.
func WorkflowBody(s job.WorkflowSpec) []byte {
	b := begin()
	b.Optional("id", string(s.ID))
	workflowMembers(&b, &s)
	return b.Close()
}

func workflowMembers(b *rawjson.Writer, s *job.WorkflowSpec) {
	b.Str("type", string(s.Kind)).Optional("name", s.Name)
	list := "steps"
	if byJobs(s.Kind) {
		list = "jobs"
	}
	objects(b, list, s.Steps, func(b *rawjson.Writer, st job.Step) {
		b.Optional("id", st.ID)
		if st.Callback != "" && len(st.DependsOn) == 0 {
			for i, other := range s.Steps {
				if other.Callback == "" {
					st.DependsOn = append(st.DependsOn, s.StepID(i))
				}
			}
		}
		if len(st.DependsOn) > 0 {
			rawjson.Strings(b, "depends_on", st.DependsOn)
		}
		pushOf(b, st)
	})
	if len(s.Callbacks) > 0 {
		b.Object("callbacks")
		for _, st := range s.Callbacks {
			b.Object(st.Callback)
			pushOf(b, st)
			b.End()
		}
		b.End()
	}
}

// pushOf appends the job of a step, or the workflow that it is.
func pushOf(b *rawjson.Writer, st job.Step) {
	if st.Workflow != nil {
		workflowMembers(b, st.Workflow)
		return
	}
	push := json.RawMessage(st.Job.AppendPush(nil))
	if st.Callback != "" {
		options := begin()
		options.Splice(rawjson.Member(push, "options"))
		options.Str("callback_type", st.Callback)
		push = rawjson.Without(push, "options")
		b.Splice(push)
		b.Raw("options", options.Close())
		return
	}
	b.Splice(push)
}
