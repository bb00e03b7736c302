package job

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// The verbs. Each either does everything the specification lists for its
// transition or returns an error and changes nothing. None may be called by two
// goroutines at once on the same Job.

// push is the first verb: see [Checked.Push].
func (j *Job) push(now time.Time) error {
	if j.State != None {
		return j.refuse(onPush)
	}
	now = now.Truncate(time.Millisecond)
	j.wholeMillis()
	if j.Delay > 0 {
		j.ScheduledAt = now.Add(j.Delay)
	}
	if j.TTL > 0 {
		j.ExpiresAt = now.Add(j.TTL)
	}
	j.CreatedAt = now
	j.takeKeys(now)
	j.takeLane()
	j.Tenant = tenantOf(j.Meta)
	switch {
	case j.Hold:
		if err := j.move(onPush, Pending, now); err != nil {
			return err
		}
		j.addEnqueued(now)
		return nil
	case j.ScheduledAt.After(now):
		if err := j.move(onPush, Scheduled, now); err != nil {
			return err
		}
		j.addEvent("job.scheduled", now, func(o *rawjson.Writer) { o.Time("scheduled_at", j.ScheduledAt) })
		return nil
	}
	j.EnqueuedAt = now
	if err := j.move(onPush, Available, now); err != nil {
		return err
	}
	j.addEnqueued(now)
	return nil
}

// wholeMillis rounds what the envelope asks for up to the milliseconds that are
// stored, so that nothing happens early, and memory and disk agree.
func (e *Envelope) wholeMillis() {
	for _, round := range rounds {
		round(e)
	}
}

func ceilInstant(t time.Time) time.Time {
	if r := t.Truncate(time.Millisecond); !r.Equal(t) {
		return r.Add(time.Millisecond)
	}
	return t
}

func ceilMillis(d time.Duration) time.Duration {
	if r := d.Truncate(time.Millisecond); r < d {
		return max(r+time.Millisecond, d) // d is the longest there is where the sum would be longer
	}
	return d
}

// Ready lets a scheduled or retryable job into its queue because its time has
// come (ojs-core.md §6.3). It is a Conflict before that time.
func (j *Job) Ready(now time.Time) error {
	if j.State == Scheduled && now.Before(j.ScheduledAt) || j.State == Retryable && now.Before(j.NextRetryAt) {
		return Errorf(Conflict, "job %s is %s and not due yet", j.ID, j.State)
	}
	if err := j.move(onTimer, Available, now); err != nil {
		return err
	}
	j.EnqueuedAt, j.NextRetryAt = now, time.Time{}
	j.addEnqueued(now)
	return nil
}

// Activate releases a pending job: available, or scheduled when its schedule is
// still ahead (ojs-core.md §6.3).
func (j *Job) Activate(now time.Time) error {
	to := Available
	if j.ScheduledAt.After(now) {
		to = Scheduled
	}
	if err := j.move(onActivate, to, now); err != nil {
		return err
	}
	j.ActivatedAt = now
	j.addEvent("job.activated", now, func(o *rawjson.Writer) { o.Str("state", string(to)) })
	if to == Available {
		j.EnqueuedAt = now
		j.addEnqueued(now)
	}
	return nil
}

// Start gives an available job to a worker (ojs-core.md §7.2): attempt counts
// up and lease.Until is set from now and lease.Length.
func (j *Job) Start(now time.Time, lease Lease) error {
	if j.Expired(now) {
		return Errorf(Conflict, "job %s expired at %s", j.ID, FormatTime(j.ExpiresAt))
	}
	before := j.Status
	lease.Length = ceilMillis(lease.Length)
	lease.Until = now.Add(lease.Length)
	j.Attempt++
	j.StartedAt, j.Progress = now, nil
	j.Lease = lease
	if err := j.move(onFetch, Active, now); err != nil {
		j.Status = before
		return err
	}
	if j.Lost != nil {
		j.Lost.Fetches++
	}
	j.addEvent("job.started", now, func(o *rawjson.Writer) {
		o.Optional("worker_id", lease.Worker)
		o.Int("attempt", int64(j.Attempt))
	})
	return nil
}

// Complete ends an attempt well (ojs-core.md §7.3). The claim must name the
// present holder; one whose reservation was lost a moment ago is still heard
// (ojs-delivery-guarantees.md §8). Otherwise it is a Conflict.
func (j *Job) Complete(now time.Time, c Claim, result json.RawMessage) error {
	on := onAck
	if err := j.held(c, onAck); err != nil {
		if !j.lateAck(now, c) {
			return err
		}
		on = onLateAck
	}
	if len(result) > MaxResultBytes {
		return Errorf(TooLarge, "result of job %s is %d bytes, at most %d are kept", j.ID, len(result), MaxResultBytes).
			With(map[string]any{"size": len(result), "limit": MaxResultBytes})
	}
	began := j.StartedAt
	if err := j.move(on, Completed, now); err != nil {
		return err
	}
	j.Result, j.Error = result, nil
	j.NextRetryAt, j.RetryDelay = time.Time{}, 0
	j.Lease, j.Lost = Lease{}, nil
	j.addEvent("job.completed", now, func(o *rawjson.Writer) {
		o.Int("attempt", int64(j.Attempt))
		o.Int("duration_ms", since(began, now))
		j.notFrom(o, Active)
		if len(result) > 0 && len(result) <= MaxMetaBytes {
			o.Raw("result", result)
		}
	})
	return nil
}

// Fail ends an attempt badly, or gives the job back untouched, as often as the
// Rules allow (ojs-core.md §7.4, ojs-retry.md §7, contract §4.4). r in [0,1) is
// the jitter of the backoff. A claim that is not the present holder's is a
// Conflict: a late FAIL is never heard.
func (j *Job) Fail(now time.Time, c Claim, f Failure, r float64) error {
	if err := j.held(c, onFail); err != nil {
		return err
	}
	if f.Requeue && (f.Undelivered || j.Releases < j.releases()) {
		return j.giveBack(now)
	}
	if f.Requeue {
		f = j.tooOften(f)
	}
	if err := f.bounded(); err != nil {
		return err
	}
	p := j.policy()
	return j.fail(now, onFail, p, f, j.judge(p, f), r)
}

// Lose ends a reservation without its holder's word: cause is
// "visibility_timeout" or "worker_death". The attempt is spent; a job that
// brought a retry policy waits for its backoff, any other is available at once
// (contract §4.6).
func (j *Job) Lose(now time.Time, cause string, r float64) error {
	f := Failure{Type: cause, Code: "timeout", Message: "the worker was not heard of in time"}
	lost := &LostLease{Token: j.Lease.Token, Worker: j.Lease.Worker, Length: j.Lease.Length, At: now}
	p, v := j.policy(), retry
	if j.spent(p) {
		v = exhausted
	}
	if v == retry && j.Retry == nil {
		if err := j.move(onLost, Available, now); err != nil {
			return err
		}
		j.record(now, f)
		j.addFailed(now, f)
		j.addRetrying(now, now, f)
		j.EnqueuedAt, j.StartedAt = now, time.Time{}
		j.release()
		j.Lost = lost
		j.addEnqueued(now)
		return nil
	}
	if err := j.fail(now, onLost, p, f, v, r); err != nil {
		return err
	}
	j.StartedAt = time.Time{}
	if j.State == Retryable {
		j.Lost = lost
	}
	return nil
}

// Overrun ends an attempt that ran longer than its timeout, or than the standard
// limit of the server where the job has none (ojs-core.md §5.2). Heartbeats do not
// put it off.
func (j *Job) Overrun(now time.Time, standard time.Duration, r float64) error {
	f := Failure{Type: "timeout", Code: "timeout", Message: "the attempt ran longer than " + j.limit(standard).String()}
	lost := &LostLease{Token: j.Lease.Token, Worker: j.Lease.Worker, Length: j.Lease.Length, At: now}
	p := j.policy()
	if err := j.fail(now, onOverrun, p, f, j.judge(p, f), r); err != nil {
		return err
	}
	if j.State == Retryable {
		j.Lost = lost
	}
	return nil
}

// Expire discards a job that was not started before expires_at (ojs-core.md
// §5.2). It never becomes a dead letter.
func (j *Job) Expire(now time.Time) error {
	if !j.Expired(now) {
		return Errorf(Conflict, "job %s has not expired", j.ID)
	}
	if err := j.move(onExpire, Discarded, now); err != nil {
		return err
	}
	j.NextRetryAt, j.RetryDelay, j.Lost = time.Time{}, 0, nil
	f := Failure{Type: "expired", Code: "expired", Message: "not started before " + FormatTime(j.ExpiresAt)}
	j.Error = f.append(nil, j.Attempt, now, false)
	j.addEvent("job.expired", now, func(o *rawjson.Writer) {
		o.Time("created_at", j.CreatedAt)
		o.Time("expired_at", j.ExpiresAt)
		o.Int("ttl_ms", since(j.CreatedAt, j.ExpiresAt))
	})
	j.addDiscarded(now, f)
	return nil
}

// Cancel stops a job that has not finished (ojs-core.md §7.6). Cancelling a
// cancelled job is nil and changes nothing; a completed or discarded one is
// Finished.
func (j *Job) Cancel(now time.Time, by, reason string) error {
	return j.cancel(now, by, reason, "")
}

// cancel is Cancel in favour of another job, if there is one.
func (j *Job) cancel(now time.Time, by, reason string, heir ID) error {
	from := j.State
	switch from {
	case Cancelled:
		return nil
	case Completed, Discarded:
		return Errorf(Finished, "job %s is %s and can no longer be cancelled", j.ID, from).
			With(map[string]any{"job_id": string(j.ID), "current_state": string(from)})
	}
	if err := j.move(onCancel, Cancelled, now); err != nil {
		return err
	}
	j.ReleaseDedup() // as a removal does (contract §4.11)
	j.NextRetryAt, j.RetryDelay = time.Time{}, 0
	j.Lease, j.Lost = Lease{}, nil
	j.addEvent("job.cancelled", now, func(o *rawjson.Writer) {
		o.Str("previous_state", string(from))
		o.Optional("cancelled_by", by)
		o.Optional("reason", reason)
		o.Optional("replaced_by", string(heir))
	})
	return nil
}

// Revive takes a discarded job back into its queue with a clean record
// (ojs-core.md §6.3, manual retry), dead letter or not. It is a Conflict for a
// job in another state, and for one whose expires_at has passed: that must not
// run any more, and would be discarded again (§5.2).
func (j *Job) Revive(now time.Time) error {
	if j.State == Discarded && j.Expired(now) {
		return Errorf(Conflict, "job %s must not run any more: it expired at %s; enqueue a new one in its place", j.ID, FormatTime(j.ExpiresAt)).
			With(map[string]any{"job_id": string(j.ID), "current_state": string(j.State), "reason": "expired"})
	}
	if err := j.move(onRevive, Available, now); err != nil {
		return err
	}
	j.Dead = false
	j.DueAt = j.due()
	j.Attempt, j.Releases = 0, 0
	j.Error, j.Errors, j.Lost = nil, nil, nil
	j.EnqueuedAt, j.StartedAt, j.FinishedAt = now, time.Time{}, time.Time{}
	j.RetryDelay = 0
	j.addEvent("job.retried", now, nil)
	j.addEnqueued(now)
	return nil
}

// Expired reports whether expires_at has passed.
func (j *Job) Expired(now time.Time) bool { return !j.ExpiresAt.IsZero() && !now.Before(j.ExpiresAt) }

// CheckDead is nil when the job is a dead letter, and NotFound otherwise.
func (j *Job) CheckDead() error {
	if j.Dead {
		return nil
	}
	e := Errorf(NotFound, "job %s is not in the dead letter queue", j.ID)
	e.Details = map[string]any{"resource_type": "dead_letter", "resource_id": string(j.ID)}
	if j.State == Discarded {
		e.Details["hint"] = "The job is discarded, and no dead letter: POST /ojs/v1/admin/jobs/" + string(j.ID) + "/retry runs it again."
	}
	return e
}
