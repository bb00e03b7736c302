package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	mysqloutbox "github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) outboxCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "outbox",
		Short: "Prepare your own database: jobs that exist if and only if your transaction commits",
	})
	cmd.AddCommand(a.outboxSQLCommand(), a.outboxInitCommand(), a.outboxAddCommand(), a.outboxCheckCommand(),
		a.outboxStatusCommand(), a.outboxListCommand(), a.outboxGetCommand(), a.outboxReplayCommand(), a.outboxDiscardCommand(), a.outboxPokeCommand())
	return cmd
}

// bindOutbox gives cmd the named settings, and --table as a short name of --outbox-table.
func bindOutbox(cmd *cobra.Command, names ...string) {
	bind(cmd, names...)
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "table" {
			name = "outbox-table"
		}
		return pflag.NormalizedName(name)
	})
}

// extras is what an outbox in PostgreSQL may have besides its tables.
type extras struct {
	function bool
	wake     string
}

func bindExtras(cmd *cobra.Command) *extras {
	var x extras
	cmd.Flags().BoolVar(&x.function, "function", false, "also a function that writes a job (PostgreSQL)")
	cmd.Flags().StringVar(&x.wake, "wake", "poll", "poll, or listen to add a trigger that notifies the relays of every commit (PostgreSQL)")
	return &x
}

// sql is the SQL of the extras, for PostgreSQL; others have none.
func (x *extras) sql(scheme, table string) ([]string, error) {
	if x.wake != "poll" && x.wake != "listen" {
		return nil, usage("--wake must be poll or listen, got %q", x.wake)
	}
	if scheme != appdb.Postgres && (x.function || x.wake == "listen") {
		return nil, usage("--function and --wake listen need PostgreSQL; this is %s", scheme)
	}
	var all []string
	for _, e := range []struct {
		wanted bool
		of     func(string) (string, error)
	}{{x.function, postgres.Function}, {x.wake == "listen", postgres.Trigger}} {
		if !e.wanted {
			continue
		}
		text, err := e.of(table)
		if err != nil {
			return nil, usage("--outbox-table: %w", err)
		}
		all = append(all, text)
	}
	return all, nil
}

func (a *app) outboxSQLCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the SQL of the outbox tables, for your own migrations",
		Args:  noArgs,
	}
	bindOutbox(cmd, "outbox-table")
	database := cmd.Flags().String("db", appdb.SQLite, "SQL dialect: postgres, mysql, mariadb or sqlite")
	x := bindExtras(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		kind, ok := appdb.Kind(*database)
		if !ok {
			return usage("--db must be postgres, mysql, mariadb or sqlite, got %q", *database)
		}
		create, err := sqlOf(kind, cfg.table)
		if err != nil {
			return err
		}
		more, err := x.sql(kind, cfg.table)
		if err != nil {
			return err
		}
		for i, text := range append([]string{create}, more...) {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprintln(a.stdout, strings.TrimSpace(text))
		}
		return nil
	}
	return cmd
}

func sqlOf(database, table string) (text string, err error) {
	switch database {
	case appdb.Postgres:
		text, err = postgres.SQL(table)
	case appdb.MySQL:
		text, err = mysqloutbox.SQL(table)
	default:
		d, derr := appdb.DialectOf(appdb.SQLite, table)
		text, err = d.Schema(), derr
	}
	if err != nil {
		return "", usage("--outbox-table: %w", err)
	}
	return text, nil
}

func (a *app) outboxInitCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "init [DSN...]", Short: "Create the outbox tables that are missing"}
	bindOutbox(cmd, "outbox", "outbox-table")
	x := bindExtras(cmd)
	alter := cmd.Flags().Bool("alter", false, "also add the indexes and nullable columns that tables of an older outrider lack")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.outboxesOf(cmd, args)
		if err != nil {
			return err
		}
		for _, d := range cfg.outboxes { // before anything is made
			if _, err := x.sql(d.Scheme(), cfg.table); err != nil {
				return err
			}
		}
		return a.eachOutbox(cmd, args, true, func(ctx context.Context, s *appdb.Source) error {
			more, err := x.sql(s.DSN.Scheme(), s.Dialect.Table())
			if err != nil {
				return err
			}
			ran, err := s.Init(ctx, *alter)
			for _, stmt := range ran {
				fmt.Fprintf(a.stdout, "ran: %s\n", stmt)
			}
			if err != nil {
				return err
			}
			for _, text := range more {
				if err := s.Exec(ctx, text); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(a.stdout, "%s has the outbox table %s\n", s.DSN, s.Dialect.Table())
			return err
		})
	}
	return cmd
}

func (a *app) outboxCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [DSN...]",
		Short: "Check the outbox and list everything that is wrong or missing",
		Long: "Checks the server, the tables, their columns, types, defaults and indexes, and the rights of the\n" +
			"relay's user. Lists everything that is missing, and rows with an invalid status. Changes nothing.",
	}
	bindOutbox(cmd, "outbox", "outbox-table")
	ticks := cmd.Flags().Bool("ticks", false, "also what serve --cron-coordination outbox needs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.eachOutbox(cmd, args, false, func(ctx context.Context, s *appdb.Source) error {
			if err := s.Check(ctx, *ticks); err != nil {
				return err
			}
			if err := s.CheckRows(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.stdout, "%s is ready: outbox table %s\n", s.DSN, s.Dialect.Table())
			return err
		})
	}
	return cmd
}

// eachOutbox does something to each outbox that the command is told of.
func (a *app) eachOutbox(cmd *cobra.Command, args []string, make bool, do func(context.Context, *appdb.Source) error) error {
	cfg, err := a.outboxesOf(cmd, args)
	if err != nil {
		return err
	}
	for _, d := range cfg.outboxes {
		src, err := openSource(cmd.Context(), d, cfg.table, make)
		if err != nil {
			return err
		}
		if err := unreached(errors.Join(do(cmd.Context(), src), src.DB.Close())); err != nil {
			return err
		}
	}
	return nil
}

// openSource opens the database of an outbox; make makes a file that is missing.
func openSource(ctx context.Context, d appdb.DSN, table string, make bool) (*appdb.Source, error) {
	open := appdb.Open
	if make {
		open = appdb.OpenOrMake
	}
	src, err := open(ctx, d, table)
	if job.KindOf(err) == job.Invalid {
		return nil, usage("--outbox-table: %w", err)
	}
	if err != nil || d.Scheme() != appdb.SQLite { // the DSN of a server has a password, which is not shown
		return src, err
	}
	if src.Args = d.String(); src.Dialect.Table() != sqlite.DefaultTable {
		src.Args += " --outbox-table " + src.Dialect.Table()
	}
	return src, nil
}

// unreached gives the error of a database that does not answer its exit code.
func unreached(err error) error {
	var e *job.Error
	if errors.As(err, &e) && e.Kind == job.Unavailable && !errors.Is(err, context.Canceled) {
		return &failure{exitUnreachable, err}
	}
	return err
}

// outboxesOf reads the settings of a command that takes DSNs as arguments too.
func (a *app) outboxesOf(cmd *cobra.Command, args []string) (config, error) {
	cfg, err := a.configure(cmd)
	if err != nil {
		return cfg, err
	}
	if f := cmd.Flags().Lookup("outbox"); len(args) > 0 && !f.Changed {
		cfg.outboxes = nil // arguments beat the environment, as flags do
	}
	for _, arg := range args {
		d, err := appdb.ParseDSN(arg)
		if err != nil {
			return cfg, usage("%s: the argument %w", cmd.CommandPath(), err)
		}
		cfg.outboxes = append(cfg.outboxes, d)
	}
	if err := cfg.coherent(); err != nil {
		return cfg, err
	}
	if len(cfg.outboxes) == 0 {
		return cfg, usage("%s needs a database, as in: %[1]s sqlite:./shop.db", cmd.CommandPath())
	}
	return cfg, nil
}
