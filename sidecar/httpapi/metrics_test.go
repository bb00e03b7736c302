package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// Names of queues are anybody's to choose: however many there are, a scrape has a bounded
// number of series, and loses no job of them. No name breaks the format.
func TestSeriesAreBounded(t *testing.T) {
	f := world()
	f.fakeAdmin.metrics = func(context.Context) (job.Metrics, error) {
		var m job.Metrics
		for i := range 3 * maxSeries {
			m.Queues = append(m.Queues, job.QueueMetrics{Name: fmt.Sprintf("q%d\"\n\\", i), Counts: map[job.State]int64{job.Available: 2}, Dead: 1, Totals: job.Totals{Enqueued: 3, Rejected: 1}})
		}
		return m, nil
	}
	w := serve(New(f, quiet()), "GET", "/metrics", "")
	text := w.Body.String()
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, text)
	}
	for _, line := range []string{
		fmt.Sprintf(`ojs_queue_depth{queue="_other",state="available"} %d`, 2*2*maxSeries), fmt.Sprintf(`ojs_dead_letter_depth{queue="_other"} %d`, 2*maxSeries),
		fmt.Sprintf(`ojs_job_enqueued_total{queue="_other"} %d`, 3*2*maxSeries), fmt.Sprintf(`ojs_backpressure_rejected_total{queue="_other"} %d`, 2*maxSeries),
		`ojs_job_enqueued_total{queue="q7\"\n\\"} 3`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	if n := strings.Count(text, "\nojs_job_enqueued_total{"); n != maxSeries+1 {
		t.Errorf("%d series of one counter", n)
	}
}
