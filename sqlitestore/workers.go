package sqlitestore

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var putWorker = upsert("workers", "id, beat_at, info")

// PutWorker stores what is known of a worker.
func (t *tx) PutWorker(w job.WorkerInfo) error {
	info, err := json.Marshal(w)
	if err != nil {
		return job.Errorf(job.Internal, "encode worker %s: %w", w.ID, err)
	}
	t.wrote = true
	_, err = t.doCold(putWorker, w.ID, w.BeatAt.UnixMilli(), string(info))
	return t.fail("store worker", err)
}

// DeleteWorker forgets a worker.
func (t *tx) DeleteWorker(id string) error {
	t.wrote = true
	_, err := t.doCold("DELETE FROM workers WHERE id = ?", id)
	return t.fail("forget worker", err)
}

// pruneEvents looks at no more groups than it may remove: the log is in the order
// of its time, but for a clock that was set, and what one day looks too young to
// be removed, with what is behind it, is old enough later.
const pruneEvents = `DELETE FROM events WHERE first IN (
  SELECT first FROM (SELECT first, at FROM events ORDER BY first LIMIT ?) WHERE at < ?)`

// PruneEvents removes the oldest events, commit by commit.
func (t *tx) PruneEvents(before time.Time, n int) (more bool, err error) {
	t.wrote = true
	gone, err := t.doCold(pruneEvents, n, before.UnixMilli())
	return gone == int64(n), t.fail("prune events", err)
}
