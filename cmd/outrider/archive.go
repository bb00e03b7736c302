package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [FILE|-]",
		Short: "Write all jobs with their history as lines of JSON",
		Long: "Writes a store as of one instant to FILE, or to standard output: jobs as they are, with their events, queues and what\n" +
			"is set of them, schedules, workflows, limits and schemas. A server may be working on it. A FILE is readable by its owner\n" +
			"alone. Webhooks hold secrets and are left out without --webhooks. With filters it is the jobs that pass all of\n" +
			"them, their events and queues; steps of workflows are jobs of their own then. outrider import reads it.",
		Args: atMostOne("FILE"),
	}
	bind(cmd, "db")
	flags := cmd.Flags()
	resume := flags.Bool("resume", false, "go on behind the last whole line of FILE; what changed since stays in it as it was")
	overwrite := flags.Bool("overwrite", false, "replace FILE if it is there")
	var o sqlitestore.ExportOptions
	flags.BoolVar(&o.Webhooks, "webhooks", false, "webhooks, too, with their secrets")
	states := flags.StringSlice("state", nil, "jobs in this state only; may be repeated")
	flags.StringSliceVar(&o.Queues, "queue", nil, "jobs of this queue only; may be repeated")
	flags.StringSliceVar(&o.Types, "type", nil, "jobs of this type only, or that begin with it where it ends in *; may be repeated")
	since := flags.String("since", "", "jobs that were stored then or later: a time such as 2026-01-31T08:00:00Z, or how long ago, such as 24h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.configure(cmd)
		if err == nil {
			err = a.chooseJobs(&o, *states, *since)
		}
		to := "-"
		if len(args) == 1 {
			to = args[0]
		}
		if err == nil && to == "-" && (*resume || *overwrite) {
			err = usage("--resume and --overwrite need a FILE")
		}
		if err == nil && *resume && *overwrite {
			err = usage("--resume goes on with a FILE and --overwrite replaces it: take one of them")
		}
		if err != nil {
			return err
		}
		o.MadeBy, o.Now = "outrider "+version(), a.clock()
		return a.export(cmd.Context(), cfg.db, to, o, *resume, *overwrite)
	}
	return cmd
}

// chooseJobs reads the filters.
func (a *app) chooseJobs(o *sqlitestore.ExportOptions, states []string, since string) error {
	for _, s := range states {
		if !slices.Contains(job.States, job.State(s)) {
			return usage("--state %q: must be one of %v", s, job.States)
		}
		o.States = append(o.States, job.State(s))
	}
	if since == "" {
		return nil
	}
	if ago, err := time.ParseDuration(since); err == nil && ago > 0 {
		o.Since = a.clock().Add(-ago)
		return nil
	}
	t, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return usage("--since %q: must be a time such as 2026-01-31T08:00:00Z, or how long ago, such as 24h", since)
	}
	o.Since = t
	return nil
}

// export writes an archive, and brings it to the disk.
func (a *app) export(ctx context.Context, db, to string, o sqlitestore.ExportOptions, resume, overwrite bool) error {
	began, p := a.clock(), a.progress()
	o.Progress = func(c sqlitestore.ArchiveCount) {
		p.say("export: %s of %s jobs, %s events", thousands(c.Jobs), thousands(c.OfJobs), thousands(c.Events))
	}
	defer p.done()
	if to == "-" {
		count, err := sqlitestore.Export(ctx, db, a.stdout, o)
		if err != nil {
			return filed(err)
		}
		p.done()
		fmt.Fprintln(a.stderr, exported(count, to, a.clock().Sub(began)))
		return nil
	}
	if _, err := sqlitestore.Look(ctx, db); err != nil { // before a file is made
		return filed(err)
	}
	f, place, err := openArchive(to, resume, overwrite)
	if err != nil {
		return err
	}
	defer f.Close()
	if place != nil && place.Complete {
		_, err := fmt.Fprintf(a.stdout, "export: %s is complete already: %s, %s\n", to, jobCount(place.Jobs), eventCount(place.Events))
		return err
	}
	o.From = place
	count, err := sqlitestore.Export(ctx, db, f, o)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		p.done()
		if job.KindOf(err) != job.Conflict {
			err = fmt.Errorf("%w; %s is not complete: go on with --resume", err, to)
		}
		return filed(err)
	}
	p.done()
	_, err = fmt.Fprintln(a.stdout, exported(count, to, a.clock().Sub(began)))
	return err
}

func exported(c sqlitestore.ArchiveCount, to string, took time.Duration) string {
	if to == "-" {
		to = "standard output"
	}
	return fmt.Sprintf("export: %s, %s in %v: %s", jobCount(c.Jobs), eventCount(c.Events), took.Round(100*time.Millisecond), to)
}

func eventCount(n int64) string {
	if n == 1 {
		return "1 event"
	}
	return thousands(n) + " events"
}

// openArchive opens the file of an archive, for its owner alone; place is where it goes on.
func openArchive(name string, resume, overwrite bool) (f *os.File, place *sqlitestore.ArchivePlace, err error) {
	st, err := os.Lstat(name)
	there := !errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && there:
		return nil, nil, fmt.Errorf("%s cannot be looked at: %w", name, err)
	case there && !st.Mode().IsRegular():
		return nil, nil, &failure{exitConflict, fmt.Errorf("%s is not a plain file; choose another name", name)}
	case there && !resume && !overwrite:
		return nil, nil, &failure{exitConflict, fmt.Errorf("%s exists; choose another name, go on with it (--resume), or replace it (--overwrite)", name)}
	case !there && resume:
		return nil, nil, notFound("there is no %s to go on with; leave --resume out", name)
	}
	if there && overwrite {
		if err := os.Remove(name); err != nil {
			return nil, nil, fmt.Errorf("%s cannot be replaced: %w", name, err)
		}
	}
	how := os.O_RDWR | os.O_CREATE | os.O_EXCL
	if resume {
		how = os.O_RDWR
	}
	if f, err = os.OpenFile(name, how, 0o600); err != nil {
		return nil, nil, fmt.Errorf("%s cannot be made; check its folder and its rights: %w", name, err)
	}
	if !resume {
		return f, nil, nil
	}
	if place, err = sqlitestore.FindPlace(f); err == nil {
		if _, err = f.Seek(place.Bytes, io.SeekStart); err == nil && !place.Complete {
			err = f.Truncate(place.Bytes)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s cannot be gone on with: %w", name, err)
	}
	return f, place, nil
}

func (a *app) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [FILE|-]",
		Short: "Store what outrider export wrote",
		Long: "Stores the jobs of an archive, from FILE or standard input, with their ids, states, attempts and events, in a store\n" +
			"that no server works on; it is made if it is not there. What is there already stays as it is, and is counted. An import\n" +
			"that is cut off goes on where it was when it is called again, and stores nothing twice. A bad line is named, and\n" +
			"it and those of its transaction are not stored.",
		Args: atMostOne("FILE"),
	}
	bind(cmd, "db")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := output()
		if err != nil {
			return err
		}
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		from := "-"
		if len(args) == 1 {
			from = args[0]
		}
		in := a.stdin
		if from != "-" {
			file, err := os.Open(from)
			if errors.Is(err, fs.ErrNotExist) {
				return notFound("there is no file %s", from)
			}
			if err != nil {
				return fmt.Errorf("%s cannot be read: %w", from, err)
			}
			defer file.Close()
			in = file
		}
		return a.imports(cmd.Context(), cfg, in, f)
	}
	return cmd
}

// imports imports an archive and says what became of it.
func (a *app) imports(ctx context.Context, cfg config, in io.Reader, f format) error {
	began, p := a.clock(), a.progress()
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	done, err := sqlitestore.Import(ctx, cfg.db, in, sqlitestore.ImportOptions{Log: log, Progress: func(c sqlitestore.ArchiveCount) {
		p.say("import: %s of %s jobs, %s events", thousands(c.Jobs), thousands(c.OfJobs), thousands(c.Events))
	}})
	p.done()
	if err != nil {
		return filed(err)
	}
	if f.data() {
		err = f.printValue(a.stdout, map[string]any{"jobs": done.Jobs, "events": done.Events, "stored": done.Stored, "left": done.Left,
			"refused": done.NotTaken, "refused_ids": done.Refused, "resumed_at_line": done.Resumed, "imported_before": done.Before, "file": cfg.db}, "")
	} else {
		err = a.printImported(done, cfg.db, a.clock().Sub(began))
	}
	if err == nil && done.NotTaken > 0 {
		return &failure{exitConflict, fmt.Errorf("left out, because a job that was there has their unique key or their custom id: %s: %v", jobCount(done.NotTaken), done.Refused)}
	}
	return err
}

func (a *app) printImported(d sqlitestore.Imported, db string, took time.Duration) error {
	if d.Before {
		_, err := fmt.Fprintf(a.stdout, "import: all of it was imported before, and nothing was changed: %s\n", db)
		return err
	}
	if d.Resumed > 0 {
		fmt.Fprintf(a.stdout, "import: went on at line %s\n", thousands(d.Resumed))
	}
	if d.Left > 0 {
		fmt.Fprintf(a.stdout, "import: left as they are, because their ids are there already: %s\n", jobCount(d.Left))
	}
	rate := ""
	if took > time.Second {
		rate = fmt.Sprintf(" (%s jobs/s)", thousands(int64(float64(d.Stored)/took.Seconds())))
	}
	_, err := fmt.Fprintf(a.stdout, "import: %s stored, %s read in %v%s: %s\n", jobCount(d.Stored), eventCount(d.Events), took.Round(100*time.Millisecond), rate, db)
	return err
}

// atMostOne takes one word or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("%s takes one %s, got %q; see %s --help", cmd.CommandPath(), name, args, cmd.CommandPath())
		}
		return nil
	}
}
