package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

func (a *app) dbCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "db",
		Short: "Back up, restore, verify and measure the file that stores the jobs",
		Long: "Looks after the file that stores the jobs, without asking a server. A backup is taken while a server works on the\n" +
			"file, on the same machine or in its container. Keep backups on another disk than the store.",
	})
	cmd.AddCommand(a.dbBackupCommand(), a.dbRestoreCommand(), a.dbVerifyCommand(), a.dbStatsCommand())
	return cmd
}

func (a *app) dbBackupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy the store to DEST while a server works on it, and check the copy",
		Long: "Copies one snapshot of the store to DEST, readable by its owner alone, and checks all of the copy before it gets\n" +
			"its name. A server may be working on the store. DEST may be a folder: the copy is named after the store and the\n" +
			"time then. While the pages are copied SQLite's log grows by what the server writes; --rate says how fast they\n" +
			"are, so that a store of 1 GB takes 16 s.",
		Args: exactly("DEST", "a file or a folder"),
	}
	bind(cmd, "db")
	output := bindOutput(cmd)
	overwrite := cmd.Flags().Bool("overwrite", false, "replace DEST if it is there")
	rate := cmd.Flags().String("rate", "64MB", "how much is copied in a second at most; 0 is as fast as the disks are")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o := sqlitestore.BackupOptions{Overwrite: *overwrite}
		f, err := output()
		if err == nil {
			o.Rate, err = parseSize("--rate", *rate)
		}
		if err == nil && args[0] == "-" {
			err = usage("a backup cannot go to standard output: it is checked and flushed to a disk before it counts. Name a file; outrider export writes to standard output")
		}
		cfg, cerr := a.configure(cmd)
		if err = errors.Join(err, cerr); err != nil {
			return err
		}
		p := a.progress()
		o.Progress = func(doing string, done, all int64) {
			if doing == "copy" {
				p.say("backup: %s of %s copied", megabytes(done), megabytes(all))
			} else {
				p.say("backup: checking the copy")
			}
		}
		facts, err := sqlitestore.Backup(cmd.Context(), cfg.db, args[0], o)
		p.done()
		if err != nil {
			return filed(err)
		}
		if f.data() {
			return f.printValue(a.stdout, factsOf(facts), "")
		}
		_, err = fmt.Fprintf(a.stdout, "backup: %s, %s, integrity ok: %s\n", jobCount(facts.Jobs), megabytes(facts.Bytes), facts.Path)
		return err
	}
	return cmd
}

func (a *app) dbVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Look for damage in a backup, or in the file of a working server",
		Long: "Reads all of a backup, or of the file of a server that may be working on it, and changes nothing: the structure of\n" +
			"the file, its indexes, every job and event, and the counters. Exits with 78 where anything is damaged.",
		Args: exactly("FILE", "a backup, or the file of a server"),
	}
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := output()
		if err != nil {
			return err
		}
		facts, err := sqlitestore.Verify(cmd.Context(), args[0])
		if err != nil {
			return filed(err)
		}
		if f.data() {
			return f.printValue(a.stdout, factsOf(facts), "")
		}
		if _, err := fmt.Fprintf(a.stdout, "verify: %s, %s, integrity ok: %s\n", jobCount(facts.Jobs), megabytes(facts.Bytes), facts.Path); err != nil {
			return err
		}
		return a.screen.Facts(a.stdout, statesOf(facts))
	}
	return cmd
}

func (a *app) dbStatsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show how large the store is, what is in it, and who has it",
		Args:  noArgs,
	}
	bind(cmd, "db")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f, err := output()
		if err != nil {
			return err
		}
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		facts, err := sqlitestore.Look(cmd.Context(), cfg.db)
		if err != nil {
			return filed(err)
		}
		if f.data() {
			return f.printValue(a.stdout, factsOf(facts), "")
		}
		return a.screen.Facts(a.stdout, a.statsOf(facts))
	}
	return cmd
}

// statsOf is what a person is told of a store.
func (a *app) statsOf(f *sqlitestore.Facts) []term.Fact {
	holder := "no server"
	if f.Held {
		holder = strings.TrimSpace("a server " + processOf(f))
	}
	facts := []term.Fact{
		{Name: "file", Text: f.Path},
		{Name: "used by", Text: holder},
		{Name: "size", Text: fmt.Sprintf("%s, of which %s are free for reuse", megabytes(f.Bytes), megabytes(f.Free))},
		{Name: "log", Text: megabytes(f.Log)},
		{Name: "disk free", Text: megabytes(int64(f.Disk))},
		{Name: "schema", Text: strconv.FormatInt(f.Schema, 10)},
		{Name: "jobs", Text: thousands(f.Jobs)},
	}
	facts = append(facts, statesOf(f)...)
	if f.Dead > 0 {
		facts = append(facts, term.Fact{Name: "  dead letters", Text: thousands(f.Dead), Style: term.Bad})
	}
	if !f.Oldest.IsZero() {
		facts = append(facts, term.Fact{Name: "oldest job", Text: term.Ago(f.Oldest, a.clock())})
	}
	return append(facts,
		term.Fact{Name: "events", Text: thousands(f.Events)},
		term.Fact{Name: "queues", Text: thousands(f.Queues)},
		term.Fact{Name: "schedules", Text: thousands(f.Schedules)},
		term.Fact{Name: "workflows", Text: thousands(f.Workflows)})
}

func processOf(f *sqlitestore.Facts) string {
	if f.HeldBy == "" {
		return ""
	}
	return "(process " + f.HeldBy + ")"
}

// statesOf are the states in which there are jobs.
func statesOf(f *sqlitestore.Facts) (facts []term.Fact) {
	for _, s := range job.States {
		if n := f.States[s]; n > 0 {
			facts = append(facts, term.Fact{Name: "  " + string(s), Text: thousands(n), Style: term.OfState(string(s))})
		}
	}
	return facts
}

// factsJSON is what a program is told of a store.
type factsJSON struct {
	File      string              `json:"file"`
	Schema    int64               `json:"schema"`
	Identity  string              `json:"identity,omitempty"`
	Bytes     int64               `json:"bytes"`
	FreeBytes int64               `json:"free_bytes"`
	LogBytes  int64               `json:"log_bytes"`
	DiskFree  uint64              `json:"disk_free_bytes,omitempty"`
	Jobs      int64               `json:"jobs"`
	States    map[job.State]int64 `json:"states"`
	Dead      int64               `json:"dead_letters"`
	OldestJob string              `json:"oldest_job,omitempty"`
	Events    int64               `json:"events"`
	Queues    int64               `json:"queues"`
	Schedules int64               `json:"schedules"`
	Workflows int64               `json:"workflows"`
	InUse     bool                `json:"in_use"`
	Process   string              `json:"process,omitempty"`
}

func factsOf(f *sqlitestore.Facts) factsJSON {
	v := factsJSON{f.Path, f.Schema, f.Identity, f.Bytes, f.Free, f.Log, f.Disk, f.Jobs, f.States, f.Dead, "", f.Events, f.Queues, f.Schedules, f.Workflows, f.Held, f.HeldBy}
	if !f.Oldest.IsZero() {
		v.OldestJob = job.FormatTime(f.Oldest)
	}
	return v
}

// exactly takes the one word that a command is about.
func exactly(name, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("%s needs %s, %s; see %s --help", cmd.CommandPath(), name, what, cmd.CommandPath())
		}
		return nil
	}
}

// filed is the error of a command that works on a file, with its exit code.
func filed(err error) error {
	switch job.KindOf(err) {
	case job.NotFound:
		return &failure{exitNotFound, err}
	case job.Conflict:
		return &failure{exitConflict, err}
	}
	return err
}

// parseSize reads a number of bytes with KB, MB or GB behind it.
func parseSize(flag, text string) (int64, error) {
	unit, digits := int64(1), strings.TrimSpace(strings.ToUpper(text))
	for _, u := range []struct {
		name string
		size int64
	}{{"KB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}} {
		for _, end := range []string{u.name, u.name[:1]} {
			if rest, ok := strings.CutSuffix(digits, end); ok {
				unit, digits = u.size, strings.TrimSpace(rest)
			}
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, usage("%s %q: must be a number of bytes with KB, MB or GB behind it, such as 64MB", flag, text)
	}
	return n * unit, nil
}
