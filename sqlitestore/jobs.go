package sqlitestore

import (
	"bytes"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// jobColumns is the one list of the columns of a job, in the order of schema.sql;
// envelopeArgs, statusArgs and jobFrom follow it.
const (
	envelopeColumns = `id, type, queue, args, meta, priority, scheduled_at, expires_at, timeout_ms, visibility_ms, retry, max_attempts, uniq, dedup, custom_id, extra, created_at`
	statusColumns   = `state, attempt, releases, seq, due_at, enqueued_at, started_at, activated_at, finished_at, next_retry_at, retry_delay, lease_token, lease_worker, lease_ms, lease_until, lost, dead, result, error, errors, told`
	keyColumns      = `fingerprint, holds, dedup_key, dedup_until, keep_until, rewritten_at`
	jobColumns      = envelopeColumns + `, ` + statusColumns + `, ` + keyColumns + `, after_id`
)

// updateJob names the state it expects: the row of another transition is never overwritten.
const updateJob = `UPDATE jobs SET
  state = ?, attempt = ?, releases = ?, seq = ?, due_at = ?, enqueued_at = ?, started_at = ?, activated_at = ?,
  finished_at = ?, next_retry_at = ?, retry_delay = ?, lease_token = ?, lease_worker = ?, lease_ms = ?,
  lease_until = ?, lost = ?, dead = ?, result = ?, error = ?, errors = ?, told = ?
WHERE id = ? AND state = ?`

// updateClaim is updateJob where nothing has changed but what a claim changes, and a
// heartbeat: see claimOnly.
const updateClaim = `UPDATE jobs SET
  state = ?, attempt = ?, due_at = ?, started_at = ?, lease_token = ?, lease_worker = ?, lease_ms = ?, lease_until = ?, lost = ?, told = ?
WHERE id = ? AND state = ?`

// updateKeyed is updateJob for a job that has, or had, a key.
const updateKeyed = `UPDATE jobs SET
  state = ?, attempt = ?, releases = ?, seq = ?, due_at = ?, enqueued_at = ?, started_at = ?, activated_at = ?,
  finished_at = ?, next_retry_at = ?, retry_delay = ?, lease_token = ?, lease_worker = ?, lease_ms = ?,
  lease_until = ?, lost = ?, dead = ?, result = ?, error = ?, errors = ?, told = ?,
  fingerprint = ?, holds = ?, dedup_key = ?, dedup_until = ?, keep_until = ?, rewritten_at = ?
WHERE id = ? AND state = ?`

// moveJob saves which job another waits for: few ever wait, so updateJob leaves it alone.
const moveJob = `UPDATE jobs SET after_id = ? WHERE id = ?`

const rewriteJob = `UPDATE jobs SET args = ?, meta = ? WHERE id = ?`

const deleteJob = `DELETE FROM jobs WHERE id = ?`

const jobByID = `SELECT ` + jobColumns + ` FROM jobs WHERE id = ?`

// readJob is jobByID for the writer. The driver asks SQLite for the name and the
// declared type of each column whenever a statement is run, and makes strings of
// them: here there are none.
var readJob = `SELECT +` + strings.ReplaceAll(jobColumns, `, `, ` AS "", +`) + ` AS "" FROM jobs WHERE id = ?`

func envelopeArgs(args []driver.Value, j *job.Job) []driver.Value {
	return append(args, string(j.ID), j.Type, j.Queue, string(j.Args), text(j.Meta), int64(j.Priority),
		millis(j.ScheduledAt), millis(j.ExpiresAt), span(j.Timeout), span(j.Visibility), text(j.Retry),
		int64(j.MaxAttempts), text(j.Unique), text(j.Deduplication), text(j.CustomID), text(j.Extra), j.CreatedAt.UnixMilli())
}

// endless stands for a deduplication key that only the end of its job frees.
const endless = math.MaxInt64

func keyArgs(args []driver.Value, j *job.Job) []driver.Value {
	var holds, until driver.Value
	if j.Fingerprint != "" {
		holds = int64(j.Holds)
	}
	if j.Deduplication != nil {
		switch {
		case j.DedupFreed:
			until = int64(0)
		case j.DedupUntil.IsZero():
			until = int64(endless)
		default:
			until = j.DedupUntil.UnixMilli()
		}
	}
	key, _ := j.DedupKey()
	return append(args, blob(j.Fingerprint), holds, text(key), until, millis(j.Keep), millis(j.RewrittenAt))
}

// blob is a hexadecimal text as it is stored, NULL for none.
func blob(s string) driver.Value {
	if s == "" {
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return []byte(s) // no key that package job has made; nothing is found under it
	}
	return b
}

// keyed reports whether a job has, or had, a key to save.
func keyed(j *job.Job) bool { return j.Unique != nil || j.Deduplication != nil }

func statusArgs(args []driver.Value, j *job.Job) []driver.Value {
	dead := int64(0)
	if j.Dead {
		dead = 1
	}
	return append(args, string(j.State), int64(j.Attempt), int64(j.Releases), j.Seq, millis(j.DueAt),
		millis(j.EnqueuedAt), millis(j.StartedAt), millis(j.ActivatedAt), millis(j.FinishedAt), millis(j.NextRetryAt),
		span(j.RetryDelay), text(j.Lease.Token), text(j.Lease.Worker), span(j.Lease.Length), millis(j.Lease.Until),
		lost(j), dead, text(j.Result), text(j.Error), text(j.Errors), j.Told)
}

func claimArgs(args []driver.Value, j *job.Job) []driver.Value {
	return append(args, string(j.State), int64(j.Attempt), millis(j.DueAt), millis(j.StartedAt),
		text(j.Lease.Token), text(j.Lease.Worker), span(j.Lease.Length), millis(j.Lease.Until), lost(j), j.Told)
}

// claimOnly reports whether updateClaim stores all that has changed of a job: each
// member of its status that is not written there is as it was.
func claimOnly(was, j *job.Job) bool {
	return j.Releases == was.Releases && j.Seq == was.Seq && j.RetryDelay == was.RetryDelay && j.Dead == was.Dead &&
		j.EnqueuedAt.Equal(was.EnqueuedAt) && j.ActivatedAt.Equal(was.ActivatedAt) &&
		j.FinishedAt.Equal(was.FinishedAt) && j.NextRetryAt.Equal(was.NextRetryAt) &&
		bytes.Equal(j.Result, was.Result) && bytes.Equal(j.Error, was.Error) && bytes.Equal(j.Errors, was.Errors) &&
		j.Fingerprint == was.Fingerprint && j.Holds == was.Holds && j.DedupFreed == was.DedupFreed &&
		j.DedupUntil.Equal(was.DedupUntil) && j.Keep.Equal(was.Keep) && j.RewrittenAt.Equal(was.RewrittenAt)
}

// lost is the reservation that a job has lost as it is stored, NULL for none.
func lost(j *job.Job) driver.Value {
	if j.Lost == nil {
		return nil
	}
	b, _ := json.Marshal(j.Lost) // plain fields always marshal
	return string(b)
}

// row reads the columns of one row in turn.
type row[V any] struct {
	v   []V
	i   int
	bad bool // a column was of another type than is ever written
}

func (r *row[V]) next() any {
	r.i++
	return any(r.v[r.i-1])
}

func (r *row[V]) str() string {
	v := r.next()
	s, ok := v.(string)
	r.bad = r.bad || !ok && v != nil
	return s
}

func (r *row[V]) raw() json.RawMessage {
	if s := r.str(); s != "" {
		return json.RawMessage(s)
	}
	return nil
}

func (r *row[V]) int() int64 {
	v := r.next()
	n, ok := v.(int64)
	r.bad = r.bad || !ok && v != nil
	return n
}

func (r *row[V]) time() time.Time {
	v := r.next()
	n, ok := v.(int64)
	if r.bad = r.bad || !ok && v != nil; !ok {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

func (r *row[V]) blob() []byte {
	v := r.next()
	b, ok := v.([]byte)
	r.bad = r.bad || !ok && v != nil
	return b
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
	j.Unique, j.Deduplication, j.CustomID, j.Extra = r.raw(), r.raw(), r.str(), r.raw()
	j.CreatedAt = r.time()
	j.State = job.State(r.str())
	j.Attempt, j.Releases, j.Seq = int(r.int()), int(r.int()), r.int()
	j.DueAt, j.EnqueuedAt, j.StartedAt = r.time(), r.time(), r.time()
	j.ActivatedAt, j.FinishedAt, j.NextRetryAt = r.time(), r.time(), r.time()
	j.RetryDelay = r.span()
	j.Lease = job.Lease{Token: r.str(), Worker: r.str(), Length: r.span(), Until: r.time()}
	if lost := r.raw(); lost != nil {
		if err := json.Unmarshal(lost, &j.Lost); err != nil {
			return nil, unreadable("job %s", j.ID)
		}
	}
	j.Dead = r.int() == 1
	j.Result, j.Error, j.Errors, j.Told = r.raw(), r.raw(), r.raw(), r.int()
	j.Fingerprint, j.Holds = hex.EncodeToString(r.blob()), job.StateSet(r.int())
	r.str() // dedup_key follows from the rest
	if until, ok := r.next().(int64); ok {
		j.DedupFreed = until == 0
		if until != 0 && until != endless {
			j.DedupUntil = time.UnixMilli(until).UTC()
		}
	}
	j.Keep, j.RewrittenAt, j.After = r.time(), r.time(), job.ID(r.str())
	if r.bad || !whole(j) {
		return nil, unreadable("job %s", j.ID)
	}
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
	if errors.Is(err, errDamaged) { // no statement has failed
		t.w.sick(err)
		return nil, err
	}
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

// UpdateJob saves a job's Status.
func (t *tx) UpdateJob(j *job.Job) error {
	was := t.call.jobs[j.ID]
	if was == nil {
		return job.Errorf(job.Internal, "job %s was not read in this transaction", j.ID)
	}
	t.place(j)
	var err error
	if j.Told, err = t.note(j, was.Told); err != nil {
		return err
	}
	update := t.w.st.update
	if claimOnly(was, j) {
		update, t.args = t.w.st.updateClaim, claimArgs(t.args[:0], j)
	} else if t.args = statusArgs(t.args[:0], j); keyed(j) {
		update, t.args = t.w.st.updateKeyed, keyArgs(t.args, j)
	}
	t.args = append(t.args, string(j.ID), string(was.State))
	t.wrote = true
	n, err := t.do(update, t.args...)
	if err != nil {
		return t.fail("update job", err)
	}
	if n != 1 {
		return job.Errorf(job.Internal, "job %s was not %s any more", j.ID, was.State)
	}
	if j.After != was.After {
		if _, err := t.do(t.w.st.move, text(j.After), string(j.ID)); err != nil {
			return t.fail("update job", err)
		}
	}
	t.count(was, -1)
	t.count(j, 1)
	t.call.jobs[j.ID] = j.Clone()
	return nil
}

// RewriteJob saves a job's Status, Args and Meta.
func (t *tx) RewriteJob(j *job.Job) error {
	t.wrote = true
	if _, err := t.do(t.w.st.rewrite, string(j.Args), text(j.Meta), string(j.ID)); err != nil {
		return t.fail("rewrite job", err)
	}
	return t.UpdateJob(j)
}

// DeleteJob removes a job for good.
func (t *tx) DeleteJob(id job.ID) error {
	j, err := t.Job(id)
	if err != nil {
		return err
	}
	t.wrote = true
	if _, err := t.do(t.w.st.remove, string(id)); err != nil {
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
	if j.After != "" {
		t.call.waiting += n
	}
	if j.Dead {
		t.call.counts = append(t.call.counts, count{j.Queue, deadCount, n, at})
	}
}
