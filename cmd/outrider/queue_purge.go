package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) queuePurgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "purge NAME",
		SuggestFor: []string{"clear", "clean", "flush", "rm"},
		Short:      "Remove finished jobs of a queue, for good",
		Long: "Remove the finished jobs of a queue for good: completed, cancelled and discarded ones, dead letters too. Jobs that\n" +
			"have not ended stay; outrider job cancel --queue NAME is for them.",
		Example: "  outrider queue purge mail --state completed --before 7d",
	}
	states := cmd.Flags().StringSlice("state", nil, "only jobs in these states; by itself completed, cancelled and discarded")
	before := cmd.Flags().String("before", "", "only jobs that ended before the last `7d`, or before a time")
	dry := cmd.Flags().Bool("dry-run", false, "only count them")
	yes := bindYes(cmd)
	return a.aboutQueue(cmd, nil, a.asks, func(ctx context.Context, q *question, was job.Queue) error {
		p, err := q.purgeOf(*states, *before)
		if err != nil {
			return err
		}
		p.DryRun = true
		n, err := q.client.PurgeQueue(ctx, was.Name, p)
		if err != nil {
			return asked(err)
		}
		what := fmt.Sprintf("remove %s of queue %s for good", jobCount(n), was.Name)
		if p.DryRun = *dry; n > 0 && !*dry {
			if err := q.sure(*yes, what); err != nil {
				return err
			}
			if n, err = q.client.PurgeQueue(ctx, was.Name, p); err != nil {
				return asked(err)
			}
		}
		if q.format.data() {
			return q.format.printValue(q.out, map[string]any{"queue": was.Name, "dry_run": *dry, "removed": n, "states": p.States}, "")
		}
		if *dry {
			_, err = fmt.Fprintf(q.out, "would %s; nothing was done\n", what)
			return err
		}
		_, err = fmt.Fprintf(q.out, "removed %s of queue %s\n", jobCount(n), was.Name)
		return err
	})
}

var ended = []job.State{job.Completed, job.Cancelled, job.Discarded}

// purgeOf reads the words of a purge.
func (q *question) purgeOf(states []string, before string) (p job.Purge, err error) {
	for _, name := range states {
		s, err := sift.State(name)
		if err != nil {
			return p, usage("--state %w", err)
		}
		if !slices.Contains(ended, s) {
			return p, usage("--state %s: only jobs that have ended can be purged; to end them: outrider job cancel --state %[1]s --queue NAME", s)
		}
		p.States = append(p.States, s)
	}
	if p.States == nil {
		p.States = ended
	}
	p.Before, err = q.before(before)
	return p, err
}

// before reads the time before which jobs are meant; nothing is whenever.
func (q *question) before(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := sift.Time(text, q.clock(), sift.Past)
	if err != nil {
		return t, usage("--before %w", err)
	}
	return t, nil
}
