// Package flowchart draws a workflow as lines of text: what follows what, and how far
// each step has come. It says so without colours, and within the width that it is given.
//
// Steps of a chain or a graph stand under those that they wait for, joined by lines. A
// line that comes from above goes on downward, also where one from the side joins it; two
// steps under each other without a line have nothing to do with each other. Steps that run at
// once, as in a group, are in one bracket, and the steps of a step that is a workflow
// hang below its name. A graph with more lines than fit is a bracket, too, and each of its
// steps says what it waits for.
package flowchart

import (
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

// A Line is one of a drawing.
type Line struct {
	Tree  string            // lines, the sign of the step's state, and the step's name
	Step  *job.WorkflowStep // nil where there are but lines
	After string            // the steps that it waits for, where lines do not show it
}

// Sign is one column that stands for a state.
func Sign(s job.StepState) string {
	switch s {
	case job.StepCompleted:
		return "✓"
	case job.StepFailed:
		return "✗"
	case job.StepActive:
		return "●"
	case job.StepPending:
		return "○"
	case job.StepCancelled:
		return "–"
	}
	return "·"
}

// Draw draws a workflow whose steps are known. What stands in front of the names takes
// about three eighths of the columns at most, and the rest is for names and states.
func Draw(w *job.Workflow, columns int) []Line {
	return level(w.Kind, "", w.Steps, w.Callbacks, columns*3/8)
}

// levelIndent is how far the steps of a step hang behind the line that is beside them.
const levelIndent = 3

// level draws the steps of a workflow, or of one inside it. Their names go without the
// prefix. room is how many columns there are for lines.
func level(kind job.WorkflowKind, prefix string, steps, calls []job.WorkflowStep, room int) []Line {
	var plain []*job.WorkflowStep
	var last []*job.WorkflowStep
	for i := range steps {
		if steps[i].Callback == "" {
			plain = append(plain, &steps[i])
		} else {
			last = append(last, &steps[i])
		}
	}
	for i := range calls {
		last = append(last, &calls[i])
	}
	g := graphOf(kind, plain)
	var lines []Line
	if rails, ok := g.rails(prefix, room); g.edges > 0 && ok {
		lines = rails
	} else {
		lines = g.bracket(prefix, room)
	}
	if len(last) > 0 {
		lines = append(lines, Line{Tree: "when all have ended:"})
		lines = append(lines, graphOf(job.KindGroup, last).bracket(prefix, room)...)
	}
	return lines
}

// graph is steps and what follows each.
type graph struct {
	steps []*job.WorkflowStep
	feeds [][]int
	needs [][]int
	edges int
	chain bool
}

func graphOf(kind job.WorkflowKind, steps []*job.WorkflowStep) *graph {
	g := &graph{steps: steps, feeds: make([][]int, len(steps)), needs: make([][]int, len(steps)), chain: kind == job.KindChain}
	link := func(from, to int) {
		g.feeds[from] = append(g.feeds[from], to)
		g.needs[to] = append(g.needs[to], from)
		g.edges++
	}
	if g.chain {
		for i := 1; i < len(steps); i++ {
			link(i-1, i)
		}
		return g
	}
	places := map[string]int{}
	for i, s := range steps {
		places[s.ID] = i
	}
	for i, s := range steps {
		for _, id := range s.DependsOn {
			if from, ok := places[id]; ok && from != i && !slices.Contains(g.needs[i], from) {
				link(from, i)
			}
		}
	}
	return g
}

// order is the steps, each behind those that it waits for, and else as they were given.
func (g *graph) order() []int {
	var order []int
	open := make([]int, len(g.steps))
	placed := make([]bool, len(g.steps))
	var ready []int
	for i := range g.steps {
		if open[i] = len(g.needs[i]); open[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		v := ready[0]
		ready = ready[1:]
		order, placed[v] = append(order, v), true
		for _, to := range g.feeds[v] {
			if open[to]--; open[to] == 0 {
				at, _ := slices.BinarySearch(ready, to)
				ready = slices.Insert(ready, at, to)
			}
		}
	}
	for i := range g.steps { // a circle, which no server stores
		if !placed[i] {
			order = append(order, i)
		}
	}
	return order
}

// bracket draws steps as those of a group.
func (g *graph) bracket(prefix string, room int) (lines []Line) {
	for i, v := range g.order() {
		s := g.steps[v]
		corner, beside := "├─ ", "│  "
		switch {
		case len(g.steps) == 1:
			corner, beside = "── ", "   "
		case i == 0:
			corner = "┌─ "
		case i == len(g.steps)-1:
			corner, beside = "└─ ", "   "
		}
		var after []string
		for _, from := range g.needs[v] {
			after = append(after, strings.TrimPrefix(g.steps[from].ID, prefix))
		}
		lines = append(lines, Line{Tree: corner + Sign(s.State) + " " + name(s, prefix), Step: s, After: strings.Join(after, ", ")})
		lines = append(lines, inside(s, beside, room)...)
	}
	return lines
}

// inside draws the steps of a step, behind what stands beside them.
func inside(s *job.WorkflowStep, beside string, room int) []Line {
	if len(s.Steps)+len(s.Callbacks) == 0 {
		return nil
	}
	lines := level(s.Kind, s.ID+".", s.Steps, s.Callbacks, room-term.Width(beside))
	for i := range lines {
		lines[i].Tree = beside + lines[i].Tree
	}
	return lines
}

// name is what a step is called among its neighbours.
func name(s *job.WorkflowStep, prefix string) string {
	id := strings.TrimPrefix(s.ID, prefix)
	switch {
	case s.Callback != "" && id != s.Callback:
		id += " (" + s.Callback + ")"
	case s.Kind != job.KindJob && s.Kind != "":
		id += ":"
	}
	return id
}
