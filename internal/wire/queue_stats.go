package wire

import (
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What travels about the statistics of queues (contract §3.13, §3.23).

// rounded is a number of milliseconds with at most three decimals.
func rounded(ms float64) float64 { return math.Round(ms*1000) / 1000 }

func float(b *rawjson.Writer, name string, f float64) {
	b.Raw(name, strconv.AppendFloat(nil, rounded(f), 'f', -1, 64))
}

func inMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measured appends what happened in the last hour (contract §3.13).
func measured(b *rawjson.Writer, s job.QueueStats) {
	b.Int("completed_last_hour", s.Completed).Int("failed_last_hour", s.Failed).Int("enqueued_last_hour", s.Enqueued)
	float(b, "avg_duration_ms", inMillis(s.AvgTook))
	float(b, "avg_wait_ms", inMillis(s.AvgWaited))
	float(b, "throughput_per_second", s.PerSecond.Completed)
	b.Int("started_last_hour", s.Started).Int("timed_last_hour", s.Timed)
	b.Int("duration_ms_last_hour", s.Took.Milliseconds()).Int("wait_ms_last_hour", s.Waited.Milliseconds())
	float(b, "enqueued_per_second", s.PerSecond.Enqueued)
	float(b, "failed_per_second", s.PerSecond.Failed)
}

// measures are what measured writes.
type measures struct {
	Completed int64   `json:"completed_last_hour"`
	Failed    int64   `json:"failed_last_hour"`
	Enqueued  int64   `json:"enqueued_last_hour"`
	Started   int64   `json:"started_last_hour"`
	Timed     int64   `json:"timed_last_hour"`
	Took      int64   `json:"duration_ms_last_hour"`
	Waited    int64   `json:"wait_ms_last_hour"`
	PerSecond float64 `json:"throughput_per_second"`
	In        float64 `json:"enqueued_per_second"`
	Bad       float64 `json:"failed_per_second"`
}

func (m measures) stats() (s job.QueueStats) {
	s.Tally = job.Tally{Enqueued: m.Enqueued, Started: m.Started, Completed: m.Completed, Failed: m.Failed, Timed: m.Timed,
		Took: time.Duration(m.Took) * time.Millisecond, Waited: time.Duration(m.Waited) * time.Millisecond}
	s.Averages()
	s.PerSecond = job.Rates{Enqueued: m.In, Completed: m.PerSecond, Failed: m.Bad}
	return s
}

// AppendSlots appends a history of statistics (contract §3.23). A percentile is null:
// only sums are kept.
func AppendSlots(dst []byte, period string, slots []job.Slot) []byte {
	b := rawjson.Object(dst)
	b.Str("period", period)
	average := func(s job.Slot) []byte {
		if s.Started == 0 {
			return []byte("null")
		}
		return strconv.AppendFloat(nil, rounded(inMillis(s.Waited)/float64(s.Started)), 'f', -1, 64)
	}
	objects(&b, "data", slots, func(b *rawjson.Writer, s job.Slot) {
		b.Time("timestamp", s.Start).Int("processed", s.Completed+s.Failed).Int("failed", s.Failed).Int("enqueued", s.Enqueued)
		b.Raw("latency_p50_ms", []byte("null")).Raw("latency_p99_ms", []byte("null"))
		b.Raw("latency_avg_ms", average(s))
	})
	objects(&b, "data_points", slots, func(b *rawjson.Writer, s job.Slot) {
		b.Time("timestamp", s.Start).Int("enqueued", s.Enqueued).Int("started", s.Started).Int("completed", s.Completed).Int("failed", s.Failed).
			Int("timed", s.Timed).Int("duration_ms", s.Took.Milliseconds()).Int("wait_ms", s.Waited.Milliseconds())
		b.Raw("avg_latency_ms", average(s))
	})
	return b.Close()
}

// ReadSlots reads a history of statistics.
func ReadSlots(body []byte) (slots []job.Slot, err error) {
	var r struct {
		Points []struct {
			Start     time.Time `json:"timestamp"`
			Enqueued  int64     `json:"enqueued"`
			Started   int64     `json:"started"`
			Completed int64     `json:"completed"`
			Failed    int64     `json:"failed"`
			Timed     int64     `json:"timed"`
			Took      int64     `json:"duration_ms"`
			Waited    int64     `json:"wait_ms"`
		} `json:"data_points"`
	}
	err = read(body, &r)
	for _, p := range r.Points {
		slots = append(slots, job.Slot{Start: p.Start, Tally: job.Tally{Enqueued: p.Enqueued, Started: p.Started, Completed: p.Completed, Failed: p.Failed,
			Timed: p.Timed, Took: time.Duration(p.Took) * time.Millisecond, Waited: time.Duration(p.Waited) * time.Millisecond}})
	}
	return slots, err
}

// StatsHistory is a history of statistics that is asked for.
type StatsHistory struct {
	Queue  string
	Since  time.Time
	Until  time.Time // zero: now
	Period string
	Step   time.Duration // of one point
}

// periods are the lengths of a history, and of one of its points.
var periods = map[string][2]time.Duration{
	"1h": {time.Hour, time.Minute}, "6h": {6 * time.Hour, 5 * time.Minute}, "24h": {24 * time.Hour, 15 * time.Minute}, "1d": {24 * time.Hour, 15 * time.Minute},
	"7d": {7 * 24 * time.Hour, time.Hour},
}

// DecodeStatsHistory reads the query of GET /ojs/v1/admin/stats/history.
func DecodeStatsHistory(q url.Values, now time.Time) (h StatsHistory, err error) {
	if err := only(q, "period", "since", "until", "queue"); err != nil {
		return h, err
	}
	h = StatsHistory{Queue: q.Get("queue"), Period: q.Get("period"), Step: time.Minute}
	if h.Since, h.Until, err = window(q); err != nil {
		return h, err
	}
	if h.Period == "" && h.Since.IsZero() {
		h.Period = "1h"
	}
	if h.Period != "" {
		p, ok := periods[h.Period]
		if !ok {
			return h, refuse("period", "must be 1h, 6h, 24h or 7d; since and until choose any other part of the last 7 days")
		}
		if h.Step = p[1]; h.Since.IsZero() {
			h.Since = job.SlotOf(now).Add(job.SlotLength - p[0])
		}
	}
	return h, nil
}

// StatsHistoryQuery is the query of GET /ojs/v1/admin/stats/history.
func StatsHistoryQuery(queue string, from time.Time) url.Values {
	return query(map[string]string{"queue": queue, "since": timeText(from)})
}

// Points are the slots of a history, added up to its points.
func (h StatsHistory) Points(slots []job.Slot) []job.Slot {
	slots = slices.DeleteFunc(slots, func(s job.Slot) bool { return !h.Until.IsZero() && !s.Start.Before(h.Until) })
	return job.Merge(slots, h.Step)
}

// AppendAdminQueues appends the list of queues for an administrator (contract §3.23).
func AppendAdminQueues(dst []byte, rs []job.QueueReport, p Paging) []byte {
	rs, l := byName(rs, p, func(r job.QueueReport) string { return r.Name })
	b := rawjson.Object(dst)
	objects(&b, "items", rs, adminQueue)
	pages(&b, p, l)
	return b.Close()
}

func adminQueue(b *rawjson.Writer, r job.QueueReport) {
	b.Str("name", r.Name).Str("state", status(r.Queue)).Str("status", status(r.Queue)).Bool("paused", r.Paused)
	b.Object("counts")
	perState(b, r.Queue)
	b.End().Int("depth", r.Depth()).Int("dead_letter", r.Dead)
	float(b, "throughput", r.Stats.PerSecond.Completed)
	b.Object("latency_ms") // percentiles are not known: only sums are kept
	float(b, "avg", inMillis(r.Stats.AvgWaited))
	for _, name := range []string{"p50", "p95", "p99"} {
		b.Raw(name, []byte("null"))
	}
	b.End()
	if !r.CreatedAt.IsZero() {
		b.Time("created_at", r.CreatedAt)
	}
	since(b, r.Queue)
}

// AppendAdminQueue appends one queue for an administrator.
func AppendAdminQueue(dst []byte, r job.QueueReport, c job.QueueConfig) []byte {
	b := rawjson.Object(dst)
	adminQueue(&b, r)
	raw := c.Raw
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	b.Raw("configuration", raw)
	if !r.Oldest.IsZero() {
		b.Time("oldest_available_at", r.Oldest)
	}
	b.Object("stats")
	measured(&b, r.Stats)
	return b.End().Time("computed_at", r.At).Close()
}

// Overview is what an administrator is told of all queues, or of one.
type Overview struct {
	job.QueueReport
	Queues  []job.Queue
	Workers []job.WorkerInfo
	Held    job.Maintenance
	Uptime  time.Duration
}

// AppendOverview appends an overview (contract §3.23).
func AppendOverview(dst []byte, o Overview) []byte {
	b := rawjson.Object(dst)
	b.Int("queues", int64(len(o.Queues))).Int("workers", int64(len(o.Workers)))
	b.Object("jobs")
	perState(&b, o.Queue)
	b.End().Int("dead_letter", o.Dead).Object("throughput")
	rate := o.Stats.PerSecond
	for _, r := range []struct {
		name string
		per  float64
	}{{"processed_per_minute", rate.Completed + rate.Failed}, {"failed_per_minute", rate.Failed}, {"enqueued_per_min", rate.Enqueued},
		{"completed_per_min", rate.Completed}, {"failed_per_min", rate.Failed}} {
		float(&b, r.name, r.per*60)
	}
	float(&b, "avg_latency_ms", inMillis(o.Stats.AvgWaited))
	b.End()
	paused := int64(0)
	for _, q := range o.Queues {
		if q.Paused {
			paused++
		}
	}
	b.Object("queue_summary").Int("total", int64(len(o.Queues))).Int("active", int64(len(o.Queues))-paused).Int("paused", paused).End()
	var running, quiet, stale int64
	for _, w := range o.Workers {
		switch {
		case w.Stale:
			stale++
		case w.Directive == job.Quiet || w.State == job.Quiet:
			quiet++
		default:
			running++
		}
	}
	b.Object("worker_summary").Int("total", int64(len(o.Workers))).Int("running", running).Int("quiet", quiet).Int("stale", stale).End()
	b.Object("last_hour")
	measured(&b, o.Stats)
	inMaintenance(b.End(), o.Held)
	return b.Int("uptime_seconds", int64(o.Uptime.Seconds())).Time("computed_at", o.At).Close()
}

// ReadOverview reads the counters of all queues together, or of one.
func ReadOverview(body []byte) (r job.QueueReport, err error) {
	var v struct {
		Jobs queueObject `json:"jobs"`
		Dead int64       `json:"dead_letter"`
		At   time.Time   `json:"computed_at"`
		Hour measures    `json:"last_hour"`
	}
	err = read(body, &v)
	r = job.QueueReport{Queue: v.Jobs.queue(), At: v.At, Stats: v.Hour.stats()}
	r.Queue.Dead = v.Dead
	return r, err
}

// ReadQueueStats reads the counters of a queue and what happened in the last hour.
// Rates are those that the answer shows, which have three decimals.
func ReadQueueStats(body []byte) (r job.QueueReport, err error) {
	var v struct {
		Name     string    `json:"name"`
		Status   string    `json:"status"`
		At       time.Time `json:"computed_at"`
		Counters struct {
			queueObject
			measures
			Completed int64     `json:"completed"`
			Dead      int64     `json:"dead"`
			Bound     int64     `json:"max_depth"`
			Oldest    time.Time `json:"oldest_available_at"`
		} `json:"stats"`
	}
	if err := read(body, &v); err != nil {
		return r, err
	}
	c := v.Counters
	c.queueObject.Completed = c.Completed
	r = job.QueueReport{Queue: c.queue(), Bound: c.Bound, Oldest: c.Oldest, At: v.At, Stats: c.stats()}
	r.Name, r.Queue.Dead = v.Name, c.Dead
	r.Paused, r.Draining = v.Status == job.QueuePaused, v.Status == job.QueueDraining
	return r, nil
}
