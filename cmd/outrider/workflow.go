package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/flowchart"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) workflowCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "workflow",
		Aliases: []string{"workflows"},
		Short:   "List workflows, look at one, draw it, or cancel it",
	})
	cmd.AddCommand(a.workflowListCommand(), a.workflowGetCommand(), a.workflowDrawCommand(), a.workflowCancelCommand())
	return cmd
}

// workflowID is the only word of a command that is about one workflow.
func (q *question) workflowID(args []string) (job.ID, error) {
	if len(args) != 1 {
		return "", usage("%s needs the id of one workflow; see outrider workflow ls", q.command)
	}
	id := strings.ToLower(args[0])
	if !job.ValidID(id) {
		return "", usage("%.80q is not the id of a workflow; see outrider workflow ls", args[0])
	}
	return job.ID(id), nil
}

// workflow asks for a workflow, prints it for a program, or else has print do it.
func (q *question) workflow(ctx context.Context, args []string, print func(w *job.Workflow) error) error {
	id, err := q.workflowID(args)
	if err != nil {
		return err
	}
	if q.format.data() {
		err = q.raw(ctx, http.MethodGet, "/workflows/"+string(id), "")
	} else {
		var w *job.Workflow
		if w, err = q.client.Workflow(ctx, id); err == nil {
			return print(w)
		}
		err = asked(err)
	}
	return seeWorkflows(err)
}

// seeWorkflows adds to a NotFound where the ids are listed.
func seeWorkflows(err error) error {
	if job.KindOf(err) == job.NotFound {
		return fmt.Errorf("%w; see outrider workflow ls", err)
	}
	return err
}

func (a *app) workflowGetCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "get ID",
		SuggestFor: []string{"show", "info", "describe", "status"},
		Short:      "Show a workflow and its steps",
	}, func(ctx context.Context, q *question, args []string) error {
		return q.workflow(ctx, args, q.printWorkflow)
	})
}

func (a *app) workflowDrawCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "draw ID",
		SuggestFor: []string{"graph", "tree"},
		Short:      "Draw a workflow: what follows what, and how far it has come",
		Long: "Draws the steps of a workflow. Lines lead from a step to those that wait for it; steps in one bracket run at\n" +
			"once; those of a step that is a workflow hang below it. A sign says how far each has come:\n\n" +
			"  ✓  completed\n  ●  active: a worker runs its job, or its own steps are under way\n  ○  pending: its job is stored, and nobody runs it now\n" +
			"  ·  waiting for other steps\n  ✗  failed\n  –  cancelled",
	}, func(ctx context.Context, q *question, args []string) error {
		return q.workflow(ctx, args, q.drawWorkflow)
	})
}

// ofStep is the style of a step's state. That of one which is pending or waits is plain.
func ofStep(state string) term.Style {
	if state == string(job.StepPending) || state == string(job.StepWaiting) {
		return term.Plain
	}
	return term.OfState(state)
}

var stepColumns = []term.Column{{Head: "STEP", Min: 16}, {Head: "TYPE", Min: 8}, {Head: "STATE", Style: ofStep}, {Head: "TOOK", Right: true, Drop: 2}, {Head: "JOB", Drop: 1}}

func (q *question) printWorkflow(w *job.Workflow) error {
	now := q.clock()
	facts := []term.Fact{{Name: "workflow", Text: string(w.ID)}, {Name: "name", Text: cmp.Or(w.Name, "-")}, {Name: "kind", Text: string(w.Kind)},
		{Name: "state", Text: string(w.State), Style: term.OfState(string(w.State))}, {Name: "steps", Text: stepCounts(w)},
		{Name: "created", Text: term.Ago(w.CreatedAt, now) + ", " + instant(w.CreatedAt)}}
	if !w.FinishedAt.IsZero() {
		facts = append(facts, term.Fact{Name: "ended", Text: term.Ago(w.FinishedAt, now) + ", " + instant(w.FinishedAt)})
	}
	if err := q.screen.Facts(q.out, facts); err != nil {
		return err
	}
	var rows [][]string
	eachStep(w.Steps, w.Callbacks, func(s *job.WorkflowStep) {
		id := "-"
		if s.Kind == job.KindJob && len(s.JobIDs) > 0 {
			id = string(s.JobIDs[0])
		}
		name := s.ID
		if s.Callback != "" && s.Callback != s.ID {
			name += " (" + s.Callback + ")"
		}
		rows = append(rows, []string{name, s.Type, string(s.State), took(s), id})
	})
	fmt.Fprintln(q.out)
	return q.screen.Table(q.out, stepColumns, rows)
}

// eachStep calls fn for steps and callbacks and those inside them.
func eachStep(steps, calls []job.WorkflowStep, fn func(*job.WorkflowStep)) {
	for _, list := range [][]job.WorkflowStep{steps, calls} {
		for i := range list {
			fn(&list[i])
			eachStep(list[i].Steps, list[i].Callbacks, fn)
		}
	}
}

// took is how long a step that has ended took.
func took(s *job.WorkflowStep) string {
	if s.StartedAt.IsZero() || s.FinishedAt.Before(s.StartedAt) {
		return "-"
	}
	return term.Span(int64(s.FinishedAt.Sub(s.StartedAt).Seconds()))
}

// stepCounts says how far a workflow has come.
func stepCounts(w *job.Workflow) string {
	text := fmt.Sprintf("%d of %d completed", w.Completed, w.Total)
	if w.Failed > 0 {
		text += fmt.Sprintf(", %d failed", w.Failed)
	}
	if w.Cancelled > 0 {
		text += fmt.Sprintf(", %d cancelled", w.Cancelled)
	}
	return text
}

// plainWidth is how wide a drawing is where the screen has no width.
const plainWidth = 120

func (q *question) drawWorkflow(w *job.Workflow) error {
	out := bufio.NewWriter(q.out)
	title := fmt.Sprintf("%s  %s  ", cmp.Or(w.Name, string(w.ID)), w.Kind)
	fmt.Fprintf(out, "%s%s  %s\n\n", title, q.screen.Paint(term.OfState(string(w.State)), string(w.State)), stepCounts(w))
	columns := q.screen.Width
	if columns == 0 {
		columns = plainWidth
	}
	var rows [][]string
	waits, lines := false, 0
	for _, l := range flowchart.Draw(w, columns) {
		row := []string{l.Tree, "", "", "", l.After}
		if l.Step != nil {
			lines = max(lines, term.Width(l.Tree)-term.Width(l.Step.ID))
			row[1], row[2], row[3] = l.Step.Type, string(l.Step.State), took(l.Step)
			if l.Step.Kind != job.KindJob {
				row[3] = ""
			}
		}
		waits = waits || l.After != ""
		rows = append(rows, row)
	}
	table := []term.Column{{Head: "STEP", Min: max(lines, 0) + 8}, {Head: "TYPE", Min: 8, Drop: 2}, {Head: "STATE", Style: ofStep}, {Head: "TOOK", Right: true, Drop: 3}}
	if waits {
		table = append(table, term.Column{Head: "AFTER", Min: 8, Drop: 1})
	}
	if err := q.screen.Table(out, table, rows); err != nil {
		return err
	}
	return out.Flush()
}

func (a *app) workflowCancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "cancel ID",
		SuggestFor: []string{"stop", "rm", "abort"},
		Short:      "Cancel a workflow: what waits never runs, and active jobs may finish",
	}
	yes := bindYes(cmd)
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		id, err := q.workflowID(args)
		if err != nil {
			return err
		}
		w, err := q.client.Workflow(ctx, id)
		if err != nil {
			return seeWorkflows(asked(err))
		}
		left := w.Total - w.Completed - w.Failed - w.Cancelled
		if !w.State.Terminal() {
			what := fmt.Sprintf("cancel the workflow %s, of which %s not ended", cmp.Or(w.Name, string(id)), count(int64(left), "step has", "steps have"))
			if err := q.sure(*yes, what); err != nil {
				return err
			}
		}
		var answer struct {
			Stopped int `json:"cancelled_steps"`
		}
		return q.show(ctx, http.MethodDelete, "/workflows/"+string(id), nil, "", &answer, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "cancelled workflow %s: %s never run\n", id, count(int64(answer.Stopped), "step will", "steps will"))
			return err
		})
	})
}
