package sqlitestore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// queueRow is a row of queues.
type queueRow struct {
	Name      string
	Paused    int64
	CreatedAt int64
	Scheduled, Available, Pending, Active, Retryable,
	Completed, Cancelled, Discarded, Dead int64
	slot   slot  // the present one
	behind int64 // of Available; no column
}

const (
	queueColumns = `name, paused, created_at, scheduled, available, pending, active, retryable, completed, cancelled, discarded, dead, ` + ownSlot
	allQueues    = `SELECT ` + queueColumns + ` FROM queues ORDER BY name`
	queueByName  = `SELECT ` + queueColumns + ` FROM queues WHERE name = ?`
)

var putQueue = upsert("queues", queueColumns+", last_seq, last_event", "created_at")

// The last numbers that were given: each commit notes them with a queue that it changes,
// so that they are no page of their own, or as a mark where it changes none. A file of
// schema 3 has marks of both. A bit that turns there must not give a number twice.
const (
	lastSeq   = `SELECT max(coalesce((SELECT max(last_seq) FROM queues), 0), coalesce((SELECT value FROM marks WHERE name = 'seq'), 0), coalesce((SELECT max(n) FROM job_bodies), 0), coalesce((SELECT max(n) FROM job_states), 0))`
	lastEvent = `SELECT max(coalesce((SELECT max(last_event) FROM queues), 0), coalesce((SELECT value FROM marks WHERE name = 'events'), 0))`
)

// upsert stores a row, in place of the one that has the same first column, but for
// what that keeps.
func upsert(table, columns string, kept ...string) string {
	names := strings.Split(columns, ", ")
	var set []string
	for _, name := range names[1:] {
		if !slices.Contains(kept, name) {
			set = append(set, name+" = excluded."+name)
		}
	}
	return "INSERT INTO " + table + " (" + columns + ")\nVALUES (?" + strings.Repeat(", ?", len(names)-1) + ")\n" +
		"ON CONFLICT (" + names[0] + ") DO UPDATE SET " + strings.Join(set, ", ")
}

// counted are the states in the order of their counters.
var counted = append(slices.Clone(job.States), deadCount)

// counters are where the counts are kept, in the order of their columns.
func (q *queueRow) counters() [9]*int64 {
	return [...]*int64{&q.Scheduled, &q.Available, &q.Pending, &q.Active, &q.Retryable, &q.Completed, &q.Cancelled, &q.Discarded, &q.Dead}
}

// counter is where the count of a state is kept.
func (q *queueRow) counter(s job.State) *int64 {
	if s == behindCount {
		return &q.behind
	}
	i := slices.Index(counted, s)
	if i < 0 {
		panic("sqlitestore: no counter for state " + strconv.Quote(string(s)))
	}
	return q.counters()[i]
}

func (q *queueRow) queue() job.Queue {
	out := job.Queue{Name: q.Name, CreatedAt: time.UnixMilli(q.CreatedAt).UTC(),
		Counts: make(map[job.State]int64, len(job.States)), Dead: q.Dead}
	for _, s := range job.States {
		out.Counts[s] = *q.counter(s)
	}
	return out
}
