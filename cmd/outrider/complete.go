package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// shells are those that completion can be had for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion " + strings.Join(shells, "|"),
		Short:     "Print the script that completes commands, flags and names in a shell",
		ValidArgs: shells,
		Long: "Prints a script that has a shell complete commands and flags, and, from the server that --url or OUTRIDER_URL\n" +
			"names, queues, types, schedules, workers, workflows and the newest jobs. A server that does not answer\n" +
			"at once is left alone.\n\n" +
			"bash, which needs the package bash-completion:\n\n" +
			"  outrider completion bash > /etc/bash_completion.d/outrider\n\n" +
			"bash, for yourself: add this to ~/.bashrc:\n\n" +
			"  source <(outrider completion bash)\n\n" +
			"zsh, once; it needs autoload -U compinit; compinit in ~/.zshrc:\n\n" +
			"  outrider completion zsh > \"${fpath[1]}/_outrider\"\n\n" +
			"fish:\n\n" +
			"  outrider completion fish > ~/.config/fish/completions/outrider.fish\n\n" +
			"PowerShell: add this to the file that $PROFILE names:\n\n" +
			"  outrider completion powershell | Out-String | Invoke-Expression",
		Example: "  outrider completion bash",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s needs one of %s", cmd.CommandPath(), strings.Join(shells, ", "))
			}
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell", "pwsh":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return usage("there is no completion for %q; there is one for %s", args[0], strings.Join(shells, ", "))
		},
	}
}

// completeTime is how long a server may take to answer, as somebody waits with a finger
// on the key.
const completeTime = 300 * time.Millisecond

// A names is what a word may be, with a description behind a tab. typed is what of it
// is there already. What a server cannot be asked for is left out without a word.
type names func(ctx context.Context, c *client.Client, typed string) []string

// completes are the words behind commands, and what they may be.
var completes = map[string]names{
	"cron get": completeCrons, "cron history": completeCrons, "cron pause": completeCrons, "cron resume": completeCrons,
	"cron rm": completeCrons, "cron trigger": completeCrons,
	"worker quiet": completeWorkers, "worker resume": completeWorkers, "worker terminate": completeWorkers,
	"workflow get": completeWorkflows(""), "workflow draw": completeWorkflows(""), "workflow cancel": completeWorkflows(job.WorkflowRunning),
	"unique release": completeJobs(),
	"enqueue":        completeTypes, "cron preview": fixed(),
	"job get": completeJobs(), "job watch": completeJobs(live...), "job history": completeJobs(), "job cancel": completeJobs(live...),
	"job activate": completeJobs(job.Pending),
	"job retry":    completeJobs(job.Discarded, job.Retryable), "job rm": completeJobs(job.Completed, job.Cancelled, job.Discarded),
	"queue get": completeQueues, "queue pause": completeQueues, "queue resume": completeQueues, "queue drain": completeQueues, "queue purge": completeQueues,
	"queue limit": completeQueues, "dead get": completeDead, "dead retry": completeDead, "dead rm": completeDead,
}

// completesFlag are the values of flags of commands that ask a server.
var completesFlag = map[string]names{
	"queue": completeQueues, "type": completeTypes, "job-type": completeTypes, "state": fixed(jobStates()...), "job": completeJobs(),
}

// completesOwn are those of flags that mean something else in one command.
var completesOwn = map[string]names{
	"events --type":       fixed(eventTypes...),
	"dead ls --by":        fixed("type", "error", "queue"),
	"top --sort":          fixed(topOrders...),
	"work --input":        fixed("args", "job"),
	"workflow ls --state": fixed(workflowStates...),
	"workflow ls --name":  completeFlowNames,
}

// eventTypes are the types of events that are frequent, and groups of them.
var eventTypes = []string{"job.*", "job.enqueued", "job.scheduled", "job.activated", "job.started", "job.progress", "job.completed", "job.failed", "job.retrying", "job.retried",
	"job.discarded", "job.cancelled", "job.expired", "queue.*", "queue.paused", "queue.resumed", "queue.draining", "worker.*", "worker.started", "worker.stopped", "worker.quiet",
	"worker.stale", "cron.*", "cron.triggered", "cron.skipped", "cron.missed", "workflow.*", "workflow.started", "workflow.step_completed", "workflow.step_failed",
	"workflow.completed", "workflow.failed", "workflow.cancelled"}

func jobStates() (all []string) {
	for _, s := range job.States {
		all = append(all, string(s))
	}
	return all
}

// complete has every command below root complete its words and flags.
func (a *app) complete(root *cobra.Command) {
	root.CompletionOptions.DisableDefaultCmd = true // ours knows which shells there are
	for _, cmd := range root.Commands() {
		a.completeCommand(cmd)
	}
}

func (a *app) completeCommand(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.completeCommand(sub)
	}
	path := strings.TrimPrefix(cmd.CommandPath(), "outrider ")
	if of := completes[path]; of != nil {
		cmd.ValidArgsFunction = a.completing(of, !strings.Contains(cmd.Use, "..."))
	} else if cmd.ValidArgs == nil && (cmd.HasSubCommands() || !strings.Contains(cmd.Use, " ")) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions // no word of ours is the name of a file
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		of := completesOwn[path+" --"+f.Name]
		if of == nil && cmd.Flags().Lookup("url") != nil {
			of = completesFlag[f.Name]
		}
		if of != nil {
			a.completeFlag(cmd, f.Name, of)
		}
	})
	if cmd.Flags().Lookup("output") != nil {
		a.completeFlag(cmd, "output", fixed(string(asTable), string(asJSON), string(asNDJSON), string(asYAML)))
	}
}

// completeFlag is for flags that are there and are given but once.
func (a *app) completeFlag(cmd *cobra.Command, flag string, of names) {
	if err := cmd.RegisterFlagCompletionFunc(flag, a.completing(of, false)); err != nil {
		panic("completion of " + cmd.CommandPath() + " --" + flag + ": " + err.Error()) // it is wired twice
	}
}

// completing asks for names for a bounded time, and says nothing where that fails. Of a
// list with commas the last word is completed. Where there is but one word a second one
// gets nothing.
func (a *app) completing(of names, single bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const end = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if single && len(args) > 0 {
			return nil, end
		}
		var c *client.Client
		if cfg, err := a.configure(cmd); err == nil && cmd.Flags().Lookup("url") != nil {
			c, _ = cfg.client(cfg.url) // without one there are no names
		}
		ctx, cancel := context.WithTimeout(cmp.Or(cmd.Context(), context.Background()), completeTime)
		defer cancel()
		before := typed[:strings.LastIndex(typed, ",")+1]
		typed = typed[len(before):]
		var all []cobra.Completion
		for _, name := range of(ctx, c, typed) {
			if strings.HasPrefix(name, typed) {
				all = append(all, before+name)
			}
		}
		return all, end
	}
}
