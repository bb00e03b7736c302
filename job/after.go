package job

import (
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Jobs that wait for one another stand in line: each names the one before it in
// After, and whoever ends lets the next one go in the same transaction. The one before
// may be a workflow, and so may who waits: then its first jobs do.

// PushBehind is Push for a run of a schedule that waits, pending, for the end of
// another job or a workflow, unless that is empty.
func (c *Checked) PushBehind(other ID, now time.Time) (*Job, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	j := &Job{Envelope: c.e, keys: c.keys}
	if other != "" {
		j.waitFor(other)
	}
	return j, j.push(now)
}

// waitFor makes a job wait for another. Its meta says so, too, for people; nothing
// is read from there.
func (j *Job) waitFor(other ID) {
	j.Hold, j.After = true, other
	o := rawjson.Object(make([]byte, 0, len(j.Meta)+64))
	o.Str("cron_after", string(other))
	if rawjson.Member(j.Meta, "cron_after") != nil {
		j.Meta = rawjson.Without(j.Meta, "cron_after")
	}
	o.Splice(j.Meta)
	j.Meta = o.Close()
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

// Follow is for a job that waits for another job or a workflow, which has ended at now;
// next is what its Leave has returned. The job waits for that, or goes on.
func (j *Job) Follow(next ID, now time.Time) error {
	switch {
	case j.State != Pending: // somebody has activated it
		j.After = next
	case next != "":
		j.waitFor(next)
	default:
		j.After = ""
		return j.Activate(now)
	}
	return nil
}
