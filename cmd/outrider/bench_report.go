package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// report is all that bench has found out. Its JSON names are stable.
type report struct {
	Version  string      `json:"version"`
	System   string      `json:"system"`
	Go       string      `json:"go"`
	CPUs     int         `json:"cpus"`
	Settings benchConfig `json:"settings"`
	Seconds  float64     `json:"duration_seconds"` // of each workload, at most
	Results  []result    `json:"results"`
	Server   *memory     `json:"server,omitempty"`
	Compared *comparison `json:"comparison,omitempty"`
}

func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.printTable(w)
}

func (r *report) printTable(w io.Writer) error {
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
