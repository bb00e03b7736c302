package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/cronsched"
	"github.com/outrider-jobs/outrider/internal/term"
)

func (a *app) cronCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "cron",
		Short: "Manage the schedules of a server, and see when an expression fires",
	})
	cmd.AddCommand(a.cronPreviewCommand(), a.cronListCommand(), a.cronGetCommand(), a.cronApplyCommand(), a.cronDiffCommand(),
		a.cronTriggerCommand(), a.cronPauseCommand(), a.cronResumeCommand(), a.cronRemoveCommand(), a.cronHistoryCommand())
	return cmd
}

// maxPreview is how many runs are shown at most.
const maxPreview = 1000

func (a *app) cronPreviewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "preview EXPR",
		Short: "Print the next runs of an expression, and those that a clock change skips or repeats",
		Long: "Prints the next runs of a cron expression: local time, UTC, and how far off it is.\n" +
			"A run whose time does not exist on its day is marked as skipped, and counts as one of the -n. Where a time\n" +
			"comes twice, an expression with fixed hours runs the first time only. No server is asked.",
		Example: "  outrider cron preview \"30 2 * * *\" --tz Europe/Berlin\n" +
			"  outrider cron preview \"0 3 L * *\" -n 12 -o json",
	}
	f := cmd.Flags()
	zone := f.String("tz", "", "the IANA name of the time zone (default UTC, or what CRON_TZ= at the front of EXPR says)")
	n := f.IntP("number", "n", 10, fmt.Sprintf("how many runs, 1 to %d", maxPreview))
	from := f.String("from", "", "start of the preview: RFC 3339, or a date and time in the zone such as 2026-03-28T01:00 (default now)")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usage("%s takes one expression, got %d words; put it in quotes: outrider cron preview \"0 3 * * *\"", cmd.CommandPath(), len(args))
		case len(args) == 0:
			return usage("%s needs an expression in quotes, such as \"0 3 * * *\"", cmd.CommandPath())
		case *n < 1 || *n > maxPreview:
			return usage("-n must be from 1 to %d, got %d", maxPreview, *n)
		}
		format, err := output()
		if err != nil {
			return err
		}
		spec, err := cronsched.Parse(args[0], *zone)
		if err != nil {
			return badExpression(err)
		}
		start, err := startOf(*from, spec.Location())
		if err != nil {
			return err
		}
		p := &preview{spec: spec, from: start, runs: upcoming(spec, start, *n)}
		if format.data() {
			for _, w := range spec.Warnings(start) {
				fmt.Fprintf(a.stderr, "warning: %s\n", w.Message)
			}
			return p.print(a.stdout, format)
		}
		return p.table(a.stdout, *n)
	}
	return cmd
}

// badExpression is a mistake in an expression or a zone, with a mark under it.
func badExpression(err error) error {
	var f *cronsched.Fault
	if errors.As(err, &f) {
		return usage("%s", f.Report())
	}
	return err
}

// startOf reads --from. Without an offset it is a time of the zone.
func startOf(text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(form, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("--from must be a time such as 2026-03-28T01:00:00Z, 2026-03-28T01:00 or 2026-03-28, got %q", text)
}

// upcoming is the next n ticks, those that are skipped among them.
func upcoming(spec cronsched.Spec, after time.Time, n int) []cronsched.Occurrence {
	var runs []cronsched.Occurrence
	for o := range spec.Upcoming(after) {
		if runs = append(runs, o); len(runs) == n {
			break
		}
	}
	return runs
}

// preview is what is shown of an expression.
type preview struct {
	spec cronsched.Spec
	from time.Time
	runs []cronsched.Occurrence
}

func (p *preview) print(w io.Writer, format format) error {
	type run struct {
		At      string `json:"at"`
		Local   string `json:"local"`
		Skipped string `json:"skipped,omitempty"`
		Repeat  int    `json:"repeat,omitempty"`
	}
	answer := struct {
		Runs []run `json:"runs"`
	}{Runs: []run{}}
	for _, o := range p.runs {
		answer.Runs = append(answer.Runs, run{o.At.UTC().Format(time.RFC3339), o.Local(), o.Skipped, o.Repeat})
	}
	return format.printValue(w, answer, "runs")
}

func (p *preview) table(out io.Writer, asked int) error {
	fmt.Fprintf(out, "%s  in %s, after %s\n\n", strings.TrimSpace(p.spec.String()), p.spec.Zone(),
		p.from.In(p.spec.Location()).Format(wallForm))
	rows := [][]string{{"LOCAL", "UTC", "IN", ""}}
	for _, o := range p.runs {
		local, note := o.At.Format(wallForm), ""
		switch {
		case o.Skipped != "":
			local, note = o.Wall().Format("Mon 2006-01-02 15:04:05"), "skipped: this time does not exist (clock change)"
		case o.Repeat == 1 && p.spec.FixedHours():
			note = "comes twice: runs the first time only"
		case o.Repeat == 1:
			note = "comes twice: the first"
		case o.Repeat == 2:
			note = "comes twice: the second"
		}
		rows = append(rows, []string{local, o.At.UTC().Format(time.RFC3339), term.Span(o.At.Unix() - p.from.Unix()), note})
	}
	if err := table(out, rows); err != nil {
		return err
	}
	if len(p.runs) < asked {
		fmt.Fprintln(out, "\nno more runs in the next 100 years")
	}
	if warnings := p.spec.Warnings(p.from); len(warnings) > 0 {
		fmt.Fprintln(out)
		for _, w := range warnings {
			fmt.Fprintf(out, "warning: %s\n", w.Message)
		}
	}
	return nil
}
