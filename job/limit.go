package job

import "time"

// limit is how long one execution may take: as the job says, else standard; 0 is
// for ever (ojs-core.md §5.2).
func (j *Job) limit(standard time.Duration) time.Duration {
	if j.Timeout > 0 {
		return j.Timeout
	}
	return max(standard, 0)
}

// Limit makes an active job due by the standard limit of the server when it has
// none of its own. The job does not show that limit, and a server with another one
// calls this again; so does whoever moves the end of a reservation. By stood the
// clock has gone further since the attempt began than time has passed.
func (j *Job) Limit(standard, stood time.Duration) {
	if j.State != Active {
		return
	}
	j.DueAt = j.Lease.Until
	if limit := j.limit(standard); limit > 0 {
		j.DueAt = earlier(j.DueAt, j.StartedAt.Add(limit+stood))
	}
}

// Overran reports whether the present attempt has taken longer at now than it may,
// where stood is as for Limit.
// By the standard limit it has only where the reservation is longer: of a worker
// that is not heard of nobody knows that it still works.
func (j *Job) Overran(now time.Time, standard, stood time.Duration) bool {
	limit := j.limit(standard)
	end := j.StartedAt.Add(limit)
	return j.State == Active && limit > 0 && !now.Before(end.Add(stood)) && (j.Timeout > 0 || end.Before(j.Lease.Until))
}
