package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/handwork"
	"github.com/outrider-jobs/outrider/job"
)

// workSecret is the variable with the secret that signs the requests of --http, or with
// _FILE behind it the file that holds it.
const workSecret = "OUTRIDER_WORK_SECRET"

// guardWord makes this program end the commands of a worker that was killed.
const guardWord = "work-guard"

// workFlags are the flags of work that are no settings.
type workFlags struct {
	exec, http, queues         []string
	concurrency                int
	grace                      time.Duration
	id, secretFile, input      string
	untilEmpty, quiet, passing bool
	showStderr, verbose        bool
}

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Work on jobs with commands of the shell, or with requests to a web server",
		Long: "Takes jobs and runs a command for each, or sends it to a URL, until SIGTERM or SIGINT. It then takes no more,\n" +
			"waits for what is under way, gives back what does not end in time, and exits with 0; a second signal ends all at once.\n\n" +
			"A command reads the args of the job as one line of JSON on standard input, and finds OJS_JOB_ID, OJS_JOB_TYPE,\n" +
			"OJS_QUEUE, OJS_ATTEMPT, OJS_MAX_ATTEMPTS, OJS_META, OJS_DEADLINE and OUTRIDER_URL in its environment.\n" +
			"Exit code 0 completes the job, and what it has printed is the result; 65 fails it for good;\n" +
			"75 and any other is tried again as the job's retry policy says.\n\n" +
			"A URL gets the job as JSON in a POST. 2xx completes the job, and the body is the result; 408, 425, 429, 5xx,\n" +
			"redirects and no answer are tried again; any other 4xx fails it for good.",
		Example: "  outrider work --exec 'email.send=./send.sh'\n" +
			"  outrider work --queue mail --exec 'email.*=./send.sh' --concurrency 4\n" +
			"  outrider work --http '*=http://127.0.0.1:9000/jobs' --secret-file secret.txt",
		Args: noArgs,
	}
	bind(cmd, "url", "token-file")
	flags := cmd.Flags()
	flags.StringArrayVar(&f.exec, "exec", nil, "run a line of the shell for each job of a type (email.send), of all types that begin so (email.*) or of all (*): `TYPE=COMMAND`; may be repeated")
	flags.StringArrayVar(&f.http, "http", nil, "send each job to a URL: `TYPE=URL`; may be repeated")
	flags.StringArrayVar(&f.queues, "queue", []string{job.DefaultQueue}, "`name` of a queue to take jobs from; may be repeated, the first comes first")
	flags.IntVar(&f.concurrency, "concurrency", 10, "how many jobs at once")
	flags.DurationVar(&f.grace, "grace", 25*time.Second, "how long a stop waits for what is under way")
	flags.StringVar(&f.id, "id", "", "name of this worker, unlike that of any other; by itself host, process and a random number")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret that signs the requests of --http ["+workSecret+" or "+workSecret+"_FILE]")
	flags.StringVar(&f.input, "input", "args", "what commands read on standard input: args, or job for all of the job, with what the steps of a workflow before it have given")
	flags.BoolVar(&f.untilEmpty, "until-empty", false, "exit with 0 when there is no job to run now; those that wait for another attempt stay")
	flags.BoolVar(&f.passing, "pass-token", false, "give commands the token of this worker, as OJS_AUTH_TOKEN")
	flags.BoolVar(&f.showStderr, "show-stderr", false, "show what commands print on standard error, with the job's id in front")
	flags.BoolVar(&f.quiet, "quiet", false, "print no line for each job")
	flags.BoolVar(&f.verbose, "verbose", false, "log what the worker does on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := f.options(cmd, a.env)
		if err != nil {
			return err
		}
		cfg, err := a.configure(cmd)
		if err != nil {
			return err
		}
		for _, m := range o.Mappings {
			if err := m.Preflight(cmd.Context()); err != nil {
				return usage("--exec: %w", err)
			}
		}
		return a.work(cmd.Context(), cfg, f, o)
	}
	return cmd
}

// options are what the flags say.
func (f *workFlags) options(cmd *cobra.Command, env map[string]string) (handwork.Options, error) {
	o := handwork.Options{Queues: f.queues, Concurrency: f.concurrency, ID: f.id, Grace: max(f.grace, time.Nanosecond), UntilEmpty: f.untilEmpty, WholeJob: f.input == "job"}
	for _, text := range f.exec {
		m, err := handwork.ParseExec(text)
		if err != nil {
			return o, usage("--exec %w", err)
		}
		o.Mappings = append(o.Mappings, m)
	}
	for _, text := range f.http {
		m, err := handwork.ParseHTTP(text)
		if err != nil {
			return o, usage("--http %w", err)
		}
		o.Mappings = append(o.Mappings, m)
	}
	if err := o.Mappings.Distinct(); err != nil {
		return o, usage("%w", err)
	}
	for _, q := range f.queues {
		if !job.ValidQueue(q) {
			return o, usage("--queue %q cannot be the name of a queue", q)
		}
	}
	switch {
	case len(o.Mappings) == 0:
		return o, usage("%s needs to know what to do with jobs, as in: %[1]s --exec 'email.send=./send.sh'", cmd.CommandPath())
	case f.input != "args" && f.input != "job":
		return o, usage("--input %q: must be args or job", f.input)
	case f.concurrency < 1 || f.concurrency > 1000:
		return o, usage("--concurrency must be from 1 to 1000, got %d", f.concurrency)
	case f.grace < 0:
		return o, usage("--grace must be a duration such as 25s or 2m, got %v", f.grace)
	}
	var err error
	o.Secret, err = f.secret(env)
	return o, err
}

// secret is what signs the requests of --http, empty for none.
func (f *workFlags) secret(env map[string]string) (job.Secret, error) {
	value, file, origin := env[workSecret], env[workSecret+"_FILE"], workSecret+"_FILE"
	switch {
	case f.secretFile != "":
		value, file, origin = "", f.secretFile, "--secret-file"
	case value != "" && file != "":
		return "", usage("%s and %[1]s_FILE are both set; unset one of them", workSecret)
	}
	if file == "" {
		return job.Secret(value), nil
	}
	value, err := readSetting(file)
	if err != nil {
		return "", usage("%s: %w", origin, err)
	}
	return job.Secret(value), nil
}

// work works until ctx ends, which is a good end.
func (a *app) work(ctx context.Context, cfg config, f workFlags, o handwork.Options) error {
	server, err := cfg.client(cfg.url)
	if err != nil {
		return err
	}
	defer server.Close()
	o.Access.URL, o.Version, o.Guard = cfg.url, version(), []string{guardWord}
	if f.passing {
		if o.Access.Token, err = cfg.ownToken(); err != nil {
			return err
		}
	}
	for name, value := range a.env {
		o.Environ = append(o.Environ, name+"="+value)
	}
	o.Screen = a.screen
	o.Log = a.aside(cfg)
	if !f.verbose {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if !f.quiet {
		o.Lines = a.stdout
	}
	if o.News = a.stderr; f.showStderr {
		o.Stderr = a.stderr
	}
	n, err := handwork.Run(ctx, server, o)
	if o.Lines != nil {
		fmt.Fprintf(o.Lines, "outrider: %d completed, %d to be tried again, %d discarded, %d given back, %d dropped\n",
			n.Completed, n.Retried, n.Discarded, n.GivenBack, n.Dropped)
	}
	return asked(err)
}

// workGuardCommand is the process that ends the commands of a worker that was killed.
func (a *app) workGuardCommand() *cobra.Command {
	cmd := &cobra.Command{Use: guardWord, Hidden: true, Args: noArgs}
	cmd.RunE = func(*cobra.Command, []string) error {
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // it ends with the worker, whoever else is told to
		return handwork.Guard(a.stdin)
	}
	return cmd
}
