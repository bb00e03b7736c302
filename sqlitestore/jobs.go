package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// jobColumns is the one list of the columns of a job, in the order of schema.sql;
// envelopeArgs, statusArgs and jobFrom follow it.
const (
	envelopeColumns = `id, type, queue, args, meta, priority, scheduled_at, expires_at, timeout_ms, visibility_ms, retry, max_attempts, uniq, extra, created_at`
	statusColumns   = `state, attempt, releases, seq, due_at, enqueued_at, started_at, activated_at, finished_at, next_retry_at, retry_delay, lease_token, lease_worker, lease_ms, lease_until, lost, dead, result, error, errors, told`
	jobColumns      = envelopeColumns + `, ` + statusColumns
)

const insertJob = `INSERT INTO jobs (` + jobColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING`

// insertPlain is insertJob for a job that has just entered its queue and asks for
// nothing special, as most do: what is not named is NULL. Binding the twenty
// NULLs would cost a fifth of the insert.
const insertPlain = `INSERT INTO jobs (id, type, queue, args, meta, priority, max_attempts, extra, created_at, state, attempt, releases, seq, enqueued_at, dead, told)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'available', 0, 0, ?, ?, 0, ?)
ON CONFLICT (id) DO NOTHING`

// plain reports whether insertPlain writes all there is of a job.
func plain(j *job.Job) bool {
	return j.State == job.Available && j.Attempt == 0 && j.Releases == 0 && j.DueAt.IsZero() &&
		j.ScheduledAt.IsZero() && j.ExpiresAt.IsZero() && j.Timeout == 0 && j.Visibility == 0 &&
		j.Retry == nil && j.Unique == nil && j.RetryDelay == 0 && j.Lost == nil && j.Errors == nil && j.Error == nil &&
		j.StartedAt.IsZero() && j.ActivatedAt.IsZero()
}

// updateJob names the state it expects: the row of another transition is never overwritten.
const updateJob = `UPDATE jobs SET
  state = ?, attempt = ?, releases = ?, seq = ?, due_at = ?, enqueued_at = ?, started_at = ?, activated_at = ?,
  finished_at = ?, next_retry_at = ?, retry_delay = ?, lease_token = ?, lease_worker = ?, lease_ms = ?,
  lease_until = ?, lost = ?, dead = ?, result = ?, error = ?, errors = ?, told = ?
WHERE id = ? AND state = ?`

const deleteJob = `DELETE FROM jobs WHERE id = ?`

const jobByID = `SELECT ` + jobColumns + ` FROM jobs WHERE id = ?`

func envelopeArgs(args []driver.Value, j *job.Job) []driver.Value {
	return append(args, string(j.ID), j.Type, j.Queue, string(j.Args), text(j.Meta), int64(j.Priority),
		millis(j.ScheduledAt), millis(j.ExpiresAt), span(j.Timeout), span(j.Visibility), text(j.Retry),
		int64(j.MaxAttempts), text(j.Unique), text(j.Extra), j.CreatedAt.UnixMilli())
}

func statusArgs(args []driver.Value, j *job.Job) []driver.Value {
	var lost driver.Value
	if j.Lost != nil {
		b, _ := json.Marshal(j.Lost) // plain fields always marshal
		lost = string(b)
	}
	dead := int64(0)
	if j.Dead {
		dead = 1
	}
	return append(args, string(j.State), int64(j.Attempt), int64(j.Releases), j.Seq, millis(j.DueAt),
		millis(j.EnqueuedAt), millis(j.StartedAt), millis(j.ActivatedAt), millis(j.FinishedAt), millis(j.NextRetryAt),
		span(j.RetryDelay), text(j.Lease.Token), text(j.Lease.Worker), span(j.Lease.Length), millis(j.Lease.Until),
		lost, dead, text(j.Result), text(j.Error), text(j.Errors), j.Told)
}

// row reads the columns of one job in turn.
type row[V any] struct {
	v []V
	i int
}

func (r *row[V]) next() any {
	r.i++
	return any(r.v[r.i-1])
}

func (r *row[V]) str() string {
	s, _ := r.next().(string)
	return s
}

func (r *row[V]) raw() json.RawMessage {
	if s := r.str(); s != "" {
		return json.RawMessage(s)
	}
	return nil
}

func (r *row[V]) int() int64 {
	n, _ := r.next().(int64)
	return n
}

func (r *row[V]) time() time.Time {
	if n, ok := r.next().(int64); ok {
		return time.UnixMilli(n).UTC()
	}
	return time.Time{}
}

func (r *row[V]) span() time.Duration { return time.Duration(r.int()) * time.Millisecond }

// jobFrom reads the columns of jobColumns.
func jobFrom[V any](values []V) (*job.Job, error) {
	r := &row[V]{v: values}
	j := &job.Job{}
	j.ID, j.Type, j.Queue = job.ID(r.str()), r.str(), r.str()
	j.Args, j.Meta = r.raw(), r.raw()
	j.Priority = int(r.int())
	j.ScheduledAt, j.ExpiresAt = r.time(), r.time()
	j.Timeout, j.Visibility = r.span(), r.span()
	j.Retry, j.MaxAttempts = r.raw(), int(r.int())
	j.Unique, j.Extra = r.raw(), r.raw()
	j.CreatedAt = r.time()
	j.State = job.State(r.str())
	j.Attempt, j.Releases, j.Seq = int(r.int()), int(r.int()), r.int()
	j.DueAt, j.EnqueuedAt, j.StartedAt = r.time(), r.time(), r.time()
	j.ActivatedAt, j.FinishedAt, j.NextRetryAt = r.time(), r.time(), r.time()
	j.RetryDelay = r.span()
	j.Lease = job.Lease{Token: r.str(), Worker: r.str(), Length: r.span(), Until: r.time()}
	if lost := r.raw(); lost != nil {
		if err := json.Unmarshal(lost, &j.Lost); err != nil {
			return nil, job.Errorf(job.Internal, "job %s has an unreadable lost lease: %w", j.ID, err)
		}
	}
	j.Dead = r.int() == 1
	j.Result, j.Error, j.Errors, j.Told = r.raw(), r.raw(), r.raw(), r.int()
	return j, nil
}

// Job reads a job, from memory if the writer has just touched it.
func (t *tx) Job(id job.ID) (*job.Job, error) {
	if j, ok := t.call.jobs[id]; ok {
		if j == nil {
			return nil, noJob(id) // deleted by this call
		}
		return j.Clone(), nil
	}
	if j := t.w.cache.get(id); j != nil {
		t.call.jobs[id] = j
		return j.Clone(), nil
	}
	var j *job.Job
	err := t.w.st.byID.each(func(v []driver.Value) (err error) {
		j, err = jobFrom(v)
		return err
	}, string(id))
	if err != nil {
		return nil, t.fail("read job", err)
	}
	if j == nil {
		return nil, noJob(id)
	}
	t.call.jobs[id] = j
	return j.Clone(), nil
}

func noJob(id job.ID) error {
	e := job.Errorf(job.NotFound, "there is no job %.80s", id)
	e.Details = map[string]any{"resource_type": "job", "resource_id": string(id)}
	return e
}

// place gives a job that is new, or that enters its queue, the next position.
func (t *tx) place(j *job.Job) {
	if j.Seq == 0 {
		t.w.seq++
		j.Seq = t.w.seq
	}
}

// InsertJob stores a new job.
func (t *tx) InsertJob(j *job.Job) error {
	t.place(j)
	quiet := len(t.call.events)
	j.Told = t.note(j, 0)
	insert := t.w.st.insert
	if plain(j) {
		insert = t.w.st.insertPlain
		t.args = append(t.args[:0], string(j.ID), j.Type, j.Queue, string(j.Args), text(j.Meta), int64(j.Priority),
			int64(j.MaxAttempts), text(j.Extra), j.CreatedAt.UnixMilli(), j.Seq, millis(j.EnqueuedAt), j.Told)
	} else {
		t.args = statusArgs(envelopeArgs(t.args[:0], j), j)
	}
	n, err := insert.exec(t.args...)
	if err != nil {
		return t.fail("insert job", err)
	}
	if n == 0 {
		t.call.events = t.call.events[:quiet]
		e := job.Errorf(job.Duplicate, "job %s exists already", j.ID)
		e.Details = map[string]any{"existing_job_id": string(j.ID)}
		return e
	}
	t.count(j, 1)
	if q := t.w.queues[j.Queue]; j.State != job.Available || q == nil || q.Available < shallow {
		t.call.jobs[j.ID] = j.Clone() // it will be asked for soon
	}
	return nil
}

// shallow is how many jobs may wait in a queue for a new one still to be worth remembering.
const shallow = 1000

// UpdateJob saves a job's Status.
func (t *tx) UpdateJob(j *job.Job) error {
	was := t.call.jobs[j.ID]
	if was == nil {
		return job.Errorf(job.Internal, "job %s was not read in this transaction", j.ID)
	}
	t.place(j)
	j.Told = t.note(j, was.Told)
	t.args = append(statusArgs(t.args[:0], j), string(j.ID), string(was.State))
	n, err := t.w.st.update.exec(t.args...)
	if err != nil {
		return t.fail("update job", err)
	}
	if n != 1 {
		return job.Errorf(job.Internal, "job %s was not %s any more", j.ID, was.State)
	}
	t.count(was, -1)
	t.count(j, 1)
	t.call.jobs[j.ID] = j.Clone()
	return nil
}

// DeleteJob removes a job for good.
func (t *tx) DeleteJob(id job.ID) error {
	j, err := t.Job(id)
	if err != nil {
		return err
	}
	if _, err := t.w.st.remove.exec(string(id)); err != nil {
		return t.fail("delete job", err)
	}
	t.count(j, -1)
	t.call.jobs[id] = nil
	return nil
}

// count adds n times what a job counts for.
func (t *tx) count(j *job.Job, n int64) {
	at := j.CreatedAt.UnixMilli()
	t.call.counts = append(t.call.counts, count{j.Queue, j.State, n, at})
	if j.Dead {
		t.call.counts = append(t.call.counts, count{j.Queue, deadCount, n, at})
	}
}
