package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) deadCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:        "dead",
		Aliases:    []string{"dead-letter", "dlq"},
		SuggestFor: []string{"deadletter", "deadletters"},
		Short:      "List dead letters, look at one, retry and remove them",
	})
	cmd.AddCommand(a.deadListCommand(), a.deadGetCommand(), a.deadRetryCommand(), a.deadRemoveCommand(), a.deadPurgeCommand())
	return cmd
}

func (a *app) deadListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list", "find", "search"},
		Short:      "List dead letters, the last that died first, or count them by what they died of",
		Long: "List dead letters, the last that died first. With --by they are counted: by type tells of each type of job what\n" +
			"it died of.\n\n" + sifting,
		Example: "  outrider dead ls --by type\n  outrider dead ls --type 'email.*' --error timeout",
		Args:    noArgs,
	}
	sieve := a.bindFilter(cmd, true)
	limit, all := bindLimit(cmd)
	by := cmd.Flags().String("by", "", "count them by `type`, error or queue")
	return a.watches(cmd, func(ctx context.Context, q *question, _ []string) error {
		s, err := sieve()
		switch {
		case err != nil:
			return err
		case *by == "":
			return q.list(ctx, s, limit, all, func(f found) error { return q.printDead(f, s) })
		case *by != "type" && *by != "error" && *by != "queue":
			return usage("--by must be type, error or queue, got %.60q", *by)
		}
		return q.countDead(ctx, s, *by)
	})
}

var deadColumns = []term.Column{{Head: "ID"}, {Head: "TYPE", Min: 12}, {Head: "QUEUE", Min: 6, Drop: 2}, {Head: "TRIES", Drop: 3}, {Head: "DIED"}, {Head: "ERROR", Min: 16, Drop: 1}}

func (q *question) printDead(f found, s sift.Sieve) error {
	if len(f.jobs) == 0 {
		text := "there is no dead letter"
		if !s.Open() {
			text = "no dead letter is like that; outrider dead ls lists all"
		}
		_, err := fmt.Fprintln(q.out, text)
		return err
	}
	now := q.clock()
	var rows [][]string
	for _, j := range f.jobs {
		rows = append(rows, []string{string(j.ID), j.Type, j.Queue, tries(j), term.About(j.FinishedAt, now), dash(oneLine(sift.Latest(j).String()))})
	}
	if err := q.screen.Table(q.out, deadColumns, rows); err != nil {
		return err
	}
	return q.more(f)
}

// deaths are dead letters of which the same is told.
type deaths struct {
	Count  int64     `json:"count"`
	Type   string    `json:"type,omitempty"`
	Queue  string    `json:"queue,omitempty"`
	Error  string    `json:"error,omitempty"`
	Oldest time.Time `json:"oldest_at"`
	Newest time.Time `json:"newest_at"`
}

// cause is what a job died of, so that those that died of the same have the same.
func cause(j *job.Job) string {
	e := sift.Latest(j)
	if e.Type == "" || e.Type == "Error" {
		return cmp.Or(oneLine(e.Message), e.Type)
	}
	return e.Type
}

// countDead counts the dead letters that a sieve takes by what they have in common.
func (q *question) countDead(ctx context.Context, s sift.Sieve, by string) error {
	groups := map[[3]string]*deaths{}
	_, err := q.jobs(ctx, s, 0, func(some []*job.Job) error {
		for _, j := range some {
			var key [3]string
			switch by {
			case "type":
				key = [3]string{j.Type, "", cause(j)}
			case "queue":
				key = [3]string{"", j.Queue, ""}
			default:
				key = [3]string{"", "", cause(j)}
			}
			g := groups[key]
			if g == nil {
				g = &deaths{Type: key[0], Queue: key[1], Error: key[2], Newest: j.FinishedAt}
				groups[key] = g
			}
			g.Count++
			g.Oldest = j.FinishedAt // the newest come first
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := make([]*deaths, 0, len(groups))
	for _, g := range groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *deaths) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type+"\x00"+a.Queue+"\x00"+a.Error, b.Type+"\x00"+b.Queue+"\x00"+b.Error))
	})
	if q.format.data() {
		return q.format.printValue(q.out, map[string]any{"groups": all}, "groups")
	}
	return q.printDeaths(all, by)
}

func (q *question) printDeaths(all []*deaths, by string) error {
	if len(all) == 0 {
		_, err := io.WriteString(q.out, "there is no such dead letter\n")
		return err
	}
	columns := []term.Column{{Head: "COUNT", Right: true}}
	if by == "queue" {
		columns = append(columns, term.Column{Head: "QUEUE", Min: 10})
	}
	if by == "type" {
		columns = append(columns, term.Column{Head: "TYPE", Min: 12})
	}
	columns = append(columns, term.Column{Head: "NEWEST"}, term.Column{Head: "OLDEST", Drop: 1})
	if by != "queue" {
		columns = append(columns, term.Column{Head: "ERROR", Min: 12})
	}
	now := q.clock()
	var rows [][]string
	for _, g := range all {
		row := []string{thousands(g.Count)}
		switch by {
		case "queue":
			row = append(row, g.Queue)
		case "type":
			row = append(row, g.Type)
		}
		row = append(row, term.About(g.Newest, now), term.About(g.Oldest, now))
		rows = append(rows, append(row, dash(g.Error)))
	}
	return q.screen.Table(q.out, columns, rows)
}

func (a *app) deadGetCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "get ID",
		SuggestFor: []string{"show", "info", "describe"},
		Short:      "Show a dead letter: its args, and the errors that it died of",
	}, func(ctx context.Context, q *question, args []string) error {
		id, err := oneID(q, args)
		if err != nil {
			return err
		}
		if err := isDead(ctx, q, id); err != nil {
			return q.notDead(ctx, id, err)
		}
		return q.get(ctx, id)
	})
}

// isDead is NotFound for a job that is no dead letter.
func isDead(ctx context.Context, q *question, id job.ID) error {
	_, err := q.client.Raw(ctx, http.MethodGet, "/dead-letter/"+url.PathEscape(string(id)), nil)
	return err
}

// notDead is the error about a job that is no dead letter. It says what it is.
func (q *question) notDead(ctx context.Context, id job.ID, err error) error {
	if job.KindOf(err) != job.NotFound {
		return asked(err)
	}
	j, failed := q.client.Job(ctx, id)
	if failed != nil {
		return gone(id, failed)
	}
	if j.State == job.Discarded {
		return &failure{exitConflict, fmt.Errorf("job %s is discarded, and its retry policy keeps it out of the dead letters; outrider job retry %[1]s runs it again", id)}
	}
	return &failure{exitConflict, fmt.Errorf("job %s is %s, and no dead letter; see outrider job get %[1]s", id, j.State)}
}

func (a *app) deadRetryCommand() *cobra.Command {
	return a.does(&cobra.Command{
		Use:        "retry ID...|FILTERS|--all",
		SuggestFor: []string{"revive", "requeue", "run", "rerun"},
		Short:      "Take dead letters back into their queues, with all their attempts",
		Long: "Take dead letters back into their queues, with all their attempts: those named by their ids, or all that filters\n" +
			"choose.\n\n" + sifting,
		Example: "  outrider dead retry --type email.send --error 'connection refused' --since 2h",
	}, deed{
		action: job.BulkRetry, past: "retried", can: "run again", would: "run %s again now", dead: true,
		one: func(ctx context.Context, q *question, id job.ID) error {
			_, err := q.client.Revive(ctx, id)
			return err
		},
	})
}

func (a *app) deadRemoveCommand() *cobra.Command {
	return a.does(&cobra.Command{
		Use:        "rm ID...|FILTERS",
		SuggestFor: []string{"delete", "remove", "discard"},
		Short:      "Remove dead letters for good",
		Long:       "Remove dead letters for good: those named by their ids, or all that filters choose.\n\n" + sifting,
	}, deed{
		action: job.BulkDelete, past: "removed", can: "removed", would: "remove %s for good", asks: true, dead: true,
		one: func(ctx context.Context, q *question, id job.ID) error { return q.client.DeleteDead(ctx, id) },
	})
}

func (a *app) deadPurgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "purge",
		SuggestFor: []string{"clear", "clean", "flush", "empty"},
		Short:      "Remove all dead letters for good, or all old ones",
		Example:    "  outrider dead purge --before 30d",
		Args:       noArgs,
	}
	before := cmd.Flags().String("before", "", "only those that died before the last `30d`, or before a time")
	dry := cmd.Flags().Bool("dry-run", false, "only count them")
	yes := bindYes(cmd)
	return a.asks(cmd, func(ctx context.Context, q *question, _ []string) error {
		t, err := q.before(*before)
		if err != nil {
			return err
		}
		page, err := q.client.Jobs(ctx, job.Filter{Dead: true, Until: t, Limit: 1})
		if err != nil {
			return asked(err)
		}
		what := fmt.Sprintf("remove %s for good", deadCount(page.Total))
		if page.AtLeast {
			what = fmt.Sprintf("remove %s dead letters or more for good", thousands(page.Total))
		}
		removed := int64(0)
		switch {
		case *dry && !q.format.data():
			_, err := fmt.Fprintf(q.out, "would %s; nothing was done\n", what)
			return err
		case !*dry && page.Total > 0:
			if err := q.sure(*yes, what); err != nil {
				return err
			}
			if removed, err = q.purgeDead(ctx, t); err != nil {
				return err
			}
		}
		if q.format.data() {
			return q.format.printValue(q.out, map[string]any{"matched": page.Total, "removed": removed, "dry_run": *dry}, "")
		}
		_, err = fmt.Fprintf(q.out, "removed %s\n", deadCount(removed))
		return err
	})
}

// purgeDead removes the dead letters from before an instant, all where it is none.
func (q *question) purgeDead(ctx context.Context, before time.Time) (n int64, err error) {
	if !before.IsZero() {
		n, err = q.client.PurgeDead(ctx, before)
		return n, asked(err)
	}
	answer, err := q.client.Raw(ctx, http.MethodPost, "/dead-letter/purge", nil)
	if err != nil {
		return 0, asked(err)
	}
	var r struct {
		Deleted int64 `json:"deleted"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return 0, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return r.Deleted, nil
}

func deadCount(n int64) string {
	if n == 1 {
		return "1 dead letter"
	}
	return thousands(n) + " dead letters"
}
