package servicetest

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var expiring = []verdict{
	{"a job past its expiry is accepted and never given out", expiredAtFetch},
	{"a job expires wherever it waits", expiresWaiting},
	{"a running job is not killed by its expiry", expiryWhileActive},
}

// expired checks what every expiry leaves behind.
func (k *kit) expired(what string, j *job.Job) {
	k.t.Helper()
	if j.State != job.Discarded || j.Dead || j.FinishedAt.IsZero() || j.FinishedAt.Before(j.ExpiresAt.Truncate(time.Millisecond)) {
		k.t.Errorf("%s: %s", what, text(j))
	}
	k.expect(j.Error, "code", `"expired"`)
	k.expect(j.Error, "type", `"expired"`)
	k.shows(j, "completed_at", `"`+job.FormatTime(j.FinishedAt)+`"`)
	k.shows(j, "discarded_at", `"`+job.FormatTime(j.FinishedAt)+`"`)
	k.shows(j, "next_retry_at", "")
}

func expiredAtFetch(k *kit) {
	old := k.push(func(e *job.Envelope) { e.Type, e.ExpiresAt, e.Priority = "old", time.Now().Add(-time.Hour), 50 })
	k.push(func(e *job.Envelope) { e.Type, e.TTL = "young", time.Hour })
	k.order(k.fetch(job.FetchRequest{Count: 1}), "young")
	k.expired("past", k.read(old.ID))
	if j := k.read(old.ID); j.Errors != nil || j.Attempt != 0 {
		k.t.Errorf("an expiry is no failed attempt: %s", text(j))
	}
	unrun := k.push(func(e *job.Envelope) { e.Delay, e.TTL = 2*blink, blink })
	k.stands(unrun, job.Scheduled)
	k.expired("expires before it is due", k.until(unrun.ID, job.Discarded))
}

func expiresWaiting(k *kit) {
	for name, reach := range map[string]func() *job.Job{
		"available": func() *job.Job { return k.push(func(e *job.Envelope) { e.TTL = blink }) },
		"pending":   func() *job.Job { return k.push(func(e *job.Envelope) { e.TTL, e.Hold = blink, true }) },
		"scheduled": func() *job.Job { return k.push(func(e *job.Envelope) { e.TTL, e.Delay = blink, time.Hour }) },
		"retryable": func() *job.Job {
			k.push(func(e *job.Envelope) {
				e.TTL, e.Retry = 25*blink, json.RawMessage(`{"initial_interval":"PT1H","max_interval":"PT1H"}`)
			})
			return k.fail(k.take(), job.Failure{Message: "no"})
		},
	} {
		j := reach()
		k.stands(j, job.State(name))
		end := k.until(j.ID, job.Discarded)
		k.expired(name, end)
		if n := len(k.history(end)); n != j.Attempt {
			k.t.Errorf("%s: %d errors after %d attempts", name, n, j.Attempt)
		}
	}
	k.none()
}

func expiryWhileActive(k *kit) {
	j := k.push(func(e *job.Envelope) { e.TTL = 25 * blink })
	held := k.take()
	for time.Now().Before(j.ExpiresAt.Add(blink)) {
		k.pause(blink)
	}
	k.stands(k.read(j.ID), job.Active)
	k.ack(held, `1`)
}
