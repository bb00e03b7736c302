package job

// View is what people see of a workflow. f has all of its nodes, or the first alone for a
// line of a list; find returns a job, nil for one that is not there any more.
func (f *Flow) View(find func(ID) (*Job, error)) (*Workflow, error) {
	root := f.Nodes[0]
	w := &Workflow{ID: f.ID, Kind: f.Kind, Name: f.Name, State: f.State, CreatedAt: f.CreatedAt, FinishedAt: f.FinishedAt,
		Total: root.Size, Completed: root.Done, Failed: root.Failed, Cancelled: root.Stopped}
	if f.Kind == KindBatch {
		w.Total -= len(root.Calls)
	}
	if len(f.Nodes) == 1 {
		return w, nil
	}
	v := flowView{Flow: f, inside: f.jobsInside(), find: find, room: MaxParentBytes}
	var err error
	w.Steps, w.Callbacks, err = v.steps(root)
	return w, err
}

// flowView makes what people see of the nodes of a workflow.
type flowView struct {
	*Flow
	inside map[int][]ID
	find   func(ID) (*Job, error)
	room   int // of results that may still be shown
}

// steps are those of a workflow, or of one inside it. Callbacks are listed apart where it
// is a batch.
func (v *flowView) steps(above *FlowNode) (steps, calls []WorkflowStep, err error) {
	for place := range above.Size {
		s, err := v.step(above, place)
		if err != nil {
			return nil, nil, err
		}
		if above.Kind == KindBatch && above.isCall(place) {
			calls = append(calls, s)
		} else {
			steps = append(steps, s)
		}
	}
	return steps, calls, nil
}

// jobsInside are the jobs that are stored, by each of the steps that they are in.
func (f *Flow) jobsInside() map[int][]ID {
	inside := map[int][]ID{}
	for i, n := range f.Nodes[1:] {
		if n.Kind != KindJob || n.Stage != FlowReleased || n.JobID == "" {
			continue
		}
		for at := i + 1; at > 0; at = f.Nodes[at].Parent {
			inside[at] = append(inside[at], n.JobID)
		}
	}
	return inside
}

// step is one step of a workflow.
func (v *flowView) step(above *FlowNode, place int) (WorkflowStep, error) {
	n := v.Nodes[above.First+place]
	s := WorkflowStep{ID: n.Step, Index: place, Kind: n.Kind, Type: n.Type, JobIDs: v.inside[n.Index], Callback: n.Callback, StartedAt: n.StartedAt, FinishedAt: n.EndedAt}
	for _, d := range n.Needs {
		s.DependsOn = append(s.DependsOn, v.Nodes[above.First+d].Step)
	}
	switch above.endOf(place) {
	case endCompleted:
		s.State = StepCompleted
	case endFailed:
		s.State = StepFailed
	case endCancelled:
		s.State = StepCancelled
	default:
		s.State = StepWaiting
		if n.Stage == FlowReleased {
			s.State = StepActive
		} else if v.State.Terminal() || above.Stage > FlowReleased {
			s.State = StepCancelled
		}
	}
	if n.Kind != KindJob {
		var err error
		s.Type = string(n.Kind)
		s.Steps, s.Callbacks, err = v.steps(n)
		return s, err
	}
	if n.Stage != FlowReleased || n.JobID == "" {
		return s, nil
	}
	j, err := v.find(n.JobID)
	if err != nil || j == nil {
		return s, err
	}
	if s.State == StepActive && j.State != Active {
		s.State = StepPending
	}
	s.StartedAt, s.FinishedAt = j.StartedAt, j.FinishedAt
	if s.State == StepCompleted && len(j.Result) > 0 && len(j.Result) <= v.room {
		s.Result = j.Result
		v.room -= len(j.Result)
	}
	return s, nil
}

// Copy is a copy whose nodes may change without a trace in f.
func (f *Flow) Copy() *Flow {
	c := *f
	c.Nodes = make([]*FlowNode, len(f.Nodes))
	for i, n := range f.Nodes {
		c.Nodes[i] = n.Clone()
	}
	return &c
}

// Freeze puts into each node of a new workflow whose turn has not come what its job will
// be. TooLarge for one that could not be read again.
func (f *Flow) Freeze() error {
	for _, n := range f.Nodes {
		if n.check == nil {
			continue
		}
		n.Spec = n.check.AppendPush(nil)
		if len(n.Spec) > MaxJobBytes {
			return tooLarge("step "+n.Step, len(n.Spec), MaxJobBytes)
		}
	}
	return nil
}
