package job

import "time"

// Extend moves the end of the reservation to now + length (ojs-delivery-guarantees.md
// §6.3); a length of 0 is the one fixed at FETCH.
func (j *Job) Extend(now time.Time, c Claim, length time.Duration) error {
	if err := j.held(c, onFetch); err != nil {
		return err
	}
	if length <= 0 {
		length = j.Lease.Length
	}
	j.Lease.Until = now.Add(ceilMillis(length))
	j.DueAt = j.due()
	return nil
}

// held is nil when the claim is that of the present holder: the last token
// given, or the same worker where no token is sent, or nothing at all.
func (j *Job) held(c Claim, on trigger) error {
	if j.State != Active {
		return j.refuse(on)
	}
	lost := c.Token != "" && c.Token != j.Lease.Token
	foreign := c.Token == "" && c.Worker != "" && j.Lease.Worker != "" && c.Worker != j.Lease.Worker
	if !lost && !foreign {
		return nil
	}
	return Errorf(Conflict, "job %s is held by another worker, this reservation was lost", j.ID).
		With(map[string]any{"job_id": string(j.ID), "current_state": string(j.State), "reason": "lease_lost"})
}

// lateAck reports whether c is the holder before, and early enough to be heard.
func (j *Job) lateAck(now time.Time, c Claim) bool {
	l := j.Lost
	if l == nil || now.Sub(l.At) > max(time.Minute, l.Length) || j.State == Active && l.Fetches != 1 {
		return false
	}
	switch {
	case c.Token != "":
		return c.Token == l.Token
	case c.Worker != "":
		return c.Worker == l.Worker
	}
	return j.State != Active
}

// release takes the reservation off the job.
func (j *Job) release() { j.Lease, j.Lost = Lease{}, nil }
