package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

func (a *app) dbRestoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore BACKUP",
		Short: "Put a backup in the place of the store, while no server works on it",
		Long: "Copies a backup, checks all of the copy, and puts it in the place of the store. A store that is there is moved aside\n" +
			"with its log, under a name with the time, and never removed: that needs --replace, or yes to a question on a terminal.\n" +
			"Killed anywhere, it leaves the store as it was, or the restore is finished by the next start of a server or\n" +
			"of this command. The backup stays as it is.",
		Args: exactly("BACKUP", "a file that outrider db backup made"),
	}
	bind(cmd, "db")
	output := bindOutput(cmd)
	replace := cmd.Flags().Bool("replace", false, "move a store that is there aside")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := output()
		if err != nil {
			return err
		}
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		if st, err := os.Stat(cfg.db); err == nil && st.Size() > 0 && !*replace && term.IsTerminal(a.stdin) {
			if a.agreed(fmt.Sprintf("Move %s aside, and put %s in its place?", cfg.db, args[0])) != nil {
				return usage("nothing was done; answer y, or give --replace")
			}
			*replace = true
		}
		p := a.progress()
		done, err := sqlitestore.Restore(cmd.Context(), args[0], cfg.db, sqlitestore.RestoreOptions{Replace: *replace, Progress: func(doing string, done, all int64) {
			if doing == "copy" {
				p.say("restore: %s of %s copied", megabytes(done), megabytes(all))
			} else {
				p.say("restore: checking the copy")
			}
		}})
		p.done()
		if err != nil {
			return filed(err)
		}
		if f.data() {
			return f.printValue(a.stdout, struct {
				factsJSON
				Kept string `json:"kept,omitempty"`
			}{factsOf(&done.Facts), done.Kept}, "")
		}
		if done.Kept != "" {
			fmt.Fprintf(a.stdout, "restore: what was there is kept as %s\n", done.Kept)
		}
		_, err = fmt.Fprintf(a.stdout, "restore: %s, %s, integrity ok: %s\n", jobCount(done.Jobs), megabytes(done.Bytes), done.Path)
		return err
	}
	return cmd
}
