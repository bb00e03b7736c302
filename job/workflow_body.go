package job

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// AppendBody appends the body of POST /ojs/v1/workflows, as [ParseWorkflow] reads it. The
// workflow must be valid.
func (s *WorkflowSpec) AppendBody(dst []byte) []byte {
	b := rawjson.Object(dst)
	b.Optional("id", string(s.ID))
	s.appendMembers(&b)
	return b.Close()
}

func (s *WorkflowSpec) appendMembers(b *rawjson.Writer) {
	b.Str("type", string(s.Kind)).Optional("name", s.Name)
	b.Array(s.Kind.list())
	for _, st := range s.Steps {
		b.Element()
		*b = append(*b, '{')
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
		st.appendPush(b)
		b.End()
	}
	b.EndArray()
	if len(s.Callbacks) > 0 {
		b.Object("callbacks")
		for _, st := range s.Callbacks {
			b.Object(st.Callback)
			st.appendPush(b)
			b.End()
		}
		b.End()
	}
}

// appendPush appends the job of a step, or the workflow that it is.
func (st Step) appendPush(b *rawjson.Writer) {
	if st.Workflow != nil {
		st.Workflow.appendMembers(b)
		return
	}
	push := json.RawMessage(st.Job.AppendPush(nil))
	if st.Callback != "" {
		options := rawjson.Object(nil)
		own := rawjson.Member(push, "options")
		options.Splice(own)
		if !rawjson.Has(own, "callback_type") {
			options.Str("callback_type", st.Callback)
		}
		push = rawjson.Without(push, "options")
		b.Splice(push)
		b.Raw("options", options.Close())
		return
	}
	b.Splice(push)
}
