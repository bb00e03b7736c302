package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func (a *app) outboxGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ROW [DSN]",
		Short: "Show all of one row, and the job that it makes",
		Long: "Shows a row of an outbox, whatever its status: what the app has written, what became of it, and the id\n" +
			"of its job. Rows are deleted once they were sent, unless the server keeps them (--outbox-keep).",
	}
	bindOutbox(cmd, "outbox", "outbox-table")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		id, dsns, err := oneRow(cmd, args)
		if err != nil {
			return err
		}
		if cfg, err := a.outboxesOf(cmd, dsns); err != nil {
			return err
		} else if len(cfg.outboxes) > 1 {
			return usage("%s: the id of a row is that of one outbox, and %d are named", cmd.CommandPath(), len(cfg.outboxes))
		}
		return a.eachOutbox(cmd, dsns, false, func(ctx context.Context, s *appdb.Source) error {
			r, err := outbox.RowOf(ctx, s.DB, s.Dialect, id)
			switch {
			case job.KindOf(err) == job.NotFound:
				return notFound("%s has no row %d in %s: a row is deleted once its job is on the server, and when it is discarded; look for its job by the type: outrider job ls --type TYPE", s.DSN, id, s.Dialect.Table())
			case err != nil:
				return s.Explained(ctx, err)
			case format.data():
				return format.printValue(a.stdout, rowData(r), "")
			}
			return printRow(a.stdout, r, a.clock())
		})
	}
	return cmd
}

// oneRow parts the id of a row from the DSN, which may stand on either side of it.
func oneRow(cmd *cobra.Command, args []string) (id int64, dsns []string, err error) {
	for _, arg := range args {
		if n, err := strconv.ParseInt(arg, 10, 64); err == nil && n > 0 && id == 0 {
			id = n
			continue
		}
		dsns = append(dsns, arg)
	}
	if id == 0 || len(dsns) > 1 {
		return 0, nil, usage("%s needs the id of one row, a number above 0, and perhaps the DSN, as in: %[1]s 17 sqlite:./shop.db", cmd.CommandPath())
	}
	return id, dsns, nil
}

// rowData is a row for programs, with the members that its columns name.
func rowData(r outbox.Row) any {
	text := func(raw []byte) any {
		if json.Valid(raw) {
			return json.RawMessage(raw)
		}
		return string(raw)
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return job.FormatTime(t)
	}
	return struct {
		ID         int64  `json:"id"`
		Status     string `json:"status"`
		JobID      job.ID `json:"job_id"`
		Workflow   bool   `json:"workflow,omitempty"`
		Type       string `json:"type"`
		Args       any    `json:"args"`
		Options    any    `json:"options"`
		Owner      string `json:"owner,omitempty"`
		Attempts   int64  `json:"attempts"`
		NextTryAt  string `json:"next_try_at,omitempty"`
		Error      string `json:"error,omitempty"`
		CreatedAt  string `json:"created_at,omitempty"`
		SentAt     string `json:"sent_at,omitempty"`
		AnsweredBy job.ID `json:"answered_by,omitempty"`
	}{r.ID, r.Status, r.Job, r.Workflow, r.Type, text(r.Args), text(r.Options), r.Owner, r.Attempts, at(r.NextTry), r.Error, at(r.Written), at(r.Sent), r.AnsweredBy}
}

func printRow(w io.Writer, r outbox.Row, now time.Time) error {
	makes := "job"
	if r.Workflow {
		makes = "workflow"
	}
	rows := [][]string{{"row", strconv.FormatInt(r.ID, 10)}, {"status", r.Status}, {makes, string(r.Job)}, {"type", r.Type}, {"args", string(r.Args)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	when := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, fmt.Sprintf("%s (%s)", job.FormatTime(t), term.Ago(t, now)))
		}
	}
	add("options", string(r.Options))
	when("written", r.Written)
	when("sent", r.Sent)
	add("attempts", strconv.FormatInt(r.Attempts, 10))
	when("next try", r.NextTry)
	add("error", r.Error)
	add("owner", r.Owner)
	add("answered by", string(r.AnsweredBy))
	return table(w, rows)
}
