package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/job"
)

func (a *app) jobCancelCommand() *cobra.Command {
	return a.does(&cobra.Command{
		Use:        "cancel ID...|FILTERS",
		SuggestFor: []string{"stop", "kill", "abort", "discard"},
		Short:      "Cancel jobs that have not ended: those named, or all that filters choose",
		Long: "Cancel jobs that have not ended: those named by their ids, or all that filters choose. A worker that has such a job\n" +
			"is told with its next heartbeat.\n\n" + sifting,
		Example: "  outrider job cancel --type 'report.*' --queue slow --dry-run",
	}, deed{
		action: job.BulkCancel, past: "cancelled", can: "cancelled", would: "cancel %s", states: live,
		one: func(ctx context.Context, q *question, id job.ID) error {
			_, err := q.client.Cancel(ctx, id, "", "")
			return err
		},
		advise: func(id job.ID, _ job.State) string { return fmt.Sprintf("to remove it: outrider job rm %s", id) },
	})
}

func (a *app) jobRetryCommand() *cobra.Command {
	return a.does(&cobra.Command{
		Use:        "retry ID...|FILTERS",
		SuggestFor: []string{"run", "rerun", "revive", "requeue", "restart"},
		Short:      "Run jobs again now: those that were discarded, or wait for their retry",
		Long: "Run jobs again now: those that were discarded, with all their attempts, and those that wait for their retry. They are\n" +
			"named by their ids, or are all that filters choose.\n\n" + sifting,
		Example: "  outrider job retry --state discarded --error 'connection refused' --since 2h",
	}, deed{
		action: job.BulkRetry, past: "retried", can: "run again", would: "run %s again now", states: []job.State{job.Discarded, job.Retryable},
		advise: func(id job.ID, state job.State) string {
			switch state {
			case job.Completed, job.Cancelled:
				return "that is its end; to have its work done again, enqueue another: outrider job get " + string(id) + " shows its args"
			case job.Active:
				return "it runs now: outrider job watch " + string(id)
			case job.Available:
				return "it waits for a worker: outrider worker ls"
			}
			if state == job.Pending {
				return "it waits to be activated: outrider job activate " + string(id)
			}
			return "it has not failed, and runs when its time comes: outrider job get " + string(id)
		},
	})
}

func (a *app) jobActivateCommand() *cobra.Command {
	d := deed{
		action: "activate", past: "activated",
		one: func(ctx context.Context, q *question, id job.ID) error {
			_, err := q.client.Activate(ctx, id)
			return err
		},
		advise: func(id job.ID, _ job.State) string {
			return "only pending jobs are activated: outrider job get " + string(id)
		},
	}
	return a.asks(&cobra.Command{
		Use:        "activate ID...",
		SuggestFor: []string{"release", "start"},
		Short:      "Let pending jobs into their queues",
	}, func(ctx context.Context, q *question, args []string) error {
		ids, err := idsFrom(args)
		switch {
		case err != nil:
			return err
		case len(ids) == 0:
			return usage("%s needs ids; outrider job ls --state pending lists them", q.command)
		}
		return q.toNamed(ctx, d, ids, false, false)
	})
}

func (a *app) jobRemoveCommand() *cobra.Command {
	return a.does(&cobra.Command{
		Use:        "rm ID...|FILTERS",
		SuggestFor: []string{"delete", "remove", "purge"},
		Short:      "Remove jobs that have ended, for good: those named, or all that filters choose",
		Long:       "Remove jobs that have ended, for good: those named by their ids, or all that filters choose.\n\n" + sifting,
		Example:    "  outrider job rm --state completed --until 7d",
	}, deed{
		action: job.BulkDelete, past: "removed", can: "removed", would: "remove %s for good", asks: true, states: []job.State{job.Completed, job.Cancelled, job.Discarded},
		advise: func(id job.ID, _ job.State) string {
			return fmt.Sprintf("cancel it first: outrider job cancel %s", id)
		},
	})
}
