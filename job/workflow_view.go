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
	inside := f.jobsInside()
	room := MaxParentBytes
	for place := range root.Size {
		s, err := f.step(place, inside, find, &room)
		if err != nil {
			return nil, err
		}
		if f.Kind == KindBatch && root.isCall(place) {
			w.Callbacks = append(w.Callbacks, s)
		} else {
			w.Steps = append(w.Steps, s)
		}
	}
	return w, nil
}

// jobsInside are the jobs that are stored, by the step of the whole that they are in.
func (f *Flow) jobsInside() map[int][]ID {
	inside := map[int][]ID{}
	above := make([]int, len(f.Nodes)) // the step that a node is in
	for i, n := range f.Nodes[1:] {
		i++
		above[i] = i
		if n.Parent > 0 {
			above[i] = above[n.Parent]
		}
		if n.Kind == KindJob && n.Stage == FlowReleased && n.JobID != "" {
			inside[above[i]] = append(inside[above[i]], n.JobID)
		}
	}
	return inside
}

// step is one step of the whole.
func (f *Flow) step(place int, inside map[int][]ID, find func(ID) (*Job, error), room *int) (WorkflowStep, error) {
	root := f.Nodes[0]
	n := f.Nodes[root.First+place]
	s := WorkflowStep{ID: n.Step, Index: place, Kind: n.Kind, Type: n.Type, JobIDs: inside[n.Index], Callback: n.Callback, StartedAt: n.StartedAt, FinishedAt: n.EndedAt}
	for _, d := range n.Needs {
		s.DependsOn = append(s.DependsOn, f.Nodes[root.First+d].Step)
	}
	switch root.endOf(place) {
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
		} else if f.State.Terminal() {
			s.State = StepCancelled
		}
	}
	if n.Kind != KindJob {
		s.Type = string(n.Kind)
		return s, nil
	}
	if n.Stage != FlowReleased || n.JobID == "" {
		return s, nil
	}
	j, err := find(n.JobID)
	if err != nil || j == nil {
		return s, err
	}
	if s.State == StepActive && j.State != Active {
		s.State = StepPending
	}
	s.StartedAt, s.FinishedAt = j.StartedAt, j.FinishedAt
	if s.State == StepCompleted && len(j.Result) > 0 && len(j.Result) <= *room {
		s.Result = j.Result
		*room -= len(j.Result)
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
