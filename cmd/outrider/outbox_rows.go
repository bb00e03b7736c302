package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/outbox"
)

// These commands ask the database itself: they need no server that runs, and
// show the same whichever server relays.

func (a *app) outboxStatusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status [DSN...]", Short: "Count the rows of an outbox and show who relays it"}
	bindOutbox(cmd, "outbox", "outbox-table")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		return a.eachOutbox(cmd, args, false, func(ctx context.Context, s *appdb.Source) error {
			st, err := outbox.Inspect(ctx, s.DB, s.Dialect, time.Now())
			if err != nil {
				return s.Explained(ctx, err)
			}
			if format.data() {
				return printStatusData(a.stdout, format, s, st)
			}
			return printStatus(a.stdout, s, st, a.clock())
		})
	}
	return cmd
}

// printStatusData prints a status with the name of its outbox in front.
func printStatusData(w io.Writer, format format, s *appdb.Source, st outbox.Status) error {
	if st.Strays == nil {
		st.Strays = []outbox.Stray{}
	}
	if st.Relays == nil {
		st.Relays = []outbox.Peer{}
	}
	return format.printValue(w, struct {
		Database string `json:"database"`
		Table    string `json:"table"`
		outbox.Status
		Lag float64 `json:"lag_seconds"`
	}{s.DSN.String(), s.Dialect.Table(), st, st.Lag.Round(time.Millisecond).Seconds()}, "")
}

func printStatus(w io.Writer, s *appdb.Source, st outbox.Status, now time.Time) error {
	pending := strconv.FormatInt(st.Pending, 10)
	if st.Pending > 0 {
		pending += ", the oldest for " + st.Lag.Round(100*time.Millisecond).String()
	}
	rows := [][]string{{"outbox", fmt.Sprintf("%s, table %s", s.DSN, s.Dialect.Table())}, {"pending", pending},
		{"taken", fmt.Sprint(st.Taken)}, {"relayed", fmt.Sprint(st.Relayed)}, {"sent", fmt.Sprint(st.Sent)}, {"parked", fmt.Sprint(st.Parked)}}
	for _, o := range st.Strays {
		rows = append(rows, []string{fmt.Sprintf("%q:", o.Status), appdb.StrayText(o)})
	}
	for _, p := range st.Relays {
		if p.Seen.After(now) { // by the clock of the database
			p.Seen = now
		}
		rows = append(rows, []string{"relay", fmt.Sprintf("%s, %s, has sent %d, seen %s", hostOf(p), p.Mode, p.Sent, term.Ago(p.Seen, now))})
	}
	if len(st.Relays) == 0 {
		rows = append(rows, []string{"relay", "none within a day"})
	}
	return table(w, rows)
}

// hostOf is how a person knows a relay; the id of its store is in the formats for programs.
func hostOf(p outbox.Peer) string {
	if p.PID == 0 {
		return cmp.Or(p.Host, p.Owner)
	}
	return fmt.Sprintf("%s (pid %d)", cmp.Or(p.Host, "a host without a name"), p.PID)
}

func (a *app) outboxListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls [DSN...]", Short: "List the parked rows, which cannot become jobs, with the reasons"}
	bindOutbox(cmd, "outbox", "outbox-table")
	output := bindOutput(cmd)
	limit := cmd.Flags().IntP("limit", "n", 50, "how many at most, 1 to 1000")
	after := cmd.Flags().Int64("after", 0, "only rows with a higher id")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		if *limit < 1 || *limit > 1000 {
			return usage("--limit must be from 1 to 1000, got %d", *limit)
		}
		return a.eachOutbox(cmd, args, false, func(ctx context.Context, s *appdb.Source) error {
			parked, err := outbox.ParkedRows(ctx, s.DB, s.Dialect, *after, *limit)
			if err != nil {
				return s.Explained(ctx, err)
			}
			if !format.data() {
				return a.printParked(s, parked)
			}
			for _, p := range parked {
				if err := format.printValue(a.stdout, p, ""); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

var parkedColumns = []term.Column{{Head: "ROW", Right: true}, {Head: "TYPE", Min: 12}, {Head: "ATTEMPTS", Right: true, Drop: 2}, {Head: "WRITTEN", Drop: 1}, {Head: "REASON", Min: 30}}

func (a *app) printParked(s *appdb.Source, parked []outbox.Parked) error {
	if len(parked) == 0 {
		_, err := fmt.Fprintf(a.stdout, "%s has no parked row in %s\n", s.DSN, s.Dialect.Table())
		return err
	}
	now := a.clock()
	var rows [][]string
	for _, p := range parked {
		rows = append(rows, []string{fmt.Sprint(p.ID), p.Type, fmt.Sprint(p.Attempts), term.Ago(p.Written, now), p.Reason})
	}
	return a.screen.Table(a.stdout, parkedColumns, rows)
}

func (a *app) outboxReplayCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "replay [DSN] ROW...|--all", Short: "Relay parked rows again, after they were fixed"}
	a.onRows(cmd, "", "pending again", (*appdb.Source).Replay)
	return cmd
}

func (a *app) outboxDiscardCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "discard [DSN] ROW...|--all", Short: "Delete parked rows for good"}
	a.onRows(cmd, "delete", "deleted", (*appdb.Source).Discard)
	return cmd
}

// onRows makes cmd one that does something to parked rows, and asks before if
// there is a word to ask with.
func (a *app) onRows(cmd *cobra.Command, question, done string, do func(*appdb.Source, context.Context, ...int64) (int64, error)) {
	bindOutbox(cmd, "outbox", "outbox-table")
	all := cmd.Flags().Bool("all", false, "all rows that are parked")
	yes := new(bool)
	if question != "" {
		cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, dsns, err := rowIDs(cmd, args, *all)
		if err != nil {
			return err
		}
		if cfg, err := a.outboxesOf(cmd, dsns); err != nil {
			return err
		} else if len(cfg.outboxes) > 1 && len(ids) > 0 {
			return usage("%s: the ids of rows are those of one outbox, and %d are named", cmd.CommandPath(), len(cfg.outboxes))
		}
		return a.eachOutbox(cmd, dsns, false, func(ctx context.Context, s *appdb.Source) error {
			if question != "" && !*yes {
				if err := a.agreed(fmt.Sprintf("%s %s of %s for good?", question, rowsText(ids), s.DSN)); err != nil {
					return err
				}
			}
			n, err := do(s, ctx, ids...)
			if err != nil {
				return s.Explained(ctx, err)
			}
			if n == 0 && !*all {
				return notFound("none of these rows is parked; see: outrider outbox ls")
			}
			if _, err = fmt.Fprintf(a.stdout, "%s: %s %s\n", s.DSN, count(n, "row is", "rows are"), done); err == nil && n < int64(len(ids)) {
				_, err = fmt.Fprintf(a.stdout, "%d of the rows that were named are not parked\n", int64(len(ids))-n)
			}
			return err
		})
	}
}

func rowsText(ids []int64) string {
	if len(ids) == 0 {
		return "all parked rows"
	}
	return count(int64(len(ids)), "parked row", "parked rows")
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// rowIDs parts the ids of rows from the DSN in front of them.
func rowIDs(cmd *cobra.Command, args []string, all bool) (ids []int64, dsns []string, err error) {
	for i, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		switch {
		case err == nil && n > 0:
			ids = append(ids, n)
		case i == 0 && strings.Contains(arg, ":"):
			dsns = args[:1]
		default:
			return nil, nil, usage("%s: the id of a row is a number above 0; the DSN comes first", cmd.CommandPath())
		}
	}
	if all == (len(ids) > 0) {
		return nil, nil, usage("%s needs the ids of rows, or --all; see: outrider outbox ls", cmd.CommandPath())
	}
	slices.Sort(ids)
	return slices.Compact(ids), dsns, nil
}

// agreed asks a question that only "y" or "yes" answers.
func (a *app) agreed(question string) error {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.stdin).ReadString('\n') // no answer is no
	if l := strings.ToLower(strings.TrimSpace(line)); l == "y" || l == "yes" {
		return nil
	}
	return usage("nothing was done; answer y, or give --yes")
}

func (a *app) outboxPokeCommand() *cobra.Command {
	return a.asks(&cobra.Command{
		Use:   "poke",
		Short: "Tell a running server that its outboxes have new rows",
		Args:  noArgs,
	}, func(ctx context.Context, q *question, _ []string) error {
		var r struct {
			Poked int64 `json:"poked"`
		}
		return q.show(ctx, http.MethodPost, "/outbox/poke", nil, "", &r, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "poked %s\n", count(r.Poked, "relay", "relays"))
			return err
		})
	})
}
