package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// reader answers job.ReadTx from one snapshot through sqlx. It serves views,
// and in the writer whatever is not hot enough for a prepared statement.
type reader struct{ q sqlx.Queryer }

// Job reads a job.
func (r reader) Job(id job.ID) (*job.Job, error) {
	jobs, err := r.jobs(jobByID, string(id))
	if err != nil {
		return nil, translate("read job", err)
	}
	if len(jobs) == 0 {
		return nil, noJob(id)
	}
	return jobs[0], nil
}

// jobs reads the jobs that a SELECT of jobColumns answers.
func (r reader) jobs(query string, args ...any) ([]*job.Job, error) {
	jobs, _, err := r.some(math.MaxInt, nil, query, args...)
	return jobs, err
}

// some is jobs up to a limit, and as long as there is room; more says that there
// are others behind them.
func (r reader) some(limit int, room job.Room, query string, args ...any) (jobs []*job.Job, more bool, err error) {
	rows, err := r.q.Queryx(query, args...)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if len(jobs) == limit {
			return jobs, true, nil
		}
		values, err := rows.SliceScan()
		if err != nil {
			return nil, false, err
		}
		j, err := jobFrom(values)
		if err != nil {
			return nil, false, err
		}
		if full, err := full(room, j.Size(), len(jobs)); full {
			return jobs, true, err
		}
		jobs = append(jobs, j)
	}
	return jobs, false, rows.Err()
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
	rows, err := r.q.Queryx(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.SliceScan()
		if err != nil {
			return err
		}
		v := &row[any]{v: values}
		if fn(v); v.bad {
			return unreadable("a row")
		}
	}
	return rows.Err()
}

var heldJobs = `SELECT ` + jobColumns + ` FROM jobs
WHERE state = 'active' AND due_at IS NOT NULL AND lease_worker = ?`

// Held reads the jobs that a worker is running.
func (r reader) Held(worker string) ([]*job.Job, error) {
	jobs, err := r.jobs(heldJobs, worker)
	return jobs, translate("read the jobs of a worker", err)
}

const holders = `SELECT id, lease_worker FROM jobs
WHERE state = 'active' AND due_at IS NOT NULL AND lease_worker IS NOT NULL AND (? = '' OR lease_worker = ?)
ORDER BY due_at, seq`

// Holders reads which jobs which worker is running.
func (r reader) Holders(worker string) (map[string][]job.ID, error) {
	held := map[string][]job.ID{}
	err := r.ask(holders, func(id, worker string) { held[worker] = append(held[worker], job.ID(id)) }, []driver.Value{worker, worker})
	return held, translate("read which jobs the workers run", err)
}

// where collects the conditions of a Filter.
type where struct {
	conds []string
	args  []any
}

func (w *where) and(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// conditions turns a filter into SQL: constant texts and arguments, never a value in the text.
func conditions(f job.Filter) where {
	var w where
	at := "created_at"
	if f.Dead {
		at = "finished_at"
		w.and("dead = 1")
	}
	if f.Holding {
		w.and(claims)
	}
	if len(f.States) > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(f.States)), ", ")
		args := make([]any, len(f.States))
		for i, s := range f.States {
			args[i] = string(s)
		}
		w.and("state IN ("+marks+")", args...)
	}
	if f.Queue != "" {
		w.and("queue = ?", f.Queue)
	}
	if prefix, ok := strings.CutSuffix(f.Type, "*"); ok {
		w.and("substr(type, 1, ?) = ?", len(prefix), prefix)
	} else if f.Type != "" {
		w.and("type = ?", f.Type)
	}
	if f.ErrorType != "" {
		w.and("iif(json_valid(error), json_extract(error, '$.type'), NULL) = ?", f.ErrorType)
	}
	if !f.Since.IsZero() {
		w.and(at+" >= ?", f.Since.UnixMilli())
	}
	if !f.Until.IsZero() {
		w.and(at+" < ?", f.Until.UnixMilli())
	}
	return w
}

// claims are the jobs for which a list shows the unique keys: of each key the
// newest job that has not ended, else the one that holds it. The planner would
// look for them among all jobs, as their ids come in the order of the list; so
// the indexes are named, which hold all that is asked for.
const claims = `id IN (
SELECT id FROM jobs AS h INDEXED BY jobs_held
WHERE holds > 0 AND NOT EXISTS (
  SELECT 1 FROM jobs AS p INDEXED BY jobs_past
  WHERE p.fingerprint = h.fingerprint AND p.holds = 0 AND p.state IN (` + alive + `)
    AND (h.state NOT IN (` + alive + `) OR (p.created_at, p.id) > (h.created_at, h.id)))
UNION ALL
SELECT id FROM jobs AS p INDEXED BY jobs_past
WHERE holds = 0 AND state IN (` + alive + `) AND NOT EXISTS (
  SELECT 1 FROM jobs AS n INDEXED BY jobs_past
  WHERE n.fingerprint = p.fingerprint AND n.holds = 0 AND n.state IN (` + alive + `) AND (n.created_at, n.id) > (p.created_at, p.id))
  AND NOT EXISTS (
  SELECT 1 FROM jobs AS h INDEXED BY jobs_held
  WHERE h.fingerprint = p.fingerprint AND h.holds > 0 AND h.state IN (` + alive + `) AND (h.created_at, h.id) > (p.created_at, p.id)))`

// alive are the states that are not final.
const alive = `'scheduled', 'available', 'pending', 'active', 'retryable'`

// Jobs reads one page of a list.
func (r reader) Jobs(f job.Filter) (page job.Page, err error) {
	if err := r.long(); err != nil {
		return page, err
	}
	w := conditions(f)
	if err := sqlx.Get(r.q, &page.Total, "SELECT count(*) FROM jobs"+w.String(), w.args...); err != nil {
		return page, translate("count jobs", err)
	}
	order := " ORDER BY id DESC"
	if f.Dead {
		order = " ORDER BY finished_at DESC, id DESC"
	}
	if f.Cursor != "" {
		var at int64
		var id string
		if n, err := fmt.Sscanf(f.Cursor, "%d.%36s", &at, &id); n != 2 || err != nil || !job.ValidID(id) {
			e := job.Errorf(job.Invalid, "cursor is not one that this list gave: %.60q", f.Cursor)
			e.Details = map[string]any{"field": "cursor"}
			return page, e
		}
		if f.Dead {
			w.and("(finished_at, id) < (?, ?)", at, id)
		} else {
			w.and("id < ?", id)
		}
	}
	// The ids first: where they must be sorted, whole jobs would be sorted in memory.
	query := "SELECT " + jobColumns + " FROM (SELECT id AS listed FROM jobs" + w.String() + order + " LIMIT ? OFFSET ?) CROSS JOIN jobs ON id = listed"
	jobs, more, err := r.some(f.Limit, f.Room, query, append(w.args, f.Limit+1, f.Offset)...)
	if err != nil {
		return page, translate("list jobs", err)
	}
	if page.Jobs = jobs; more {
		last := jobs[len(jobs)-1]
		page.Next = fmt.Sprintf("%d.%s", last.FinishedAt.UnixMilli(), last.ID)
	}
	return page, nil
}

const deadStats = `SELECT queue, type, coalesce(iif(json_valid(error), json_extract(error, '$.type'), NULL), '') AS error_type,
  count(*) AS n, min(finished_at) AS oldest, max(finished_at) AS newest
FROM jobs WHERE dead = 1
GROUP BY 1, 2, 3`

// DeadStats counts the dead letters.
func (r reader) DeadStats() (job.DeadStats, error) {
	st := job.DeadStats{ByQueue: map[string]int64{}, ByType: map[string]int64{}, ByErrorType: map[string]int64{}}
	if err := r.long(); err != nil {
		return st, err
	}
	type group struct {
		Queue, Type, ErrorType string
		N, Oldest, Newest      int64
	}
	var rows []group
	if err := r.each(deadStats, func(v *row[any]) {
		rows = append(rows, group{v.str(), v.str(), v.str(), v.int(), v.int(), v.int()})
	}); err != nil {
		return st, translate("count the dead letters", err)
	}
	for _, g := range rows {
		st.Total += g.N
		st.ByQueue[g.Queue] += g.N
		st.ByType[g.Type] += g.N
		st.ByErrorType[g.ErrorType] += g.N
		oldest, newest := time.UnixMilli(g.Oldest).UTC(), time.UnixMilli(g.Newest).UTC()
		if st.Oldest.IsZero() || oldest.Before(st.Oldest) {
			st.Oldest = oldest
		}
		if newest.After(st.Newest) {
			st.Newest = newest
		}
	}
	return st, nil
}

const queueByName = `SELECT name, paused, created_at, scheduled, available, pending, active, retryable, completed, cancelled, discarded, dead
FROM queues WHERE name = ?`

// Queue reads a queue.
func (r reader) Queue(name string) (job.Queue, error) {
	qs, err := r.queues(queueByName, name)
	if err != nil {
		return job.Queue{}, translate("read queue", err)
	}
	if len(qs) == 0 {
		return job.Queue{}, missing("queue", name)
	}
	return qs[0].queue(), nil
}

// Queues reads all queues.
func (r reader) Queues() ([]job.Queue, error) {
	rows, err := r.queues(allQueues)
	if err != nil {
		return nil, translate("list queues", err)
	}
	queues := make([]job.Queue, len(rows))
	for i := range rows {
		queues[i] = rows[i].queue()
	}
	return queues, nil
}

func (r reader) queues(query string, args ...any) (qs []*queueRow, err error) {
	err = r.each(query, func(v *row[any]) {
		q := &queueRow{Name: v.str(), Paused: v.int(), CreatedAt: v.int()}
		for _, n := range [...]*int64{&q.Scheduled, &q.Available, &q.Pending, &q.Active, &q.Retryable, &q.Completed, &q.Cancelled, &q.Discarded, &q.Dead} {
			*n = v.int()
		}
		v.bad = v.bad || !utf8.ValidString(q.Name)
		qs = append(qs, q)
	}, args...)
	return qs, err
}

// missing says that there is no such thing.
func missing(kind, id string) error {
	e := job.Errorf(job.NotFound, "there is no %s %.140q", kind, id)
	e.Details = map[string]any{"resource_type": kind, "resource_id": id}
	return e
}

// Worker reads a worker.
func (r reader) Worker(id string) (job.WorkerInfo, error) {
	ws, err := r.workers("SELECT info FROM workers WHERE id = ?", id)
	if err != nil {
		return job.WorkerInfo{}, translate("read worker", err)
	}
	if len(ws) == 0 {
		return job.WorkerInfo{}, missing("worker", id)
	}
	return ws[0], nil
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
