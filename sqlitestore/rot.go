package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/outrider-jobs/outrider/job"
)

// SQLite sums up the pages of its log but not those of its file: a bit that turns
// there is read as if it had been written. What can be seen of it without reading
// twice is looked at here. An index that disagrees with its table, or with the
// counters of a queue, is rebuilt once; a row that cannot be what was written is
// skipped; and both are reported.

// errDamaged is behind every error about a row that cannot be what was written.
var errDamaged = errors.New("what is stored here is damaged")

// unreadable is the Unavailable for such a row. It goes to whoever asked.
func unreadable(format string, args ...any) error {
	return job.Errorf(job.Unavailable, "%s cannot be read: %w, and whoever runs this server is told what to do", fmt.Sprintf(format, args...), errDamaged)
}

// badIndex is the finding that an index disagrees with its table.
type badIndex struct{ index, what string }

// Error is for the caller: what it asked for is not known now.
func (r *badIndex) Error() string {
	return "an index of the database is damaged and is built anew; ask again in a moment"
}

// rottenEntry is the finding that an index names a job which it should not.
func rottenEntry(index string, n int64) *badIndex {
	return &badIndex{index, fmt.Sprintf("it names the job number %d, which is not there or is another", n)}
}

// jobIndexes are the indexes of the jobs, as schema.sql names them.
var jobIndexes = []string{idIndex, claimIndex, dueIndex, deadIndex, heldIndex, pastIndex, dedupIndex, customIndex, afterIndex, laneIndex, tenantIndex}

const (
	idIndex     = "jobs_id"
	claimIndex  = "jobs_claim"
	dueIndex    = "jobs_due"
	deadIndex   = "jobs_dead"
	heldIndex   = "jobs_held"
	pastIndex   = "jobs_past"
	dedupIndex  = "jobs_dedup"
	customIndex = "jobs_custom"
	afterIndex  = "jobs_after"
	laneIndex   = "jobs_lane"
	tenantIndex = "jobs_tenant"
)

// suspects are the indexes that were found damaged. Readers find some of them, too,
// so it is safe for concurrent use.
type suspects struct {
	mu     sync.Mutex
	found  []*badIndex
	mended map[string]bool // built anew by this process: a second time there is another reason
	later  time.Time       // there was no room to build one anew; until then it is not tried again
}

// suspect notes that an index is damaged. It is rebuilt after the transaction that is
// running; news reports whether that was not known.
func (w *writer) suspect(r *badIndex) (news bool) {
	w.suspects.mu.Lock()
	known := slices.ContainsFunc(w.suspects.found, func(f *badIndex) bool { return f.index == r.index })
	if !known {
		w.suspects.found = append(w.suspects.found, r)
	}
	w.suspects.mu.Unlock()
	w.troubles.begin(rottenIndex, slog.LevelError, fmt.Errorf("the index %s of %s is damaged: %s. What it hides cannot be found; it is built anew from the jobs themselves, and all calls wait meanwhile, seconds for each hundred thousand jobs on a slow machine", r.index, w.place.db.path, r.what))
	return !known
}

// showsBadIndex reports whether a statement has failed because of an index that can be
// rebuilt.
// What an UPDATE or DELETE does not find in one is damage for certain. A key that is
// refused as taken may be, as whoever stores one has looked for it before: it is
// accepted as taken the second time.
func (w *writer) showsBadIndex(cause error) bool {
	switch extended(cause) {
	case sqlite3.SQLITE_CORRUPT_INDEX:
		maybe := w.unmended(jobIndexes...)
		if len(maybe) == 0 {
			maybe = jobIndexes
		}
		for _, index := range maybe {
			w.suspect(&badIndex{index, "the entry of a job that changes is not in one of the indexes"})
		}
		return true
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		maybe := w.unmended(heldIndex, customIndex)
		for _, index := range maybe {
			w.suspect(&badIndex{index, "a key is refused as taken that no job was found to have"})
		}
		return len(maybe) > 0
	}
	return false
}

// unmended are those of the indexes that this process has not rebuilt.
func (w *writer) unmended(indexes ...string) (names []string) {
	w.suspects.mu.Lock()
	defer w.suspects.mu.Unlock()
	for _, index := range indexes {
		if !w.suspects.mended[index] {
			names = append(names, index)
		}
	}
	return names
}

// noteDamage reports an error that shows damage, and leaves others alone.
func (w *writer) noteDamage(err error) {
	var r *badIndex
	switch {
	case err == nil:
	case errors.As(err, &r):
		w.suspect(r)
	case errors.Is(err, errDamaged), code(err) == sqlite3.SQLITE_CORRUPT, code(err) == sqlite3.SQLITE_NOTADB,
		extended(err) == sqlite3.SQLITE_IOERR_CORRUPTFS:
		w.troubles.begin(damaged, slog.LevelError, fmt.Errorf("%s is damaged, and what is damaged is passed over or refused: %w. Stop the server, keep copies of %[1]s and %[1]s-wal, and restore a backup in their place", w.place.db.path, err))
	}
}

// found reports the damage that a reader has found, and has the writer rebuild what it
// can: an idle writer is given a call that does nothing.
func (s *Store) found(err error) {
	var r *badIndex
	if s.w.noteDamage(err); !errors.As(err, &r) {
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return
	}
	select {
	case s.w.calls <- &call{ctx: context.Background(), fn: func(job.Tx) error { return nil }, done: make(chan error, 1)}:
	default: // it is not idle
	}
}

// mend rebuilds the damaged indexes, in a transaction of its own. An index that is
// damaged again after that has more wrong with it than one flipped bit: the disk goes on
// flipping them, or the table itself is damaged. Then the store fails.
func (w *writer) mend() error {
	if err := w.fault(); err != nil {
		return err
	}
	w.suspects.mu.Lock()
	found, later := slices.Clone(w.suspects.found), w.suspects.later
	w.suspects.mu.Unlock()
	switch {
	case len(found) == 0:
		return nil
	case time.Now().Before(later):
		return errNoRoom
	}
	for _, r := range found {
		if w.suspects.mended[r.index] {
			return w.doubt(job.Errorf(job.Unavailable, "the index %s of %s was built anew and is damaged again, %s: the disk or the memory fails, or the jobs themselves are damaged. Keep copies of %[2]s and %[2]s-wal, and restore a backup in their place", r.index, w.place.db.path, r.what))
		}
	}
	began := time.Now()
	err := within(w.conn, func() error { return w.rebuild(found) })
	if err == nil {
		err = w.load() // the counters were computed again, too
	}
	w.suspects.mu.Lock()
	defer w.suspects.mu.Unlock()
	if c := code(err); c == sqlite3.SQLITE_FULL || c == sqlite3.SQLITE_BUSY {
		w.suspects.later = time.Now().Add(time.Minute)
		w.log.Error("a damaged index cannot be rebuilt now; trying again in a minute", "error", translate("rebuild an index", err))
		return errNoRoom
	}
	if err != nil {
		return w.doubt(job.Errorf(job.Unavailable, "the damaged index %s of %s cannot be built anew. Keep copies of %[2]s and %[2]s-wal, and restore a backup in their place: %w", found[0].index, w.place.db.path, err))
	}
	names := make([]string, len(found))
	for i, r := range found {
		names[i] = r.index
		if w.suspects.mended == nil {
			w.suspects.mended = map[string]bool{}
		}
		w.suspects.mended[r.index] = true
	}
	w.suspects.found = slices.DeleteFunc(w.suspects.found, func(f *badIndex) bool { return slices.Contains(names, f.index) })
	if len(w.suspects.found) == 0 {
		w.troubles.end(rottenIndex, fmt.Sprintf("what was damaged of %s was built anew in %s, and nothing of it is missing: %s; look at the disk, it has turned a bit", w.place.db.path, time.Since(began).Round(time.Millisecond), strings.Join(names, ", ")))
	}
	return nil
}

// errNoRoom answers a call that needs an index which cannot be rebuilt yet.
var errNoRoom = job.Errorf(job.Unavailable, "an index of the database is damaged, and there is no room to build it anew; nothing was changed, it is tried again in a minute")

// rebuild is what mend does in its transaction. Each index is named: REINDEX of the table
// would build the table anew as well.
func (w *writer) rebuild(found []*badIndex) error {
	for _, r := range found {
		if err := script(w.conn, "REINDEX "+r.index); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(found, func(r *badIndex) bool { return r.index == claimIndex || r.index == dueIndex }) { // which the counters may have shown
		return w.recount()
	}
	return nil
}

const countJobs = `SELECT queue, state_code, count(*), sum(dead = 1) FROM job_states NOT INDEXED GROUP BY 1, 2`

// recount computes the counters of the queues from the jobs: where an index and
// a counter disagree, either may be wrong.
func (w *writer) recount() error {
	for _, q := range w.queues {
		for _, n := range q.counters() {
			*n = 0
		}
	}
	for values, err := range (reader{q: w.unprepared}).rows(countJobs) {
		if err != nil {
			return err
		}
		r := &row[any]{v: values}
		queue, state, n, dead := r.str(), r.int(), r.int(), r.int()
		if state < 0 || state >= int64(len(job.States)) || queue == "" {
			continue // a damaged row, which is reported when it is read
		}
		q := w.queues[queue]
		if q == nil {
			q = &queueRow{Name: queue, CreatedAt: time.Now().UnixMilli()}
			w.queues[queue] = q
		}
		*q.counter(job.States[state]) = n
		q.Dead += dead
	}
	for _, q := range w.queues {
		if err := w.saveQueue(q); err != nil {
			return err
		}
	}
	return nil
}

// counted is how many jobs of a queue, of all if it has no name, are in a state,
// with what this transaction has changed so far.
func (t *tx) counted(queue string, s job.State) (n int64) {
	if q := t.w.queues[queue]; q != nil {
		n = *q.counter(s)
	}
	if queue == "" {
		for _, q := range t.w.queues {
			n += *q.counter(s)
		}
	}
	for _, counts := range [...][]count{t.group.counts, t.call.counts} {
		for i := range counts {
			if counts[i].state == s && (queue == "" || counts[i].queue == queue) {
				n += counts[i].n
			}
		}
	}
	return n
}

// whole reports whether a job has what every job has; what else a column may hold
// its Set knows.
func whole(j *job.Job) bool {
	return j.ID != "" && j.Type != "" && j.Queue != "" && j.Args != nil && slices.Contains(job.States, j.State)
}
