package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) workersCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "worker",
		Aliases: []string{"workers"},
		Short:   "List workers, and tell them to be quiet, to terminate or to resume",
	})
	cmd.AddCommand(a.workersListCommand(),
		a.workersDirectCommand(job.Quiet, "Give a worker no more jobs; it finishes those that it has"),
		a.workersDirectCommand(job.Terminate, "Give a worker no more jobs; it finishes those that it has and stops"),
		a.workersDirectCommand(job.Resume, "Take back quiet or terminate"))
	return cmd
}

func (a *app) workersListCommand() *cobra.Command {
	return a.watches(&cobra.Command{Use: "ls", Short: "List the workers that have registered or sent a heartbeat", Args: noArgs},
		func(ctx context.Context, q *question, _ []string) error {
			if q.format.data() {
				return q.raw(ctx, http.MethodGet, "/workers?limit=200", "workers")
			}
			all, err := q.client.Workers(ctx)
			if err != nil {
				return asked(err)
			}
			return q.printWorkers(all)
		})
}

func (a *app) workersDirectCommand(wish, short string) *cobra.Command {
	cmd := &cobra.Command{Use: wish + " ID|--all", Short: short}
	all := cmd.Flags().Bool("all", false, "all known workers")
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		if one := len(args) == 1; one == *all || len(args) > 1 || one && args[0] == "" {
			return usage("%s needs the id of one worker, or --all; see outrider worker ls", q.command)
		}
		var told struct {
			Workers int64 `json:"workers"`
		}
		print := func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s: %s, effective with the next heartbeat\n", wish, count(told.Workers, "worker", "workers"))
			return err
		}
		if *all {
			return q.show(ctx, http.MethodPost, "/admin/workers/directive", fmt.Appendf(nil, `{"directive":%q}`, wish), "", &told, print)
		}
		told.Workers = 1
		err := q.show(ctx, http.MethodPost, "/admin/workers/"+url.PathEscape(args[0])+"/"+wish, nil, "", &struct{}{}, print)
		if job.KindOf(err) == job.NotFound {
			return fmt.Errorf("%w; see outrider worker ls", err)
		}
		return err
	})
}

var workerColumns = []term.Column{{Head: "WORKER", Min: 12}, {Head: "STATE", Style: term.OfState}, {Head: "DIRECTIVE", Drop: 1, Style: term.OfState},
	{Head: "JOBS", Right: true}, {Head: "HOST", Min: 8, Drop: 2}, {Head: "LAST BEAT"}}

func (q *question) printWorkers(all []job.WorkerInfo) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(q.out, "no worker has registered or sent a heartbeat; start one with: outrider work --exec 'TYPE=COMMAND'")
		return err
	}
	now := q.clock()
	var rows [][]string
	for _, w := range all {
		state := cmp.Or(w.State, "running")
		if w.Stale {
			state = "stale"
		}
		rows = append(rows, []string{w.ID, state, cmp.Or(w.Directive, "-"), strconv.Itoa(w.Active), cmp.Or(w.Hostname, "-"), term.About(w.BeatAt, now)})
	}
	return q.screen.Table(q.out, workerColumns, rows)
}
