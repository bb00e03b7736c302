package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
)

// Settings are what a run is told. Each workload runs once for each combination
// of Concurrency, Rate and Beside that has a meaning for it.
type Settings struct {
	URL         string        `json:"url,omitempty"` // of the server; empty starts private ones
	Token       string        `json:"-"`             // that is shown to the server; empty: none
	Concurrency []int         `json:"concurrencies"`
	Rate        []float64     `json:"offered_per_second,omitempty"` // jobs; none is as many as the server takes
	Beside      []int         `json:"beside_jobs,omitempty"`        // ascending; jobs that are in the store first
	BesideState string        `json:"beside_state,omitempty"`       // what they are: see BesideStates
	Duration    time.Duration `json:"-"`                            // of each workload
	Jobs        int           `json:"jobs_limit,omitempty"`         // of each workload; 0 is no limit
	Workloads   []string      `json:"workloads"`
	Payload     int           `json:"payload_bytes"`
	Baseline    bool          `json:"baseline,omitempty"`
	Compare     []string      `json:"compare,omitempty"` // URLs of other servers
	Dir         string        `json:"dir,omitempty"`     // where the private servers keep their files
	Profile     string        `json:"profile,omitempty"` // the folder for CPU profiles
	Outbox      string        `json:"-"`                 // it may hold a password
}

// MaxTime is how long a workload may take at most.
const MaxTime = 10 * time.Minute

// Report is all that bench has found out. Its JSON names are stable.
type Report struct {
	Version  string      `json:"version"`
	Date     time.Time   `json:"date"`
	System   string      `json:"system"`
	Go       string      `json:"go"`
	CPUs     int         `json:"cpus"`
	Machine  Machine     `json:"machine"`
	Settings Told        `json:"settings"`
	Seconds  float64     `json:"duration_seconds"` // of each workload, at most
	Results  []Result    `json:"results"`
	Server   *Memory     `json:"server,omitempty"` // the most that one of them held
	Matches  []Match     `json:"compared,omitempty"`
	Compared *Comparison `json:"comparison,omitempty"`
}

// Told are the settings of a run in its report.
type Told struct {
	Settings
	First          int    `json:"concurrency"` // of the concurrencies
	OutboxDatabase string `json:"outbox_database,omitempty"`
}

// bench is one run, or a part of it against one server.
type bench struct {
	cfg    Settings
	point  point
	begin  func(workload string)
	stderr *locked // the servers write to it too
	dir    string
	beside beside

	target *url.URL
	child  *child   // a private server, or nil
	server *process // where the server's use of the machine can be seen, or nil
	held   []claim  // what was fetched, for ack
}

// point is one point of a sweep.
type point struct {
	work        Workload
	concurrency int
	rate        float64 // jobs a second; 0 is as many as the server takes
	beside      int
}

// Run runs the workloads one after another. begin is called with the name of each
// before it, and stderr is where the servers write to that it starts.
func Run(ctx context.Context, cfg Settings, begin func(workload string), stderr io.Writer) (rep *Report, err error) {
	b := &bench{cfg: cfg, begin: begin, stderr: &locked{w: stderr}}
	if b.dir, err = os.MkdirTemp(cfg.Dir, "outrider-bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for the private server: %w", err)
	}
	defer os.RemoveAll(b.dir)
	if cfg.Profile != "" {
		if err := os.MkdirAll(cfg.Profile, 0o755); err != nil {
			return nil, fmt.Errorf("make the folder of --profile: %w", err)
		}
	}
	if cfg.URL != "" {
		if b.target, err = ParseTarget(cfg.URL); err != nil {
			return nil, err
		}
		b.server = listener(b.target)
	}
	rep = &Report{Settings: Told{Settings: cfg, First: cfg.Concurrency[0]}, Seconds: cfg.Duration.Seconds(), Date: time.Now().UTC().Truncate(time.Second),
		CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Machine: thisMachine(b.dir), Results: []Result{}}
	if cfg.Outbox != "" {
		d, err := appdb.ParseDSN(cfg.Outbox)
		if err != nil {
			return nil, err
		}
		rep.Settings.OutboxDatabase = string(d.Scheme())
	}
	return rep, b.measure(ctx, rep)
}

func (b *bench) measure(ctx context.Context, rep *Report) error {
	for p := range b.points() {
		b.point = p
		b.begin(b.label())
		err := b.putBeside(ctx)
		if err == nil && len(b.cfg.Compare) > 0 {
			var m Match
			m, err = b.match(ctx)
			rep.Matches = append(rep.Matches, m)
		} else if err == nil {
			var rs []Result
			rs, err = b.one(ctx)
			rep.Results = append(rep.Results, rs...)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("workload %s: %w", b.label(), err)
		}
	}
	for _, r := range rep.Results {
		if r.Memory != nil && (rep.Server == nil || r.PeakRSS > rep.Server.PeakRSS) {
			rep.Server = r.Memory
		}
	}
	if b.cfg.Baseline {
		if err := b.baseline(ctx, rep); err != nil {
			return fmt.Errorf("the baseline: %w", err)
		}
	}
	return nil
}

// label names the point that is measured, for a person: where the workload runs
// once, that is enough.
func (b *bench) label() string {
	if max(len(b.cfg.Concurrency), len(b.cfg.Rate), len(b.cfg.Beside)) > 1 {
		return b.point.String()
	}
	return b.point.work.Name
}

// one plays the workload of a point and says of each result what it was measured under.
func (b *bench) one(ctx context.Context) (rs []Result, err error) {
	if b.cfg.URL != "" || b.point.work.Private {
		rs, err = b.point.work.run(b, ctx)
	} else {
		rs, err = b.onPrivateServer(ctx)
	}
	for i := range rs {
		r := &rs[i]
		r.Offered, r.Beside = b.point.rate, b.point.beside
		if r.Beside > 0 {
			r.BesideState = b.cfg.BesideState
		}
		if r.Memory == nil {
			r.Memory = b.server.memory()
		}
	}
	return rs, err
}

// onPrivateServer plays the workload on a server of its own, which it stops well,
// so that the file can be measured.
func (b *bench) onPrivateServer(ctx context.Context) (rs []Result, err error) {
	stop, err := b.startPrivate(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop(rs)) }()
	return b.point.work.run(b, ctx)
}

// startPrivate starts a server on a database of its own. stop ends it and writes
// into results what the server held and left.
func (b *bench) startPrivate(ctx context.Context) (stop func([]Result) error, err error) {
	db, err := b.database()
	if err != nil {
		return nil, err
	}
	if b.child, err = b.startChild(ctx, "--db", db); err != nil {
		return nil, err
	}
	b.target, b.server = b.child.url, b.child.process
	return func(rs []Result) error {
		held := b.server.memory()
		n, err := stored(ctx, b.child)
		b.child.stop()
		b.child, b.server = nil, nil
		for i := range rs {
			rs[i].Memory = held
			rs[i].weigh(db, n)
		}
		return errors.Join(err, removeDatabase(db))
	}, nil
}

// points are those of the sweep in the order in which they are measured. Where
// something has no meaning for a workload, it is measured once without it.
func (b *bench) points() func(func(point) bool) {
	return func(yield func(point) bool) {
		for i, beside := range orZero(b.cfg.Beside) {
			for _, w := range Workloads() {
				if !slices.Contains(b.cfg.Workloads, w.Name) || i > 0 && w.Alone() {
					continue
				}
				concurrency, rate := b.cfg.Concurrency, orZero(b.cfg.Rate)
				if w.Paced {
					concurrency, rate = concurrency[:1], []float64{0}
				}
				if w.Alone() {
					beside = 0
				}
				for _, c := range concurrency {
					for _, r := range rate {
						if !yield(point{w, c, r, beside}) {
							return
						}
					}
				}
			}
		}
	}
}

// orZero is a list of one zero where nothing is given.
func orZero[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

// String names the point among others.
func (p point) String() string {
	s := fmt.Sprintf("%s-%d", p.work.Name, p.concurrency)
	if p.rate > 0 {
		s += fmt.Sprintf("-at-%.0f", p.rate)
	}
	if p.beside > 0 {
		s += fmt.Sprintf("-beside-%d", p.beside)
	}
	return s
}
