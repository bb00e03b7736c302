package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/cronfile"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) cronListCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list"},
		Short:      "List the schedules of a server, and when each runs next",
		Args:       noArgs,
	}, func(ctx context.Context, q *question, _ []string) error {
		if q.format.data() {
			return q.pages(ctx, "/cron", "crons")
		}
		page, err := q.client.Crons(ctx, job.CronFilter{})
		if err != nil {
			return asked(err)
		}
		return q.printCrons(page.Crons)
	})
}

// aboutOne makes cmd one that is about the schedule that its only word names. In
// JSON the answer to the request is printed as it came; below is the path behind
// the schedule's own, items the member of the answer that is a list.
func (a *app) aboutOne(cmd *cobra.Command, method string, below func() string, items string, do func(ctx context.Context, q *question, name string) error) *cobra.Command {
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) (err error) {
		if len(args) != 1 || args[0] == "" {
			return usage("%s needs the name of one schedule; see outrider cron ls", q.command)
		}
		name := args[0]
		if q.format.data() {
			err = q.raw(ctx, method, "/cron/"+url.PathEscape(name)+below(), items)
		} else {
			err = asked(do(ctx, q, name))
		}
		if job.KindOf(err) == job.NotFound {
			return q.noCron(ctx, name, err)
		}
		return err
	})
}

// always is a path that stays the same.
func always(p string) func() string { return func() string { return p } }

// noCron is the error about a schedule that is not there. It names the one that was meant.
func (q *question) noCron(ctx context.Context, name string, err error) error {
	page, failed := q.client.Crons(ctx, job.CronFilter{})
	if failed != nil {
		return err
	}
	var names []string
	for _, c := range page.Crons {
		if names = append(names, c.Name); c.Name == name {
			return err // it was not the schedule that is missing
		}
	}
	near := wording.Nearest(name, names)
	switch {
	case len(names) == 0:
		return notFound("there is no schedule %.140q: %s", name, noCronsYet)
	case near != "":
		return notFound("there is no schedule %.140q; did you mean %q?", name, near)
	}
	return notFound("there is no schedule %.140q; see outrider cron ls", name)
}

func (a *app) cronGetCommand() *cobra.Command {
	return a.aboutOne(&cobra.Command{
		Use:        "get NAME",
		SuggestFor: []string{"show", "info", "describe", "status"},
		Short:      "Show a schedule, its last run and its next",
	}, http.MethodGet, always(""), "", func(ctx context.Context, q *question, name string) error {
		c, err := q.client.Cron(ctx, name)
		if err != nil {
			return err
		}
		return printCron(q.out, c, a.clock())
	})
}

func (a *app) cronTriggerCommand() *cobra.Command {
	return a.aboutOne(&cobra.Command{
		Use:        "trigger NAME",
		SuggestFor: []string{"run", "fire"},
		Short:      "Run a schedule now; its next run does not change",
		Long: "Makes a job, or a workflow, of a schedule now, paused or not. Its overlap policy applies: with skip nothing\n" +
			"is made while the previous run has not ended; wait for it, or cancel it.",
	}, http.MethodPost, always("/trigger"), "", func(ctx context.Context, q *question, name string) error {
		r, err := q.client.TriggerCron(ctx, name)
		if err != nil {
			return err
		}
		if w := r.Flow; w != nil {
			_, err = fmt.Fprintf(q.out, "made workflow %s (%s %q), which is %s\n", w.ID, w.Kind, w.Name, w.State)
			return err
		}
		j := r.Job
		_, err = fmt.Fprintf(q.out, "made job %s (%s in queue %s), which is %s\n", j.ID, j.Type, j.Queue, j.State)
		return err
	})
}

func (a *app) cronPauseCommand() *cobra.Command {
	return a.enabling(&cobra.Command{Use: "pause NAME", SuggestFor: []string{"stop", "disable", "suspend"}, Short: "Pause a schedule: it makes no jobs until it is resumed"}, "/pause", false)
}

func (a *app) cronResumeCommand() *cobra.Command {
	return a.enabling(&cobra.Command{Use: "resume NAME", SuggestFor: []string{"start", "enable", "unpause"}, Short: "Resume a paused schedule; ticks in between are not made up for"}, "/resume", true)
}

// enabling makes cmd one that pauses or resumes.
func (a *app) enabling(cmd *cobra.Command, below string, on bool) *cobra.Command {
	return a.aboutOne(cmd, http.MethodPost, always(below), "", func(ctx context.Context, q *question, name string) error {
		c, err := q.client.ChangeCron(ctx, name, job.CronPatch{Enabled: &on})
		switch {
		case err != nil:
			return err
		case on:
			_, err = fmt.Fprintf(q.out, "resumed %s; it runs next %s\n", c.Name, wall(c, c.NextRunAt, a.clock()))
		default:
			_, err = fmt.Fprintf(q.out, "paused %s; outrider cron resume %[1]s lets it run again\n", c.Name)
		}
		return err
	})
}

func (a *app) cronRemoveCommand() *cobra.Command {
	return a.aboutOne(&cobra.Command{
		Use:        "rm NAME",
		SuggestFor: []string{"delete", "remove"},
		Short:      "Remove a schedule; its jobs stay",
	}, http.MethodDelete, always(""), "", func(ctx context.Context, q *question, name string) error {
		c, err := q.client.DeleteCron(ctx, name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(q.out, "removed %s; its jobs stay\n", c.Name); err != nil || c.Source != cronfile.Source {
			return err
		}
		_, err = fmt.Fprintln(q.out, "it came from a file: applying that file again adds it again")
		return err
	})
}

func (a *app) cronHistoryCommand() *cobra.Command {
	n := job.MaxCronRuns
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the newest ticks of a schedule and their jobs",
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, fmt.Sprintf("how many ticks, 1 to %d", job.MaxCronRuns))
	below := func() string { return "/history?limit=" + strconv.Itoa(n) }
	a.aboutOne(cmd, http.MethodGet, below, "executions", func(ctx context.Context, q *question, name string) error {
		c, err := q.client.Cron(ctx, name)
		if err != nil {
			return err
		}
		runs, err := q.client.CronHistory(ctx, name, n)
		if err != nil {
			return err
		}
		return q.printHistory(c, runs)
	})
	cmd.Args = func(cmd *cobra.Command, _ []string) error {
		if n < 1 || n > job.MaxCronRuns {
			return usage("-n must be from 1 to %d, got %d", job.MaxCronRuns, n)
		}
		return nil
	}
	return cmd
}

var historyColumns = []term.Column{{Head: "TICK"}, {Head: "JOB", Min: 36}, {Head: "BECAME", Min: 9, Style: term.OfState}, {Head: "STARTED", Drop: 2}, {Head: "ENDED", Drop: 1}}

// printHistory writes a line for each tick, the newest first.
func (q *question) printHistory(c *job.Cron, runs []job.CronJob) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintf(q.out, "%s has not run yet\n", c.Name)
		return err
	}
	var rows [][]string
	for _, r := range runs {
		row := []string{inZone(c, r.At).Format(wallForm), "-", "", "-", "-"}
		switch {
		case r.Job != nil:
			row[1], row[2] = string(r.JobID), string(r.Job.State)
			row[3], row[4] = instant(r.Job.StartedAt), instant(r.Job.FinishedAt)
		case r.Flow != nil:
			row[1], row[2] = "workflow "+string(r.FlowID), string(r.Flow.State)
			row[3], row[4] = instant(r.Flow.CreatedAt), instant(r.Flow.FinishedAt)
		case r.FlowID != "":
			row[1], row[2] = "workflow "+string(r.FlowID), "not here: removed, or on another server"
		case r.JobID != "":
			row[1], row[2] = string(r.JobID), "not here: removed, or on another server"
		default:
			row[2] = whySkipped(r.Skipped)
		}
		rows = append(rows, row)
	}
	return q.screen.Table(q.out, historyColumns, rows)
}

// whySkipped says why a tick made no job.
func whySkipped(reason string) string {
	switch reason {
	case job.SkippedOverlap:
		return "skipped: the job before had not ended"
	case job.SkippedDST:
		return "skipped: this time did not exist (clock change)"
	case job.SkippedDuplicate:
		return "skipped: duplicate of another job"
	case job.SkippedRejected:
		return "skipped: the job was refused"
	case job.SkippedClock:
		return "skipped: too old by the clock of the outbox's database"
	case job.SkippedElsewhere:
		return "made by another server of the outbox"
	}
	return "skipped: " + strconv.QuoteToASCII(reason)
}
