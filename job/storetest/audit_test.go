package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// counting hears what an audit reports.
type counting struct{ n int }

func (c *counting) Helper()               {}
func (c *counting) Errorf(string, ...any) { c.n++ }

// An audit that finds nothing proves nothing unless it finds this.
func TestTheAuditHasTeeth(t *testing.T) {
	active := func(j *job.Job) {
		if err := j.Start(Now, job.Lease{Token: "t", Length: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(*job.Job){
		"a lease while available":     func(j *job.Job) { j.Lease.Token = "t" },
		"no lease while active":       func(j *job.Job) { active(j); j.Lease = job.Lease{} },
		"an end while available":      func(j *job.Job) { j.FinishedAt = Now },
		"no end while completed":      func(j *job.Job) { j.State = job.Completed },
		"retryable without a time":    func(j *job.Job) { j.State, j.DueAt = job.Retryable, Now },
		"scheduled without a clock":   func(j *job.Job) { j.State = job.Scheduled },
		"dead while available":        func(j *job.Job) { j.Dead = true },
		"available, never enqueued":   func(j *job.Job) { j.EnqueuedAt = time.Time{} },
		"one execution too many":      func(j *job.Job) { j.Attempt = j.MaxAttempts + 1 },
		"more releases than starts":   func(j *job.Job) { j.Releases = 1 },
		"started before its time":     func(j *job.Job) { active(j); j.ScheduledAt = Now.Add(time.Millisecond) },
		"started when it had expired": func(j *job.Job) { active(j); j.ExpiresAt = Now },
		"an error that is completed": func(j *job.Job) {
			j.State, j.FinishedAt, j.Error = job.Completed, Now, json.RawMessage(`{}`)
		},
	} {
		j := New(t, "q", nil)
		good, bad := &counting{}, &counting{}
		sound(good, j)
		spoil(j)
		sound(bad, j)
		if good.n != 0 || bad.n == 0 {
			t.Errorf("%s: %d reports before, %d after", name, good.n, bad.n)
		}
	}
}
