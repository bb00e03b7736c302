package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// Who asks often how the server is finds one line in the log when it is no longer
// well, and one when it is again; none where the log has it already. One that is
// only slow serves.
func TestUnhealthyIsToldOnce(t *testing.T) {
	for _, told := range []bool{false, true} {
		o, log := logged()
		f := world()
		var h job.Health
		f.health = func(context.Context) (job.Health, error) { return h, nil }
		handler := New(f, o)
		ask := func(times, want int, status string) {
			t.Helper()
			for range times {
				if w := serve(handler, "GET", "/ojs/v1/health", ""); w.Code != want || !strings.Contains(w.Body.String(), `"status":"`+status+`"`) {
					t.Errorf("got %d %s, want %d %s", w.Code, w.Body, want, status)
				}
			}
		}
		ask(1, 503, "unhealthy")
		log.Reset()
		h = job.Health{OK: true}
		ask(3, 200, "ok")
		h = job.Health{Problem: "no room", Logged: told}
		ask(5, 503, "unhealthy")
		h = job.Health{OK: true, Degraded: true, Problem: "slow", Logged: true}
		ask(2, 200, "degraded")
		want := map[bool][2]int{false: {1, 2}, true: {0, 1}}[told]
		if w, i := strings.Count(log.String(), `"level":"WARN"`), strings.Count(log.String(), "healthy again"); w != want[0] || i != want[1] {
			t.Errorf("told %v: %d warnings, %d ends, want %v:\n%s", told, w, i, want, log)
		}
	}
}
