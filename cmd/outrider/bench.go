package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// benchConfig is what bench is told.
type benchConfig struct {
	URL         string        `json:"url,omitempty"`
	Concurrency int           `json:"concurrency"`
	Duration    time.Duration `json:"-"`
	Jobs        int           `json:"jobs_limit,omitempty"`
	Workloads   []string      `json:"workloads"`
	Payload     int           `json:"payload_bytes"`
	Baseline    bool          `json:"-"`
	output      string
	dir         string
	Outbox      string `json:"-"` // it may hold a password
}

// limits of bench's flags
const (
	maxConcurrency  = 1024
	maxBenchPayload = 512 << 10
	maxBenchTime    = 10 * time.Minute
)

func (a *app) benchCommand() *cobra.Command {
	var cfg benchConfig
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure jobs a second, latencies and memory on this machine",
		Long: "Measures a server that it starts for itself on an empty database, or with --url one that runs.\n" +
			"Jobs sent to a server of yours stay in its queues named bench-…: do not aim at one that matters.\n\n" +
			"Workloads:\n" + workloadHelp(),
		Args: noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&cfg.URL, "url", "", "server to measure; without it a private one is started")
	f.IntVar(&cfg.Concurrency, "concurrency", 64, "connections, each with one request at a time")
	f.DurationVar(&cfg.Duration, "duration", 3*time.Second, "how long each workload runs")
	f.IntVarP(&cfg.Jobs, "jobs", "n", 0, "end each workload after so many jobs instead")
	f.StringSliceVar(&cfg.Workloads, "workload", nil, "workloads to run, parted by commas (default all)")
	f.IntVar(&cfg.Payload, "payload", 300, "bytes of one job's JSON, about")
	f.BoolVar(&cfg.Baseline, "baseline", false, "also measure PUSH against a server that decodes and encodes the same and stores nothing")
	f.StringVarP(&cfg.output, "output", "o", "table", "table or json")
	f.StringVar(&cfg.Outbox, "outbox", "", "database for the workload outbox, instead of a SQLite file; its tables ojs_bench… come and go")
	f.StringVar(&cfg.dir, "dir", os.TempDir(), "where the private server keeps its files; its disk is part of what is measured")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cfg.check(); err != nil {
			return err
		}
		return a.bench(cmd.Context(), cfg)
	}
	return cmd
}

// check holds the rules of bench's flags and fills in what they leave open.
func (c *benchConfig) check() error {
	switch {
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return usage("--concurrency must be from 1 to %d", maxConcurrency)
	case c.Duration <= 0 || c.Duration > maxBenchTime:
		return usage("--duration must be more than 0 and at most %v", maxBenchTime)
	case c.Jobs < 0:
		return usage("--jobs must not be negative")
	case c.Payload < 0 || c.Payload > maxBenchPayload:
		return usage("--payload must be from 0 to %d", maxBenchPayload)
	case c.output != "table" && c.output != "json":
		return usage("-o must be table or json, got %q", c.output)
	case c.Outbox != "" && c.badOutbox() != nil:
		return usage("--outbox %w", c.badOutbox())
	case c.URL != "" && c.Baseline:
		return usage("--baseline compares with the private server; leave out --url")
	}
	if c.Jobs > 0 {
		c.Duration = maxBenchTime
	}
	return c.checkWorkloads()
}

func (c *benchConfig) badOutbox() error {
	_, err := parseDSN(c.Outbox)
	return err
}

func (c *benchConfig) checkWorkloads() error {
	var names []string
	for _, w := range workloads() {
		names = append(names, w.name)
	}
	for _, n := range c.Workloads {
		if !slices.Contains(names, n) {
			return usage("--workload has no %q; it has %s", n, strings.Join(names, ", "))
		}
	}
	for _, w := range workloads() {
		switch chosen := slices.Contains(c.Workloads, w.name); {
		case w.private && chosen && c.URL != "":
			return usage("--workload %s needs the private server; leave out --url", w.name)
		case w.private && c.URL != "":
			names = slices.DeleteFunc(names, func(n string) bool { return n == w.name })
		}
	}
	if len(c.Workloads) == 0 {
		c.Workloads = names
	}
	return nil
}

// bench is one run of the command.
type bench struct {
	cfg    benchConfig
	stdout io.Writer
	stderr *locked // the servers write to it too
	target *url.URL
	dir    string
	child  *child  // the private server, or nil
	held   []claim // what the fetch workload has claimed, for the ack workload
}

// bench runs the workloads one after another and prints the report.
func (a *app) bench(ctx context.Context, cfg benchConfig) (err error) {
	b := &bench{cfg: cfg, stdout: a.stdout, stderr: &locked{w: a.stderr}}
	if b.dir, err = os.MkdirTemp(cfg.dir, "outrider-bench-"); err != nil {
		return fmt.Errorf("make a folder for the private server: %w", err)
	}
	defer os.RemoveAll(b.dir)
	if err := b.startServer(ctx); err != nil {
		return err
	}
	defer b.child.stop()
	rep, err := b.measure(ctx)
	if err != nil {
		return err
	}
	return rep.print(b.stdout, cfg.output)
}

func (b *bench) startServer(ctx context.Context) (err error) {
	if b.cfg.URL != "" {
		b.target, err = parseTarget(b.cfg.URL)
		return err
	}
	if b.child, err = b.startChild(ctx, "serve", "--listen", "127.0.0.1:0", "--db", b.dir+"/bench.db"); err != nil {
		return err
	}
	b.target = b.child.url
	return nil
}

func (b *bench) measure(ctx context.Context) (rep *report, err error) {
	rep = &report{Settings: b.cfg, Seconds: b.cfg.Duration.Seconds(), Version: version(),
		CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	for _, w := range workloads() {
		if !slices.Contains(b.cfg.Workloads, w.name) {
			continue
		}
		if b.cfg.output == "table" {
			fmt.Fprintf(b.stderr, "%s …\n", w.name)
		}
		results, err := w.run(b, ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("workload %s: %w", w.name, err)
		}
		rep.Results = append(rep.Results, results...)
	}
	rep.Server = b.child.memory()
	if b.cfg.Baseline {
		if rep.Compared, err = b.compare(ctx); err != nil {
			return nil, fmt.Errorf("the baseline: %w", err)
		}
	}
	return rep, nil
}
