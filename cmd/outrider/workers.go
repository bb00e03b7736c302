package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) workersCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "workers",
		Short: "List workers, and tell them to be quiet, to terminate or to resume",
	})
	cmd.AddCommand(a.workersListCommand(),
		a.workersDirectCommand(job.Quiet, "Give a worker no more jobs; it finishes those that it has"),
		a.workersDirectCommand(job.Terminate, "Give a worker no more jobs; it finishes those that it has and stops"),
		a.workersDirectCommand(job.Resume, "Take back quiet or terminate"))
	return cmd
}

func (a *app) workersListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the workers that have registered or sent a heartbeat", Args: noArgs}
	ask := a.asking(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, err := ask()
		if err != nil {
			return err
		}
		var l workerList
		return q.show(cmd.Context(), http.MethodGet, "/workers?limit=200", nil, &l, l.print)
	}
	return cmd
}

func (a *app) workersDirectCommand(wish, short string) *cobra.Command {
	cmd := &cobra.Command{Use: wish + " ID|--all", Short: short}
	ask := a.asking(cmd)
	all := cmd.Flags().Bool("all", false, "all known workers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if one := len(args) == 1; one == *all || len(args) > 1 || one && args[0] == "" {
			return usage("%s needs the id of one worker, or --all; see outrider workers ls", cmd.CommandPath())
		}
		q, err := ask()
		if err != nil {
			return err
		}
		if *all {
			d := directed{wish: wish}
			body := fmt.Appendf(nil, `{"directive":%q}`, wish)
			return q.show(cmd.Context(), http.MethodPost, "/admin/workers/directive", body, &d, d.print)
		}
		d := directed{wish: wish, Workers: 1}
		err = q.show(cmd.Context(), http.MethodPost, "/admin/workers/"+url.PathEscape(args[0])+"/"+wish, nil, &struct{}{}, d.print)
		if job.KindOf(err) == job.NotFound {
			return fmt.Errorf("%w; see outrider workers ls", err)
		}
		return err
	}
	return cmd
}

// directed is the server's answer to a directive.
type directed struct {
	wish    string
	Workers int `json:"workers"`
}

func (d *directed) print(w io.Writer) error {
	s := "s"
	if d.Workers == 1 {
		s = ""
	}
	_, err := fmt.Fprintf(w, "%s: %d worker%s, effective with the next heartbeat\n", d.wish, d.Workers, s)
	return err
}

// workerList is the server's answer to ls.
type workerList struct {
	Workers []struct {
		ID        string    `json:"id"`
		State     string    `json:"state"`
		Directive string    `json:"directive"`
		Active    int       `json:"active_jobs"`
		Hostname  string    `json:"hostname"`
		BeatAt    time.Time `json:"last_heartbeat_at"`
	} `json:"workers"`
	Total int `json:"total"`
}

func (l *workerList) print(w io.Writer) error {
	if len(l.Workers) == 0 {
		_, err := fmt.Fprintln(w, "no worker has registered or sent a heartbeat")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKER\tSTATE\tDIRECTIVE\tJOBS\tHOST\tLAST BEAT")
	for _, r := range l.Workers {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", wording.Printable(r.ID), wording.Printable(r.State), cmp.Or(r.Directive, "-"),
			r.Active, wording.Printable(cmp.Or(r.Hostname, "-")), job.FormatTime(r.BeatAt))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l.Total > len(l.Workers) {
		fmt.Fprintf(w, "\n%d of %d workers; all of them with GET /ojs/v1/workers, page by page\n", len(l.Workers), l.Total)
	}
	return nil
}
