package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// allColumns are those of a job, as package job has them in its table of members.
var allColumns = job.Columns()

// The columns by what writes them: those that a claim writes, those that every
// other change writes, and with them those of a job with a key.
var (
	claimColumns = written(func(c job.Column) bool { return c.Claims })
	moveColumns  = written(func(c job.Column) bool { return c.Claims || c.Moves })
	keyedColumns = written(func(c job.Column) bool { return c.Claims || c.Moves || c.Keys })
	rareColumns  = written(func(c job.Column) bool { return c.Rarely })
	otherColumns = written(func(c job.Column) bool { return c.Moves || c.Keys })
	bodyColumns  = written(func(c job.Column) bool { return c.Rewritten })
)

func written(by func(job.Column) bool) (some []job.Column) {
	for _, c := range allColumns {
		if by(c) {
			some = append(some, c)
		}
	}
	return some
}

// namesOf are the names of columns, each between before and after.
func namesOf(cs []job.Column, before, after string) string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = before + c.Name + after
	}
	return strings.Join(names, ", ")
}

// jobColumns names all columns, in the order in which jobFrom reads them.
var jobColumns = namesOf(allColumns, "", "")

// was names the state that a statement expects: the row of another transition is never overwritten.
const was = ` WHERE id = ? AND state = ?`

var (
	updateJob = `UPDATE jobs SET ` + namesOf(moveColumns, "", " = ?") + was
	// updateClaim is updateJob where nothing has changed but what a claim changes,
	// and a heartbeat: see onlyFetched.
	updateClaim = `UPDATE jobs SET ` + namesOf(claimColumns, "", " = ?") + was
	// updateKeyed is updateJob for a job that has, or had, a key.
	updateKeyed = `UPDATE jobs SET ` + namesOf(keyedColumns, "", " = ?") + was

	// updateRare writes what few jobs ever have, so that the others leave it alone.
	updateRare = `UPDATE jobs SET ` + namesOf(rareColumns, "", " = ?") + ` WHERE id = ?`

	rewriteJob = `UPDATE jobs SET ` + namesOf(bodyColumns, "", " = ?") + ` WHERE id = ?`
)

const deleteJob = `DELETE FROM jobs WHERE id = ?`

var jobByID = `SELECT ` + jobColumns + ` FROM jobs WHERE id = ?`

// readJob is jobByID for the writer. The driver asks SQLite for the name and the
// declared type of each column whenever a statement is run, and makes strings of
// them: here there are none.
var readJob = `SELECT ` + namesOf(allColumns, "+", ` AS ""`) + ` FROM jobs WHERE id = ?`

// valuesOf appends what columns hold of a job.
func valuesOf(args []driver.Value, cs []job.Column, j *job.Job) []driver.Value {
	for i := range cs {
		args = append(args, cs[i].Value(j))
	}
	return args
}

// keyed reports whether a job has, or had, a key to save.
func keyed(j *job.Job) bool { return j.Unique != nil || j.Deduplication != nil }

// onlyFetched reports whether updateClaim stores all that has changed of a job.
func onlyFetched(was, j *job.Job) bool { return alike(otherColumns, was, j) }

// alike reports whether two jobs have the same in some columns.
func alike(cs []job.Column, a, b *job.Job) bool {
	for i := range cs {
		if !cs[i].Equal(a, b) {
			return false
		}
	}
	return true
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

// jobFrom reads the columns of jobColumns.
func jobFrom[V any](values []V) (*job.Job, error) {
	j, ok := &job.Job{}, true
	for i := range allColumns {
		if v := any(values[i]); v != nil {
			ok = allColumns[i].Set(j, v) && ok
		}
	}
	if !ok || !whole(j) {
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
		t.w.noteDamage(err)
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
	return job.Errorf(job.NotFound, "there is no job %.80s", id).With(map[string]any{"resource_type": "job", "resource_id": string(id)})
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
	if j.LastEvent, err = t.note(j, was.LastEvent); err != nil {
		return err
	}
	update, cs := t.w.st.update, moveColumns
	if onlyFetched(was, j) {
		update, cs = t.w.st.updateClaim, claimColumns
	} else if keyed(j) {
		update, cs = t.w.st.updateKeyed, keyedColumns
	}
	t.args = valuesOf(t.args[:0], cs, j)
	t.args = append(t.args, string(j.ID), string(was.State))
	t.wrote = true
	n, err := t.do(update, t.args...)
	if err != nil {
		return t.fail("update job", err)
	}
	if n != 1 {
		return job.Errorf(job.Internal, "job %s was not %s any more", j.ID, was.State)
	}
	if !alike(rareColumns, was, j) {
		t.args = append(valuesOf(t.args[:0], rareColumns, j), string(j.ID))
		if _, err := t.do(t.w.st.updateRare, t.args...); err != nil {
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
	t.args = append(valuesOf(t.args[:0], bodyColumns, j), string(j.ID))
	if _, err := t.do(t.w.st.rewrite, t.args...); err != nil {
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
