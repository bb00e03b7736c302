package bench

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"
)

// Settings are what a run is told.
type Settings struct {
	URL         string        `json:"url,omitempty"` // of the server; empty starts a private one
	Concurrency int           `json:"concurrency"`
	Duration    time.Duration `json:"-"`                    // of each workload
	Jobs        int           `json:"jobs_limit,omitempty"` // of each workload; 0 is no limit
	Workloads   []string      `json:"workloads"`
	Payload     int           `json:"payload_bytes"`
	Baseline    bool          `json:"-"`
	Dir         string        `json:"-"` // where the private server keeps its files
	Outbox      string        `json:"-"` // it may hold a password
}

// MaxTime is how long a workload may take at most.
const MaxTime = 10 * time.Minute

// Report is all that bench has found out. Its JSON names are stable.
type Report struct {
	Version  string      `json:"version"`
	System   string      `json:"system"`
	Go       string      `json:"go"`
	CPUs     int         `json:"cpus"`
	Settings Settings    `json:"settings"`
	Seconds  float64     `json:"duration_seconds"` // of each workload, at most
	Results  []Result    `json:"results"`
	Server   *Memory     `json:"server,omitempty"`
	Compared *Comparison `json:"comparison,omitempty"`
}

// bench is one run.
type bench struct {
	cfg    Settings
	begin  func(workload string)
	stderr *locked // the servers write to it too
	target *url.URL
	dir    string
	child  *child  // the private server, or nil
	held   []claim // what the fetch workload has claimed, for the ack workload
}

// Run runs the workloads one after another. begin is called with the name of each
// before it, and stderr is where the servers write to that it starts.
func Run(ctx context.Context, cfg Settings, begin func(workload string), stderr io.Writer) (rep *Report, err error) {
	b := &bench{cfg: cfg, begin: begin, stderr: &locked{w: stderr}}
	if b.dir, err = os.MkdirTemp(cfg.Dir, "outrider-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the private server: %w", err)
	}
	defer os.RemoveAll(b.dir)
	if err := b.startServer(ctx); err != nil {
		return nil, err
	}
	defer b.child.stop()
	return b.measure(ctx)
}

func (b *bench) startServer(ctx context.Context) (err error) {
	if b.cfg.URL != "" {
		b.target, err = ParseTarget(b.cfg.URL)
		return err
	}
	if b.child, err = b.startChild(ctx, "serve", "--listen", "127.0.0.1:0", "--db", b.dir+"/bench.db"); err != nil {
		return err
	}
	b.target = b.child.url
	return nil
}

func (b *bench) measure(ctx context.Context) (rep *Report, err error) {
	rep = &Report{Settings: b.cfg, Seconds: b.cfg.Duration.Seconds(), CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	for _, w := range Workloads() {
		if !slices.Contains(b.cfg.Workloads, w.Name) {
			continue
		}
		b.begin(w.Name)
		results, err := w.run(b, ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("workload %s: %w", w.Name, err)
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
