package sqlitestore

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Available reads the head of the queues, in claim order. Damaged jobs are
// skipped and reported.
func (t *tx) Available(queues []string, n int) ([]*job.Job, error) {
	var jobs []*job.Job
	for i, name := range queues {
		if n == 0 || slices.Contains(queues[:i], name) || t.setOf(name).Paused() {
			continue
		}
		found, whole, err := t.head(name, n)
		if err != nil {
			return nil, t.fail("read the queue "+strconv.Quote(name), err)
		}
		if jobs, n = append(jobs, found...), n-len(found); !whole {
			break
		}
	}
	return jobs, nil
}

const allDue = `SELECT n, due_at, seq FROM job_states
WHERE state_code = ? AND due_at <= ?
ORDER BY due_at, seq
LIMIT ?`

// dueAs is what an entry of jobs_due must hold for its job.
func dueAs(s job.State) func(*job.Job, entry) bool {
	return func(j *job.Job, e entry) bool {
		return j.State == s && !j.DueAt.IsZero() && j.DueAt.UnixMilli() == e.a && j.Seq == e.b
	}
}

// Due reads the jobs that are due. Damaged jobs are skipped and reported.
func (t *tx) Due(s job.State, before time.Time, n int) ([]*job.Job, error) {
	for ask := n; ; ask *= 4 {
		jobs, answered, whole, err := t.read(dueIndex, t.w.st.due, n, dueAs(s), job.StateCode(s), before.UnixMilli(), int64(ask))
		if err != nil {
			return nil, t.fail("read what is due", err)
		}
		if len(jobs) >= n || answered < ask || !whole {
			return jobs[:min(n, len(jobs))], nil
		}
	}
}

const nextDue = `SELECT n, due_at, seq FROM job_states
WHERE state_code = ? AND due_at IS NOT NULL
ORDER BY due_at, seq
LIMIT 1`

// NextDue reads when the next job is due. Where the index is damaged that is at
// once: by then it has been rebuilt.
func (t *tx) NextDue(s job.State) (at time.Time, err error) {
	var first entry
	if err := t.settle(); err != nil {
		return at, err
	}
	if err := t.w.st.nextDue.each(func(v []driver.Value) error {
		first = entryFrom(v)
		return nil
	}, job.StateCode(s)); err != nil {
		return at, t.fail("read what is due next", err)
	}
	if first == (entry{}) {
		if n := t.counted("", s); n > 0 && (s == job.Scheduled || s == job.Retryable || s == job.Active) &&
			t.w.suspect(&badIndex{dueIndex, fmt.Sprintf("it holds no jobs that are %s, and there are %d", s, n)}) {
			at = past
		}
		return at, nil
	}
	at = time.UnixMilli(first.a).UTC()
	k, err := t.at(first.n)
	switch {
	case errors.Is(err, errDamaged):
		return at, nil // it is reported, and skipped when its time comes
	case err != nil:
		return at, err
	case k.Job == nil, !dueAs(s)(k.Job, first):
		if t.w.suspect(rottenEntry(dueIndex, first.n)) {
			at = past
		}
	}
	return at, nil
}

// past is an instant that lies in the past by every clock.
var past = time.UnixMilli(1).UTC()

const allWaiting = `SELECT n, 0, 0 FROM job_states WHERE after_id = ?`

// Waiting reads the jobs that wait for another. It is called for every job that
// ends, and mostly no job waits at all.
func (t *tx) Waiting(id job.ID) ([]*job.Job, error) {
	if t.w.waiting+t.group.waiting+t.call.waiting == 0 {
		return nil, nil
	}
	jobs, _, _, err := t.read(afterIndex, t.w.st.waiting, math.MaxInt32, func(j *job.Job, _ entry) bool { return j.After == id }, string(id))
	slices.SortFunc(jobs, func(a, b *job.Job) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, t.fail("read what waits for a job", err)
}

// oldestDead orders the dead letters that a filter lets through.
const oldestDead = " ORDER BY finished_at, s.n LIMIT ?"

// Dead reads dead letters, the oldest first.
func (t *tx) Dead(f job.Filter, n int) ([]*job.Job, error) {
	f.Dead, f.States = true, nil
	w := conditions(f)
	for ask := n; ; ask *= 4 {
		var entries []entry
		if err := t.each("SELECT s.n"+from(f)+w.String()+oldestDead, func(v *row[any]) {
			entries = append(entries, entry{n: v.int()})
		}, append(slices.Clone(w.args), ask)...); err != nil {
			return nil, t.fail("read dead letters", err)
		}
		jobs, _, err := t.jobsOf(deadIndex, entries, math.MaxInt, func(j *job.Job, _ entry) bool { return j.Dead })
		if err != nil || len(jobs) >= n || len(entries) < ask {
			return jobs[:min(n, len(jobs))], err
		}
	}
}

// entry is what an index holds of a job: the number of its rows, and two of its order.
type entry struct{ n, a, b int64 }

func entryFrom(v []driver.Value) (e entry) {
	r := &row[driver.Value]{v: v}
	return entry{r.int(), r.int(), r.int()}
}

// atOnce is how many bytes of jobs the writer reads for one call. A caller that asks for
// many large ones gets the first of them, and asks again.
const atOnce = 8 << 20

// room is how many bytes may be read for n jobs: a caller that wants all gets all.
func room(n int) int {
	if n == math.MaxInt32 {
		return math.MaxInt
	}
	return atOnce
}

// read runs a statement that returns entries of an index, and reads the first n of
// their jobs. answered is how many entries there were, whether they fit a job or not;
// whole reports that what fits was not too large to be read at once.
func (t *tx) read(index string, s *stmt, n int, fits func(*job.Job, entry) bool, args ...driver.Value) (jobs []*job.Job, answered int, whole bool, err error) {
	if err := t.settle(); err != nil {
		return nil, 0, false, err
	}
	var entries []entry
	err = s.each(func(v []driver.Value) error {
		entries = append(entries, entryFrom(v))
		return nil
	}, args...)
	if err != nil {
		return nil, 0, false, err
	}
	jobs, whole, err = t.jobsOf(index, entries, room(n), fits)
	return jobs, len(entries), whole, err
}

// jobsOf reads the jobs that entries of an index name, until they have taken all
// the room; whole reports that they are all of them. It skips jobs that are not there,
// do not match their entry, or cannot be read: one of them must not hide all that come
// after it.
func (t *tx) jobsOf(index string, entries []entry, room int, fits func(*job.Job, entry) bool) (jobs []*job.Job, whole bool, err error) {
	jobs = make([]*job.Job, 0, len(entries))
	for i, e := range entries {
		k, err := t.at(e.n)
		switch {
		case errors.Is(err, errDamaged):
			continue // it has been reported
		case err != nil:
			return nil, false, err
		case k.Job == nil, !fits(k.Job, e):
			t.w.suspect(rottenEntry(index, e.n))
			continue
		}
		jobs = append(jobs, k.Clone())
		if room -= k.Size(); room <= 0 {
			return jobs, i == len(entries)-1, nil
		}
	}
	return jobs, true, nil
}
