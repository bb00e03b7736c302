package httpapi

import (
	"bytes"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// maxSeries is how many queues the metrics tell apart: names of queues are anybody's to
// choose, and each is several series. Further ones are counted together.
const (
	maxSeries   = 500
	otherQueues = "_other" // no queue has this name
)

// metrics shows the counters of the server (contract §3.22).
func (a *api) metrics(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	switch format := q.Get("format"); format {
	case "", "json":
	case "prometheus":
		return a.prometheus(c)
	default:
		return job.Errorf(job.Invalid, "format must be json or prometheus, got %.40q", format).With(map[string]any{"field": "format"})
	}
	m, err := a.svc.Metrics(c.Request().Context())
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendMetrics(dst, m) })
}

// prometheus shows them in the text format of Prometheus. Who accepts nothing but
// text/plain is answered with exactly that.
func (a *api) prometheus(c echo.Context) error {
	m, err := a.svc.Metrics(c.Request().Context())
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(scrape{m, a.Access}); err != nil {
		return err
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return err
		}
	}
	kind := "text/plain; version=0.0.4; charset=utf-8"
	if first(c.Request().Header, "Accept") == "text/plain" {
		kind = "text/plain"
	}
	c.Response().Header()["Content-Type"] = []string{kind}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return append(dst, text.Bytes()...) })
}

// The series of contract §3.22.
var (
	depthOf     = prometheus.NewDesc("ojs_queue_depth", "Jobs that are stored, by queue and state.", []string{"queue", "state"}, nil)
	deadOf      = prometheus.NewDesc("ojs_dead_letter_depth", "Dead letters, by queue.", []string{"queue"}, nil)
	workersOf   = prometheus.NewDesc("ojs_workers", "Workers that have registered or sent a heartbeat, by what they do.", []string{"state"}, nil)
	uptimeOf    = prometheus.NewDesc("ojs_uptime_seconds", "Seconds since the server started.", nil, nil)
	enqueuedOf  = prometheus.NewDesc("ojs_job_enqueued_total", "Jobs that were stored since the server started.", []string{"queue"}, nil)
	completedOf = prometheus.NewDesc("ojs_job_completed_total", "Jobs that were completed since the server started.", []string{"queue"}, nil)
	failedOf    = prometheus.NewDesc("ojs_job_failed_total", "Attempts that ended badly since the server started.", []string{"queue"}, nil)
	discardedOf = prometheus.NewDesc("ojs_job_discarded_total", "Jobs that were discarded since the server started.", []string{"queue"}, nil)
	rejectedOf  = prometheus.NewDesc("ojs_backpressure_rejected_total", "Jobs that were refused since the server started, because their queue was full.", []string{"queue"}, nil)
	refusedOf   = prometheus.NewDesc("ojs_auth_refused_total", "Requests that were refused since the server started, by whether they had no token, one that is not known, or one of another role.", []string{"reason"}, nil)
)

// scrape is what one request is shown.
type scrape struct {
	job.Metrics
	access *Access // nil without roles
}

// Describe is part of [prometheus.Collector].
func (s scrape) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{depthOf, deadOf, workersOf, uptimeOf, enqueuedOf, completedOf, failedOf, discardedOf, rejectedOf, refusedOf} {
		to <- d
	}
}

// Collect is part of [prometheus.Collector].
func (s scrape) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(uptimeOf, s.Uptime.Seconds())
	gauge(workersOf, float64(s.Workers.Running), "running")
	gauge(workersOf, float64(s.Workers.Quiet), "quiet")
	gauge(workersOf, float64(s.Workers.Stale), "stale")
	if s.access != nil {
		missing, wrong, role := s.access.Refused()
		for _, c := range []struct {
			reason string
			n      int64
		}{{"no_token", missing}, {"wrong_token", wrong}, {"role", role}} {
			to <- prometheus.MustNewConstMetric(refusedOf, prometheus.CounterValue, float64(c.n), c.reason)
		}
	}
	for _, q := range bounded(s.Queues) {
		for _, state := range job.States {
			gauge(depthOf, float64(q.Counts[state]), q.Name, string(state))
		}
		gauge(deadOf, float64(q.Dead), q.Name)
		for _, c := range []struct {
			desc *prometheus.Desc
			n    int64
		}{{enqueuedOf, q.Totals.Enqueued}, {completedOf, q.Totals.Completed}, {failedOf, q.Totals.Failed}, {discardedOf, q.Totals.Discarded}, {rejectedOf, q.Totals.Rejected}} {
			to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.n), q.Name)
		}
	}
}

// bounded are the queues that are told apart, and behind them all others as one.
func bounded(all []job.QueueMetrics) []job.QueueMetrics {
	if len(all) <= maxSeries {
		return all
	}
	others := job.QueueMetrics{Name: otherQueues, Counts: map[job.State]int64{}}
	for _, q := range all[maxSeries:] {
		for state, n := range q.Counts {
			others.Counts[state] += n
		}
		others.Dead += q.Dead
		others.Totals.Add(q.Totals)
	}
	return append(all[:maxSeries:maxSeries], others)
}
