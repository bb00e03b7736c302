package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// FlowBook is where the law of workflows reads and writes the nodes of one of them, in
// one transaction.
type FlowBook interface {
	// FlowNode is a node that the caller may change and then save.
	FlowNode(i int) (*FlowNode, error)
	// FlowNodes are n nodes from one on.
	FlowNodes(from, n int) ([]*FlowNode, error)
	SaveFlowNode(n *FlowNode) error
	// Job reads a job, or returns NotFound.
	Job(id ID) (*Job, error)
	// PushStep stores a new job, under all rules that a PUSH is under. It returns a
	// Duplicate where those do not let it in.
	PushSteps(js []*Job) (refused []error, err error)
	// SaveJob saves a job that was cancelled.
	SaveJob(j *Job) error
	AddEvent(e Event) error
	// EndFlow notes that the whole has ended.
	EndFlow(to WorkflowState, at time.Time) error
}

// FlowTurn decides what follows for one workflow in one transaction. It reads as many
// nodes as depend on what has ended, and never the whole.
type FlowTurn struct {
	id    ID
	book  FlowBook
	now   time.Time
	root  *FlowNode // as it was read: for its kind and its name
	queue []stepEnd
	acked bool // an ACK is the cause, which may be refused
	after ID   // whom the first jobs wait for, empty for nobody
	fed   int  // bytes fed to the steps that were released
}

// stepEnd is a step that has ended.
type stepEnd struct {
	node, parent int
	as           flowEnd
	step         string
	job          ID
	result       json.RawMessage // of one that completed
	reason       string          // of one that was never run
}

// Turn begins the decisions about a workflow.
func Turn(id ID, book FlowBook, now time.Time) *FlowTurn {
	return &FlowTurn{id: id, book: book, now: now}
}

// Begin releases what of a new workflow may run at once, or once the job or the workflow
// after has ended, unless that is empty. Its nodes are not stored yet.
func (t *FlowTurn) Begin(root *FlowNode, after ID) error {
	t.root, t.acked, t.after = root, true, after
	if err := t.event("workflow.started", root, "", "", ""); err != nil {
		return err
	}
	if err := t.release([]*FlowNode{root}, emptyResults, nil); err != nil {
		return err
	}
	return t.run()
}

// Ended takes note that a job of the workflow has ended, and does what follows. An error
// TooLarge refuses the ACK that would feed too much to a step.
func (t *FlowTurn) Ended(j *Job) error {
	e := stepEnd{node: j.Flow.Node, parent: j.Flow.Parent, as: endFailed, step: j.Flow.Step, job: j.ID}
	t.acked = j.State == Completed
	if t.acked {
		e.as, e.result = endCompleted, j.Result
		if e.result == nil {
			e.result = nullResult
		}
	}
	t.queue = append(t.queue, e)
	return t.run()
}

// Reopened takes note that a job which had failed was taken back into its queue. In a
// group, or among the jobs of a batch, whose other jobs have not ended, its end counts
// again; everywhere else its failure has had its effect, and it runs alone.
func (t *FlowTurn) Reopened(j *Job) error {
	p, err := t.book.FlowNode(j.Flow.Parent)
	if err != nil {
		return err
	}
	place := j.Flow.Node - p.First
	if !p.running() || p.Kind != KindGroup && p.Kind != KindBatch || p.endOf(place) != endFailed || p.isCall(place) != p.Calling {
		return nil
	}
	p.setEnd(place, endOpen)
	p.Open++
	if p.Calling {
		p.CallsLost--
	} else {
		p.Failed--
	}
	return t.book.SaveFlowNode(p)
}

var (
	emptyResults = json.RawMessage("[]")
	nullResult   = json.RawMessage("null")
)

func (t *FlowTurn) run() error {
	for len(t.queue) > 0 {
		e := t.queue[0]
		t.queue = t.queue[1:]
		if err := t.end(e); err != nil {
			return err
		}
	}
	return nil
}

// end counts the end of one step, and does what follows from it.
func (t *FlowTurn) end(e stepEnd) error {
	p, err := t.book.FlowNode(e.parent)
	if err != nil {
		return err
	}
	place := e.node - p.First
	if p.endOf(place) != endOpen {
		return nil // it counts once
	}
	if e.as == endCompleted && !t.acked { // there is no ACK to be refused: what is too large cannot count
		over, err := t.overfeeds(p, place, e)
		if err != nil {
			return err
		}
		if over {
			e.as, e.result, e.reason = endFailed, nil, fmt.Sprintf("its result and those beside it come to more than the %d bytes that one step is fed", MaxParentBytes)
		}
	}
	p.setEnd(place, e.as)
	if err := t.tell(p, e); err != nil {
		return err
	}
	if p.Calling {
		p.Open--
		if e.as != endCompleted {
			p.CallsLost++
		}
		if p.Kind == KindGraph { // whose callbacks are steps like others for who counts them
			p.count(e.as)
		}
		return t.settled(p)
	}
	p.count(e.as)
	switch {
	case !p.running(): // it was cancelled; nothing follows
		return t.book.SaveFlowNode(p)
	case p.Kind == KindChain:
		return t.next(p, place, e)
	case p.Kind == KindGraph:
		return t.branch(p, place, e)
	}
	p.Open--
	if len(p.Calls) > 0 || p.Index > 0 { // somebody will want to read the results
		if err := t.feeds(p, &p.Fed, e); err != nil {
			return err
		}
	}
	return t.settled(p)
}

// overfeeds reports whether with the result of a step too much would come together for
// another.
func (t *FlowTurn) overfeeds(p *FlowNode, place int, e stepEnd) (bool, error) {
	more := len(e.result) + 1
	switch {
	case !p.running() || p.Calling:
		return false, nil
	case p.Kind == KindChain:
		return place+1 < p.Size && len(p.Results)+more > MaxParentBytes, nil
	case (len(p.Calls) > 0 || p.Index > 0) && p.Fed+more > MaxParentBytes:
		return true, nil
	case p.Kind != KindGraph:
		return false, nil
	}
	n, err := t.book.FlowNode(p.First + place)
	if err != nil {
		return false, err
	}
	for _, d := range n.Feeds {
		dn, err := t.book.FlowNode(p.First + d)
		if err != nil || dn.Fed+more > MaxParentBytes {
			return err == nil, err
		}
	}
	return false, nil
}

// feeds adds a result to those that come together for one step. TooLarge if they are too
// many bytes.
func (t *FlowTurn) feeds(p *FlowNode, sum *int, e stepEnd) error {
	*sum += len(e.result) + 1
	if *sum > MaxParentBytes && t.acked {
		return Errorf(TooLarge, "with this result those of workflow %s that are fed to one step, or together to the steps behind %q, come to %d bytes, at most %d are: ACK with a smaller one, and keep what is large where the steps can read it", t.id, e.step, *sum, MaxParentBytes).
			With(map[string]any{"size": *sum, "limit": MaxParentBytes, "workflow_id": string(t.id), "job_id": string(e.job)})
	}
	return nil
}

// next goes on with a chain.
func (t *FlowTurn) next(p *FlowNode, place int, e stepEnd) error {
	last := place+1 == p.Size
	if e.as == endCompleted && !last {
		sum := len(p.Results)
		if err := t.feeds(p, &sum, e); err != nil {
			return err
		}
		p.Results = appendResult(p.Results, e.result)
		if err := t.book.SaveFlowNode(p); err != nil {
			return err
		}
		n, err := t.book.FlowNode(p.First + place + 1)
		if err != nil {
			return err
		}
		return t.release([]*FlowNode{n}, p.Results, nil)
	}
	for later := place + 1; later < p.Size; later++ {
		p.setEnd(later, endCancelled)
		p.Stopped++
	}
	p.Results = nil
	if e.as == endCompleted {
		if p.Index > 0 {
			p.Results = e.result
		}
		return t.close(p, FlowCompleted)
	}
	return t.close(p, FlowFailed)
}

// appendResult appends a result to an array of them.
func appendResult(array, result json.RawMessage) json.RawMessage {
	if len(array) == 0 {
		array = emptyResults
	}
	w := make(rawjson.Writer, 0, len(array)+len(result)+1)
	w = append(w, array[:len(array)-1]...)
	w.Element()
	w = append(w, result...)
	w.EndArray()
	return json.RawMessage(w)
}

// branch goes on with a graph.
func (t *FlowTurn) branch(p *FlowNode, place int, e stepEnd) error {
	p.Open--
	if len(p.Calls) > 0 || p.Index > 0 {
		if err := t.feeds(p, &p.Fed, e); err != nil {
			return err
		}
	}
	n, err := t.book.FlowNode(p.First + place)
	if err != nil {
		return err
	}
	if e.as != endCompleted {
		if err := t.prune(p, n); err != nil {
			return err
		}
		return t.settled(p)
	}
	var ready []*FlowNode
	for _, d := range n.Feeds {
		dn, err := t.book.FlowNode(p.First + d)
		if err != nil {
			return err
		}
		dn.Wants--
		if err := t.feeds(p, &dn.Fed, e); err != nil {
			return err
		}
		if err := t.book.SaveFlowNode(dn); err != nil {
			return err
		}
		if dn.Wants == 0 && p.endOf(d) == endOpen {
			ready = append(ready, dn)
		}
	}
	if err := t.book.SaveFlowNode(p); err != nil {
		return err
	}
	for _, dn := range ready {
		results, _, err := t.results(p, dn.Needs, false)
		if err != nil {
			return err
		}
		if err := t.release([]*FlowNode{dn}, results, nil); err != nil {
			return err
		}
	}
	if len(ready) > 0 {
		return nil
	}
	return t.settled(p)
}

// prune cancels what depends on a step that did not complete.
func (t *FlowTurn) prune(p *FlowNode, failed *FlowNode) error {
	for way := slices.Clone(failed.Feeds); len(way) > 0; {
		place := way[len(way)-1]
		way = way[:len(way)-1]
		if p.endOf(place) != endOpen {
			continue
		}
		p.setEnd(place, endCancelled)
		p.Open--
		p.Stopped++
		n, err := t.book.FlowNode(p.First + place)
		if err != nil {
			return err
		}
		way = append(way, n.Feeds...)
		if n.Kind == KindJob {
			continue
		}
		n.Stage, n.EndedAt = FlowCancelled, t.now
		if err := t.book.SaveFlowNode(n); err != nil {
			return err
		}
	}
	return nil
}

// settled saves an element, and closes it, or calls its callbacks, when the last of its
// steps has ended.
func (t *FlowTurn) settled(p *FlowNode) error {
	switch {
	case p.Open > 0 || !p.running():
		return t.book.SaveFlowNode(p)
	case !p.Calling && len(p.Calls) > 0:
		return t.call(p)
	case p.Failed > 0 && p.Kind != KindBatch || p.CallsLost > 0:
		return t.close(p, FlowFailed)
	}
	return t.close(p, FlowCompleted)
}

// call releases the callbacks that are due, once.
func (t *FlowTurn) call(p *FlowNode) error {
	p.Calling = true
	var due []*FlowNode
	for _, place := range p.Calls {
		n, err := t.book.FlowNode(p.First + place)
		if err != nil {
			return err
		}
		if n.Callback == OnSuccess && p.Failed > 0 || n.Callback == OnFailure && p.Failed == 0 {
			p.setEnd(place, endCancelled)
			if p.Kind == KindGraph {
				p.Stopped++
			}
			continue
		}
		p.Open++
		due = append(due, n)
	}
	if err := t.book.SaveFlowNode(p); err != nil {
		return err
	}
	if len(due) == 0 {
		return t.settled(p)
	}
	order := due[0].Needs // of a graph, as it asks for it
	if p.Kind == KindBatch {
		for place := range p.Size - len(p.Calls) {
			order = append(order, place)
		}
	}
	results, errs, err := t.results(p, order, true)
	if err != nil {
		return err
	}
	if p.Failed == 0 {
		errs = nil
	}
	for _, n := range due {
		if p.Kind == KindGraph && !slices.Equal(n.Needs, order) {
			order = n.Needs
			if results, errs, err = t.results(p, order, true); err != nil {
				return err
			}
			if p.Failed == 0 {
				errs = nil
			}
		}
		if err := t.release([]*FlowNode{n}, results, errs); err != nil {
			return err
		}
	}
	return nil
}

// close ends an element.
func (t *FlowTurn) close(p *FlowNode, as FlowStage) error {
	p.Stage, p.EndedAt = as, t.now
	if p.Index == 0 {
		if err := t.book.SaveFlowNode(p); err != nil {
			return err
		}
		to := map[FlowStage]WorkflowState{FlowCompleted: WorkflowCompleted, FlowFailed: WorkflowFailed}[as]
		if err := t.event("workflow."+string(to), p, "", "", ""); err != nil {
			return err
		}
		return t.book.EndFlow(to, t.now)
	}
	e := stepEnd{node: p.Index, parent: p.Parent, as: endFailed, step: p.Step}
	if as == FlowCompleted {
		if p.Kind != KindChain {
			var order []int
			for place := range p.Size {
				if !p.isCall(place) {
					order = append(order, place)
				}
			}
			results, _, err := t.results(p, order, false)
			if err != nil {
				return err
			}
			p.Results = results
		}
		e.as, e.result = endCompleted, p.Results
	}
	if err := t.book.SaveFlowNode(p); err != nil {
		return err
	}
	t.queue = append(t.queue, e)
	return nil
}

// results are those of some steps of an element, null for one that did not complete, and
// if they are wanted the errors of those, null for the others.
func (t *FlowTurn) results(p *FlowNode, places []int, wantErrors bool) (results, errs json.RawMessage, err error) {
	rw, ew := rawjson.Writer{'['}, rawjson.Writer{'['}
	var nodes []*FlowNode
	if 2*len(places) > p.Size {
		if nodes, err = t.book.FlowNodes(p.First, p.Size); err != nil {
			return nil, nil, err
		}
	}
	for _, place := range places {
		var n *FlowNode
		if nodes != nil {
			n = nodes[place]
		} else if n, err = t.book.FlowNode(p.First + place); err != nil {
			return nil, nil, err
		}
		result, problem, err := t.outcome(p, place, n)
		if err != nil {
			return nil, nil, err
		}
		rw.Element()
		rw = append(rw, result...)
		if ew.Element(); wantErrors {
			if len(ew) > maxParentErrors {
				problem = nullResult
			}
			ew = append(ew, problem...)
		}
	}
	rw.EndArray()
	ew.EndArray()
	if !wantErrors {
		ew = nil
	}
	return json.RawMessage(rw), json.RawMessage(ew), nil
}

// maxParentErrors is how many bytes of errors a callback is told, about; those behind
// them are null.
const maxParentErrors = 512 << 10

// outcome is the result of a step, or its error.
func (t *FlowTurn) outcome(p *FlowNode, place int, n *FlowNode) (result, problem json.RawMessage, err error) {
	completed := p.endOf(place) == endCompleted
	result, problem = nullResult, nullResult
	switch {
	case n.Kind != KindJob:
		if completed && n.Results != nil {
			result = n.Results
		} else if !completed {
			problem = problemOf("workflow_failed", "a step of "+n.Step+" failed")
		}
		return result, problem, nil
	case n.JobID == "":
		return result, n.Results, nil
	case p.endOf(place) == endCancelled:
		return result, problemOf("cancelled", "a step that it depends on did not complete"), nil
	}
	j, err := t.book.Job(n.JobID)
	switch {
	case KindOf(err) == NotFound && err != nil:
		return result, problem, nil // somebody has deleted it
	case err != nil:
		return nil, nil, err
	case completed && j.Result != nil:
		result = j.Result
	case completed:
	case j.Error != nil:
		problem = problemOf(j.ErrorType(), detail(j.Error, "message"))
	default:
		problem = problemOf(string(j.State), "the job was "+string(j.State))
	}
	return result, problem, nil
}

// problemOf is an error as a callback is told it.
func problemOf(kind, message string) json.RawMessage {
	if r := []rune(message); len(r) > 500 {
		message = string(r[:500])
	}
	if r := []rune(kind); len(r) > 200 {
		kind = string(r[:200])
	}
	o := rawjson.Object(nil)
	o.Str("type", kind).Str("message", message)
	return o.Close()
}

// release lets elements begin, each with the results of what was before it.
func (t *FlowTurn) release(elements []*FlowNode, results, errs json.RawMessage) error {
	var nodes []*FlowNode // jobs
	for len(elements) > 0 {
		n := elements[0]
		elements = elements[1:]
		if n.Kind == KindJob {
			nodes = append(nodes, n)
			continue
		}
		n.Stage, n.StartedAt = FlowReleased, t.now
		n.Open = n.Size - len(n.Calls)
		if n.Kind == KindChain {
			n.Results = emptyResults
		}
		if err := t.book.SaveFlowNode(n); err != nil {
			return err
		}
		first := n.Size
		if n.Kind == KindChain {
			first = 1
		}
		steps, err := t.book.FlowNodes(n.First, first)
		if err != nil {
			return err
		}
		for place, st := range steps {
			if st.Callback == "" && st.Wants == 0 && !n.isCall(place) {
				elements = append(elements, st)
			}
		}
	}
	var js []*Job
	if t.fed += (len(results) + len(errs)) * len(nodes); t.fed > MaxFedBytes && t.acked {
		return Errorf(TooLarge, "results of %d bytes would be fed to each of %d steps of workflow %s, at most %d bytes are fed at once: ACK with a smaller one", len(results), len(nodes), t.id, MaxFedBytes).
			With(map[string]any{"size": t.fed, "limit": MaxFedBytes, "workflow_id": string(t.id)})
	}
	for _, n := range nodes {
		j, err := t.jobOf(n)
		if err != nil {
			return err
		}
		j.ParentResults, j.ParentErrors = results, errs
		js = append(js, j)
	}
	var refused []error
	var err error
	if t.fed > MaxFedBytes {
		refused = make([]error, len(js))
		for i := range refused {
			refused[i] = Errorf(TooLarge, "the results of the steps before it come to more than %d bytes", MaxFedBytes)
		}
	} else if refused, err = t.book.PushSteps(js); err != nil {
		return err
	}
	for i, n := range nodes {
		n.Stage, n.Spec, n.check, n.StartedAt = FlowReleased, nil, nil, t.now
		if len(refused) > 0 && refused[i] != nil {
			n.JobID, n.Results = "", problemOf("refused", refused[i].Error())
			t.queue = append(t.queue, stepEnd{node: n.Index, parent: n.Parent, as: endFailed, step: n.Step, reason: refused[i].Error()})
		}
		if err := t.book.SaveFlowNode(n); err != nil {
			return err
		}
	}
	return nil
}

// jobOf makes the job of a step.
func (t *FlowTurn) jobOf(n *FlowNode) (*Job, error) {
	if n.check == nil {
		c, err := ParseChecked(n.Spec)
		if err != nil {
			return nil, Errorf(Internal, "step %s of workflow %s cannot be read: %w", n.Step, t.id, err)
		}
		n.check = &c
	}
	j, err := n.check.PushBehind(t.after, t.now)
	if err != nil {
		return nil, err
	}
	j.Flow = &FlowRef{Workflow: t.id, Step: n.Step, Node: n.Index, Parent: n.Parent}
	return j, nil
}

// Cancel stops the workflow. It reads all of it.
func (t *FlowTurn) Cancel(by, reason string, count int) error {
	nodes, err := t.book.FlowNodes(0, count)
	if err != nil {
		return err
	}
	root := nodes[0]
	if t.root = root; !root.running() {
		return Errorf(Conflict, "workflow %s has ended and cannot be cancelled", t.id).With(map[string]any{"workflow_id": string(t.id)})
	}
	for _, n := range nodes[1:] {
		p := nodes[n.Parent]
		place := n.Index - p.First
		if p.endOf(place) != endOpen {
			continue
		}
		if n.Kind != KindJob {
			continue // below, when what is in it is known
		}
		if n.Stage == FlowReleased {
			switch j, err := t.book.Job(n.JobID); {
			case KindOf(err) == NotFound && err != nil:
			case err != nil:
				return err
			case j.State == Active:
				continue
			case !j.State.Terminal():
				p.setEnd(place, endCancelled)
				if err := j.Cancel(t.now, by, reason); err != nil {
					return err
				}
				if err := t.book.SaveJob(j); err != nil {
					return err
				}
			}
		}
		p.setEnd(place, endCancelled)
		if p.Kind == KindGraph || !p.isCall(place) {
			p.Stopped++
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- { // what is inside comes behind
		n := nodes[i]
		if n.Kind == KindJob || n.Spent() {
			continue
		}
		n.Stage, n.EndedAt, n.Open = FlowCancelled, t.now, 0
		if i > 0 {
			p := nodes[n.Parent]
			p.setEnd(n.Index-p.First, endCancelled)
			p.Stopped++
		}
	}
	for _, n := range nodes {
		if n.Kind != KindJob {
			if err := t.book.SaveFlowNode(n); err != nil {
				return err
			}
		}
	}
	if err := t.event("workflow.cancelled", root, "", "", ""); err != nil {
		return err
	}
	return t.book.EndFlow(WorkflowCancelled, t.now)
}

// tell notes the event about a step that has ended.
func (t *FlowTurn) tell(p *FlowNode, e stepEnd) error {
	what := "step_"
	if p.Kind == KindGroup || p.Kind == KindBatch {
		what = "job_"
	}
	if e.as == endCompleted {
		what += "completed"
	} else {
		what += "failed"
	}
	root := p
	if p.Index > 0 {
		var err error
		if root, err = t.book.FlowNode(0); err != nil {
			return err
		}
	}
	return t.event("workflow."+what, root, e.step, e.job, e.reason)
}

func (t *FlowTurn) event(kind string, root *FlowNode, step string, id ID, reason string) error {
	o := rawjson.Object(make([]byte, 0, 160))
	o.Str("workflow_id", string(t.id)).Str("workflow_type", string(root.Kind)).Str("name", root.Step)
	o.Optional("step", step).Optional("job_id", string(id)).Optional("reason", reason)
	return t.book.AddEvent(Event{Type: kind, Time: t.now, Data: o.Close()})
}
