package job

import (
	"encoding/json"
	"time"
)

// FlowNode is one element of a workflow as it is stored: a job, or a workflow with
// elements of its own. The whole is node 0. The steps of one element follow one another
// in their order, its callbacks last where it is a batch: so a step is found by its
// place, and the place of a step follows from its index.
//
// What becomes of a step that is a job is not written to its own node, but to Ends of the
// node above, which changes anyway: the end of a job costs one row for all its neighbours
// of the same commit.
type FlowNode struct {
	// What is fixed.
	Index    int
	Parent   int
	Kind     WorkflowKind
	Step     string // its id behind those of the elements that it is in; of the whole, the name
	Type     string // of a job
	Callback string
	First    int   // index of the first step
	Size     int   // how many there are, with the callbacks
	Calls    []int // places of the callbacks
	Needs    []int // places of the neighbours that it depends on, in the order of depends_on
	Feeds    []int // places of those that depend on it
	JobID    ID    // of a job; empty for one that was refused

	// What changes.
	Stage     FlowStage
	Calling   bool // the callbacks run
	Open      int  // steps, or callbacks, that have not ended
	Done      int  // steps that completed
	Failed    int
	Stopped   int    // steps that were cancelled, as they can never run
	CallsLost int    // callbacks that did not complete
	Wants     int    // neighbours it depends on that have not completed
	Fed       int    // bytes of results that have come together
	Ends      []byte // two bits for each step: how it ended
	StartedAt time.Time
	EndedAt   time.Time
	Spec      json.RawMessage // the PUSH of a job that was not released yet
	Results   json.RawMessage // of a chain, the array so far; of another that has ended and was nested, its own; of a job that was refused, why

	check *Checked // what Spec says
}

// FlowStage is how far an element has come.
type FlowStage int

// The stages. A step that is a job goes no further than FlowReleased.
const (
	FlowWaiting FlowStage = iota
	FlowReleased
	FlowCompleted
	FlowFailed
	FlowCancelled
)

// flowEnd is how a step ended.
type flowEnd byte

const (
	endOpen flowEnd = iota
	endCompleted
	endFailed
	endCancelled
)

// Clone is a copy whose changes do not show in n.
func (n *FlowNode) Clone() *FlowNode {
	c := *n
	c.Ends = append([]byte(nil), n.Ends...)
	return &c
}

// Spent reports whether nothing of the node but what it is will be asked for again.
func (n *FlowNode) Spent() bool { return n.Stage > FlowReleased }

func (n *FlowNode) endOf(place int) flowEnd { return flowEnd(n.Ends[place/4] >> (place % 4 * 2) & 3) }

func (n *FlowNode) setEnd(place int, e flowEnd) {
	at := place % 4 * 2
	n.Ends[place/4] = n.Ends[place/4]&^(3<<at) | byte(e)<<at
}

// isCall reports whether a step is a callback.
func (n *FlowNode) isCall(place int) bool {
	for _, c := range n.Calls {
		if c == place {
			return true
		}
	}
	return false
}

// running reports whether an element has begun and has not ended.
func (n *FlowNode) running() bool { return n.Stage == FlowReleased }

// count counts a step that has ended.
func (n *FlowNode) count(as flowEnd) {
	if as == endCompleted {
		n.Done++
	} else {
		n.Failed++
	}
}
