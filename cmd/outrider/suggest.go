package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// flagError turns pflag's complaint into one line that names the flag and, for
// an unknown one, the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) && wrong.GetFlag().Value.Type() == "bool" {
		return usage("--%s %q: must be true or false", wrong.GetFlag().Name, wrong.GetValue())
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage("%s: %w", cmd.CommandPath(), err)
	}
	if words := cmd.Flags().Args(); len(words) > 0 && cmd.HasSubCommands() && cmd.HasParent() {
		return cmd.RunE(cmd, words) // the flag belongs to a command that there is not
	}
	name := "--" + unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		name = "-" + unknown.GetSpecifiedName()
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	if near := nearest(name, flags); near != "" {
		return usage("%s has no flag %s; did you mean %s?", cmd.CommandPath(), name, near)
	}
	return usage("%s has no flag %s; see %s --help", cmd.CommandPath(), name, cmd.CommandPath())
}

// nearest is the candidate that word is probably a slip of, or empty.
func nearest(word string, candidates []string) string { return wording.Nearest(word, candidates) }
