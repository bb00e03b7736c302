package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func (a *app) outboxAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add DSN TYPE [ARGS]",
		Short: "Write a row into an outbox, in one transaction with your own SQL",
		Long: "Does what an app does: begins a transaction in its database, runs your statements, writes the row of the job, " +
			"and commits. The job exists if and only if that works: where one of the statements fails, nothing stays. " +
			"ARGS are a JSON array in quotes, or words of which each is one of the args.",
		Example: "  outrider outbox add sqlite:./shop.db order.confirm 17 \\\n" +
			"    --sql \"CREATE TABLE IF NOT EXISTS orders (id INTEGER)\" \\\n" +
			"    --sql \"INSERT INTO orders VALUES (17)\"",
	}
	bindOutbox(cmd, "outbox", "outbox-table")
	statements := cmd.Flags().StringArray("sql", nil, "a `statement` of the same transaction, before the row; may be repeated")
	queue := cmd.Flags().String("queue", "", "the queue; by itself default")
	delay := cmd.Flags().Duration("delay", 0, "how long after the relay has taken it the job may start")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		var dsns []string
		if len(args) > 0 {
			if _, err := appdb.ParseDSN(args[0]); err == nil || !cmd.Flags().Changed("outbox") && a.env["OUTRIDER_OUTBOX"] == "" {
				dsns, args = args[:1], args[1:]
			}
		}
		if len(args) == 0 || args[0] == "" {
			return usage("%s needs an outbox and the type of a job, as in: %[1]s sqlite:./shop.db email.send ada@example.com", cmd.CommandPath())
		}
		e := job.Envelope{Type: args[0], Queue: *queue, Delay: *delay}
		if e.Args, err = argsFrom(args[1:]); err != nil {
			return err
		}
		cfg, err := a.outboxesOf(cmd, dsns)
		if err != nil {
			return err
		}
		if len(cfg.outboxes) != 1 {
			return usage("%s writes into one outbox, and %d are given", cmd.CommandPath(), len(cfg.outboxes))
		}
		return a.eachOutbox(cmd, dsns, false, func(ctx context.Context, s *appdb.Source) error {
			id, err := addRow(ctx, s, *statements, e)
			if err != nil {
				return err
			}
			if format.data() {
				return format.printValue(a.stdout, map[string]json.RawMessage{"job_id": json.RawMessage(`"` + string(id) + `"`)}, "")
			}
			_, err = fmt.Fprintf(a.stdout, "committed: %s becomes job %s\n", e.Type, id)
			return err
		})
	}
	return cmd
}

// addRow writes the row of a job behind statements, in one transaction.
func addRow(ctx context.Context, s *appdb.Source, statements []string, e job.Envelope) (job.ID, error) {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return "", s.Explained(ctx, err)
	}
	defer tx.Rollback() // after a commit it does nothing
	for _, text := range statements {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return "", fmt.Errorf("%s: nothing was written, as a statement failed: %w", s.DSN, s.DSN.Scrub(err))
		}
	}
	ids, err := outbox.New(s.Dialect).Add(ctx, tx, e)
	if k := job.KindOf(err); k == job.Invalid || k == job.BadRetry {
		return "", &failure{exitUsage, fmt.Errorf("%s: nothing was written: %w", s.DSN, err)}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return "", s.Explained(ctx, err)
	}
	return ids[0], nil
}
