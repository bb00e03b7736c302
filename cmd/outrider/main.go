// Command outrider is the job server that rides beside an app.
//
// This package holds flags, wiring and signals only: rules are in job, rows in
// sqlitestore, HTTP in sidecar/httpapi.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// The exit codes, the same for every command. README.md has a table of them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3 // what was named is not there
	exitConflict    = 4 // it is there already, in use, or in a state that forbids it
	exitUnreachable = 5
	exitTimeout     = 6
	exitStore       = 74 // the database failed under a running server: start it again
	exitDamage      = 78 // acknowledged jobs are lost from the database: starting it again does not help
	exitInterrupted = 130
)

// exitCodeHelp is the table of them that the help has.
const exitCodeHelp = `  0    done; for a server: it was told to stop, and did
  1    it failed, or a difference was found; standard error says why
  2    it was called wrongly, or not confirmed: nothing was done
  3    what was named is not there
  4    it is there already, in use, or in a state that forbids it
  5    no server, or no database of an outbox, could be reached
  6    no answer in time: whether it was done is not known
  74   the database failed under a running server: start it again
  78   acknowledged jobs are lost from the database
  130  interrupted`

func main() {
	os.Exit(run(signalled(context.Background()), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// signalled is ctx, ended by the first SIGINT or SIGTERM. The second signal
// ends the process at once, whatever it is doing: what was acknowledged is on disk.
func signalled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		say(os.Stderr, "outrider: stopped at once by a second signal\n")
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// run is the whole program: what it is given stands in its signature, and the
// answer is the exit code. The end of ctx is the request to stop.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{env: environment(environ), stdin: stdin, stdout: stdout, stderr: stderr, clock: time.Now}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	a.warnOfNearMisses()
	stdout := a.stdout
	a.look = func() term.Screen { return term.Of(stdout, a.env) }
	a.screen = a.look()
	out := &output{w: a.stdout}
	a.stdout = out
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // cobra reads os.Args instead of nil
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if a.settle != nil {
		defer a.settle()
	}
	if fault := out.fault(); fault != nil && (err == nil || err == errDiffers) {
		err = fmt.Errorf("the output could not be written: %w", fault)
	}
	if err == nil {
		return exitOK
	}
	if err != errDiffers {
		fmt.Fprintf(a.stderr, "error: %s\n", mask(err, args))
	}
	return exitCode(err)
}

// app is what every command shares.
type app struct {
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	screen         term.Screen        // what stdout is
	look           func() term.Screen // what stdout is now: a terminal may have got another size
	clock          func() time.Time   // what commands that show times take for now
	settle         func()             // waits, for a while, until what was written is read; nil where it is read already
}

// commands are the words after "outrider"; a new command is a line here.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCommand(),
		a.demoWorkerCommand(),
		a.serveCommand(),
		a.enqueueCommand(),
		a.workCommand(),
		a.workGuardCommand(),
		a.jobCommand(),
		a.queueCommand(),
		a.deadCommand(),
		a.outboxCommand(),
		a.relayCommand(),
		a.uniqueCommand(),
		a.cronCommand(),
		a.workersCommand(),
		a.dbCommand(),
		a.exportCommand(),
		a.importCommand(),
		a.workflowCommand(),
		a.eventsCommand(),
		a.topCommand(),
		a.tokenCommand(),
		a.configCommand(),
		a.doctorCommand(),
		a.benchCommand(),
		a.benchServerCommand(),
		a.baselineCommand(),
		a.completionCommand(),
		a.versionCommand(),
	}
}

// otherWords are what other programs call our commands, where the nearest word would be
// another one.
var otherWords = map[string][]string{
	"serve":   {"start", "run", "server", "up", "daemon"},
	"top":     {"status", "stats", "dash", "dashboard", "ui", "monitor", "info"},
	"job":     {"list", "show", "ls", "get", "jobs", "task", "tasks"},
	"worker":  {"ps"},
	"work":    {"consume", "process", "exec"},
	"enqueue": {"push", "add", "perform", "send", "submit", "publish"},
	"cron":    {"schedule", "schedules", "periodic"},
	"dead":    {"failed", "morgue"},
	"events":  {"log", "logs", "tail"},
	"config":  {"settings", "env"},
	"doctor":  {"health", "diagnose"},
	"db":      {"database", "migrate"},
}

// helpWidth is how many columns a help text takes at most.
const helpWidth = 80

func (a *app) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "outrider",
		Short: "A job server that runs beside your app",
		Long: "Outrider runs background jobs beside an app: a SQLite store, a relay that turns rows\n" +
			"of your own transactions into jobs, and an HTTP endpoint for workers (Open Job Spec).\n\n" +
			"A setting comes from its flag, or else from its variable, such as OUTRIDER_OUTBOX, or else from the file\n" +
			"that its _FILE variable names, such as OUTRIDER_OUTBOX_FILE=/run/secrets/dsn, or else from a file of settings: see outrider config --help.\n\n" +
			"Exit codes:\n\n" + exitCodeHelp,
	})
	bindVersion(root, a.stdout)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprint(".FlagUsagesWrapped ", helpWidth)))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		about := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short))
		fmt.Fprint(a.stdout, term.Fill(about, helpWidth), "\n", term.Fill(cmd.UsageString(), helpWidth))
	})
	root.AddCommand(a.commands()...)
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = append(cmd.SuggestFor, otherWords[cmd.Name()]...)
	}
	a.complete(root)
	return root
}

// group makes cmd a parent of others: alone it shows its help, and an unknown
// word after it is a usage mistake with a suggestion.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		near, below := "", ""
		var names []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
			if slices.Contains(c.SuggestFor, args[0]) {
				near = c.Name()
			}
			for _, sub := range c.Commands() { // outrider backup is outrider db backup
				if sub.Name() == args[0] && below == "" {
					below = c.Name() + " " + sub.Name()
				}
			}
		}
		if near = cmp.Or(near, below, wording.Nearest(args[0], names)); near != "" {
			return usage("%s has no command %q; did you mean %q?", cmd.CommandPath(), args[0], cmd.CommandPath()+" "+near)
		}
		return usage("%s has no command %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return cmd
}

// noArgs refuses words where only flags belong.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes flags only, got %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// failure is an error that asks for an exit code of its own.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is a mistake in the command line or the environment: one line, exit 2.
func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// notFound is that something which was named is not there: exit 3.
func notFound(format string, args ...any) error {
	return &failure{exitNotFound, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	var f *failure
	var damage *sqlitestore.DamageError
	switch {
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &damage):
		return exitDamage
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}
