package wire

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

var callbackNames = []string{job.OnComplete, job.OnSuccess, job.OnFailure}

// DecodeWorkflow reads the body of POST /ojs/v1/workflows.
func DecodeWorkflow(raw []byte) (job.WorkflowSpec, error) { return job.ParseWorkflow(raw) }

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
		if own := rawjson.Member(push, "options"); !rawjson.Has(own, "callback_type") {
			options.Str("callback_type", st.Callback)
		}
		push = rawjson.Without(push, "options")
		b.Splice(push)
		b.Raw("options", options.Close())
		return
	}
	b.Splice(push)
}
