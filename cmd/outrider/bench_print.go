package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/outrider-jobs/outrider/internal/bench"
)

// printReport writes what bench has found out, for a person.
func printReport(w io.Writer, r *bench.Report) error {
	fmt.Fprintf(w, "%s, jobs of %d bytes; outrider %s, %s, %s, %d CPUs shared with the load\n",
		cmp.Or(r.Settings.URL, "private servers"), r.Settings.Payload, r.Version, r.Go, r.System, r.CPUs)
	if err := printResults(w, r.Results); err != nil {
		return err
	}
	for _, m := range r.Matches {
		if err := printMatch(w, m); err != nil {
			return err
		}
	}
	if r.Server != nil {
		fmt.Fprintf(w, "\nserver memory: %d MB at the end, %d MB at most\n", r.Server.RSS>>20, r.Server.PeakRSS>>20)
	}
	if c := r.Compared; c != nil {
		fmt.Fprintf(w, "side by side: push %.0f/s, a server that stores nothing %.0f/s, so push reaches %.0f %% of it\n",
			c.Push.PerSecond, c.Baseline.PerSecond, 100*c.Ratio)
	}
	return nil
}

// column is one of a table of results. It is left out where no row has it, unless
// it is of every table.
type column struct {
	title string
	cell  func(bench.Result) string
	rare  bool
}

var columns = []column{
	{"workload", func(r bench.Result) string { return r.Workload }, false},
	{"callers", func(r bench.Result) string { return known(int64(r.Concurrency)) }, false},
	{"offered/s", func(r bench.Result) string { return rounded(r.Offered, 0) }, true},
	{"beside", func(r bench.Result) string { return known(int64(r.Beside)) }, true},
	{"jobs/s", func(r bench.Result) string { return rounded(r.PerSecond, 0) }, false},
	{"p50 ms", func(r bench.Result) string { return fmt.Sprintf("%.2f", r.P50) }, false},
	{"p99 ms", func(r bench.Result) string { return fmt.Sprintf("%.2f", r.P99) }, false},
	{"jobs", func(r bench.Result) string { return known(int64(r.Jobs)) }, false},
	{"not sent", func(r bench.Result) string { return known(int64(r.Unsent)) }, true},
	{"server µs", func(r bench.Result) string { return rounded(r.ServerCPU, 1) }, true},
	{"client µs", func(r bench.Result) string { return rounded(r.ClientCPU, 1) }, true},
	{"both µs", func(r bench.Result) string { return rounded(r.CPU, 1) }, true},
	{"bytes/job", func(r bench.Result) string { return rounded(r.BytesPerJob, 0) }, true},
	{"  of a", func(r bench.Result) string { return "  " + r.What }, false},
}

// printResults writes a table; the columns in µs are processor time a job.
func printResults(w io.Writer, results []bench.Result) error {
	if len(results) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var shown []column
	for _, c := range columns {
		there := !c.rare
		for _, r := range results {
			there = there || c.cell(r) != "-"
		}
		if there {
			shown = append(shown, c)
			fmt.Fprintf(t, "%s\t", c.title)
		}
	}
	fmt.Fprintln(t)
	for _, r := range results {
		for _, c := range shown {
			fmt.Fprintf(t, "%s\t", c.cell(r))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nµs: processor time a job; bytes/job: database and log after a clean stop, by the jobs in it")
	return err
}

// printMatch writes how servers did that took turns.
func printMatch(w io.Writer, m bench.Match) error {
	fmt.Fprintf(w, "\n%s, %d callers, in turn; medians of the rounds\n", m.Workload, m.Concurrency)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "server\tjobs/s\tp50 ms\tp99 ms\tserver µs\tclient µs\tours is")
	for _, s := range m.Sides {
		if s.Cannot != "" {
			fmt.Fprintf(t, "%s\tcannot play this: %s\n", s.Server, s.Cannot)
			continue
		}
		ratio := ""
		if s.Ratio != nil {
			ratio = fmt.Sprintf("%.2f times as fast (%.2f to %.2f)", s.Ratio.Median, s.Ratio.Min, s.Ratio.Max)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%s\t%s\t%s\n", s.Server, rounded(s.PerSecond, 0), s.P50, s.P99,
			rounded(s.ServerCPU, 1), rounded(s.ClientCPU, 1), ratio)
	}
	return t.Flush()
}

// known and rounded show what is not known, or says nothing, as a dash.
func known(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func rounded(x float64, digits int) string {
	if x <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, x)
}
