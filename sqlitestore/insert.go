package sqlitestore

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// A new job is a row in each of two tables. Most jobs have just entered their queue
// and ask for nothing special: they are as fresh in all but a few columns, which alone
// are bound. And most come one by one, from many callers at once: their rows are kept
// in memory until something must be read, or the group ends, and are stored many in
// one statement then. To open and close a table and its indexes costs more than a row
// does: eight rows in one statement cost as much as three in one each, and more than
// 32 gain nothing.
const together = 32

var (
	insertBody  = `INSERT OR IGNORE INTO job_bodies (n, ` + namesOf(bodyColumns, "", "") + `)` + "\nVALUES (?" + strings.Repeat(", ?", len(bodyColumns)) + ")"
	insertState = `INSERT INTO job_states (n, ` + namesOf(stateColumns, "", "") + `)` + "\nVALUES (?" + strings.Repeat(", ?", len(stateColumns)) + ")"

	plainBody  = narrowTo("job_bodies", bodyColumns, "id_bytes", "type", "max_attempts", "uniq", "retry", "extra", "meta", "args")
	flowBody   = narrowTo("job_bodies", bodyColumns, "id_bytes", "type", "max_attempts", "uniq", "retry", "extra", "meta", "args", "flow", "parent_results")
	plainState = narrowTo("job_states", stateColumns, "queue", "priority", "seq", "told", "created_at", "enqueued_at")
	keyedState = firstOf(narrowTo("job_states", stateColumns, "queue", "priority", "seq", "told", "created_at", "enqueued_at", "fingerprint", "holds"))
)

// newRow is what is stored of a new job.
type newRow struct {
	n                  int64
	body, state        []driver.Value // all columns
	simpleBody, simple bool           // a narrow insert stores the one, or both
}

// rowOf gives a new job its position, and lays out its rows.
func (t *tx) rowOf(j *job.Job) (r newRow) {
	if j.Seq != 0 { // it came with its place
		t.w.seq++
	}
	t.place(j)
	r.n = t.w.seq
	if j.LastEvent = 0; j.PendingEvents() > 0 {
		j.LastEvent = t.nextSeq() + int64(j.PendingEvents()) - 1
	}
	t.body = valuesOf(t.body[:0], bodyColumns, j)
	t.state = valuesOf(t.state[:0], stateColumns, j)
	r.body, r.state = t.body, t.state
	r.simpleBody = plainBody.holds(r.body)
	r.simple = r.simpleBody && plainState.holds(r.state)
	return r
}

// InsertJob stores a new job.
func (t *tx) InsertJob(j *job.Job) error {
	stored, err := t.insert(j, true)
	if err == nil && !stored {
		return job.Errorf(job.Duplicate, "job %s exists already", j.ID).With(map[string]any{"existing_job_id": string(j.ID)})
	}
	return err
}

// insert stores a new job unless its ID is taken, perhaps later, if it may wait.
func (t *tx) insert(j *job.Job, wait bool) (bool, error) {
	seq, known := j.Seq, t.knows(j.ID)
	r := t.rowOf(j)
	if wait && r.simple && !known && !t.careful && t.waits.eager == 0 {
		t.waits.states = plainState.keep(append(t.waits.states, r.n), r.state)
		return true, t.waitFor(j, r)
	}
	stored, err := t.putBody(r)
	if t.wrote = t.wrote || stored; err == nil && stored {
		t.args = append(append(t.args[:0], r.n), r.state...)
		_, err = t.do(t.w.st.insertState, t.args...)
	}
	if err != nil {
		return false, t.fail("insert job", err)
	}
	if !stored {
		j.Seq, j.LastEvent = seq, 0
		return false, nil
	}
	return true, t.inserted(j, r.n)
}

// knows reports whether a job is remembered: that its ID is taken is no surprise then.
func (t *tx) knows(id job.ID) bool {
	_, ok := t.call.jobs.get(id)
	if !ok {
		_, ok = t.w.cache.get(id)
	}
	return ok
}

// waitFor keeps the body of a job until settle, and the job as if it were stored.
func (t *tx) waitFor(j *job.Job, r newRow) error {
	t.waitBody(j, r)
	t.wrote = true
	if t.waits.size > maxWaiting {
		if err := t.settle(); err != nil {
			return err
		}
	}
	return t.inserted(j, r.n)
}

func (t *tx) waitBody(j *job.Job, r newRow) {
	if len(t.waits.bodies) == 0 {
		t.waits.first = r.n
	}
	t.waits.bodies = plainBody.keep(append(t.waits.bodies, r.n), r.body)
	t.waits.size += j.Size()
}

// putBody stores a body unless its ID is taken.
func (t *tx) putBody(r newRow) (bool, error) {
	if r.body[0] == nil {
		return false, job.Errorf(job.Internal, "the id of a job is no UUID in lower case")
	}
	s := t.w.st.insertBody
	if t.args = append(t.args[:0], r.n); r.simpleBody {
		s, t.args = t.w.st.plainBody.of[0], plainBody.keep(t.args, r.body)
	} else {
		t.args = append(t.args, r.body...)
	}
	n, err := t.do(s, t.args...)
	return n > 0, err
}

// InsertJobs stores new jobs, the plain ones many in one statement.
func (t *tx) InsertJobs(js []*job.Job) ([]bool, error) {
	stored := make([]bool, len(js))
	for i := 0; i < len(js); {
		end := min(i+together, len(js))
		if end-i > 1 {
			ok, err := t.insertTogether(js[i:end])
			if err != nil {
				return nil, err
			}
			if ok {
				for ; i < end; i++ {
					stored[i] = true
				}
				continue
			}
		}
		for ; i < end; i++ {
			var err error
			if stored[i], err = t.insert(js[i], len(js) == 1); err != nil {
				return nil, err
			}
		}
	}
	return stored, nil
}

// insertTogether stores plain jobs in one statement for each table, or none of them
// where one is not plain or an ID is taken. Whoever sends many may send them again, so
// these do not wait.
func (t *tx) insertTogether(js []*job.Job) (bool, error) {
	if err := t.settle(); err != nil {
		return false, err
	}
	seq, first := t.w.seq, t.w.seq+1
	defer t.waits.reset() // whose room is used
	w := &t.waits
	told := t.nextSeq() - 1
	placed, all := 0, true
	bodies, body := &t.w.st.plainBody, &plainBody
	if js[0].Flow != nil { // steps of one workflow come together
		bodies, body = &t.w.st.flowBody, &flowBody
	}
	for _, j := range js {
		if j.Seq != 0 {
			all = false
			break
		}
		r := t.rowOf(j)
		placed++
		if j.LastEvent > 0 {
			told += int64(j.PendingEvents())
			j.LastEvent = told
			t.state[toldAt] = told
		}
		if !r.simple && !(body == &flowBody && body.holds(r.body) && plainState.holds(r.state)) {
			all = false
			break
		}
		w.bodies = body.keep(append(w.bodies, r.n), r.body)
		w.states = plainState.keep(append(w.states, r.n), r.state)
	}
	stored := false
	if all {
		t.wrote = true
		var err error
		if stored, err = t.insertRows(bodies, w.bodies); err == nil && stored {
			var too bool
			if too, err = t.insertRows(&t.w.st.plainState, w.states); err == nil && !too {
				err = errTaken
			}
		}
		if err != nil {
			return false, t.fail("insert jobs", err)
		}
	}
	if stored {
		for i, j := range js {
			if err := t.inserted(j, first+int64(i)); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	for i, j := range js[:placed] { // those that went in must not stay: they come again, one by one
		if all {
			id, _ := j.ID.Bytes()
			if _, err := t.do(t.w.st.takeBack, first+int64(i), id[:]); err != nil {
				return false, t.fail("insert jobs", err)
			}
		}
		j.Seq, j.LastEvent = 0, 0
	}
	t.w.seq = seq
	return false, nil
}

// toldAt is where LastEvent stands among the columns of a state.
var toldAt = slices.IndexFunc(stateColumns, func(c job.Column) bool { return c.Name == "told" })

// freeKey stands for the queue in an insert that looks and stores at once: where
// jobs_past knows the unique key there is no queue, and OR IGNORE leaves the row
// out, as it does where jobs_held has it. To look first with statements of its own
// would double the cost of the insert, and so would INSERT ... SELECT, for which
// SQLite keeps a journal of the statement.
const freeKey = `iif(EXISTS (SELECT 1 FROM job_states WHERE fingerprint = ? AND holds = 0), NULL, ?)`

// insertFirst has the queue second, behind the number.
var insertFirst = strings.Replace(strings.Replace(insertState, "INSERT", "INSERT OR IGNORE", 1), "(?, ?", "(?, "+freeKey, 1)

// firstOf is a narrow insert that looks for the key, too. Its queue comes second.
func firstOf(n narrow) narrow {
	n.row = strings.Replace(n.row, "(?, ?", "(?, "+freeKey, 1)
	n.width++
	return n
}

// The service asks at run time: a method of another shape would cost it the one step,
// and nothing would fail.
var _ job.FirstInserter = (*tx)(nil)

// InsertFirst stores a new job whose unique key no other has.
func (t *tx) InsertFirst(j *job.Job) (bool, error) {
	seq, known := j.Seq, t.knows(j.ID)
	r := t.rowOf(j)
	key := job.KeyValue(j.Fingerprint) // no other may have it
	mayWait, simple := r.simpleBody && !known && !t.careful && t.waits.eager == 0, keyedState.holds(r.state)
	if mayWait && simple && t.waits.eagerKeys == 0 {
		t.waits.keyed = keyedState.keep(append(t.waits.keyed, r.n, key), r.state)
		return true, t.waitFor(j, r)
	}
	s := t.w.st.insertFirst
	if t.args = append(t.args[:0], r.n, key); simple {
		s, t.args = t.w.st.keyedState.of[0], keyedState.keep(t.args, r.state)
	} else {
		t.args = append(t.args, r.state...)
	}
	n, err := t.do(s, t.args...)
	if t.wrote = t.wrote || n > 0; err != nil {
		return false, t.fail("insert job", err)
	}
	stored := n > 0
	switch {
	case !stored:
	case mayWait:
		t.waitBody(j, r)
	default:
		if stored, err = t.putBody(r); err == nil && !stored {
			_, err = t.do(t.w.st.removeState, r.n)
		}
		if err != nil {
			return false, t.fail("insert job", err)
		}
	}
	if !stored {
		j.Seq, j.LastEvent = seq, 0
		return false, nil
	}
	return true, t.inserted(j, r.n)
}

// inserted notes what a job that has been stored tells and counts for.
func (t *tx) inserted(j *job.Job, n int64) error {
	if _, err := t.note(j, 0); err != nil {
		return err
	}
	t.count(j, 1)
	t.tally(nil, j)
	t.moved(kept{}, kept{j, n})
	_, known := t.call.jobs.get(j.ID) // one of its id has been deleted
	if q := t.w.queues[j.Queue]; known || len(t.call.jobs.byID) < maxRemembered && (j.State != job.Available || q == nil || q.Available < maxRemembered) {
		t.call.jobs.put(j.ID, kept{j.Clone(), n}) // it will be asked for soon
	}
	return nil
}

// maxRemembered is how many jobs may wait in a queue for a new one still to be worth remembering.
const maxRemembered = 1000
