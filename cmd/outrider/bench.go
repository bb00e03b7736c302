package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
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
)

func (a *app) benchCommand() *cobra.Command {
	var cfg benchConfig
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure jobs a second, latencies and memory on this machine",
		Long: "Measures a server that it starts for itself on an empty database, or with --url one that runs.\n" +
			"Jobs sent to a server of yours stay in its queues named bench-…: do not use one that matters.\n\n" +
			"Workloads:\n" + workloadHelp(),
		Args: noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&cfg.URL, "url", "", "server to measure; without it a private one is started")
	f.IntVar(&cfg.Concurrency, "concurrency", 64, "connections, each with one request at a time")
	f.DurationVar(&cfg.Duration, "duration", 3*time.Second, "how long each workload runs")
	f.IntVarP(&cfg.Jobs, "jobs", "n", 0, "end each workload after this many jobs instead")
	f.StringSliceVar(&cfg.Workloads, "workload", nil, "workloads to run, separated by commas (default all)")
	f.IntVar(&cfg.Payload, "payload", 300, "approximate size of one job's JSON in bytes")
	f.BoolVar(&cfg.Baseline, "baseline", false, "also measure PUSH against a server that decodes and encodes the same and stores nothing")
	output := bindOutput(cmd)
	f.StringVar(&cfg.Outbox, "outbox", "", "database for the workload outbox, instead of a SQLite file; tables ojs_bench… are created and dropped")
	f.StringVar(&cfg.Dir, "dir", os.TempDir(), "where the private server keeps its files; its disk is part of what is measured")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asJSON, err := output()
		if err == nil {
			err = cfg.check()
		}
		if err != nil {
			return err
		}
		return a.bench(cmd.Context(), cfg, asJSON)
	}
	return cmd
}

// check holds the rules of bench's flags and fills in what they leave open.
func (c *benchConfig) check() error {
	_, badOutbox := appdb.ParseDSN(c.Outbox)
	_, badURL := bench.ParseTarget(c.URL)
	switch {
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
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
	}
	if c.Jobs > 0 {
		c.Duration = bench.MaxTime
	}
	return c.checkWorkloads()
}

func (c *benchConfig) checkWorkloads() error {
	var names []string
	for _, w := range bench.Workloads() {
		names = append(names, w.Name)
	}
	for _, n := range c.Workloads {
		if !slices.Contains(names, n) {
			return usage("--workload has no %q; it has %s", n, strings.Join(names, ", "))
		}
	}
	for _, w := range bench.Workloads() {
		switch chosen := slices.Contains(c.Workloads, w.Name); {
		case w.Private && chosen && c.URL != "":
			return usage("--workload %s needs the private server; leave out --url", w.Name)
		case w.Private && c.URL != "":
			names = slices.DeleteFunc(names, func(n string) bool { return n == w.Name })
		}
	}
	if len(c.Workloads) == 0 {
		c.Workloads = names
	}
	return nil
}

// bench runs the workloads and prints the report.
func (a *app) bench(ctx context.Context, cfg benchConfig, asJSON bool) error {
	rep, err := bench.Run(ctx, cfg.Settings, func(workload string) {
		if !asJSON {
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
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(rep)
	}
	return printReport(a.stdout, rep)
}

// baselineCommand serves what bench --baseline compares with. It is for bench only, so it is hidden.
func (a *app) baselineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "bench-baseline",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.ServeBaseline(cmd.Context(), a.stdout, a.stderr)
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

// printReport writes what bench has found out, for a person.
func printReport(w io.Writer, r *bench.Report) error {
	server := "private server"
	if r.Settings.URL != "" {
		server = r.Settings.URL
	}
	fmt.Fprintf(w, "%s, %d connections, jobs of %d bytes; outrider %s, %s, %s, %d CPUs shared with the load\n\n",
		server, r.Settings.Concurrency, r.Settings.Payload, r.Version, r.Go, r.System, r.CPUs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tjobs/s\tp50 ms\tp99 ms\tjobs\t  of a\t")
	for _, row := range r.Results {
		rate := "-"
		if row.PerSecond > 0 {
			rate = fmt.Sprintf("%.0f", row.PerSecond)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%d\t  %s\t\n", row.Workload, rate, row.P50, row.P99, row.Jobs, row.What)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Server != nil {
		fmt.Fprintf(w, "\nserver memory: %d MB now, %d MB at most\n", r.Server.RSS>>20, r.Server.PeakRSS>>20)
	}
	if c := r.Compared; c != nil {
		fmt.Fprintf(w, "side by side: push %.0f/s, a server that stores nothing %.0f/s, so push reaches %.0f %% of it\n",
			c.Push.PerSecond, c.Baseline.PerSecond, 100*c.Ratio)
	}
	return nil
}
