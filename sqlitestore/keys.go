package sqlitestore

import (
	"bytes"
	"database/sql/driver"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const heldKey = `SELECT n FROM job_states WHERE fingerprint = ? AND holds > 0`

// pastKey is the newest job of the last state before the given one: run again
// with the state that it returned, it steps through the states that occur, and never
// through all jobs of a state.
const pastKey = `SELECT n, state_code FROM job_states
WHERE fingerprint = ? AND holds = 0 AND state_code < ? AND n IS NOT (SELECT n FROM job_bodies WHERE id_bytes = ?)
ORDER BY state_code DESC, created_at DESC, n DESC LIMIT 1`

const dedupKey = `SELECT n FROM job_states
WHERE queue = ? AND dedup_key = ? AND dedup_until > ?
ORDER BY created_at DESC, n DESC LIMIT 1`

const customID = `SELECT n FROM job_states WHERE queue = ? AND custom_id = ?`

// ask runs a statement, and hands on the number and, where there is one, the state of
// each row that it answers.
type ask func(into func(n, state int64), args ...driver.Value) error

// finder is what keys are looked up with: in the writer the prepared statements
// and the jobs it remembers, elsewhere the snapshot.
type finder struct {
	held, past, dedup, custom ask
	at                        func(n int64) (kept, error)
}

// named reads a job that an index names. If it is not there, or has
// another key, it is not known whether the key is taken until the index has been rebuilt:
// that is an error.
func (f finder) named(index string, n int64, fits func(*job.Job) bool) (*job.Job, error) {
	k, err := f.at(n)
	if err != nil {
		return nil, err
	}
	if k.Job == nil || !fits(k.Job) {
		return nil, job.Errorf(job.Unavailable, "look for a key: %w", rottenEntry(index, n))
	}
	return k.Clone(), nil
}

// Twins finds the jobs with a unique key; see [job.KeyReader].
func (f finder) Twins(fingerprint string, but job.ID) (jobs []*job.Job, err error) {
	key, _ := job.KeyValue(fingerprint).([]byte)
	if key == nil {
		return nil, nil
	}
	var ns []int64
	if err := f.held(func(n, _ int64) { ns = append(ns, n) }, key); err != nil {
		return nil, err
	}
	held := len(ns)
	var spared driver.Value // NULL is nobody's id
	if b, ok := but.Bytes(); ok {
		spared = b[:]
	}
	for last, more := int64(len(job.States)), true; more; {
		more = false
		if err := f.past(func(n, state int64) {
			more = state < last // else the index would lead in a circle
			ns, last = append(ns, n), state
		}, key, last, spared); err != nil {
			return nil, err
		}
	}
	for i, n := range ns {
		index := heldIndex
		if i >= held {
			index = pastIndex
		}
		j, err := f.named(index, n, func(j *job.Job) bool {
			return j.Fingerprint != "" && bytes.Equal(key, job.KeyValue(j.Fingerprint).([]byte)) && (j.Holds > 0) == (index == heldIndex)
		})
		if err != nil {
			return nil, err
		}
		if j.ID != but {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// one reads the job that a statement names, nil for none.
func (f finder) one(index string, ask ask, fits func(*job.Job) bool, args ...driver.Value) (*job.Job, error) {
	found := int64(-1)
	if err := ask(func(n, _ int64) { found = n }, args...); err != nil || found < 0 {
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
	by := func(s *stmt) ask {
		return func(into func(n, state int64), args ...driver.Value) error {
			if err := t.settle(); err != nil {
				return err
			}
			return t.fail("look for a key", s.each(func(row []driver.Value) error {
				into(numbers(row))
				return nil
			}, args...))
		}
	}
	return finder{by(t.w.st.heldKey), by(t.w.st.pastKey), by(t.w.st.dedupKey), by(t.w.st.customID), t.at}
}

// snapshot is all that a view can be asked.
type snapshot struct {
	reader
	finder
}

// finder looks through the snapshot.
func (r reader) finder() finder {
	by := func(query string) ask {
		return func(into func(n, state int64), args ...driver.Value) error {
			plain := make([]any, len(args))
			for i, a := range args {
				plain[i] = a
			}
			for row, err := range r.rows(query, plain...) {
				if err != nil {
					return translate("look for a key", err)
				}
				into(numbers(row))
			}
			return nil
		}
	}
	return finder{by(heldKey), by(pastKey), by(dedupKey), by(customID), r.at}
}

// numbers are that of a job and, where there is one, that of its state; -1 for what is none.
func numbers[V any](row []V) (n, state int64) {
	n, state = -1, -1
	if v, ok := any(row[0]).(int64); ok {
		n = v
	}
	if len(row) > 1 {
		if v, ok := any(row[1]).(int64); ok {
			state = v
		}
	}
	return n, state
}
