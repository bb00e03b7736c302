package sqlitestore

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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
func (r reader) jobs(query string, args ...any) (jobs []*job.Job, err error) {
	rows, err := r.q.Queryx(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.SliceScan()
		if err != nil {
			return nil, err
		}
		j, err := jobFrom(values)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

const heldJobs = `SELECT ` + jobColumns + ` FROM jobs
WHERE state = 'active' AND due_at IS NOT NULL AND lease_worker = ?`

// Held reads the jobs that a worker is running.
func (r reader) Held(worker string) ([]*job.Job, error) {
	jobs, err := r.jobs(heldJobs, worker)
	return jobs, translate("read the jobs of a worker", err)
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
		w.and("json_extract(error, '$.type') = ?", f.ErrorType)
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
	args := append(w.args, f.Limit+1, f.Offset)
	page.Jobs, err = r.jobs("SELECT "+jobColumns+" FROM jobs"+w.String()+order+" LIMIT ? OFFSET ?", args...)
	if err != nil {
		return page, translate("list jobs", err)
	}
	if len(page.Jobs) > f.Limit {
		page.Jobs = page.Jobs[:f.Limit]
		last := page.Jobs[f.Limit-1]
		page.Next = fmt.Sprintf("%d.%s", last.FinishedAt.UnixMilli(), last.ID)
	}
	return page, nil
}

const deadStats = `SELECT queue, type, coalesce(json_extract(error, '$.type'), '') AS error_type,
  count(*) AS n, min(finished_at) AS oldest, max(finished_at) AS newest
FROM jobs WHERE dead = 1
GROUP BY 1, 2, 3`

// DeadStats counts the dead letters.
func (r reader) DeadStats() (job.DeadStats, error) {
	st := job.DeadStats{ByQueue: map[string]int64{}, ByType: map[string]int64{}, ByErrorType: map[string]int64{}}
	var rows []struct {
		Queue, Type       string
		ErrorType         string `db:"error_type"`
		N, Oldest, Newest int64
	}
	if err := sqlx.Select(r.q, &rows, deadStats); err != nil {
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
	var q queueRow
	err := sqlx.Get(r.q, &q, queueByName, name)
	if errors.Is(err, sql.ErrNoRows) {
		return job.Queue{}, missing("queue", name)
	}
	if err != nil {
		return job.Queue{}, translate("read queue", err)
	}
	return q.queue(), nil
}

// Queues reads all queues.
func (r reader) Queues() ([]job.Queue, error) {
	var rows []queueRow
	if err := sqlx.Select(r.q, &rows, allQueues); err != nil {
		return nil, translate("list queues", err)
	}
	queues := make([]job.Queue, len(rows))
	for i := range rows {
		queues[i] = rows[i].queue()
	}
	return queues, nil
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
	ws, err := r.workers("SELECT info FROM workers ORDER BY id")
	return ws, translate("list workers", err)
}

func (r reader) workers(query string, args ...any) ([]job.WorkerInfo, error) {
	var infos []string
	if err := sqlx.Select(r.q, &infos, query, args...); err != nil {
		return nil, err
	}
	ws := make([]job.WorkerInfo, len(infos))
	for i, info := range infos {
		if err := json.Unmarshal([]byte(info), &ws[i]); err != nil {
			return nil, err
		}
	}
	return ws, nil
}
