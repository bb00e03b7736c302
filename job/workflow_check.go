package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// FlowFault is one thing that is wrong with a workflow, and where: "steps[2].depends_on[0]".
type FlowFault struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// maxFaults is how many of them an error lists.
const maxFaults = 20

// BadWorkflow is the Invalid for a workflow with these faults; the first is in its message.
func BadWorkflow(faults []FlowFault) error {
	first := faults[0]
	text := first.Message
	if first.Path != "" {
		text = first.Path + ": " + text
	}
	if n := len(faults) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	list := make([]map[string]any, 0, min(len(faults), maxFaults))
	for _, f := range faults[:min(len(faults), maxFaults)] {
		list = append(list, map[string]any{"path": f.Path, "message": f.Message})
	}
	return Errorf(Invalid, "%s", text).With(map[string]any{"field": first.Path, "validation_errors": list})
}

// Flow is a workflow cut into its nodes, as a store keeps it.
type Flow struct {
	ID         ID
	Kind       WorkflowKind
	Name       string
	State      WorkflowState
	CreatedAt  time.Time
	FinishedAt time.Time
	Count      int    // of its nodes
	Digest     string // of all that was asked for, where its caller has chosen the ID
	Nodes      []*FlowNode
}

// Compile checks a workflow and cuts it into nodes. Nothing of it is stored if it is
// Invalid: see [BadWorkflow].
func (s *WorkflowSpec) Compile() (*Flow, error) {
	c := compiler{}
	if s.ID != "" && !ValidID(string(s.ID)) {
		return nil, invalidID(s.ID)
	}
	c.name("name", s.Name, true)
	c.look(s, "", 1)
	if len(c.faults) > 0 {
		return nil, BadWorkflow(c.faults)
	}
	f := &Flow{ID: s.ID, Kind: s.Kind, Name: s.Name}
	f.Nodes = append(f.Nodes, &FlowNode{Kind: s.Kind, Step: s.Name})
	specs := []*WorkflowSpec{s}
	for i := 0; i < len(f.Nodes); i++ { // each level behind the one above it
		if specs[i] != nil {
			f.Nodes, specs = c.cut(f.Nodes, specs, i)
		}
	}
	f.Count = len(f.Nodes)
	return f, nil
}

// Checks are the jobs of a workflow, to be looked at and replaced one by one.
func (f *Flow) Checks(fn func(n *FlowNode, c *Checked) error) error {
	for _, n := range f.Nodes {
		if n.Kind == KindJob {
			if err := fn(n, n.check); err != nil {
				return err
			}
		}
	}
	return nil
}

// AtOnce are the jobs that run as soon as the workflow begins.
func (f *Flow) AtOnce() (all []Checked) {
	begins := make([]bool, len(f.Nodes))
	for i, n := range f.Nodes { // what is inside comes behind
		if i > 0 {
			p := f.Nodes[n.Parent]
			place := n.Index - p.First
			if !begins[n.Parent] || n.Wants > 0 || p.isCall(place) || p.Kind == KindChain && place > 0 {
				continue
			}
		}
		begins[i] = true
		if n.Kind == KindJob {
			all = append(all, *n.check)
		}
	}
	return all
}

// Sign notes what the workflow asks for, in Digest.
func (f *Flow) Sign() error {
	h := sha256.New()
	for _, n := range f.Nodes {
		var push []byte
		if n.check != nil {
			e := *n.check
			e.e.ID = ""
			var err error
			if push, err = rawjson.Canonical(e.AppendPush(nil)); err != nil {
				return err
			}
		}
		fmt.Fprintf(h, "%s %q %s %d %d %s\n", n.Kind, n.Step, n.Callback, n.Parent, n.Needs, push)
	}
	f.Digest = hex.EncodeToString(h.Sum(nil))
	return nil
}

// compiler looks for what is wrong.
type compiler struct {
	faults       []FlowFault
	steps, edges int
	full         bool
}

func (c *compiler) fault(path, format string, args ...any) {
	c.faults = append(c.faults, FlowFault{path, fmt.Sprintf(format, args...)})
}

func (c *compiler) name(path, s string, empty bool) {
	switch {
	case s == "" && !empty:
		c.fault(path, "must not be empty")
	case utf8.RuneCountInString(s) > MaxWorkflowName:
		c.fault(path, "must be at most %d characters", MaxWorkflowName)
	case !utf8.ValidString(s):
		c.fault(path, "must be UTF-8")
	}
}

// list is what the steps of a kind are called in a request.
func (k WorkflowKind) list() string {
	if k == KindGroup || k == KindBatch {
		return "jobs"
	}
	return "steps"
}

// look checks one workflow, nested or not.
func (c *compiler) look(s *WorkflowSpec, path string, depth int) {
	list := under(path, s.Kind.list())
	switch s.Kind {
	case KindChain, KindGroup, KindBatch, KindGraph:
	default:
		c.fault(under(path, "type"), "must be chain, group, batch or dag, got %q", s.Kind)
		return
	}
	if depth > MaxWorkflowDepth {
		c.fault(path, "is nested deeper than %d", MaxWorkflowDepth)
		return
	}
	if len(s.Steps) == 0 {
		c.fault(list, "must hold at least one step")
	}
	if c.steps += len(s.Steps) + len(s.Callbacks); c.steps > MaxWorkflowSteps {
		if !c.full {
			c.fault(list, "a workflow has at most %d steps in all", MaxWorkflowSteps)
		}
		c.full = true
		return
	}
	if len(s.Callbacks) > 0 && s.Kind != KindBatch {
		c.fault(under(path, "callbacks"), "only a batch has callbacks; this is a %s", s.Kind)
	}
	if s.Kind == KindBatch && len(s.Callbacks) == 0 {
		c.fault(under(path, "callbacks"), "a batch needs at least one of on_complete, on_success and on_failure")
	}
	ids, calls := map[string]int{}, len(s.Callbacks)
	for i := range s.Steps {
		at := list + "[" + strconv.Itoa(i) + "]"
		st := &s.Steps[i]
		id := s.StepID(i)
		c.name(at+".id", id, false)
		if other, taken := ids[id]; taken {
			c.fault(at+".id", "is %q, and so is that of %s[%d]", id, s.Kind.list(), other)
		} else {
			ids[id] = i
		}
		if st.Callback != "" {
			calls++
		}
		if s.Kind != KindGraph && (len(st.DependsOn) > 0 || st.Callback != "") {
			c.fault(at+".depends_on", "only the steps of a dag depend on others by name; this is a %s", s.Kind)
		}
		c.step(st, at, depth)
	}
	seen := map[string]bool{}
	for i := range s.Callbacks {
		st := &s.Callbacks[i]
		at := under(path, "callbacks") + "." + st.Callback
		if st.Workflow != nil {
			c.fault(at, "must be a job")
			continue
		}
		if seen[st.Callback] {
			c.fault(at, "stands there twice")
		}
		seen[st.Callback] = true
		c.step(st, at, depth)
	}
	if calls > MaxCallbacks {
		c.fault(list, "a workflow has at most %d callbacks", MaxCallbacks)
	}
	if s.Kind == KindGraph {
		c.graph(s, list, ids)
	}
}

// StepID is the id of a step, given or made.
func (s *WorkflowSpec) StepID(i int) string {
	if s.Steps[i].ID != "" {
		return s.Steps[i].ID
	}
	return "step-" + strconv.Itoa(i)
}

func (c *compiler) step(st *Step, at string, depth int) {
	switch st.Callback {
	case "", OnComplete, OnSuccess, OnFailure:
	default:
		c.fault(at, "a callback is on_complete, on_success or on_failure, got %q", st.Callback)
	}
	if st.Workflow != nil {
		if st.Workflow.ID != "" {
			c.fault(at+".id", "only the whole workflow has an id of its own")
		}
		c.look(st.Workflow, at, depth+1)
		return
	}
	switch err := st.Job.made(); {
	case st.broken != nil:
		c.fault(at, "%s", st.broken)
	case err != nil:
		c.fault(at, "is neither a job nor a workflow: it needs a type")
	case st.Job.e.ID != "":
		c.fault(at+".job_id", "must be left out: the server makes the ids of the jobs of a workflow")
	}
}

// graph checks the dependencies of a dag.
func (c *compiler) graph(s *WorkflowSpec, list string, ids map[string]int) {
	good := true
	plain := 0
	var calls []int
	for i := range s.Steps {
		st := &s.Steps[i]
		if st.Callback == "" {
			plain++
		}
		seen := map[string]bool{}
		if c.edges += len(st.DependsOn); c.edges > MaxWorkflowEdges {
			c.fault(list, "a workflow has at most %d dependencies in all", MaxWorkflowEdges)
			return
		}
		for d, name := range st.DependsOn {
			at := fmt.Sprintf("%s[%d].depends_on[%d]", list, i, d)
			other, ok := ids[name]
			switch {
			case !ok:
				good = false
				hint := ""
				if near := nearest(name, ids); near != "" {
					hint = fmt.Sprintf("; did you mean %q?", near)
				}
				c.fault(at, "no step %q%s", name, hint)
			case other == i:
				good = false
				c.fault(at, "step %q depends on itself", name)
			case seen[name]:
				good = false
				c.fault(at, "names %q twice", name)
			case s.Steps[other].Callback != "":
				good = false
				c.fault(at, "%q is a callback: it runs when all other steps have ended, and none can wait for it", name)
			}
			seen[name] = true
		}
		if st.Callback != "" {
			calls = append(calls, i)
		}
	}
	for _, i := range calls {
		if n := len(s.Steps[i].DependsOn); good && n > 0 && n != plain {
			good = false
			c.fault(fmt.Sprintf("%s[%d].depends_on", list, i), "must name all steps that are no callbacks, or none: a callback runs when all of those have ended")
		}
	}
	if plain == 0 {
		c.fault(list, "must hold a step that is no callback")
		return
	}
	if good {
		c.circle(s, list, ids)
	}
}

// circle finds steps that wait for one another.
func (c *compiler) circle(s *WorkflowSpec, list string, ids map[string]int) {
	const unseen, open, done = 0, 1, 2
	state := make([]byte, len(s.Steps))
	next := make([]int, len(s.Steps)) // the dependency that is looked at next
	for root := range s.Steps {
		if state[root] != unseen {
			continue
		}
		way := []int{root}
		state[root] = open
		for len(way) > 0 {
			i := way[len(way)-1]
			if next[i] == len(s.Steps[i].DependsOn) {
				state[i] = done
				way = way[:len(way)-1]
				continue
			}
			d := next[i]
			next[i]++
			other := ids[s.Steps[i].DependsOn[d]]
			switch state[other] {
			case unseen:
				state[other] = open
				way = append(way, other)
			case open:
				text := ""
				for _, w := range way[slices.Index(way, other):] {
					text += fmt.Sprintf("%q waits for ", s.StepID(w))
				}
				c.fault(fmt.Sprintf("%s[%d].depends_on[%d]", list, i, d), "is a circle: %s%q", text, s.StepID(other))
				return
			}
		}
	}
}

// nearest is the name that somebody may have meant, empty where none is like it.
func nearest(name string, ids map[string]int) string {
	if len(name) > 64 || len(ids) > 1000 {
		return ""
	}
	return wording.Nearest(name, slices.Sorted(maps.Keys(ids)))
}

// cut puts the steps of node i behind all nodes that are there.
func (c *compiler) cut(nodes []*FlowNode, specs []*WorkflowSpec, i int) ([]*FlowNode, []*WorkflowSpec) {
	p, s := nodes[i], specs[i]
	p.First, p.Size = len(nodes), len(s.Steps)+len(s.Callbacks)
	p.Ends = make([]byte, (p.Size+3)/4)
	places := map[string]int{}
	for place := range p.Size {
		var st *Step
		n := &FlowNode{Index: len(nodes), Parent: i}
		if place < len(s.Steps) {
			st = &s.Steps[place]
			n.Step = s.StepID(place)
			places[s.StepID(place)] = place
		} else {
			st = &s.Callbacks[place-len(s.Steps)]
			n.Step = st.Callback
		}
		if i > 0 {
			n.Step = p.Step + "." + n.Step
		}
		if n.Callback = st.Callback; n.Callback != "" {
			p.Calls = append(p.Calls, place)
		}
		n.Kind = KindJob
		if st.Workflow != nil {
			n.Kind = st.Workflow.Kind
		} else {
			job := st.Job
			n.check, n.Type = &job, job.e.Type
		}
		nodes, specs = append(nodes, n), append(specs, st.Workflow)
	}
	if s.Kind == KindGraph {
		for place := range s.Steps {
			n := nodes[p.First+place]
			for _, name := range s.Steps[place].DependsOn {
				n.Needs = append(n.Needs, places[name])
			}
			if n.Callback != "" {
				for other := range s.Steps {
					if len(s.Steps[place].DependsOn) == 0 && s.Steps[other].Callback == "" {
						n.Needs = append(n.Needs, other)
					}
				}
				continue
			}
			n.Wants = len(n.Needs)
			for _, d := range n.Needs {
				other := nodes[p.First+d]
				other.Feeds = append(other.Feeds, place)
			}
		}
	}
	return nodes, specs
}

// MarkCallbacks finds the steps of a graph that stand for the callbacks of a batch: named
// as one, or told to be one, and dependent on all other steps (contract §4.17). told is
// what a step asks for beside its name, empty for most.
func (s *WorkflowSpec) MarkCallbacks(told func(i int) string) {
	if s.Kind != KindGraph {
		return
	}
	likely := map[string]string{} // by id
	for i := range s.Steps {
		if as := callbackOf(s.Steps[i].ID, told(i)); as != "" && s.Steps[i].Workflow == nil && len(s.Steps[i].DependsOn) > 0 {
			likely[s.StepID(i)] = as
		}
	}
	tried := map[string]bool{}
	for i := range s.Steps {
		if likely[s.StepID(i)] == "" {
			continue
		}
		on := slices.Sorted(slices.Values(s.Steps[i].DependsOn))
		key := strings.Join(on, "\x00")
		if tried[key] {
			continue
		}
		tried[key] = true
		if marked := s.callbacksBehind(on, likely); marked != nil {
			for _, i := range marked {
				s.Steps[i].Callback = likely[s.StepID(i)]
			}
			return // others would wait for these, and these for them
		}
	}
}

// callbacksBehind are the steps that are not among on, if each of them may be a callback and
// depends on just those; nil otherwise. on is sorted.
func (s *WorkflowSpec) callbacksBehind(on []string, likely map[string]string) (places []int) {
	before := 0
	for i := range s.Steps {
		id := s.StepID(i)
		if _, is := slices.BinarySearch(on, id); is {
			before++
			continue
		}
		if likely[id] == "" || !slices.Equal(slices.Sorted(slices.Values(s.Steps[i].DependsOn)), on) {
			return nil
		}
		places = append(places, i)
	}
	if before != len(on) {
		return nil
	}
	return places
}

func callbackOf(id, told string) string {
	for _, name := range []string{told, id} {
		switch strings.ReplaceAll(name, "-", "_") {
		case OnComplete:
			return OnComplete
		case OnSuccess:
			return OnSuccess
		case OnFailure:
			return OnFailure
		}
	}
	return ""
}
