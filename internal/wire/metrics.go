package wire

import (
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// AppendMetrics appends the counters of a server (contract §3.22). Those whose name ends
// in _total begin at 0 when it starts.
func AppendMetrics(dst []byte, m job.Metrics) []byte {
	var all job.Totals
	var active, dead, busy int64
	for _, q := range m.Queues {
		all.Add(q.Totals)
		active += q.Counts[job.Active]
		dead += q.Dead
		if depth(q) > 0 {
			busy++
		}
	}
	b := rawjson.Object(dst)
	b.Int("uptime_seconds", int64(m.Uptime.Seconds()))
	totals(&b, all)
	b.Int("jobs_active", active).Int("dead_letter", dead).Int("queues_active", busy)
	b.Int("workers_active", m.Workers.Running+m.Workers.Quiet)
	float(&b, "avg_latency_ms", inMillis(m.AvgWaited))
	float(&b, "throughput_per_second", m.PerSecond.Completed)
	float(&b, "enqueued_per_second", m.PerSecond.Enqueued)
	float(&b, "failed_per_second", m.PerSecond.Failed)
	b.Object("workers").Int("running", m.Workers.Running).Int("quiet", m.Workers.Quiet).Int("stale", m.Workers.Stale).End()
	objects(&b, "queues", m.Queues, func(b *rawjson.Writer, q job.QueueMetrics) {
		b.Str("name", q.Name)
		perState(b, job.Queue{Counts: q.Counts})
		b.Int("dead_letter", q.Dead)
		totals(b, q.Totals)
	})
	return b.Time("computed_at", m.At).Close()
}

func depth(q job.QueueMetrics) int64 { return job.Queue{Counts: q.Counts}.Depth() }

func totals(b *rawjson.Writer, t job.Totals) {
	b.Int("jobs_enqueued_total", t.Enqueued).Int("jobs_completed_total", t.Completed).Int("jobs_failed_total", t.Failed)
	b.Int("jobs_discarded_total", t.Discarded).Int("backpressure_rejected_total", t.Rejected)
}

// ReadMetrics reads the counters of a server. Rates are those that the answer shows,
// which have three decimals.
func ReadMetrics(body []byte) (job.Metrics, error) {
	var r struct {
		At      time.Time `json:"computed_at"`
		Uptime  int64     `json:"uptime_seconds"`
		Waited  float64   `json:"avg_latency_ms"`
		Out     float64   `json:"throughput_per_second"`
		In      float64   `json:"enqueued_per_second"`
		Bad     float64   `json:"failed_per_second"`
		Workers struct {
			Running int64 `json:"running"`
			Quiet   int64 `json:"quiet"`
			Stale   int64 `json:"stale"`
		} `json:"workers"`
		Queues []struct {
			queueObject
			Enqueued int64 `json:"jobs_enqueued_total"`
			Done     int64 `json:"jobs_completed_total"`
			Failed   int64 `json:"jobs_failed_total"`
			Given    int64 `json:"jobs_discarded_total"`
			Rejected int64 `json:"backpressure_rejected_total"`
		} `json:"queues"`
	}
	if err := read(body, &r); err != nil {
		return job.Metrics{}, err
	}
	m := job.Metrics{At: r.At, Uptime: time.Duration(r.Uptime) * time.Second, Workers: job.WorkerCounts(r.Workers),
		AvgWaited: time.Duration(r.Waited * float64(time.Millisecond)), PerSecond: job.Rates{Enqueued: r.In, Completed: r.Out, Failed: r.Bad}}
	for _, q := range r.Queues {
		m.Queues = append(m.Queues, job.QueueMetrics{Name: q.Name, Counts: q.queue().Counts, Dead: q.queueObject.Dead,
			Totals: job.Totals{Enqueued: q.Enqueued, Completed: q.Done, Failed: q.Failed, Discarded: q.Given, Rejected: q.Rejected}})
	}
	return m, nil
}
