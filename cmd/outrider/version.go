package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/job"
)

// build is what a binary was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"commit_time,omitempty"`
	Modified bool   `json:"modified,omitempty"` // there were changes that no commit holds
	Go       string `json:"go"`
	System   string `json:"system"`
	Spec     string `json:"spec"`
}

func ownBuild() build {
	b := build{Version: version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Spec: job.SpecVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the build in a line.
func (b build) String() string {
	commit := ""
	if b.Commit != "" {
		commit = fmt.Sprintf("commit %.12s, ", b.Commit)
	}
	if b.Modified {
		commit = fmt.Sprintf("commit %.12s with changes, ", b.Commit)
	}
	return fmt.Sprintf("outrider %s (%sOpen Job Spec %s, %s %s)", b.Version, commit, b.Spec, b.Go, b.System)
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, its commit, and the specification it speaks",
		Args:  noArgs,
	}
	output := bindOutput(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		if format.data() {
			return format.printValue(a.stdout, ownBuild(), "")
		}
		_, err = fmt.Fprintln(a.stdout, ownBuild())
		return err
	}
	return cmd
}

// bindVersion has the program itself answer --version and -v, as people type them.
func bindVersion(root *cobra.Command, out io.Writer) {
	show := root.Flags().BoolP("version", "v", false, "print the version")
	alone := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *show && len(args) == 0 {
			_, err := fmt.Fprintln(out, ownBuild())
			return err
		}
		return alone(cmd, args)
	}
}

// version is the module version the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
