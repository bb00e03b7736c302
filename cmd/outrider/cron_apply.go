package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/cronfile"
	"github.com/outrider-jobs/outrider/internal/readfile"
)

// fileHelp is what apply and diff say of the file.
const fileHelp = "The file is YAML or JSON: crons, a list of schedules, each with name, cron (in quotes), timezone,\n" +
	"overlap_policy, enabled, description, and of its jobs type, args, meta and options. An entry that is wrong\n" +
	"is refused on its own, with its line; the others are applied. A paused schedule stays paused, unless its\n" +
	"entry says enabled.\n"

func (a *app) cronApplyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "apply FILE",
		SuggestFor: []string{"add", "create", "set", "put", "register"},
		Short:      "Apply a file of schedules to a server",
		Long: fileHelp +
			"What changes is printed: + for a new schedule, ~ for one that changes, each with its next runs, - for one\n" +
			"that is removed, ! for one that is refused. Only --prune removes, and only what came from a file. A server\n" +
			"with --cron-file has the last word: at its next start it removes schedules that came from a file and are not in its own.",
		Example: "  outrider cron apply crons.yaml\n  outrider cron apply -f crons.yaml --prune",
	}
	return a.comparing(cmd, true)
}

func (a *app) cronDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what apply would change, without changing anything",
		Long:  fileHelp + "The exit code is 0 if the server matches the file, and 1 if it does not.",
	}
	return a.comparing(cmd, false)
}

// errDiffers is the end of a diff that has printed differences. Nothing more is said of it.
var errDiffers error = &failure{exitFailed, errors.New("the server differs from the file")}

// comparing makes cmd one that compares a file with a server, and with apply changes the server.
func (a *app) comparing(cmd *cobra.Command, apply bool) *cobra.Command {
	f := cmd.Flags()
	file := f.StringP("file", "f", "", "file of schedules, or - for standard input")
	prune := f.Bool("prune", false, "remove schedules that came from a file and are not in this one")
	verbose := f.BoolP("verbose", "v", false, "also show the schedules that stay as they are")
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		if len(args) == 1 && *file == "" {
			*file, args = args[0], nil // -f is what others have, and not needed
		}
		if *file == "" || len(args) > 0 {
			return usage("%s needs one file of schedules: %[1]s crons.yaml", q.command)
		}
		read, err := loadCronFile(*file, a.stdin)
		if err != nil {
			return err
		}
		plan, err := cronfile.Compare(ctx, q.client, read, *prune)
		if err == nil && apply {
			err = plan.Apply(ctx, q.client)
		}
		if err != nil {
			return asked(err)
		}
		if q.format.data() {
			err = printPlanData(q.out, q.format, plan, a.clock())
		} else {
			err = printPlan(q.out, plan, a.clock(), *verbose)
		}
		switch {
		case err != nil:
			return err
		case !apply && plan.Differs():
			return errDiffers
		}
		return refused(plan)
	})
}

// loadCronFile reads a file of schedules, or with - standard input. Without a
// standard input it is the file of a server, which reads it again.
func loadCronFile(name string, stdin io.Reader) (*cronfile.File, error) {
	shown, raw, err := readNamed(name, stdin, readfile.How{Limit: cronfile.MaxBytes + 1, Again: stdin == nil, Devices: stdin != nil})
	if err != nil {
		return nil, fmt.Errorf("read the schedules: %w", err)
	}
	return cronfile.Parse(shown, raw)
}
