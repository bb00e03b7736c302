package sqlitestore

import (
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

var insertJob = `INSERT INTO jobs (` + jobColumns + `)
VALUES (` + marks(allColumns) + `)
ON CONFLICT (id) DO NOTHING`

// marks are the places of the values of columns.
func marks(cs []job.Column) string { return strings.TrimSuffix(strings.Repeat("?, ", len(cs)), ", ") }

// fresh is a job that has just entered its queue.
var fresh = &job.Job{Status: job.Status{State: job.Available}}

// Most jobs that are stored have just entered their queue and ask for nothing
// special: they differ from fresh in plainColumns alone, and in uniqueColumns with
// a unique policy. What is not named is NULL. Binding the twenty NULLs would cost a
// fifth of the insert.
var (
	plainColumns  = of("id", "type", "queue", "args", "meta", "priority", "max_attempts", "extra", "created_at", "seq", "enqueued_at", "told")
	uniqueColumns = of("uniq", "fingerprint", "holds")
	freshColumns  = written(func(c job.Column) bool {
		same := func(d job.Column) bool { return d.Name == c.Name }
		return !slices.ContainsFunc(plainColumns, same) && !slices.ContainsFunc(uniqueColumns, same)
	})
)

func of(names ...string) []job.Column {
	return written(func(c job.Column) bool { return slices.Contains(names, c.Name) })
}

// What those statements write without a value that is bound.
const (
	freshNames  = `, state, attempt, releases, dead`
	freshValues = `, 'available', 0, 0, 0`
)

// insertPlain is insertJob for a job that is plain.
var insertPlain = `INSERT INTO jobs (` + namesOf(plainColumns, "", "") + freshNames + `)
VALUES (` + marks(plainColumns) + freshValues + `)
ON CONFLICT (id) DO NOTHING`

// together is how many rows insertTogether stores. To open and close the table
// and its indexes costs more than a row does: eight rows in one statement cost as
// much as three in one each, and more than 32 gain nothing.
const together = 32

// insertTogether is insertPlain for several rows.
var insertTogether = func() string {
	head, rest, _ := strings.Cut(insertPlain, "VALUES ")
	row, tail, _ := strings.Cut(rest, "\n")
	return head + "VALUES " + strings.Repeat(row+",\n", together-1) + row + "\n" + tail
}()

// freeKey stands for the id in an insert that looks and stores at once: where
// jobs_past knows the unique key there is no id, and OR IGNORE leaves the row
// out, as it does where jobs_held or the primary key have it. To look first with
// statements of its own would double the cost of the insert, and so would
// INSERT ... SELECT, for which SQLite keeps a journal of the statement.
const freeKey = `iif(EXISTS (SELECT 1 FROM jobs WHERE fingerprint = ? AND holds = 0), NULL, ?)`

var insertFirst = `INSERT OR IGNORE INTO jobs (` + jobColumns + `)
VALUES (` + freeKey + strings.TrimPrefix(marks(allColumns), "?") + `)`

// insertFirstPlain is to insertFirst what insertPlain is to insertJob.
var insertFirstPlain = `INSERT OR IGNORE INTO jobs (` + namesOf(plainColumns, "", "") + freshNames + `, ` + namesOf(uniqueColumns, "", "") + `)
VALUES (` + freeKey + strings.TrimPrefix(marks(plainColumns), "?") + freshValues + `, ` + marks(uniqueColumns) + `)`

// plain reports whether insertPlain, or insertFirstPlain, writes all there is of a job.
func plain(j *job.Job) bool { return alike(freshColumns, j, fresh) }

const deleteSeq = `DELETE FROM jobs WHERE id = ? AND seq = ?`

// InsertJob stores a new job.
func (t *tx) InsertJob(j *job.Job) error {
	insert, cs := t.w.st.insert, allColumns
	if plain(j) && j.Unique == nil {
		insert, cs = t.w.st.insertPlain, plainColumns
	}
	t.args = t.args[:0]
	stored, err := t.insert(j, insert, cs)
	if err == nil && !stored {
		e := job.Errorf(job.Duplicate, "job %s exists already", j.ID)
		e.Details = map[string]any{"existing_job_id": string(j.ID)}
		return e
	}
	return err
}

// InsertJobs stores new jobs, the plain ones many in one statement.
func (t *tx) InsertJobs(js []*job.Job) ([]bool, error) {
	stored := make([]bool, len(js))
	for i := 0; i < len(js); {
		if rest := js[i:]; len(rest) >= together && !slices.ContainsFunc(rest[:together], special) {
			ok, err := t.insertTogether(rest[:together])
			if err != nil {
				return nil, err
			}
			if ok {
				for range together {
					stored[i] = true
					i++
				}
				continue
			}
		}
		for end := min(i+together, len(js)); i < end; i++ {
			err := t.InsertJob(js[i])
			if err != nil && job.KindOf(err) != job.Duplicate {
				return nil, err
			}
			stored[i] = err == nil
		}
	}
	return stored, nil
}

// special reports whether a job needs a statement of its own.
func special(j *job.Job) bool { return !plain(j) || j.Unique != nil || j.Seq != 0 }

// insertTogether stores plain jobs in one statement, or none of them where an ID is taken.
func (t *tx) insertTogether(js []*job.Job) (bool, error) {
	seq, told := t.w.seq, t.nextSeq()-1
	t.args = t.args[:0]
	for _, j := range js {
		t.place(j)
		if j.LastEvent = 0; j.PendingEvents() > 0 {
			told += int64(j.PendingEvents())
			j.LastEvent = told
		}
		t.args = valuesOf(t.args, plainColumns, j)
	}
	n, err := t.do(t.w.st.insertTogether, t.args...)
	t.wrote = t.wrote || n > 0
	if err != nil {
		return false, t.fail("insert jobs", err)
	}
	if n == int64(len(js)) {
		for _, j := range js {
			if err := t.inserted(j); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	for _, j := range js { // those that went in must not stay: they come again, one by one
		if n > 0 {
			if _, err := t.do(t.w.st.removeSeq, string(j.ID), j.Seq); err != nil {
				return false, t.fail("insert jobs", err)
			}
		}
		j.Seq, j.LastEvent = 0, 0
	}
	t.w.seq = seq
	return false, nil
}

// The service asks at run time: a method of another shape would cost it the one step,
// and nothing would fail.
var _ job.FirstInserter = (*tx)(nil)

// InsertFirst stores a new job whose unique key no other has.
func (t *tx) InsertFirst(j *job.Job) (bool, error) {
	t.args = append(t.args[:0], job.KeyValue(j.Fingerprint)) // no other may have it
	if plain(j) {
		return t.insert(j, t.w.st.insertFirstPlain, plainColumns, uniqueColumns)
	}
	return t.insert(j, t.w.st.insertFirst, allColumns)
}

// insert stores a new job, its events and its counters, unless the statement finds
// that it must not. What the statement wants before the columns is in t.args.
func (t *tx) insert(j *job.Job, insert *stmt, cs ...[]job.Column) (bool, error) {
	seq := j.Seq
	t.place(j)
	if j.LastEvent = 0; j.PendingEvents() > 0 {
		j.LastEvent = t.nextSeq() + int64(j.PendingEvents()) - 1
	}
	for _, some := range cs {
		t.args = valuesOf(t.args, some, j)
	}
	n, err := t.do(insert, t.args...)
	t.wrote = t.wrote || n > 0
	if err != nil {
		return false, t.fail("insert job", err)
	}
	if n == 0 {
		j.Seq, j.LastEvent = seq, 0
		return false, nil
	}
	return true, t.inserted(j)
}

// inserted notes what a job that has been stored tells and counts for.
func (t *tx) inserted(j *job.Job) error {
	if _, err := t.note(j, 0); err != nil {
		return err
	}
	t.count(j, 1)
	if q := t.w.queues[j.Queue]; len(t.call.jobs) < maxRemembered && (j.State != job.Available || q == nil || q.Available < maxRemembered) {
		t.call.jobs[j.ID] = j.Clone() // it will be asked for soon
	}
	return nil
}

// maxRemembered is how many jobs may wait in a queue for a new one still to be worth remembering.
const maxRemembered = 1000
