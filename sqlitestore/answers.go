package sqlitestore

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	answerByKey  = `SELECT digest, answer FROM answers WHERE key = ?`
	pruneAnswers = `DELETE FROM answers WHERE at < ?`
	putAnswer    = `INSERT INTO answers (key, at, digest, answer) VALUES (?, ?, ?, ?)`
)

// Answer reads what was answered under a key.
func (t *tx) Answer(key string) (digest string, answer []byte, err error) {
	err = t.each(answerByKey, func(v *row[any]) { digest, answer = v.str(), []byte(v.str()) }, key)
	return digest, answer, t.fail("look for an idempotency key", err)
}

// PutAnswer stores an answer.
func (t *tx) PutAnswer(key, digest string, answer []byte, at time.Time) error {
	t.wrote = true
	_, err := t.doCold(putAnswer, key, at.UnixMilli(), digest, string(answer))
	return t.fail("store an answer", err)
}

// PruneAnswers removes old answers.
func (t *tx) PruneAnswers(before time.Time) error {
	t.wrote = true
	_, err := t.doCold(pruneAnswers, before.UnixMilli())
	return t.fail("prune answers", err)
}

// oldestAvailable sorts what is available of a queue, so it is for those that have a bound.
const oldestAvailable = `SELECT n, 0, seq FROM job_states WHERE queue = ? AND state_code = 1 ORDER BY seq LIMIT ?`

// Oldest reads the available jobs of a queue by their age. Damaged jobs are skipped.
func (t *tx) Oldest(queue string, n int) ([]*job.Job, error) {
	var entries []entry
	if err := t.each(oldestAvailable, func(v *row[any]) { entries = append(entries, entry{v.int(), v.int(), v.int()}) }, queue, n); err != nil {
		return nil, t.fail("read the oldest jobs of a queue", err)
	}
	jobs, _, err := t.jobsOf(claimIndex, entries, room(n), func(j *job.Job, _ entry) bool { return j.State == job.Available && j.Queue == queue })
	return jobs, t.fail("read the oldest jobs of a queue", err)
}
