package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// rounds are how often the servers of a comparison take turns.
const rounds = 6

// Match is one workload played on several servers in turn, so that a noisy
// neighbour meets all of them.
type Match struct {
	Workload    string  `json:"workload"`
	Concurrency int     `json:"concurrency"`
	Offered     float64 `json:"offered_per_second,omitempty"`
	What        string  `json:"what,omitempty"`
	Sides       []Side  `json:"sides"` // ours first
}

// Side is what one server did in a match: medians of its rounds.
type Side struct {
	Server    string   `json:"server"`            // "private" or a URL
	Process   *process `json:"process,omitempty"` // whose processor time it is
	Cannot    string   `json:"cannot,omitempty"`  // why it does not play; then there is nothing more
	PerSecond float64  `json:"jobs_per_second,omitempty"`
	P50       float64  `json:"p50_ms"`
	P99       float64  `json:"p99_ms"`
	ServerCPU float64  `json:"server_cpu_us_per_job,omitempty"`
	ClientCPU float64  `json:"client_cpu_us_per_job,omitempty"`
	Ratio     *Ratio   `json:"ratio,omitempty"` // not of the first
	Rounds    []Result `json:"rounds,omitempty"`

	bench *bench
}

// Ratio is how many times as fast the first side was, round by round: its rate by
// the other's, or where a rate would say nothing, the other's p50 by its own.
type Ratio struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func (b *bench) match(ctx context.Context) (m Match, err error) {
	m = Match{Workload: b.point.work.Name, Concurrency: b.point.concurrency, Offered: b.point.rate}
	first := Side{Server: cmp.Or(b.cfg.URL, "private")}
	if b.cfg.URL == "" {
		stop, err := b.startPrivate(ctx)
		if err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, stop(nil)) }()
	}
	ours := *b
	first.bench, first.Process = &ours, ours.server
	m.Sides = []Side{first}
	for _, at := range b.cfg.Compare {
		theirs := *b
		if theirs.target, err = ParseTarget(at); err != nil {
			return m, err
		}
		theirs.child, theirs.server = nil, listener(theirs.target)
		m.Sides = append(m.Sides, Side{Server: at, bench: &theirs, Process: theirs.server})
	}
	for i := range m.Sides {
		if err := m.Sides[i].rehearse(ctx); err != nil {
			return m, err
		}
	}
	if err := m.play(ctx); err != nil {
		return m, err
	}
	if ours := m.Sides[0]; ours.Cannot != "" {
		return m, fmt.Errorf("%s does not play: %s", ours.Server, ours.Cannot)
	}
	for i := range m.Sides {
		m.Sides[i].conclude(m.Sides[0].Rounds)
	}
	m.Sides[0].Ratio = nil
	return m, nil
}

// rehearse finds out whether a server can play, with a job or a few.
func (s *Side) rehearse(ctx context.Context) error {
	trial := *s.bench
	trial.cfg.Jobs, trial.point.concurrency, trial.point.rate = 1, 1, 0
	_, err := trial.only(ctx)
	if ctx.Err() != nil || errors.Is(err, ErrUnreachable) {
		return cmp.Or(ctx.Err(), err)
	}
	if err != nil {
		s.Cannot = err.Error()
	}
	return nil
}

// play plays the rounds, unless the first server cannot. One that breaks off
// plays no more.
func (m *Match) play(ctx context.Context) error {
	for r := 0; r < rounds && m.Sides[0].Cannot == ""; r++ {
		for _, i := range turns(len(m.Sides), r) {
			s := &m.Sides[i]
			if s.Cannot != "" {
				continue
			}
			one, err := s.bench.round(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				s.Cannot, s.Rounds = err.Error(), nil
				continue
			}
			s.Rounds = append(s.Rounds, one)
			m.What = one.What
		}
	}
	return nil
}

// turns is the order of n servers in a round: none always goes first.
func turns(n, round int) []int {
	order := make([]int, n)
	for k := range order {
		order[k] = (round + k) % n
	}
	return order
}

// round is one short part of a workload.
func (b *bench) round(ctx context.Context) (Result, error) {
	part := *b
	part.cfg.Duration /= rounds
	part.cfg.Jobs = (part.cfg.Jobs + rounds - 1) / rounds
	return part.only(ctx)
}

// only plays a workload that has one result.
func (b *bench) only(ctx context.Context) (Result, error) {
	rs, err := b.point.work.run(b, ctx)
	if err != nil {
		return Result{}, err
	}
	if rs[0].Jobs == 0 {
		return Result{}, errors.New("no job came back")
	}
	return rs[0], nil
}

func (s *Side) conclude(ours []Result) {
	if s.Cannot != "" {
		return
	}
	median := func(of func(Result) float64) float64 {
		var all []float64
		for _, r := range s.Rounds {
			all = append(all, of(r))
		}
		return middle(all)
	}
	s.PerSecond = median(func(r Result) float64 { return r.PerSecond })
	s.P50 = median(func(r Result) float64 { return r.P50 })
	s.P99 = median(func(r Result) float64 { return r.P99 })
	s.ServerCPU = median(func(r Result) float64 { return r.ServerCPU })
	s.ClientCPU = median(func(r Result) float64 { return r.ClientCPU })
	var ratios []float64
	for i, r := range s.Rounds {
		ratios = append(ratios, speed(ours[i])/speed(r))
	}
	s.Ratio = &Ratio{middle(ratios), slices.Min(ratios), slices.Max(ratios)}
}

// speed of a round: its rate, or where that says nothing, by its latency.
func speed(r Result) float64 {
	if r.PerSecond > 0 {
		return r.PerSecond
	}
	return 1000 / max(r.P50, 0.001) // quantile knows whole microseconds
}

// middle is the median; of two in the middle, their mean.
func middle(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
