package sqlitestore

import (
	"bytes"
	"database/sql/driver"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const heldKey = `SELECT id FROM jobs WHERE fingerprint = ? AND holds > 0`

// pastKey is the newest job of the first state behind the given one: run again
// with the state that it returned, it steps through the states that occur, and never
// through all jobs of a state.
const pastKey = `SELECT id, state FROM jobs
WHERE fingerprint = ? AND holds = 0 AND state > ? AND id <> ?
ORDER BY state, created_at DESC, id DESC LIMIT 1`

const dedupKey = `SELECT id FROM jobs
WHERE queue = ? AND dedup_key = ? AND dedup_until > ?
ORDER BY created_at DESC, id DESC LIMIT 1`

const customID = `SELECT id FROM jobs WHERE queue = ? AND custom_id = ?`

// finder is what keys are looked up with: in the writer the prepared statements
// and the jobs it remembers, elsewhere the snapshot.
type finder struct {
	held, past, dedup, custom func(into func(id, state string), args ...driver.Value) error
	job                       func(job.ID) (*job.Job, error)
}

// named reads a job that an index names. If it is not there, or has
// another key, it is not known whether the key is taken until the index has been rebuilt:
// that is an error.
func (f finder) named(index string, id job.ID, fits func(*job.Job) bool) (*job.Job, error) {
	j, err := f.job(id)
	if err == nil && fits(j) {
		return j, nil
	}
	if err == nil || job.KindOf(err) == job.NotFound {
		r := rottenEntry(index, id)
		return nil, job.Errorf(job.Unavailable, "look for a key: %w", r)
	}
	return nil, err
}

// Twins finds the jobs with a unique key; see [job.KeyReader].
func (f finder) Twins(fingerprint string, but job.ID) (jobs []*job.Job, err error) {
	key, _ := job.KeyValue(fingerprint).([]byte)
	if key == nil {
		return nil, nil
	}
	var ids []job.ID
	err = f.held(func(id, _ string) {
		if job.ID(id) != but {
			ids = append(ids, job.ID(id))
		}
	}, key)
	held := len(ids)
	for last, more := "", true; more && err == nil; {
		more = false
		err = f.past(func(id, state string) {
			more = state > last // else the index would lead in a circle
			ids, last = append(ids, job.ID(id)), state
		}, key, last, string(but))
	}
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		index := heldIndex
		if i >= held {
			index = pastIndex
		}
		j, err := f.named(index, id, func(j *job.Job) bool {
			return j.Fingerprint != "" && bytes.Equal(key, job.KeyValue(j.Fingerprint).([]byte)) && (j.Holds > 0) == (index == heldIndex)
		})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// one reads the job that a statement names, nil for none.
func (f finder) one(index string, ask func(func(id, state string), ...driver.Value) error, fits func(*job.Job) bool, args ...driver.Value) (*job.Job, error) {
	var found job.ID
	if err := ask(func(id, _ string) { found = job.ID(id) }, args...); err != nil || found == "" {
		return nil, err
	}
	return f.named(index, found, fits)
}

// DedupOwner finds who holds a deduplication key; see [job.KeyReader].
func (f finder) DedupOwner(queue, id string, now time.Time) (*job.Job, error) {
	return f.one(dedupIndex, f.dedup, func(j *job.Job) bool {
		key, _ := j.DedupKey()
		return key == id && j.Queue == queue
	}, queue, id, now.UnixMilli())
}

// Custom finds the job with a caller's own name; see [job.KeyReader].
func (f finder) Custom(queue, id string) (*job.Job, error) {
	return f.one(customIndex, f.custom, func(j *job.Job) bool { return j.CustomID == id && j.Queue == queue }, queue, id)
}

// prepared looks through the prepared statements.
func (t *tx) prepared() finder {
	ask := func(s *stmt) func(func(id, state string), ...driver.Value) error {
		return func(into func(id, state string), args ...driver.Value) error {
			return t.fail("look for a key", s.each(func(row []driver.Value) error {
				into(columns(row))
				return nil
			}, args...))
		}
	}
	return finder{ask(t.w.st.heldKey), ask(t.w.st.pastKey), ask(t.w.st.dedupKey), ask(t.w.st.customID), t.Job}
}

// snapshot is all that a view can be asked.
type snapshot struct {
	reader
	finder
}

// finder looks through the snapshot.
func (r reader) finder() finder {
	ask := func(query string) func(func(id, state string), ...driver.Value) error {
		return func(into func(id, state string), args ...driver.Value) error {
			return translate("look for a key", r.ask(query, into, args))
		}
	}
	return finder{ask(heldKey), ask(pastKey), ask(dedupKey), ask(customID), r.Job}
}

func (r reader) ask(query string, into func(id, state string), args []driver.Value) error {
	plain := make([]any, len(args))
	for i, a := range args {
		plain[i] = a
	}
	for row, err := range r.rows(query, plain...) {
		if err != nil {
			return err
		}
		into(columns(row))
	}
	return nil
}

// columns are the texts of an id and, where there is one, a state.
func columns[V any](row []V) (id, state string) {
	id, _ = any(row[0]).(string)
	if len(row) > 1 {
		state, _ = any(row[1]).(string)
	}
	return id, state
}
