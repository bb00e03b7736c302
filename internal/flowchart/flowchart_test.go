package flowchart

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

var update = flag.Bool("update", false, "rewrite the drawings in testdata")

func step(id string, state job.StepState, after ...string) job.WorkflowStep {
	return job.WorkflowStep{ID: id, Kind: job.KindJob, Type: "a.b", State: state, DependsOn: after}
}

func nest(s job.WorkflowStep, kind job.WorkflowKind, steps ...job.WorkflowStep) job.WorkflowStep {
	s.Kind = kind
	for i := range steps {
		prefix(&steps[i], s.ID+".")
	}
	s.Steps = steps
	return s
}

// prefix puts the id of the step above in front of the ids of a step and those inside it.
func prefix(s *job.WorkflowStep, with string) {
	s.ID = with + s.ID
	for i := range s.DependsOn {
		s.DependsOn[i] = with + s.DependsOn[i]
	}
	for i := range s.Steps {
		prefix(&s.Steps[i], with)
	}
	for i := range s.Callbacks {
		prefix(&s.Callbacks[i], with)
	}
}

func call(s job.WorkflowStep, when string) job.WorkflowStep {
	s.Callback = when
	return s
}

// TestDrawings keeps drawings of many shapes.
func TestDrawings(t *testing.T) {
	const done, busy, stored, waits, failed, off = job.StepCompleted, job.StepActive, job.StepPending, job.StepWaiting, job.StepFailed, job.StepCancelled
	many := func(n int, after ...string) (all []job.WorkflowStep) {
		for i := range n {
			all = append(all, step(fmt.Sprint("part-", i), waits, after...))
		}
		return all
	}
	names := func(all []job.WorkflowStep) (ids []string) {
		for _, s := range all {
			ids = append(ids, s.ID)
		}
		return ids
	}
	fan := many(4, "split")
	wide := many(20, "split")
	deep := step("leaf", busy)
	for i := range 7 {
		deep = nest(step(fmt.Sprint("level-", 7-i), busy), []job.WorkflowKind{job.KindGroup, job.KindChain, job.KindGraph}[i%3], deep, step("beside", waits))
	}
	for _, tt := range []struct {
		name string
		w    job.Workflow
	}{
		{"one", job.Workflow{Kind: job.KindChain, Steps: []job.WorkflowStep{step("only", stored)}}},
		{"chain", job.Workflow{Kind: job.KindChain, Steps: []job.WorkflowStep{step("charge", done), step("pack", failed), step("ship", off)}}},
		{"group", job.Workflow{Kind: job.KindGroup, Steps: []job.WorkflowStep{step("a", done), step("b", busy), step("c", stored)}}},
		{"batch", job.Workflow{Kind: job.KindBatch, Steps: []job.WorkflowStep{step("a", done), step("b", busy)},
			Callbacks: []job.WorkflowStep{call(step("on_complete", waits), job.OnComplete), call(step("on_failure", waits), job.OnFailure)}}},
		{"diamond", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("extract", done), step("clean", busy, "extract"), step("enrich", done, "extract"),
			step("load", waits, "clean", "enrich")}}},
		{"two apart", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("a", done), step("b", busy, "a"), step("x", done), step("y", waits, "x")}}},
		{"nothing waits", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("a", done), step("b", busy)}}},
		{"fan", job.Workflow{Kind: job.KindGraph, Steps: append(append([]job.WorkflowStep{step("split", done)}, fan...), step("merge", waits, names(fan)...))}},
		{"too wide", job.Workflow{Kind: job.KindGraph, Steps: append(append([]job.WorkflowStep{step("split", done)}, wide...), step("merge", waits, names(wide)...))}},
		{"shortcuts", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("a", done), step("b", done, "a"), step("c", done, "b", "a"), step("d", busy, "a", "c"),
			step("e", waits, "b", "d")}}},
		{"crossing", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("a", done), step("b", done), step("c", done), step("x", busy, "a", "c"), step("y", waits, "b", "c"),
			step("z", waits, "a", "y")}}},
		{"backwards", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("last", waits, "middle"), step("middle", busy, "first"), step("first", done)}}},
		{"callbacks of a graph", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("a", done), step("b", busy, "a"),
			call(step("tell", waits, "a", "b"), job.OnSuccess)}}},
		{"nested in a chain", job.Workflow{Kind: job.KindChain, Steps: []job.WorkflowStep{step("a", done),
			nest(step("b", busy), job.KindGroup, step("one", done), nest(step("two", busy), job.KindChain, step("first", done), step("second", busy))), step("c", waits)}}},
		{"nested beside lines", job.Workflow{Kind: job.KindGraph, Steps: []job.WorkflowStep{step("a", done), nest(step("b", busy, "a"), job.KindGroup, step("one", done), step("two", busy)),
			nest(step("c", busy, "a"), job.KindGraph, step("one", done), step("two", busy, "one")), step("d", waits, "b", "c")}}},
		{"eight deep", job.Workflow{Kind: job.KindGroup, Steps: []job.WorkflowStep{deep}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			for _, l := range Draw(&tt.w, 80) {
				b.WriteString(l.Tree)
				if l.After != "" {
					b.WriteString("   after " + l.After)
				}
				b.WriteString("\n")
			}
			file := "testdata/" + strings.ReplaceAll(tt.name, " ", "_") + ".golden"
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("got:\n%swant:\n%s", b.String(), want)
			}
		})
	}
}

// TestEachStepOnce holds of any workflow that each of its steps is drawn once, under
// those that it waits for, and that lines leave room for names.
func TestEachStepOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w := anyWorkflow(r, rapid.IntRange(1, job.MaxWorkflowDepth).Draw(t, "depth"), rapid.IntRange(1, 40).Draw(t, "steps"))
		columns := rapid.IntRange(60, 200).Draw(t, "columns")
		lines := Draw(w, columns)
		at := map[string]int{}
		for i, l := range lines {
			if l.Step == nil {
				if strings.ContainsAny(l.Tree, "✓✗●○·–") {
					t.Fatalf("a line without a step has a sign: %s", l.Tree)
				}
				continue
			}
			if _, twice := at[l.Step.ID]; twice {
				t.Fatalf("%s is drawn twice", l.Step.ID)
			}
			at[l.Step.ID] = i
			own := l.Step.ID[strings.LastIndex(l.Step.ID, ".")+1:]
			before, _, ok := strings.Cut(l.Tree, Sign(l.Step.State)+" ")
			if !ok || !strings.Contains(l.Tree, own) {
				t.Fatalf("%s is drawn as %s", l.Step.ID, l.Tree)
			}
			if most := columns*3/8 + levelIndent*job.MaxWorkflowDepth; term.Width(before) > most {
				t.Fatalf("the lines before %s take %d columns of %d: %s", l.Step.ID, term.Width(before), columns, l.Tree)
			}
		}
		all := 0
		each(w.Steps, w.Callbacks, func(s job.WorkflowStep) {
			all++
			if _, ok := at[s.ID]; !ok {
				t.Fatalf("%s is not drawn", s.ID)
			}
			for _, d := range s.DependsOn {
				if at[d] > at[s.ID] {
					t.Fatalf("%s stands above %s, for which it waits", s.ID, d)
				}
			}
		})
		if all != len(at) {
			t.Fatalf("%d of %d steps are drawn", len(at), all)
		}
	})
}

// TestLinesLeadToSteps holds that following the lines from each step leads to those that
// wait for it and to no others.
func TestLinesLeadToSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		steps := anySteps(r, job.KindGraph, rapid.IntRange(2, 12).Draw(t, "steps"), "")
		g := graphOf(job.KindGraph, refs(steps))
		lines, ok := g.rails("", 1000)
		if !ok || g.edges == 0 {
			return
		}
		wants := map[string]bool{}
		for _, s := range steps {
			for _, d := range s.DependsOn {
				wants[d+" "+s.ID] = true
			}
		}
		got := followed(lines)
		for e := range wants {
			if !got[e] {
				t.Fatalf("no line leads from %s in\n%s", e, text(lines))
			}
		}
		for e := range got {
			if !wants[e] {
				t.Fatalf("a line leads from %s in\n%s", e, text(lines))
			}
		}
	})
}

func text(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Tree + "\n")
	}
	return b.String()
}

// followed is what lines lead to from each step, as an eye follows them: sideways only
// where it has come from the side or from the step itself, else downward.
func followed(lines []Line) map[string]bool {
	type cell struct{ row, col int }
	grid := make([][]rune, len(lines))
	signs := map[cell]string{}
	for i, l := range lines {
		grid[i] = []rune(l.Tree)
		if l.Step != nil {
			for c, r := range grid[i] {
				if string(r) == Sign(l.Step.State) {
					signs[cell{i, c}] = l.Step.ID
					grid[i] = grid[i][:c+1]
					for _, r := range []rune(l.Tree)[c+1:] {
						if r != ' ' && r != '│' {
							break
						}
						grid[i] = append(grid[i], r)
					}
					break
				}
			}
		}
	}
	sides := map[rune]int{}
	for s, glyph := range joint {
		sides[[]rune(glyph)[0]] |= s
	}
	at := func(c cell) int {
		if c.row >= len(grid) || c.col < 0 || c.col >= len(grid[c.row]) {
			return 0
		}
		return sides[grid[c.row][c.col]]
	}
	found := map[string]bool{}
	for from, id := range signs {
		var below func(c cell)
		var aside func(c cell, step int)
		below = func(c cell) {
			if to, ok := signs[c]; ok {
				found[id+" "+to] = true
			} else if at(c)&down != 0 {
				below(cell{c.row + 1, c.col})
			}
		}
		aside = func(c cell, step int) {
			for c.col += step; at(c) == up|down; c.col += step { // it goes on behind a lane that it crosses
			}
			if at(c)&down != 0 {
				below(cell{c.row + 1, c.col})
			}
			if step > 0 && at(c)&right != 0 || step < 0 && at(c)&left != 0 {
				aside(c, step)
			}
		}
		start := cell{from.row + 1, from.col}
		if at(start)&down != 0 {
			below(start)
		}
		if at(start)&left != 0 {
			aside(start, -1)
		}
		if at(start)&right != 0 {
			aside(start, 1)
		}
	}
	return found
}

func refs(steps []job.WorkflowStep) (all []*job.WorkflowStep) {
	for i := range steps {
		all = append(all, &steps[i])
	}
	return all
}

func each(steps, calls []job.WorkflowStep, fn func(job.WorkflowStep)) {
	for _, list := range [][]job.WorkflowStep{steps, calls} {
		for _, s := range list {
			fn(s)
			each(s.Steps, s.Callbacks, fn)
		}
	}
}

var states = []job.StepState{job.StepWaiting, job.StepPending, job.StepActive, job.StepCompleted, job.StepFailed, job.StepCancelled}

// anyWorkflow is a workflow of up to n steps on each level.
func anyWorkflow(r *rand.Rand, depth, n int) *job.Workflow {
	w := &job.Workflow{Kind: []job.WorkflowKind{job.KindChain, job.KindGroup, job.KindBatch, job.KindGraph}[r.IntN(4)]}
	w.Steps, w.Callbacks = inner(r, w.Kind, "", depth, n)
	return w
}

func inner(r *rand.Rand, kind job.WorkflowKind, prefix string, depth, n int) (steps, calls []job.WorkflowStep) {
	steps = anySteps(r, kind, 1+r.IntN(n), prefix)
	for i := range steps {
		if depth > 1 && r.IntN(4) == 0 {
			s := &steps[i]
			s.Kind = []job.WorkflowKind{job.KindChain, job.KindGroup, job.KindBatch, job.KindGraph}[r.IntN(4)]
			s.Steps, s.Callbacks = inner(r, s.Kind, s.ID+".", depth-1, max(1, n/3))
		}
	}
	if kind == job.KindBatch {
		calls = append(calls, job.WorkflowStep{ID: prefix + job.OnComplete, Kind: job.KindJob, Callback: job.OnComplete, State: job.StepWaiting})
	}
	return steps, calls
}

func anySteps(r *rand.Rand, kind job.WorkflowKind, n int, prefix string) (steps []job.WorkflowStep) {
	for i := range n {
		s := job.WorkflowStep{ID: fmt.Sprintf("%ss%d", prefix, i), Kind: job.KindJob, State: states[r.IntN(len(states))]}
		for d := range i {
			if kind == job.KindGraph && r.IntN(i+1) < 2 {
				s.DependsOn = append(s.DependsOn, steps[d].ID)
			}
		}
		steps = append(steps, s)
	}
	return steps
}
