package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	_ "modernc.org/sqlite" // the driver of outboxes; the library links none

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func (a *app) outboxCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "outbox",
		Short: "Prepare your own database: jobs that exist if and only if your transaction commits",
	})
	cmd.AddCommand(a.outboxSQLCommand(),
		a.outboxTableCommand("init", "Make the outbox table where it is missing", "has its outbox table %s", (*source).init),
		a.outboxTableCommand("check", "See whether the outbox table is there and right", "is ready: outbox table %s", (*source).check))
	return cmd
}

func (a *app) outboxSQLCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the SQL of the outbox table, for your own migrations",
		Args:  noArgs,
	}
	bind(cmd, "outbox-table")
	database := cmd.Flags().String("db", "sqlite", "whose SQL it is: sqlite")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		if *database != "sqlite" {
			return usage("--db must be sqlite, the only database with an outbox so far, got %q", *database)
		}
		d, err := sqlite.Dialect(cfg.table)
		if err != nil {
			return usage("--outbox-table: %w", err)
		}
		_, err = fmt.Fprintln(a.stdout, strings.TrimSpace(d.Create))
		return err
	}
	return cmd
}

// outboxTableCommand is a command that does something to each outbox it is told of.
func (a *app) outboxTableCommand(name, short, done string, do func(*source, context.Context) error) *cobra.Command {
	cmd := &cobra.Command{Use: name + " [sqlite:FILE...]", Short: short}
	bind(cmd, "outbox", "outbox-table")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		for _, arg := range args {
			d, err := parseDSN(arg)
			if err != nil {
				return usage("%s: the argument %w", cmd.CommandPath(), err)
			}
			cfg.outboxes = append(cfg.outboxes, d)
		}
		if len(cfg.outboxes) == 0 {
			return usage("%s needs a database, as in: %[1]s sqlite:./shop.db", cmd.CommandPath())
		}
		for _, d := range cfg.outboxes {
			if err := withSource(cmd.Context(), d, cfg.table, name == "init", do); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s "+done+"\n", d, cfg.table)
		}
		return nil
	}
	return cmd
}

// dsn names a database of the user's.
type dsn struct{ scheme, rest string }

// String is the DSN as it was written; today's DSNs hold no secret.
func (d dsn) String() string { return d.scheme + ":" + d.rest }

// parseDSN reads sqlite:PATH. What it refuses it does not repeat: a DSN may hold a password.
func parseDSN(v string) (dsn, error) {
	scheme, rest, ok := strings.Cut(v, ":")
	rest = strings.TrimPrefix(rest, "//")
	switch {
	case !ok:
		return dsn{}, errors.New("does not say what database it is; write sqlite:./shop.db for a file of SQLite")
	case scheme != "sqlite":
		return dsn{}, fmt.Errorf("is of the kind %q; this version relays from sqlite: only", scheme)
	case rest == "":
		return dsn{}, errors.New("names no file; write sqlite:./shop.db")
	}
	return dsn{scheme, rest}, nil
}

// source is a user's database with an outbox in it.
type source struct {
	dsn     dsn
	db      *sql.DB
	dialect outbox.Dialect
}

// openSource opens a database that exists: a mistyped path must not make a new, empty one.
func openSource(ctx context.Context, d dsn, table string) (*source, error) {
	if _, err := os.Stat(d.rest); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the outbox database %s does not exist; let your app make it, or run: outrider outbox init %s", d.rest, d)
	}
	return openOrMakeSource(ctx, d, table)
}

func openOrMakeSource(ctx context.Context, d dsn, table string) (*source, error) {
	dialect, err := sqlite.Dialect(table)
	if err != nil {
		return nil, usage("--outbox-table: %w", err)
	}
	db, err := sql.Open("sqlite", sqlite.DSN(d.rest))
	if err != nil {
		return nil, fmt.Errorf("open the outbox database %s: %w", d.rest, err)
	}
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("open the outbox database %s: %w", d.rest, err)
	}
	return &source{d, db, dialect}, nil
}

func withSource(ctx context.Context, d dsn, table string, make bool, do func(*source, context.Context) error) error {
	open := openSource
	if make {
		open = openOrMakeSource
	}
	src, err := open(ctx, d, table)
	if err != nil {
		return err
	}
	return errors.Join(do(src, ctx), src.db.Close())
}

func (s *source) init(ctx context.Context) error { return outbox.Init(ctx, s.db, s.dialect) }

// check says what is wrong with the outbox, and which command mends it.
func (s *source) check(ctx context.Context) error {
	err := outbox.Check(ctx, s.db, s.dialect)
	if err == nil {
		return nil
	}
	// outbox knows no DSN, so its sentences name the command with that word for one.
	command := s.dsn.String()
	if s.dialect.Table != sqlite.DefaultTable {
		command += " --outbox-table " + s.dialect.Table
	}
	return fmt.Errorf("outbox %s: %s", s.dsn, strings.Replace(err.Error(), "DSN", command, 1))
}

func (s *source) relay(to job.Enqueuer, log *slog.Logger) *outbox.Relay {
	return outbox.NewRelay(s.db, s.dialect, to, outbox.RelayOptions{Name: s.dsn.String(), Log: log})
}
