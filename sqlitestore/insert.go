package sqlitestore

import (
	"database/sql/driver"
	"slices"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

var insertJob = `INSERT INTO jobs (` + jobColumns + `)
VALUES (` + marks(allColumns) + `)
ON CONFLICT (id) DO NOTHING`

// marks are the places of the values of columns.
func marks(cs []job.Column) string { return strings.TrimSuffix(strings.Repeat("?, ", len(cs)), ", ") }

// Most jobs that are stored have just entered their queue and ask for nothing
// special: they are as fresh in all but a few columns. Binding the twenty NULLs of
// the others would cost a fifth of the insert.
var (
	fresh = valuesOf(nil, allColumns, &job.Job{Status: job.Status{State: job.Available}})

	plain       = narrowTo(plainColumns...)
	plainUnique = narrowTo(append(plainColumns, "uniq", "fingerprint", "holds")...)

	plainColumns = []string{"id", "type", "queue", "args", "meta", "priority", "max_attempts", "extra", "created_at", "seq", "enqueued_at", "told"}
)

// narrow is an insert of jobs that are as fresh but for some columns, which are bound.
// The others of fresh that are not NULL stand in the statement.
type narrow struct {
	bound, others []int // by their place among allColumns
	names, values string
}

func narrowTo(bound ...string) (n narrow) {
	var names, values []string
	for i, c := range allColumns {
		if slices.Contains(bound, c.Name) {
			n.bound = append(n.bound, i)
			names, values = append(names, c.Name), append(values, "?")
			continue
		}
		n.others = append(n.others, i)
		switch v := fresh[i].(type) {
		case string:
			names, values = append(names, c.Name), append(values, "'"+v+"'")
		case int64:
			names, values = append(names, c.Name), append(values, strconv.FormatInt(v, 10))
		}
	}
	n.names, n.values = strings.Join(names, ", "), strings.Join(values, ", ")
	return n
}

// holds reports whether the values of all columns of a job are as fresh but for those that are bound.
func (n *narrow) holds(values []driver.Value) bool {
	for _, i := range n.others {
		if values[i] != fresh[i] {
			return false
		}
	}
	return true
}

// keep drops from the values of all columns those that are not bound.
func (n *narrow) keep(values []driver.Value) []driver.Value {
	for to, i := range n.bound {
		values[to] = values[i]
	}
	return values[:len(n.bound)]
}

// insertPlain is insertJob for a job that is plain.
var insertPlain = `INSERT INTO jobs (` + plain.names + `)
VALUES (` + plain.values + `)
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
var insertFirstPlain = `INSERT OR IGNORE INTO jobs (` + plainUnique.names + `)
VALUES (` + freeKey + strings.TrimPrefix(plainUnique.values, "?") + `)`

const deleteSeq = `DELETE FROM jobs WHERE id = ? AND seq = ?`

// InsertJob stores a new job.
func (t *tx) InsertJob(j *job.Job) error {
	t.args = t.args[:0]
	stored, err := t.insert(j, t.w.st.insert, t.w.st.insertPlain, &plain)
	if err == nil && !stored {
		return job.Errorf(job.Duplicate, "job %s exists already", j.ID).With(map[string]any{"existing_job_id": string(j.ID)})
	}
	return err
}

// InsertJobs stores new jobs, the plain ones many in one statement.
func (t *tx) InsertJobs(js []*job.Job) ([]bool, error) {
	stored := make([]bool, len(js))
	for i := 0; i < len(js); {
		if rest := js[i:]; len(rest) >= together {
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

// insertTogether stores plain jobs in one statement, or none of them where one is not
// plain or an ID is taken.
func (t *tx) insertTogether(js []*job.Job) (bool, error) {
	seq := t.w.seq
	placed, all := t.bindPlain(js)
	n := int64(0)
	if all {
		var err error
		n, err = t.do(t.w.st.insertTogether, t.args...)
		t.wrote = t.wrote || n > 0
		if err != nil {
			return false, t.fail("insert jobs", err)
		}
	}
	if all && n == int64(len(js)) {
		for _, j := range js {
			if err := t.inserted(j); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	for _, j := range js[:placed] { // those that went in must not stay: they come again, one by one
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

// bindPlain gives new jobs their positions and fills t.args, up to the first that is
// not plain. It says how many it has given one.
func (t *tx) bindPlain(js []*job.Job) (placed int, all bool) {
	told := t.nextSeq() - 1
	t.args = t.args[:0]
	for i, j := range js {
		if j.Seq != 0 {
			return i, false
		}
		t.place(j)
		if j.LastEvent = 0; j.PendingEvents() > 0 {
			told += int64(j.PendingEvents())
			j.LastEvent = told
		}
		from := len(t.args)
		if t.args = valuesOf(t.args, allColumns, j); !plain.holds(t.args[from:]) {
			return i + 1, false
		}
		t.args = t.args[:from+len(plain.keep(t.args[from:]))]
	}
	return len(js), true
}

// The service asks at run time: a method of another shape would cost it the one step,
// and nothing would fail.
var _ job.FirstInserter = (*tx)(nil)

// InsertFirst stores a new job whose unique key no other has.
func (t *tx) InsertFirst(j *job.Job) (bool, error) {
	t.args = append(t.args[:0], job.KeyValue(j.Fingerprint)) // no other may have it
	return t.insert(j, t.w.st.insertFirst, t.w.st.insertFirstPlain, &plainUnique)
}

// insert stores a new job, its events and its counters, unless the statement finds
// that it must not. What the statement wants before the columns is in t.args; quick
// is the statement for a job that short holds for.
func (t *tx) insert(j *job.Job, insert, quick *stmt, short *narrow) (bool, error) {
	seq := j.Seq
	t.place(j)
	if j.LastEvent = 0; j.PendingEvents() > 0 {
		j.LastEvent = t.nextSeq() + int64(j.PendingEvents()) - 1
	}
	from := len(t.args)
	t.args = valuesOf(t.args, allColumns, j)
	if values := t.args[from:]; short.holds(values) {
		insert, t.args = quick, t.args[:from+len(short.keep(values))]
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
