package sqlitestore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

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
		if f.ErrorType != "" {
			w.and("iif(json_valid(error), json_extract(error, '$.type'), NULL) = ?", f.ErrorType)
		}
	}
	if f.Holding {
		w.and(claims)
	}
	if f.Dedup {
		w.and(dedupHeld, f.Now.UnixMilli())
	}
	if len(f.States) > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(f.States)), ", ")
		args := make([]any, len(f.States))
		for i, s := range f.States {
			args[i] = job.StateCode(s)
		}
		w.and("state_code IN ("+marks+")", args...)
	}
	if f.Queue != "" {
		w.and("queue = ?", f.Queue)
	}
	if f.Tenant != "" {
		w.and("tenant = ?", f.Tenant)
	}
	if prefix, ok := strings.CutSuffix(f.Type, "*"); ok {
		w.and("substr(type, 1, ?) = ?", len(prefix), prefix)
	} else if f.Type != "" {
		w.and("type = ?", f.Type)
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
const claims = `s.n IN (
SELECT n FROM job_states AS h INDEXED BY jobs_held
WHERE holds > 0 AND NOT EXISTS (
  SELECT 1 FROM job_states AS p INDEXED BY jobs_past
  WHERE p.fingerprint = h.fingerprint AND p.holds = 0 AND p.state_code IN (` + alive + `)
    AND (h.state_code NOT IN (` + alive + `) OR (p.created_at, p.n) > (h.created_at, h.n)))
UNION ALL
SELECT n FROM job_states AS p INDEXED BY jobs_past
WHERE holds = 0 AND state_code IN (` + alive + `) AND NOT EXISTS (
  SELECT 1 FROM job_states AS a INDEXED BY jobs_past
  WHERE a.fingerprint = p.fingerprint AND a.holds = 0 AND a.state_code IN (` + alive + `) AND (a.created_at, a.n) > (p.created_at, p.n))
  AND NOT EXISTS (
  SELECT 1 FROM job_states AS h INDEXED BY jobs_held
  WHERE h.fingerprint = p.fingerprint AND h.holds > 0 AND h.state_code IN (` + alive + `) AND (h.created_at, h.n) > (p.created_at, p.n)))`

// dedupHeld are the jobs that hold a deduplication key.
const dedupHeld = `s.n IN (SELECT n FROM job_states INDEXED BY jobs_dedup WHERE dedup_key IS NOT NULL AND dedup_until > ?)`

// alive are the states that are not final.
const alive = `0, 1, 2, 3, 4`

// from are the rows of a list, in the order in which they are read. Without a condition on
// the second table SQLite leaves it out where it can, and a job that has lost its other row
// is listed, and found damaged. With one, the order must be held.
func from(f job.Filter) string {
	if f.Dead || f.Holding || f.Dedup { // the states find them
		if f.Type != "" {
			return crossed(byState)
		}
		return byState
	}
	if len(f.States) > 0 || f.Queue != "" || f.Tenant != "" || !f.Since.IsZero() || !f.Until.IsZero() {
		return crossed(byBody)
	}
	return byBody
}

func crossed(from string) string { return strings.Replace(from, "LEFT JOIN", "CROSS JOIN", 1) }

// Where the counters of the queues do not show how many jobs a filter lets
// through, so many are counted, and so many looked at.
const (
	maxCounted = 10_000
	maxVisited = 100_000
)

// Jobs reads one page of a list.
func (r reader) Jobs(f job.Filter) (job.Page, error) {
	return r.list(f, r.counters, maxCounted, maxVisited)
}

// Jobs reads one page of a list, with what this transaction has changed so far.
func (t *tx) Jobs(f job.Filter) (job.Page, error) {
	return t.list(f, t.counters, maxCounted, maxVisited)
}

// counters adds up the counters of a queue, of all if it has no name.
type counters func(queue string, states []job.State) (int64, error)

func (r reader) counters(queue string, states []job.State) (n int64, err error) {
	query, args := allQueues, []any(nil)
	if queue != "" {
		query, args = queueByName, []any{queue}
	}
	qs, err := r.queues(query, args...)
	for _, q := range qs {
		for _, s := range states {
			n += *q.counter(s)
		}
	}
	return n, translate("count jobs", err)
}

func (t *tx) counters(queue string, states []job.State) (n int64, _ error) {
	for _, s := range states {
		n += t.counted(queue, s)
	}
	return n, nil
}

func (r reader) list(f job.Filter, counters counters, most, visited int64) (page job.Page, err error) {
	if err := r.long(); err != nil {
		return page, err
	}
	w := conditions(f)
	if page.Total, page.AtLeast, err = r.count(f, w, counters, most, visited); err != nil {
		return page, err
	}
	if page.Jobs, page.Next, err = r.page(f, w); err != nil {
		return page, err
	}
	if seen := int64(f.Offset + len(page.Jobs)); page.AtLeast && f.Cursor == "" {
		if page.Next != "" {
			page.Total = max(page.Total, seen+1)
		} else if len(page.Jobs) > 0 || f.Offset == 0 { // the last page knows
			page.Total, page.AtLeast = seen, false
		}
	}
	return page, nil
}

// page reads the jobs of a page and where the next one begins.
func (r reader) page(f job.Filter, w where) (jobs []*job.Job, next string, err error) {
	order := " ORDER BY id_bytes DESC"
	if f.Dead {
		order = " ORDER BY finished_at DESC, s.n DESC"
	}
	if f.Cursor != "" {
		if err := after(f, &w); err != nil {
			return nil, "", err
		}
	}
	// The numbers first: where they must be sorted, whole jobs would be sorted in memory.
	number := "b.n"
	if f.Dead || f.Holding || f.Dedup {
		number = "s.n"
	}
	query := "SELECT " + jobColumns + " FROM (SELECT " + number + " AS listed" + from(f) + w.String() + order + " LIMIT ? OFFSET ?) LEFT JOIN job_bodies AS b ON b.n = listed LEFT JOIN job_states AS s ON s.n = listed"
	found, more, err := r.some(f.Limit, f.Room, query, append(w.args, f.Limit+1, f.Offset)...)
	if err != nil {
		return nil, "", translate("list jobs", err)
	}
	if more {
		last := found[len(found)-1]
		if next = string(last.ID); f.Dead {
			next = fmt.Sprintf("%d.%d", last.FinishedAt.UnixMilli(), last.n)
		}
	}
	return jobsIn(found), next, nil
}

// after lets a list begin behind its cursor.
func after(f job.Filter, w *where) error {
	if f.Dead {
		var at, n int64
		if got, err := fmt.Sscanf(f.Cursor, "%d.%d", &at, &n); err == nil && got == 2 && f.Cursor == fmt.Sprintf("%d.%d", at, n) {
			w.and("(finished_at, s.n) < (?, ?)", at, n)
			return nil
		}
	} else if b, ok := job.ID(f.Cursor).Bytes(); ok {
		w.and("id_bytes < ?", b[:])
		return nil
	}
	return job.Errorf(job.Invalid, "cursor is not one that this list gave: %.60q", f.Cursor).With(map[string]any{"field": "cursor"})
}

// Of the newest jobs, and of the dead letters that died last, what conditions ask for.
const (
	newestJobs = "SELECT state_code, queue, tenant, type, created_at" + byBody + " ORDER BY id_bytes DESC LIMIT ?"
	newestDead = "SELECT dead, state_code, queue, tenant, type, error, finished_at" + byState + " WHERE dead = 1 ORDER BY finished_at DESC LIMIT ?"
)

// count is how many jobs a filter lets through: by the counters, where they show it,
// else by looking at the newest jobs, so that a list of a large store does not
// read all of it. atLeast: there may be more.
func (r reader) count(f job.Filter, w where, counters counters, most, visited int64) (n int64, atLeast bool, err error) {
	states := job.States
	if f.Dead {
		states = []job.State{deadCount}
	}
	all, err := counters("", states)
	if err != nil {
		return 0, false, err
	}
	if f.Type == "" && f.Tenant == "" && (f.ErrorType == "" || !f.Dead) && !f.Holding && !f.Dedup && f.Since.IsZero() && f.Until.IsZero() && (!f.Dead || len(f.States) == 0) {
		if len(f.States) > 0 {
			states = slices.DeleteFunc(slices.Clone(job.States), func(s job.State) bool { return !slices.Contains(f.States, s) })
		}
		n, err = counters(f.Queue, states)
		return n, false, err
	}
	query, args := "SELECT count(*) FROM (SELECT 1 FROM (", []any{visited}
	switch {
	case f.Holding || f.Dedup: // the indexes of the keys hold these
		query, args, visited = "SELECT count(*) FROM (SELECT 1"+from(f), nil, all
	case f.Dead:
		query += newestDead + ")"
	default:
		query += newestJobs + ")"
	}
	args = append(append(args, w.args...), most+1)
	if err := r.each(query+w.String()+" LIMIT ?)", func(v *row[any]) { n = v.int() }, args...); err != nil {
		return 0, false, translate("count jobs", err)
	}
	return min(n, most), n > most || all > visited, nil
}
