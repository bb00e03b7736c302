package main

import (
	"context"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// completeMost is how many ids are offered.
const completeMost = 20

// fixed is names that no server is asked for.
func fixed(words ...string) names {
	return func(context.Context, *client.Client, string) []string { return words }
}

// described is a name as a shell is told of it: with what it is, in one line.
func described(name, what string) string {
	return name + "\t" + wording.Printable(what)
}

func completeQueues(ctx context.Context, c *client.Client, _ string) (all []string) {
	if c == nil {
		return nil
	}
	queues, err := c.Queues(ctx)
	if err != nil {
		return nil
	}
	for _, q := range queues {
		state := "active"
		if q.Paused {
			state = "paused"
		} else if q.Draining {
			state = "draining"
		}
		all = append(all, described(q.Name, state+", "+count(q.Counts[job.Available], "job waits", "jobs wait")))
	}
	return all
}

// completeTypes are the types of the newest jobs, as no list of all types is kept. Only
// where none of them fits are the others looked through, which takes longer.
func completeTypes(ctx context.Context, c *client.Client, typed string) []string {
	if c == nil {
		return nil
	}
	all := typesOf(ctx, c, job.Filter{Limit: 100}, typed)
	if len(all) == 0 && typed != "" {
		all = typesOf(ctx, c, job.Filter{Limit: completeMost, Type: typed + "*"}, typed)
	}
	return all
}

func typesOf(ctx context.Context, c *client.Client, f job.Filter, typed string) (all []string) {
	page, err := c.Jobs(ctx, f)
	if err != nil {
		return nil
	}
	for _, j := range page.Jobs {
		if strings.HasPrefix(j.Type, typed) && !slices.Contains(all, j.Type) {
			all = append(all, j.Type)
		}
	}
	slices.Sort(all)
	return all
}

// completeJobs are the newest jobs in some states, or in any.
func completeJobs(states ...job.State) names {
	return func(ctx context.Context, c *client.Client, typed string) []string {
		return ids(ctx, c, typed, job.Filter{States: states})
	}
}

// completeDead are the newest dead letters.
func completeDead(ctx context.Context, c *client.Client, typed string) []string {
	return ids(ctx, c, typed, job.Filter{Dead: true})
}

func ids(ctx context.Context, c *client.Client, typed string, f job.Filter) (all []string) {
	if c == nil {
		return nil
	}
	if f.Limit = completeMost; typed != "" {
		f.Limit = 100 // those that fit are among more
	}
	page, err := c.Jobs(ctx, f)
	if err != nil {
		return nil
	}
	for _, j := range page.Jobs {
		if strings.HasPrefix(string(j.ID), typed) && len(all) < completeMost {
			all = append(all, described(string(j.ID), j.Type+", "+string(j.State)))
		}
	}
	return all
}

func completeCrons(ctx context.Context, c *client.Client, _ string) (all []string) {
	if c == nil {
		return nil
	}
	page, err := c.Crons(ctx, job.CronFilter{})
	if err != nil {
		return nil
	}
	for _, cron := range page.Crons {
		all = append(all, described(cron.Name, cron.Expression+", "+stateOf(cron)))
	}
	return all
}

func completeWorkers(ctx context.Context, c *client.Client, _ string) (all []string) {
	if c == nil {
		return nil
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		return nil
	}
	for _, w := range workers {
		all = append(all, described(w.ID, w.Hostname))
	}
	return all
}

// completeWorkflows are the newest workflows in a state, or in any.
func completeWorkflows(state job.WorkflowState) names {
	return func(ctx context.Context, c *client.Client, typed string) (all []string) {
		for _, w := range flows(ctx, c, state) {
			if strings.HasPrefix(string(w.ID), typed) && len(all) < completeMost {
				all = append(all, described(string(w.ID), w.Name+" "+string(w.Kind)+", "+string(w.State)))
			}
		}
		return all
	}
}

func completeFlowNames(ctx context.Context, c *client.Client, _ string) (all []string) {
	for _, w := range flows(ctx, c, "") {
		if w.Name != "" && !slices.Contains(all, w.Name) {
			all = append(all, w.Name)
		}
	}
	return all
}

func flows(ctx context.Context, c *client.Client, state job.WorkflowState) []*job.Workflow {
	if c == nil {
		return nil
	}
	page, err := c.Workflows(ctx, job.WorkflowFilter{State: state, Limit: 100})
	if err != nil {
		return nil
	}
	return page.Workflows
}
