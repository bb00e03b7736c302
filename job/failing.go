package job

import "time"

// fail records f and moves to where the verdict leads.
func (j *Job) fail(now time.Time, on trigger, p RetryPolicy, f Failure, v verdict, r float64) error {
	to := Discarded
	if v == retry {
		to = Retryable
	}
	before := j.Status
	j.Dead = v == deadLetter || v == exhausted && p.OnExhaustion == OnExhaustionDeadLetter
	if v == retry {
		j.RetryDelay = p.Delay(max(j.Attempt-j.Releases, 1), r)
		if f.RetryAfter != nil {
			j.RetryDelay = max(0, min(ceilMillis(*f.RetryAfter), p.MaxInterval))
		}
		j.NextRetryAt = now.Add(j.RetryDelay)
	} else {
		j.RetryDelay = 0
	}
	if err := j.move(on, to, now); err != nil {
		j.Status = before
		return err
	}
	j.record(now, f)
	j.addFailed(now, f)
	j.release()
	if v == retry {
		j.addRetrying(now, j.NextRetryAt, f)
		return nil
	}
	j.Lost = nil
	j.addDiscarded(now, f)
	return nil
}

// since is the whole milliseconds from a to b, and 0 if a is not known.
func since(a, b time.Time) int64 {
	if a.IsZero() {
		return 0
	}
	return max(0, b.Sub(a).Milliseconds())
}
