package sqlitestore

import (
	"database/sql/driver"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// availableIDs is answered from jobs_claim alone: the table is not touched.
const availableIDs = `SELECT id FROM jobs
WHERE queue = ? AND state = 'available'
ORDER BY priority DESC, seq
LIMIT ?`

// Available reads the head of the queues, in claim order.
func (t *tx) Available(queues []string, n int) ([]*job.Job, error) {
	var jobs []*job.Job
	for i, name := range queues {
		q := t.w.queues[name]
		if n == 0 || twice(queues[:i], name) || q != nil && q.Paused != 0 {
			continue
		}
		found, err := t.read(t.w.st.available, name, int64(n))
		if err != nil {
			return nil, t.fail("read the queue "+strconv.Quote(name), err)
		}
		jobs, n = append(jobs, found...), n-len(found)
	}
	return jobs, nil
}

func twice(before []string, name string) bool {
	for _, b := range before {
		if b == name {
			return true
		}
	}
	return false
}

const dueIDs = `SELECT id FROM jobs
WHERE state = ? AND due_at <= ?
ORDER BY due_at, seq
LIMIT ?`

// Due reads what a clock must look at.
func (t *tx) Due(s job.State, before time.Time, n int) ([]*job.Job, error) {
	jobs, err := t.read(t.w.st.due, string(s), before.UnixMilli(), int64(n))
	return jobs, t.fail("read what is due", err)
}

const nextDue = `SELECT min(due_at) FROM jobs WHERE state = ? AND due_at IS NOT NULL`

// NextDue reads when a clock must look next.
func (t *tx) NextDue(s job.State) (at time.Time, err error) {
	err = t.w.st.nextDue.each(func(v []driver.Value) error {
		at = (&row[driver.Value]{v: v}).time()
		return nil
	}, string(s))
	return at, t.fail("read what is due next", err)
}

// oldestDead orders the dead letters that a filter lets through.
const oldestDead = " ORDER BY finished_at, id LIMIT ?"

// Dead reads dead letters, those that died first at the front.
func (t *tx) Dead(f job.Filter, n int) ([]*job.Job, error) {
	f.Dead, f.States = true, nil
	w := conditions(f)
	var ids []job.ID
	if err := t.w.cold.Select(&ids, "SELECT id FROM jobs"+w.String()+oldestDead, append(w.args, n)...); err != nil {
		return nil, t.fail("read dead letters", err)
	}
	return t.jobsOf(ids)
}

// read runs a statement that answers ids and reads their jobs.
func (t *tx) read(s *stmt, args ...driver.Value) ([]*job.Job, error) {
	var ids []job.ID
	err := s.each(func(v []driver.Value) error {
		ids = append(ids, job.ID(v[0].(string)))
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	return t.jobsOf(ids)
}

// jobsOf reads the jobs with these ids.
func (t *tx) jobsOf(ids []job.ID) ([]*job.Job, error) {
	jobs := make([]*job.Job, 0, len(ids))
	for _, id := range ids {
		j, err := t.Job(id)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}
