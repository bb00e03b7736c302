package job

// Chain is a workflow whose steps run one after the other, each once the one before it
// has completed.
//
//	job.Chain("order-42",
//		job.Do("charge", charge),
//		job.Do("ship", ship),
//	)
func Chain(name string, steps ...Step) WorkflowSpec {
	return WorkflowSpec{Kind: KindChain, Name: name, Steps: steps}
}

// Group is a workflow whose steps all run at once. It completes if all of them do.
func Group(name string, steps ...Step) WorkflowSpec {
	return WorkflowSpec{Kind: KindGroup, Name: name, Steps: steps}
}

// Batch is a group with callbacks, of which it needs one: see [WorkflowSpec.On].
func Batch(name string, steps ...Step) WorkflowSpec {
	return WorkflowSpec{Kind: KindBatch, Name: name, Steps: steps}
}

// Graph is a workflow whose steps run as soon as those have completed that they are
// [Step.After].
func Graph(name string, steps ...Step) WorkflowSpec {
	return WorkflowSpec{Kind: KindGraph, Name: name, Steps: steps}
}

// Do is a step that is a job. The id may be empty where no other step names it. An
// envelope that breaks a rule, or has an ID, is told of when the workflow is started.
func Do(id string, e Envelope) Step {
	st := Step{ID: id}
	st.Job, st.broken = e.Check()
	return st
}

// Inside is a step that is a workflow of its own: it completes when that does, and its
// result is the array of the results in it, or the last of them where it is a chain.
func Inside(id string, w WorkflowSpec) Step { return Step{ID: id, Workflow: &w} }

// After is the step behind those with these ids, in a graph.
func (st Step) After(ids ...string) Step {
	st.DependsOn = append(append([]string(nil), st.DependsOn...), ids...)
	return st
}

// On is the workflow, a batch or a graph, with a job that runs once all steps have ended:
// when is OnComplete, OnSuccess or OnFailure.
func (s WorkflowSpec) On(when string, e Envelope) WorkflowSpec {
	st := Do("", e)
	st.Callback = when
	if s.Kind == KindGraph {
		st.ID = when
		s.Steps = append(append([]Step(nil), s.Steps...), st)
	} else {
		s.Callbacks = append(append([]Step(nil), s.Callbacks...), st)
	}
	return s
}
