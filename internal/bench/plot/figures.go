package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/bench"
)

// figure is one file.
type figure struct {
	name string
	svg  []byte
}

// figures draws all that the reports have enough of.
func figures(reports []bench.Report) (drawn []figure) {
	var all []bench.Result
	for _, r := range reports {
		all = append(all, r.Results...)
	}
	where := machine(reports)
	lines := func(name string, c chart) {
		c.series = slices.DeleteFunc(c.series, func(s series) bool { return len(s.points) < 2 })
		if c.note = where; len(c.series) > 0 {
			drawn = append(drawn, figure{name, c.draw()})
		}
	}
	lines("rates", chart{title: "Jobs a second over callers", x: "callers: connections, or goroutines in process", y: "jobs/s", series: rates(all)})
	lines("latency", chart{title: "Latency over offered load, as far as the server keeps up", x: "offered load, jobs/s",
		y: "ms from when a request was due", series: latencies(all)})
	for _, w := range besides(all) {
		lines("beside-"+w, chart{title: w + " beside jobs that are in the store", x: "jobs beside", y: "jobs/s", series: overBeside(all, w)})
	}
	if b := bytesAJob(all); len(b) > 0 {
		drawn = append(drawn, figure{"bytes", bars{"Bytes a job in the file, after a clean stop", "bytes a job", []string{"database and log"}, b, where}.draw()})
	}
	if b := cpuAJob(all); len(b) > 0 {
		drawn = append(drawn, figure{"cpu", bars{"Processor time a job", "µs a job", []string{"server", "load generator", "both in one process"}, b, where}.draw()})
	}
	return drawn
}

// machine says where it was measured, as the first report tells.
func machine(reports []bench.Report) string {
	r := reports[0]
	parts := []string{fmt.Sprintf("%d CPUs for server and load", r.CPUs), r.Machine.CPU, r.Machine.FileSystem, r.Go,
		"outrider " + r.Version, r.Date.Format("2006-01-02")}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// collect makes lines of results: which line a result belongs to, and where on it
// its point is.
func collect(all []bench.Result, name func(bench.Result) string, at func(bench.Result) point) (lines []series) {
	for _, r := range all {
		label := name(r)
		if label == "" {
			continue
		}
		i := slices.IndexFunc(lines, func(s series) bool { return s.label == label })
		if i < 0 {
			i = len(lines)
			lines = append(lines, series{label: label})
		}
		lines[i].points = append(lines[i].points, at(r))
	}
	for _, l := range lines {
		slices.SortFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	}
	return lines
}

// plain reports whether a result is of a server with an empty store, as fast as it goes.
func plain(r bench.Result) bool { return r.Offered == 0 && r.Beside == 0 && r.Concurrency > 0 }

func rates(all []bench.Result) []series {
	return collect(all, func(r bench.Result) string {
		if plain(r) && r.PerSecond > 0 {
			return r.Workload
		}
		return ""
	}, func(r bench.Result) point { return point{float64(r.Concurrency), r.PerSecond} })
}

// latencies end where more than 1 % of the load was not sent.
func latencies(all []bench.Result) (lines []series) {
	for _, q := range []struct {
		name string
		of   func(bench.Result) float64
	}{{"p50", func(r bench.Result) float64 { return r.P50 }}, {"p99", func(r bench.Result) float64 { return r.P99 }}} {
		lines = append(lines, collect(all, func(r bench.Result) string {
			if r.Offered > 0 && r.Beside == 0 && 100*r.Unsent <= r.Samples && q.of(r) > 0 {
				return r.Workload + ", " + q.name
			}
			return ""
		}, func(r bench.Result) point { return point{r.Offered, q.of(r)} })...)
	}
	return lines
}

// besides are the workloads that were measured beside jobs.
func besides(all []bench.Result) (names []string) {
	for _, r := range all {
		if r.Beside > 0 && !slices.Contains(names, r.Workload) {
			names = append(names, r.Workload)
		}
	}
	return names
}

func overBeside(all []bench.Result, workload string) []series {
	return collect(all, func(r bench.Result) string {
		if r.Beside > 0 && r.Offered == 0 && r.Workload == workload && r.PerSecond > 0 {
			return r.BesideState
		}
		return ""
	}, func(r bench.Result) point { return point{float64(r.Beside), r.PerSecond} })
}

// bytesAJob takes of each workload the largest file, in which the empty one counts least.
func bytesAJob(all []bench.Result) []bar {
	return most(all, func(r bench.Result) bool { return r.BytesPerJob > 0 }, func(r bench.Result) int { return int(r.FileJobs) },
		func(r bench.Result) []float64 { return []float64{r.BytesPerJob} })
}

// cpuAJob takes of each workload the run with the most callers up to 64.
func cpuAJob(all []bench.Result) []bar {
	return most(all, func(r bench.Result) bool { return r.Concurrency <= 64 && r.ServerCPU+r.CPU > 0 }, func(r bench.Result) int { return r.Concurrency },
		func(r bench.Result) []float64 { return []float64{r.ServerCPU, r.ClientCPU, r.CPU} })
}

// most makes a bar of each workload, of the result that has the most of something.
func most(all []bench.Result, fits func(bench.Result) bool, much func(bench.Result) int, of func(bench.Result) []float64) (list []bar) {
	var best []bench.Result
	for _, r := range all {
		if !plain(r) || !fits(r) {
			continue
		}
		i := slices.IndexFunc(best, func(b bench.Result) bool { return b.Workload == r.Workload })
		if i < 0 {
			best = append(best, r)
		} else if much(r) > much(best[i]) {
			best[i] = r
		}
	}
	for _, r := range best {
		list = append(list, bar{r.Workload, of(r)})
	}
	return list
}
