package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// elsewhere are the flags that other programs have, and what is written here: the
// nearest word would be another thing.
var elsewhere = map[string]struct{ flag, write string }{
	"--port":      {"listen", "--listen 127.0.0.1:PORT"},
	"-p":          {"listen", "--listen 127.0.0.1:PORT"},
	"--addr":      {"listen", "--listen 127.0.0.1:8080"},
	"--address":   {"listen", "--listen 127.0.0.1:8080"},
	"--bind":      {"listen", "--listen 127.0.0.1:8080"},
	"--socket":    {"listen", "--listen unix:///path"},
	"--database":  {"db", "--db FILE for the jobs; your app's own database is --outbox"},
	"--dsn":       {"outbox", "--outbox DSN"},
	"--server":    {"url", "--url http://127.0.0.1:8080"},
	"--json":      {"output", "-o json"},
	"--yaml":      {"output", "-o yaml"},
	"--format":    {"output", "-o json"},
	"--force":     {"yes", "--yes"},
	"--token":     {"token-file", "--token-file FILE, or set OJS_AUTH_TOKEN: a token on the command line is seen by every user of this machine"},
	"--verbose":   {"log-level", "--log-level debug"},
	"--debug":     {"log-level", "--log-level debug"},
	"--in-memory": {"db", "--db FILE: jobs are always on disk"},
}

// flagError turns pflag's complaint into one line that names the flag and, for
// an unknown one, the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		switch wrong.GetFlag().Value.Type() {
		case "bool":
			return usage("--%s %q: must be true or false", wrong.GetFlag().Name, wrong.GetValue())
		case "int":
			return usage("--%s %q: must be a whole number", wrong.GetFlag().Name, wrong.GetValue())
		case "duration":
			return usage("--%s %q: must be a duration such as 30s or 2m", wrong.GetFlag().Name, wrong.GetValue())
		case "intSlice", "float64Slice":
			return usage("--%s %q: must be numbers with commas between", wrong.GetFlag().Name, wrong.GetValue())
		}
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
	if o, ok := elsewhere[name]; ok && cmd.Flags().Lookup(o.flag) != nil {
		return usage("%s has no flag %s; write %s", cmd.CommandPath(), name, o.write)
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	begin := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return !strings.HasPrefix(f, name) })
	near := wording.Nearest(name, flags)
	switch short := "--" + unknown.GetSpecifiedShortnames(); {
	case slices.Contains(flags, short):
		near = short // it has one dash only
	case len(begin) == 1:
		near = begin[0] // it is but too short
	}
	if near != "" {
		return usage("%s has no flag %s; did you mean %s?", cmd.CommandPath(), name, near)
	}
	return usage("%s has no flag %s; see %s --help", cmd.CommandPath(), name, cmd.CommandPath())
}
