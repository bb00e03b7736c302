package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) jobCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "job",
		Aliases: []string{"jobs"},
		Short:   "List jobs, look at one, follow, cancel, retry, activate and remove them",
	})
	cmd.AddCommand(a.jobListCommand(), a.jobGetCommand(), a.jobWatchCommand(), a.jobHistoryCommand(),
		a.jobCancelCommand(), a.jobRetryCommand(), a.jobActivateCommand(), a.jobRemoveCommand())
	return cmd
}

// sifting is said in the help of commands with filters.
const sifting = "--arg, --error and --tag are looked at by this command, job by job, and the others by the server: in a large\n" +
	"store, narrow them with --state, --type, --queue or --since."

func (a *app) jobListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "find", "search"},
		Short:      "List jobs, the newest first",
		Long:       "List jobs, the newest first.\n\n" + sifting,
		Example: "  outrider job ls --state retryable,discarded --since 1h\n" +
			"  outrider job ls --type 'email.*' --arg to=ada@example.com",
		Args: noArgs,
	}
	sieve := a.bindFilter(cmd, false)
	limit, all := bindLimit(cmd)
	return a.watches(cmd, func(ctx context.Context, q *question, _ []string) error {
		s, err := sieve()
		if err != nil {
			return err
		}
		return q.list(ctx, s, limit, all, func(f found) error { return q.printJobTable(f, s) })
	})
}

// bindLimit gives cmd the flags that say how long its list may be.
func bindLimit(cmd *cobra.Command) (limit *int, all *bool) {
	limit = cmd.Flags().IntP("limit", "n", 50, "how many at most")
	all = cmd.Flags().Bool("all", false, "all of them, however many")
	return limit, all
}

// list reads jobs and prints them, print for a person.
func (q *question) list(ctx context.Context, s sift.Sieve, limit *int, all *bool, print func(found) error) error {
	n := *limit
	switch {
	case n < 1:
		return usage("--limit must be 1 or more, got %d; --all is all of them", n)
	case *all:
		n = 0
	}
	if q.format == asNDJSON {
		_, err := q.jobs(ctx, s, n, printEach(q.out))
		return err
	}
	f, err := q.jobs(ctx, s, n, nil)
	switch {
	case err != nil:
		return err
	case q.format.data():
		return q.printJobs(f)
	}
	return print(f)
}

var jobColumns = []term.Column{{Head: "ID"}, {Head: "TYPE", Min: 12}, {Head: "QUEUE", Min: 6, Drop: 2}, {Head: "STATE", Style: term.OfState},
	{Head: "TRIES", Drop: 3}, {Head: "WHEN"}, {Head: "ERROR", Min: 12, Drop: 4}}

// printJobTable writes a line for each job, and what is not shown.
func (q *question) printJobTable(f found, s sift.Sieve) error {
	if len(f.jobs) == 0 {
		text := "there is no job; enqueue one with: outrider enqueue TYPE [ARGS]"
		if !s.Open() {
			text = "no job is like that; outrider job ls lists all"
		}
		_, err := fmt.Fprintln(q.out, text)
		return err
	}
	now := q.clock()
	var rows [][]string
	failed := false
	for _, j := range f.jobs {
		e := sift.Latest(j).String()
		failed = failed || e != ""
		rows = append(rows, []string{string(j.ID), j.Type, j.Queue, string(j.State), tries(j), term.About(when(j), now), dash(oneLine(e))})
	}
	columns := jobColumns
	if !failed {
		columns = columns[:len(columns)-1]
	}
	if err := q.screen.Table(q.out, columns, rows); err != nil {
		return err
	}
	return q.more(f)
}

// more says how many jobs are not shown, and how to see them.
func (q *question) more(f found) error {
	if !f.more {
		return nil
	}
	of := thousands(f.total)
	if f.atLeast {
		of = "many"
	}
	_, err := fmt.Fprintf(q.out, "\n%s of %s; --limit or --all shows more, filters show fewer\n", thousands(int64(len(f.jobs))), of)
	return err
}

// tries is how often a job was begun, of how often it may be.
func tries(j *job.Job) string { return fmt.Sprintf("%d/%d", j.Attempt, max(j.MaxAttempts, 1)) }

// when is the time at which a person looks first, by the state of a job.
func when(j *job.Job) time.Time {
	switch j.State {
	case job.Scheduled:
		return j.ScheduledAt
	case job.Retryable:
		return j.NextRetryAt
	case job.Active:
		return j.StartedAt
	case job.Available:
		return j.EnqueuedAt
	case job.Pending:
		return j.CreatedAt
	}
	return j.FinishedAt
}

// oneLine is the first line of a text.
func oneLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
