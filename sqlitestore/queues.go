package sqlitestore

import (
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// queueRow is a row of queues.
type queueRow struct {
	Name      string
	Paused    int64
	CreatedAt int64 `db:"created_at"`
	Scheduled, Available, Pending, Active, Retryable,
	Completed, Cancelled, Discarded, Dead int64
}

const allQueues = `SELECT name, paused, created_at, scheduled, available, pending, active, retryable, completed, cancelled, discarded, dead
FROM queues ORDER BY name`

const putQueue = `INSERT INTO queues (name, paused, created_at, scheduled, available, pending, active, retryable, completed, cancelled, discarded, dead)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
  paused = excluded.paused, scheduled = excluded.scheduled, available = excluded.available, pending = excluded.pending,
  active = excluded.active, retryable = excluded.retryable, completed = excluded.completed,
  cancelled = excluded.cancelled, discarded = excluded.discarded, dead = excluded.dead`

// counter is where the count of a state is kept.
func (q *queueRow) counter(s job.State) *int64 {
	switch s {
	case job.Scheduled:
		return &q.Scheduled
	case job.Available:
		return &q.Available
	case job.Pending:
		return &q.Pending
	case job.Active:
		return &q.Active
	case job.Retryable:
		return &q.Retryable
	case job.Completed:
		return &q.Completed
	case job.Cancelled:
		return &q.Cancelled
	case job.Discarded:
		return &q.Discarded
	case deadCount:
		return &q.Dead
	}
	panic("sqlitestore: no counter for state " + strconv.Quote(string(s)))
}

func (q *queueRow) queue() job.Queue {
	out := job.Queue{Name: q.Name, Paused: q.Paused != 0, CreatedAt: time.UnixMilli(q.CreatedAt).UTC(),
		Counts: make(map[job.State]int64, len(job.States)), Dead: q.Dead}
	for _, s := range job.States {
		out.Counts[s] = *q.counter(s)
	}
	return out
}
