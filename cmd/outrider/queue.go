package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) queueCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues"},
		Short:   "List queues, pause, resume, drain and limit them, and remove finished jobs",
	})
	cmd.AddCommand(a.queueListCommand(), a.queueGetCommand(), a.queuePauseCommand(), a.queueResumeCommand(),
		a.queueDrainCommand(), a.queuePurgeCommand(), a.queueLimitCommand())
	return cmd
}

func (a *app) queueListCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "stats"},
		Short:      "List the queues: what waits in each, what runs, and how fast it goes",
		Long: "List the queues. READY are the jobs that wait for a worker, OLDEST is how long the first of them has; LATER are\n" +
			"scheduled and pending jobs, RETRY those that wait for their next attempt, DEAD the dead letters, and DONE/H and\n" +
			"FAILED/H what happened in the last hour.",
		Args: noArgs,
	}, func(ctx context.Context, q *question, _ []string) error {
		if q.format.data() {
			return q.pages(ctx, "/queues", "queues")
		}
		all, err := q.client.Queues(ctx)
		if err != nil {
			return asked(err)
		}
		return q.printQueues(ctx, all)
	})
}

var queueColumns = []term.Column{{Head: "QUEUE", Min: 10}, {Head: "STATE", Style: term.OfState}, {Head: "READY", Right: true}, {Head: "ACTIVE", Right: true},
	{Head: "LATER", Right: true, Drop: 1}, {Head: "RETRY", Right: true}, {Head: "DEAD", Right: true}, {Head: "OLDEST", Right: true, Drop: 2},
	{Head: "DONE/H", Right: true, Drop: 4}, {Head: "FAILED/H", Right: true, Drop: 3}}

// reportedQueues is of how many queues more than their counters is asked for one list:
// that is a request for each.
const reportedQueues = 200

func (q *question) printQueues(ctx context.Context, all []job.Queue) error {
	var rows [][]string
	now := q.clock()
	for i, one := range all {
		row := []string{one.Name, stateOfQueue(one), thousands(one.Counts[job.Available]), thousands(one.Counts[job.Active]),
			thousands(one.Counts[job.Scheduled] + one.Counts[job.Pending]), thousands(one.Counts[job.Retryable]), thousands(one.Dead), "-", "-", "-"}
		if i < reportedQueues {
			r, err := q.client.QueueStats(ctx, one.Name)
			if err != nil {
				return asked(err)
			}
			row[6] = thousands(r.Dead)
			if !r.Oldest.IsZero() {
				row[7] = term.Span(max(0, int64(now.Sub(r.Oldest)/time.Second)))
			}
			row[8], row[9] = thousands(r.Stats.Completed), thousands(r.Stats.Failed)
		}
		rows = append(rows, row)
	}
	return q.screen.Table(q.out, queueColumns, rows)
}

func stateOfQueue(one job.Queue) string {
	switch {
	case one.Paused && one.Draining:
		return "paused, draining"
	case one.Paused:
		return "paused"
	case one.Draining:
		return "draining"
	}
	return "active"
}

// aboutQueue makes cmd one that is about the queue that its only word names, which must
// be there unless fresh is.
func (a *app) aboutQueue(cmd *cobra.Command, fresh *bool, asks func(*cobra.Command, func(context.Context, *question, []string) error) *cobra.Command, do func(ctx context.Context, q *question, was job.Queue) error) *cobra.Command {
	return asks(cmd, func(ctx context.Context, q *question, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("%s needs the name of one queue; see outrider queue ls", q.command)
		}
		name := args[0]
		if err := job.CheckQueueName(name); err != nil {
			return usage("%.140q is not the name of a queue: lower-case letters, digits, - and .", name)
		}
		was, err := q.client.Queue(ctx, name)
		switch {
		case job.KindOf(err) != job.NotFound:
		case fresh != nil && *fresh:
			was, err = job.Queue{Name: name}, nil
		default:
			return q.noQueue(ctx, name, fresh != nil)
		}
		if err != nil {
			return asked(err)
		}
		return do(ctx, q, was)
	})
}

// bindFresh gives cmd the flag that lets it be about a queue that has had no job yet.
func bindFresh(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("new", false, "also if there is no such queue yet: it is made")
}

// noQueue is the error about a queue that is not there. It names the one that was meant.
func (q *question) noQueue(ctx context.Context, name string, mayBeNew bool) error {
	all, err := q.client.Queues(ctx)
	if err != nil {
		return asked(err)
	}
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	more := ""
	if mayBeNew {
		more = "; --new makes it"
	}
	if near := wording.Nearest(name, names); near != "" {
		return notFound("there is no queue %q; did you mean %q?%s", name, near, strings.Replace(more, "; -", " -", 1))
	}
	return notFound("there is no queue %q; see outrider queue ls%s", name, more)
}

func (a *app) queueGetCommand() *cobra.Command {
	return a.aboutQueue(&cobra.Command{
		Use:        "get NAME",
		SuggestFor: []string{"show", "info", "describe", "status", "config"},
		Short:      "Show a queue: its jobs, its last hour, its limits and its configuration",
	}, nil, a.watches, func(ctx context.Context, q *question, was job.Queue) error {
		if q.format.data() {
			return q.raw(ctx, http.MethodGet, "/admin/queues/"+url.PathEscape(was.Name), "")
		}
		r, err := q.client.QueueStats(ctx, was.Name)
		if err != nil {
			return asked(err)
		}
		c, err := q.client.QueueConfig(ctx, was.Name)
		if err != nil {
			return asked(err)
		}
		return q.printQueue(was, r, c)
	})
}

func (q *question) printQueue(was job.Queue, r job.QueueReport, c job.QueueConfig) error {
	now := q.clock()
	state := stateOfQueue(was)
	if !was.Since.IsZero() {
		state += ", " + term.Ago(was.Since, now)
	}
	if was.By != "" {
		state += " by " + was.By
	}
	facts := []term.Fact{{Name: "queue", Text: was.Name, Style: term.Bold}, {Name: "state", Text: state, Style: term.OfState(stateOfQueue(was))}}
	for _, s := range []job.State{job.Available, job.Active, job.Scheduled, job.Pending, job.Retryable, job.Completed, job.Cancelled, job.Discarded} {
		text := thousands(was.Counts[s])
		switch {
		case s == job.Available && !r.Oldest.IsZero():
			text += fmt.Sprintf(", the oldest since %s", term.Span(max(0, int64(now.Sub(r.Oldest)/time.Second))))
		case s == job.Discarded && r.Dead > 0:
			text += fmt.Sprintf(", of them %s dead letters", thousands(r.Dead))
		}
		facts = append(facts, term.Fact{Name: string(s), Text: text})
	}
	facts = append(facts, term.Fact{Name: "last hour", Text: fmt.Sprintf("%s enqueued, %s completed, %s failed attempts",
		thousands(r.Stats.Enqueued), thousands(r.Stats.Completed), thousands(r.Stats.Failed))},
		term.Fact{Name: "last minute", Text: fmt.Sprintf("%.3g enqueued, %.3g completed a second", r.Stats.PerSecond.Enqueued, r.Stats.PerSecond.Completed)})
	if r.Stats.Started > 0 {
		facts = append(facts, term.Fact{Name: "on average", Text: fmt.Sprintf("a job waits %v and takes %v", r.Stats.AvgWaited.Round(time.Millisecond), r.Stats.AvgTook.Round(time.Millisecond))})
	}
	facts = append(facts, term.Fact{Name: "limits", Text: limitsOf(c)})
	if r.Bound > 0 {
		facts = append(facts, term.Fact{Name: "bound", Text: thousands(r.Bound) + " jobs"})
	}
	if err := q.screen.Facts(q.out, facts); err != nil {
		return err
	}
	if len(c.Raw) == 0 {
		return nil
	}
	return q.printBlock("configuration", c.Raw)
}

// limitsOf says what a configuration lets run.
func limitsOf(c job.QueueConfig) string {
	var parts []string
	if c.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", c.Concurrency))
	}
	for _, l := range []struct {
		quota job.Quota
		how   string
	}{{c.RateLimit, "in any"}, {c.Throttle, "spread over"}} {
		if l.quota.Limit > 0 {
			parts = append(parts, fmt.Sprintf("%d %s %s", l.quota.Limit, l.how, period(l.quota.Period)))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// period is a length of time without the units that are zero: 1m.
func period(d time.Duration) string {
	if d >= time.Second && d%time.Second == 0 {
		return term.Span(int64(d / time.Second))
	}
	return d.String()
}

func (a *app) queuePauseCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "pause NAME", SuggestFor: []string{"stop", "hold", "disable"}, Short: "Pause a queue: no job of it is handed out, and those that run go on"}
	return a.turns(cmd, "pause", job.QueuePaused, "paused %s: its jobs wait, and new ones are taken; outrider queue resume %[1]s lets them run again\n", bindFresh(cmd))
}

func (a *app) queueResumeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "resume NAME", SuggestFor: []string{"start", "unpause", "continue", "enable"}, Short: "Resume a queue that is paused or draining"}
	return a.turns(cmd, "resume", job.QueueActive, "resumed %s: its jobs are handed out, and new ones are taken\n", nil)
}

// turns makes cmd one that gives a queue a condition.
func (a *app) turns(cmd *cobra.Command, verb, status, said string, fresh *bool) *cobra.Command {
	return a.aboutQueue(cmd, fresh, a.asks, func(ctx context.Context, q *question, was job.Queue) error {
		return q.turn(ctx, was.Name, verb, status, said)
	})
}

func (q *question) turn(ctx context.Context, name, verb, status, said string) error {
	if q.format.data() {
		return q.raw(ctx, http.MethodPost, "/queues/"+url.PathEscape(name)+"/"+verb, "")
	}
	if _, err := q.client.SetQueueStatus(ctx, name, status, ""); err != nil {
		return asked(err)
	}
	_, err := fmt.Fprintf(q.out, said, name)
	return err
}

func (a *app) queueDrainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "drain NAME",
		SuggestFor: []string{"empty"},
		Short:      "Let a queue run empty: new jobs are refused, and those that are there go on",
		Long: "Let a queue run empty: new jobs are refused, and those that are there go on. With --wait the command ends\n" +
			"when none is left that has not ended, also none that is scheduled for later.",
	}
	fresh := bindFresh(cmd)
	wait := cmd.Flags().Bool("wait", false, "wait until no job is left that has not ended")
	timeout := bindTimeout(cmd)
	return a.aboutQueue(cmd, fresh, a.asks, func(ctx context.Context, q *question, was job.Queue) error {
		if *timeout > 0 && !*wait {
			return usage("--timeout is how long --wait waits; give both")
		}
		if err := q.turn(ctx, was.Name, "drain", job.QueueDraining, "%s drains: new jobs are refused; outrider queue resume %[1]s takes them again\n"); err != nil || !*wait {
			return err
		}
		return q.empty(ctx, was.Name, *timeout)
	})
}

// drainPause is how long --wait of a drain waits between two looks.
const drainPause = 200 * time.Millisecond

// empty waits until a queue holds no job that has not ended.
func (q *question) empty(ctx context.Context, name string, timeout time.Duration) error {
	inner, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		inner, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	before, left := int64(-1), ""
	for {
		one, err := q.client.Queue(inner, name)
		if err != nil && inner.Err() == nil {
			return asked(err)
		}
		if err == nil {
			var n int64
			if n, left = leftIn(one); n == 0 {
				if !q.format.data() {
					fmt.Fprintf(q.out, "%s is empty\n", name)
				}
				return nil
			} else if n != before && !q.format.data() {
				fmt.Fprintf(q.out, "%s  %s\n", q.clock().Local().Format(time.TimeOnly), left)
				before = n
			}
		}
		select {
		case <-time.After(drainPause):
			continue
		case <-inner.Done():
		}
		if ctx.Err() != nil {
			return &failure{exitInterrupted, fmt.Errorf("%s still drains; outrider queue drain %[1]s --wait waits again", name)}
		}
		return &failure{exitTimeout, fmt.Errorf("%s is not empty after %v: %s", name, timeout, cmp.Or(left, "it was not seen"))}
	}
}

// leftIn counts the jobs of a queue that have not ended.
func leftIn(one job.Queue) (n int64, text string) {
	var parts []string
	for _, s := range live {
		if c := one.Counts[s]; c > 0 {
			n += c
			parts = append(parts, thousands(c)+" "+string(s))
		}
	}
	return n, jobCount(n) + " left: " + strings.Join(parts, ", ")
}
