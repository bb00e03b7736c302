package job

import "time"

// Jobs that wait for one another stand in line: each names the one before it in
// After, and whoever ends lets the next one go in the same transaction.

// WaitFor makes a run of a schedule wait, pending, for the end of another job. Its
// meta says so, too, for people; nothing is read from there.
func (j *Job) WaitFor(other ID) {
	j.Hold, j.After = true, other
	o := newObject(make([]byte, 0, len(j.Meta)+64))
	o.str("cron_after", string(other))
	if memberOf(j.Meta, "cron_after") != nil {
		j.Meta = without(j.Meta, "cron_after")
	}
	o.splice(j.Meta)
	j.Meta = o.close()
	j.checked = j.raws()
}

// Leave takes a job that has ended out of its line, and returns whom those that
// waited for it wait for now: nobody, or where it was stopped before it ever began,
// the job that it has waited for itself.
func (j *Job) Leave() (next ID) {
	if j.Attempt == 0 {
		next = j.After
	}
	j.After = ""
	return next
}

// Follow is for a job that waits for another, which has ended at now; next is what
// its Leave has returned. The job waits for that, or goes on.
func (j *Job) Follow(next ID, now time.Time) error {
	switch {
	case j.State != Pending: // somebody has activated it
		j.After = next
	case next != "":
		j.WaitFor(next)
	default:
		j.After = ""
		return j.Activate(now)
	}
	return nil
}
