package sqlitestore

import (
	"encoding/json"
	"iter"
	"math"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// reader answers job.ReadTx from one snapshot through sqlx. It serves views,
// and in the writer whatever is not hot enough for a prepared statement.
type reader struct {
	q interface {
		Queryx(query string, args ...any) (*sqlx.Rows, error)
	}
}

// rows are those that a query returns. An error ends them.
func (r reader) rows(query string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := r.q.Queryx(query, args...)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if values, err := rows.SliceScan(); !yield(values, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Job reads a job.
func (r reader) Job(id job.ID) (*job.Job, error) {
	b, ok := id.Bytes()
	if !ok {
		return nil, noJob(id)
	}
	jobs, err := r.jobs(jobByID, b[:])
	return first(jobs, translate("read job", err), func() error {
		n := int64(-1)
		if err := r.each(strangers, func(v *row[any]) { n = v.int() }, b[:]); err != nil {
			return translate("read job", err)
		}
		return notFound(id, n)
	})
}

// strangers are the neighbours of an id in its index that stand there for another
// one: a search that misses its entry because a bit of that has turned ends beside it.
const strangers = `SELECT e.n FROM (
SELECT * FROM (SELECT n, id_bytes FROM job_bodies INDEXED BY jobs_id WHERE id_bytes >= ?1 ORDER BY id_bytes LIMIT 1)
UNION ALL
SELECT * FROM (SELECT n, id_bytes FROM job_bodies INDEXED BY jobs_id WHERE id_bytes < ?1 ORDER BY id_bytes DESC LIMIT 1)) AS e
LEFT JOIN job_bodies AS b ON b.n = e.n
WHERE b.id_bytes IS NOT e.id_bytes`

// at reads the job whose rows have a number, its Job nil for none.
func (r reader) at(n int64) (kept, error) {
	found, _, err := r.some(1, nil, jobByNumber, n)
	if err != nil || len(found) == 0 {
		return kept{}, translate("read job", err)
	}
	return found[0], nil
}

// notFound is the error for an id that was not found; n is the number of a stranger beside it, -1 for none.
func notFound(id job.ID, n int64) error {
	if n < 0 {
		return noJob(id)
	}
	return job.Errorf(job.Unavailable, "look for job %s: %w", id, rottenEntry(idIndex, n))
}

// first is what was found by its key; none is the error where there is nothing.
func first[T any](found []T, err error, none func() error) (it T, _ error) {
	if err == nil && len(found) == 0 {
		err = none()
	}
	if err != nil {
		return it, err
	}
	return found[0], nil
}

// jobs reads the jobs that a SELECT of jobColumns answers.
func (r reader) jobs(query string, args ...any) ([]*job.Job, error) {
	found, _, err := r.some(math.MaxInt, nil, query, args...)
	return jobsIn(found), err
}

func jobsIn(ks []kept) []*job.Job {
	var jobs []*job.Job
	for _, k := range ks {
		jobs = append(jobs, k.Job)
	}
	return jobs
}

// some reads jobs up to a limit, and as long as there is room; more reports that there
// are others behind them.
func (r reader) some(limit int, room job.Room, query string, args ...any) (jobs []kept, more bool, err error) {
	for values, err := range r.rows(query, args...) {
		if err != nil {
			return nil, false, err
		}
		if len(jobs) == limit {
			return jobs, true, nil
		}
		k, err := jobFrom(values)
		if err != nil {
			return nil, false, err
		}
		if full, err := full(room, k.Size(), len(jobs)); full {
			return jobs, true, err
		}
		jobs = append(jobs, k)
	}
	return jobs, false, nil
}

// full reports whether there is no room for n bytes more, after so many that had
// it; without room for the first that is an error.
func full(room job.Room, n, before int) (bool, error) {
	if room == nil || room.Take(n) {
		return false, nil
	}
	if before == 0 {
		return true, job.NoRoom()
	}
	return true, nil
}

// each calls fn with every row. A column of another type than is ever written is damage.
func (r reader) each(query string, fn func(*row[any]), args ...any) error {
	for values, err := range r.rows(query, args...) {
		if err != nil {
			return err
		}
		v := &row[any]{v: values}
		if fn(v); v.bad {
			return unreadable("a row")
		}
	}
	return nil
}

var heldJobs = `SELECT ` + jobColumns + byState + `
WHERE state_code = 3 AND due_at IS NOT NULL AND lease_worker = ?`

// Held reads the jobs that a worker is running.
func (r reader) Held(worker string) ([]*job.Job, error) {
	jobs, err := r.jobs(heldJobs, worker)
	return jobs, translate("read the jobs of a worker", err)
}

const holders = `SELECT id_bytes, lease_worker` + byState + `
WHERE state_code = 3 AND due_at IS NOT NULL AND lease_worker IS NOT NULL AND (? = '' OR lease_worker = ?)
ORDER BY due_at, seq`

// Holders reads which jobs which worker is running.
func (r reader) Holders(worker string) (map[string][]job.ID, error) {
	held := map[string][]job.ID{}
	err := r.each(holders, func(v *row[any]) {
		id, by := v.id(), v.str()
		held[by] = append(held[by], id)
	}, worker, worker)
	return held, translate("read which jobs the workers run", err)
}

const deadStats = `SELECT queue, type, coalesce(iif(json_valid(error), json_extract(error, '$.type'), NULL), '') AS error_type,
  count(*) AS n, min(finished_at) AS oldest, max(finished_at) AS newest
FROM job_states LEFT JOIN job_bodies USING (n) WHERE dead = 1
GROUP BY 1, 2, 3`

// DeadStats counts the dead letters.
func (r reader) DeadStats() (job.DeadStats, error) {
	st := job.DeadStats{ByQueue: map[string]int64{}, ByType: map[string]int64{}, ByErrorType: map[string]int64{}}
	if err := r.long(); err != nil {
		return st, err
	}
	err := r.each(deadStats, func(v *row[any]) {
		queue, typ, errorType, n, oldest, newest := v.str(), v.str(), v.str(), v.int(), v.time(), v.time()
		st.Total += n
		st.ByQueue[queue] += n
		st.ByType[typ] += n
		st.ByErrorType[errorType] += n
		if st.Oldest.IsZero() || oldest.Before(st.Oldest) {
			st.Oldest = oldest
		}
		if newest.After(st.Newest) {
			st.Newest = newest
		}
	})
	return st, translate("count the dead letters", err)
}

// Queue reads a queue.
func (r reader) Queue(name string) (job.Queue, error) {
	queues, err := r.listQueues("read queue", queueByName, name)
	return first(queues, err, func() error { return missing("queue", name) })
}

// Queues reads all queues.
func (r reader) Queues() ([]job.Queue, error) {
	return r.listQueues("list queues", allQueues)
}

func (r reader) listQueues(doing, query string, args ...any) ([]job.Queue, error) {
	rows, err := r.queues(query, args...)
	if err != nil {
		return nil, translate(doing, err)
	}
	set, err := r.settings()
	if err != nil {
		return nil, translate(doing, err)
	}
	queues := make([]job.Queue, len(rows))
	for i := range rows {
		queues[i] = rows[i].queue().Set(set[rows[i].Name])
	}
	return queues, nil
}

func (r reader) queues(query string, args ...any) (qs []*queueRow, err error) {
	err = r.each(query, func(v *row[any]) {
		q := &queueRow{Name: v.str(), Paused: v.int(), CreatedAt: v.int()}
		for _, n := range q.counters() {
			*n = v.int()
		}
		q.slot = slotFrom(v)
		v.bad = v.bad || !utf8.ValidString(q.Name)
		qs = append(qs, q)
	}, args...)
	return qs, err
}

// missing is the NotFound for a queue or a worker.
func missing(kind, id string) error {
	return job.Errorf(job.NotFound, "there is no %s %.140q", kind, id).With(map[string]any{"resource_type": kind, "resource_id": id})
}

// Worker reads a worker.
func (r reader) Worker(id string) (job.WorkerInfo, error) {
	ws, err := r.workers("SELECT info FROM workers WHERE id = ?", id)
	return first(ws, translate("read worker", err), func() error { return missing("worker", id) })
}

// Workers reads all workers.
func (r reader) Workers() ([]job.WorkerInfo, error) {
	if err := r.long(); err != nil {
		return nil, err
	}
	ws, err := r.workers("SELECT info FROM workers ORDER BY id")
	return ws, translate("list workers", err)
}

func (r reader) workers(query string, args ...any) ([]job.WorkerInfo, error) {
	ws := []job.WorkerInfo{}
	err := r.each(query, func(v *row[any]) {
		var w job.WorkerInfo
		v.bad = json.Unmarshal([]byte(v.str()), &w) != nil || v.bad
		ws = append(ws, w)
	}, args...)
	return ws, err
}

const priorities = `SELECT priority, count(*) FROM job_states WHERE queue = ? AND state_code = 1 GROUP BY priority`

// Priorities counts the available jobs of a queue by their priority.
func (r reader) Priorities(queue string) (map[int]int64, error) {
	if err := r.long(); err != nil {
		return nil, err
	}
	counts := map[int]int64{}
	err := r.each(priorities, func(v *row[any]) {
		priority := int(v.int())
		counts[priority] = v.int()
	}, queue)
	return counts, translate("count the priorities of a queue", err)
}

// oldestSince looks at the first job of each priority, in line and behind: there are few of those, and
// perhaps very many jobs.
const oldestSince = `WITH RECURSIVE p(b, v) AS (
SELECT b, (SELECT max(priority) FROM job_states WHERE queue = ?1 AND state_code = 1 AND behind = b) FROM (SELECT 0 AS b UNION ALL SELECT 1)
UNION ALL
SELECT b, (SELECT max(priority) FROM job_states WHERE queue = ?1 AND state_code = 1 AND behind = b AND priority < v) FROM p WHERE v IS NOT NULL)
SELECT min((SELECT enqueued_at FROM job_states WHERE queue = ?1 AND state_code = 1 AND behind = b AND priority = v ORDER BY seq LIMIT 1)) FROM p WHERE v IS NOT NULL`

// OldestSince reads when the oldest available job of a queue entered it.
func (r reader) OldestSince(queue string) (at time.Time, err error) {
	err = r.each(oldestSince, func(v *row[any]) { at = v.time() }, queue)
	return at, translate("look for the oldest job of a queue", err)
}
