package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// A schedule makes workflows where its template has the member workflow: what a POST to
// /ojs/v1/workflows has, without an id. type beside it is the name of a workflow that has
// none, as in a row of an outbox; without one that is the name of the schedule.

const templateFlow = "workflow" // in a template

// makesFlow reports whether the template, an object, is a workflow.
func (s *CronSpec) makesFlow() bool {
	v := rawjson.Member(s.Template, templateFlow)
	return len(v) > 0 && string(v) != "null"
}

// flow reads the template of a workflow.
func (s *CronSpec) flow() (*WorkflowSpec, error) {
	var raw json.RawMessage
	name := ""
	err := Members(s.Template, func(member string, v json.RawMessage) error {
		path := "job_template." + member
		switch {
		case member == templateFlow:
			raw = v
		case !InTemplate(member) && member != "id" || isEmpty(v):
		case member == "type" && v[0] == '"':
			name = rawjson.Unquote(v)
		case member == "type":
			return invalid(Invalid, path, "must be a string, got %s", shown(v))
		default:
			return invalid(Invalid, path, "must not stand beside workflow: put it into a step of that, or into its options")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const path = "job_template." + templateFlow
	if raw[0] != '{' {
		return nil, invalid(Invalid, path, "must be an object, what a POST to /ojs/v1/workflows has, got %s", shown(raw))
	}
	w, err := ParseWorkflow(raw)
	if err == nil {
		if w.ID != "" {
			return nil, invalid(Invalid, path+".id", "must not be given: each run has an id of its own")
		}
		w.Name = cmp.Or(w.Name, name, s.Name)
		_, err = w.Compile()
	}
	if err == nil {
		_, err = w.withJobs("", func(at string, c Checked) (Checked, error) { return c, s.checkStep(c) })
	}
	if err != nil {
		return nil, faultsUnder(path, err)
	}
	return &w, nil
}

// checkStep makes sure that a step has room for what a run adds to its meta.
func (s *CronSpec) checkStep(c Checked) error {
	if err := s.checkRun(c); err != nil {
		return err
	}
	run, err := c.withMeta(runMeta(s.Name, c.e.Meta, Forever, Forever))
	if n := len(run.AppendPush(nil)); err == nil && n > MaxJobBytes {
		return tooLarge("with what each run adds to the meta, the step", n, MaxJobBytes)
	}
	return err
}

// isEmpty reports whether JSON is null, or an array or object with nothing in it.
func isEmpty(v json.RawMessage) bool {
	if v[0] == '[' || v[0] == '{' {
		for _, c := range v[1 : len(v)-1] {
			if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
				return false
			}
		}
		return true
	}
	return string(v) == "null"
}

// faultsUnder is an error about a workflow that stands under a path.
func faultsUnder(path string, err error) error {
	var was *Error
	if !errors.As(err, &was) || was.Kind == Internal {
		return err
	}
	field, _ := was.Details["field"].(string)
	sep := ": "
	if field != "" && len(was.Message) > len(field) && was.Message[:len(field)] == field {
		sep = "."
	}
	e := Errorf(was.Kind, "%s%s%s", path, sep, was.Message)
	e.Details = maps.Clone(was.Details)
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["field"] = path
	if field != "" {
		e.Details["field"] = under(path, field)
	}
	if faults, ok := was.Details["validation_errors"].([]map[string]any); ok {
		list := make([]map[string]any, len(faults))
		for i, f := range faults {
			at, _ := f["path"].(string)
			list[i] = map[string]any{"path": path, "message": f["message"]}
			if at != "" {
				list[i]["path"] = under(path, at)
			}
		}
		e.Details["validation_errors"] = list
	}
	return e
}

// withJobs is a copy of a workflow with other jobs: fn is given each of them with its
// path, and its error is told with that.
func (s *WorkflowSpec) withJobs(path string, fn func(path string, c Checked) (Checked, error)) (*WorkflowSpec, error) {
	w := *s
	each := func(steps []Step, pathOf func(int) string) ([]Step, error) {
		out := append([]Step(nil), steps...)
		for i := range out {
			st := &out[i]
			var err error
			if st.Workflow != nil {
				st.Workflow, err = st.Workflow.withJobs(pathOf(i), fn)
			} else if st.Job, err = fn(pathOf(i), st.Job); err != nil {
				err = faultsUnder(pathOf(i), err)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var err error
	if w.Steps, err = each(s.Steps, func(i int) string { return under(path, s.Kind.list()) + "[" + strconv.Itoa(i) + "]" }); err != nil {
		return nil, err
	}
	w.Callbacks, err = each(s.Callbacks, func(i int) string { return under(path, "callbacks."+s.Callbacks[i].Callback) })
	return &w, err
}

// FlowInstance is the workflow of one run: that of the template, with what the run is in
// the meta of each of its jobs. at is the tick, now the present.
func (c *Cron) FlowInstance(template *WorkflowSpec, id ID, at, now time.Time) (*WorkflowSpec, error) {
	w, err := template.withJobs("", func(_ string, job Checked) (Checked, error) {
		return job.withMeta(runMeta(c.Name, job.e.Meta, at, now))
	})
	if err != nil {
		return nil, err
	}
	w.ID = id
	return w, nil
}
