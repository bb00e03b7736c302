package storetest

import (
	"encoding/json"
	"strings"
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
		"active beyond its lease":     func(j *job.Job) { active(j); j.DueAt = j.Lease.Until.Add(1) },
		"active beyond its timeout":   func(j *job.Job) { active(j); j.Timeout = time.Second },
		"dead while available":        func(j *job.Job) { j.Dead = true },
		"a timer while available":     func(j *job.Job) { j.ScheduledAt, j.DueAt = Now, Now },
		"available, never enqueued":   func(j *job.Job) { j.EnqueuedAt = time.Time{} },
		"one execution too many":      func(j *job.Job) { j.Attempt = j.MaxAttempts + 1 },
		"more releases than starts":   func(j *job.Job) { j.Releases = 1 },
		"started before its time":     func(j *job.Job) { active(j); j.ScheduledAt = Now.Add(time.Millisecond) },
		"started when it had expired": func(j *job.Job) { active(j); j.ExpiresAt = Now },
		"an error without a type":     func(j *job.Job) { j.Errors = json.RawMessage(`[{"message":"m"}]`) },
		"an error without a message":  func(j *job.Job) { j.Error = json.RawMessage(`{"type":"E"}`) },
		"a member of an error twice":  func(j *job.Job) { j.Error = json.RawMessage(`{"type":"E","message":"m","x":1,"x":2}`) },
		"more errors than are kept": func(j *job.Job) {
			j.Errors = json.RawMessage(`[` + strings.Repeat(`{"type":"E","message":"m"},`, 25) + `{"type":"E","message":"m"}]`)
		},
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

func TestTheAuditOfKeysHasTeeth(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*job.Job)
		fine  bool
	}{
		"another key":                   {func(j *job.Job) { j.Args = json.RawMessage(`[2]`) }, false},
		"another key, rewritten":        {func(j *job.Job) { j.Args, j.RewrittenAt = json.RawMessage(`[2]`), Now }, true},
		"no key at all, rewritten":      {func(j *job.Job) { j.Fingerprint, j.RewrittenAt = "no key", Now }, false},
		"a key that is held by nothing": {func(j *job.Job) { j.Fingerprint = "" }, false},
		"a key of another state":        {func(j *job.Job) { j.Holds = job.SetOf(job.Active) }, false},
		"a window that is not kept":     {func(j *job.Job) { j.Keep = time.Time{} }, false},
	} {
		j := New(t, "q", func(j *job.Job) {
			j.Unique, j.Deduplication = json.RawMessage(`{"keys":["args"]}`), json.RawMessage(`{"id":"d","ttl":9}`)
		})
		good, bad := &counting{}, &counting{}
		soundKeys(good, j)
		tt.spoil(j)
		soundKeys(bad, j)
		if good.n != 0 || (bad.n == 0) != tt.fine {
			t.Errorf("%s: %d reports before, %d after", name, good.n, bad.n)
		}
	}
}
