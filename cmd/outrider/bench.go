package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/bench"
)

// benchConfig is what bench is told.
type benchConfig struct{ bench.Settings }

// limits of bench's flags
const (
	maxConcurrency  = 1024
	maxBenchPayload = 512 << 10
	maxRate         = 1e6
	maxBeside       = 10_000_000
)

func (a *app) benchCommand() *cobra.Command {
	var cfg benchConfig
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure jobs a second, latencies, processor time and memory on this machine",
		Long: "Measures servers that it starts for itself, each on a database of its own, or with --url one that runs.\n" +
			"Jobs sent to a server of yours stay in its queues named bench-…: do not use one that matters.\n\n" +
			"Where --concurrency, --rate or --beside has several values, each workload runs for each of them.\n" +
			"Processor time and memory of a server are shown on Linux.\n\n" +
			"Workloads:\n" + workloadHelp(),
		Args: noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&cfg.URL, "url", "", "server to measure; without it private ones are started")
	bind(cmd, "token-file")
	f.StringArrayVar(&cfg.Compare, "compare", nil, "URL of another OJS server, to be measured in turn with ours; may be repeated")
	f.IntSliceVar(&cfg.Concurrency, "concurrency", []int{64}, "connections, each with one request at a time")
	f.Float64SliceVar(&cfg.Rate, "rate", nil, "jobs a second that are sent, whatever becomes of them; latencies are then from when each was due")
	f.IntSliceVar(&cfg.Beside, "beside", nil, "jobs that are put into the store first")
	f.StringVar(&cfg.BesideState, "beside-state", "waiting", "what they are: "+strings.Join(bench.BesideStates(), ", ")+" (waiting with a unique key)")
	f.DurationVar(&cfg.Duration, "duration", 3*time.Second, "how long each workload runs")
	f.IntVarP(&cfg.Jobs, "jobs", "n", 0, "end each workload after this many jobs instead")
	f.StringSliceVar(&cfg.Workloads, "workload", nil, "workloads to run, separated by commas (default all that the other flags allow)")
	f.IntVar(&cfg.Payload, "payload", 300, "approximate size of one job's JSON in bytes")
	f.BoolVar(&cfg.Baseline, "baseline", false, "also measure PUSH against a server that decodes and encodes the same and stores nothing")
	output := bindOutput(cmd)
	f.StringVar(&cfg.Outbox, "outbox", "", "database for the workload outbox, instead of a SQLite file; tables ojs_bench… are created and dropped")
	f.StringVar(&cfg.Dir, "dir", os.TempDir(), "where the private servers keep their files; its disk is part of what is measured")
	f.StringVar(&cfg.Profile, "profile", "", "folder for CPU profiles of the private servers, one for each workload")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format, err := output()
		if err == nil && cmd.Flags().Changed("beside-state") && len(cfg.Beside) == 0 {
			err = usage("--beside-state says what the jobs of --beside are; give --beside, too")
		}
		if err == nil {
			err = cfg.check()
		}
		if err == nil && cfg.URL != "" {
			cfg.Token, err = a.ownToken(cmd)
		}
		if err != nil {
			return err
		}
		return a.bench(cmd.Context(), cfg, format)
	}
	return cmd
}

// check holds the rules of bench's flags and fills in what they leave open.
func (c *benchConfig) check() error {
	_, badOutbox := appdb.ParseDSN(c.Outbox)
	_, badURL := bench.ParseTarget(c.URL)
	switch {
	case len(c.Concurrency) == 0 || slices.Min(c.Concurrency) < 1 || slices.Max(c.Concurrency) > maxConcurrency:
		return usage("--concurrency must be from 1 to %d", maxConcurrency)
	case c.Duration <= 0 || c.Duration > bench.MaxTime:
		return usage("--duration must be more than 0 and at most %v", bench.MaxTime)
	case c.Jobs < 0:
		return usage("--jobs must not be negative")
	case c.Payload < 0 || c.Payload > maxBenchPayload:
		return usage("--payload must be from 0 to %d", maxBenchPayload)
	case c.Outbox != "" && badOutbox != nil:
		return usage("--outbox %w", badOutbox)
	case c.URL != "" && badURL != nil:
		return usage("--url %w", badURL)
	case c.URL != "" && c.Baseline:
		return usage("--baseline compares with the private server; leave out --url")
	case c.URL != "" && c.Profile != "":
		return usage("--profile is of the private servers; leave out --url")
	}
	if err := c.checkSweep(); err != nil {
		return err
	}
	if err := c.checkCompare(); err != nil {
		return err
	}
	if c.Jobs > 0 {
		c.Duration = bench.MaxTime
	}
	return c.checkWorkloads()
}

// checkSweep holds the rules of what a store holds first and of offered loads.
func (c *benchConfig) checkSweep() error {
	for _, r := range c.Rate {
		if !(r >= 1 && r <= maxRate) {
			return usage("--rate must be from 1 to %.0f jobs a second, got %v", float64(maxRate), r)
		}
	}
	for i, n := range c.Beside {
		if n < 1 || n > maxBeside {
			return usage("--beside must be from 1 to %d jobs, got %d", maxBeside, n)
		}
		if i > 0 && n <= c.Beside[i-1] {
			return usage("--beside must ascend, as the store is filled up from one value to the next; got %d after %d", n, c.Beside[i-1])
		}
	}
	if !slices.Contains(bench.BesideStates(), c.BesideState) {
		return usage("--beside-state has no %q; it has %s", c.BesideState, strings.Join(bench.BesideStates(), ", "))
	}
	if len(c.Beside) == 0 {
		c.BesideState = ""
	}
	return nil
}

// checkCompare holds the rules of a comparison, in which every server has the same to do.
func (c *benchConfig) checkCompare() error {
	for _, at := range c.Compare {
		if _, err := bench.ParseTarget(at); err != nil {
			return usage("--compare %w", err)
		}
	}
	switch {
	case len(c.Compare) == 0:
		return nil
	case c.Baseline:
		return usage("--baseline is a comparison of its own; leave out --compare, or --baseline")
	case len(c.Beside) > 0:
		return usage("--beside fills our server only, so the other would be measured without; leave out --compare, or --beside")
	case c.Profile != "":
		return usage("--profile is of one server that runs alone; leave out --compare, or --profile")
	}
	return nil
}

// checkWorkloads holds the rules of which workload goes with which flags.
func (c *benchConfig) checkWorkloads() error {
	var names, all []string
	for _, w := range bench.Workloads() {
		names = append(names, w.Name)
	}
	for _, n := range c.Workloads {
		if !slices.Contains(names, n) {
			return usage("--workload has no %q; it has %s", n, strings.Join(names, ", "))
		}
	}
	for _, w := range bench.Workloads() {
		err := c.allows(w)
		if err != nil && slices.Contains(c.Workloads, w.Name) {
			return err
		}
		if err == nil && (w.Portable || len(c.Compare) == 0) {
			all = append(all, w.Name)
		}
	}
	if len(c.Workloads) == 0 {
		c.Workloads = all
	}
	return nil
}

// allows says why a workload does not go with the other flags.
func (c *benchConfig) allows(w bench.Workload) error {
	switch {
	case w.Private && c.URL != "":
		return usage("--workload %s needs the private server; leave out --url", w.Name)
	case w.Private && len(c.Compare) > 0:
		return usage("--workload %s needs the private server, which has no other to compare with; leave out --compare", w.Name)
	case w.Paced && len(c.Rate) > 0:
		return usage("--workload %s has a pace of its own; leave out --rate", w.Name)
	case w.Alone() && len(c.Beside) > 0:
		return usage("--workload %s has a store of its own, with nothing beside it; leave out --beside", w.Name)
	}
	return nil
}

// bench runs the workloads and prints the report.
func (a *app) bench(ctx context.Context, cfg benchConfig, format format) error {
	rep, err := bench.Run(ctx, cfg.Settings, func(workload string) {
		if !format.data() {
			fmt.Fprintf(a.stderr, "%s …\n", workload)
		}
	}, a.stderr)
	if errors.Is(err, bench.ErrUnreachable) {
		return &failure{exitUnreachable, err}
	}
	if err != nil {
		return err
	}
	rep.Version = version()
	if format.data() {
		return format.printValue(a.stdout, rep, "results")
	}
	return printReport(a.stdout, rep)
}

// benchServerCommand is serve for bench, which starts it: it ends with standard
// input, and is told there to write a profile. So it is hidden.
func (a *app) benchServerCommand() *cobra.Command {
	cmd := a.serveCommand()
	serve := cmd.RunE
	cmd.Use, cmd.Hidden = bench.ServerCommand, true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return bench.Attended(cmd.Context(), a.stdin, a.stderr, func(ctx context.Context) error {
			cmd.SetContext(ctx)
			return serve(cmd, args)
		})
	}
	return cmd
}

// baselineCommand serves what bench --baseline compares with. It is for bench only, so it is hidden.
func (a *app) baselineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.BaselineCommand,
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Attended(cmd.Context(), a.stdin, a.stderr, func(ctx context.Context) error {
				return bench.ServeBaseline(ctx, a.stdout, a.stderr)
			})
		},
	}
}

func workloadHelp() string {
	var b strings.Builder
	for _, w := range bench.Workloads() {
		fmt.Fprintf(&b, "  %-10s %s\n", w.Name, w.Help)
	}
	return strings.TrimRight(b.String(), "\n")
}
