package sqlitestore

import (
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// allColumns are those of a job, as package job has them in its table of members.
var allColumns = job.Columns()

// The columns by the row of a job that holds them: its body, and its state. What is
// not fixed can change.
var (
	bodyColumns  = some(func(c job.Column) bool { return c.Body })
	stateColumns = some(func(c job.Column) bool { return !c.Body })
	rewritable   = some(func(c job.Column) bool { return c.Body && !c.Fixed })
	changing     = some(func(c job.Column) bool { return !c.Body && !c.Fixed })
)

func some(by func(job.Column) bool) (cs []job.Column) {
	for _, c := range allColumns {
		if by(c) {
			cs = append(cs, c)
		}
	}
	return cs
}

// namesOf are the names of columns, each between before and after.
func namesOf(cs []job.Column, before, after string) string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = before + c.Name + after
	}
	return strings.Join(names, ", ")
}

// jobColumns names the number of a job and all columns, in the order in which jobFrom
// reads them.
var jobColumns = "s.n, " + namesOf(allColumns, "", "")

// Both rows of a job, one looked up by the other. A job of which one is missing is
// damaged, and is not passed over.
const (
	byBody  = ` FROM job_bodies AS b LEFT JOIN job_states AS s ON s.n = b.n`
	byState = ` FROM job_states AS s LEFT JOIN job_bodies AS b ON b.n = s.n`
)

// was names the state that a statement expects: the row of another transition is never overwritten.
const was = ` WHERE n = ? AND state_code = ?`

// columnSet has a bit for each of the columns that can change.
type columnSet uint64

// stateUpdate is the columns of a job that a change writes, and those of them that it empties.
type stateUpdate struct{ changed, emptied columnSet }

// sql is the statement that writes them. NULL stands in it: to bind it costs as much as
// any other value.
func (u stateUpdate) sql() string {
	var b strings.Builder
	b.WriteString("UPDATE job_states SET ")
	before := ""
	for i, c := range changing {
		value := " = ?"
		switch bit := columnSet(1) << i; {
		case u.changed&bit == 0:
			continue
		case u.emptied&bit != 0:
			value = " = NULL"
		}
		b.WriteString(before + c.Name + value)
		before = ", "
	}
	return b.String() + was
}

var rewriteBody = `UPDATE job_bodies SET ` + namesOf(rewritable, "", " = ?") + ` WHERE n = ?`

const (
	deleteBody  = `DELETE FROM job_bodies WHERE n = ?`
	deleteState = `DELETE FROM job_states WHERE n = ?`
	takeBack    = deleteBody + ` AND id_bytes = ?` // one that was put there a moment ago
)

var (
	jobByID     = `SELECT ` + jobColumns + byBody + ` WHERE id_bytes = ?`
	jobByNumber = `SELECT ` + jobColumns + byState + ` WHERE s.n = ?`
)

// The same for the writer. The driver asks SQLite for the name and the declared type
// of each column whenever a statement is run, and makes strings of them: here there
// are none.
var (
	readJob       = `SELECT +s.n AS "", ` + namesOf(allColumns, "+", ` AS ""`) + byBody + ` WHERE id_bytes = ?`
	readJobNumber = `SELECT +s.n AS "", ` + namesOf(allColumns, "+", ` AS ""`) + byState + ` WHERE s.n = ?`
)

// valuesOf appends what columns hold of a job.
func valuesOf(args []driver.Value, cs []job.Column, j *job.Job) []driver.Value {
	for i := range cs {
		args = append(args, cs[i].Value(j))
	}
	return args
}

// kept is a job with the number of its rows.
type kept struct {
	*job.Job
	n int64
}

// Job reads a job, from memory if the writer has just touched it.
func (t *tx) Job(id job.ID) (*job.Job, error) {
	k, err := t.known(id)
	if err != nil {
		return nil, err
	}
	return k.Clone(), nil
}

// known is the job itself, which is not to be changed.
func (t *tx) known(id job.ID) (kept, error) {
	if k, ok := t.call.jobs.get(id); ok {
		if k.Job == nil {
			return kept{}, noJob(id) // deleted by this call
		}
		return k, nil
	}
	if k, ok := t.w.cache.get(id); ok {
		t.call.jobs.put(id, k)
		return k, nil
	}
	b, ok := id.Bytes()
	if !ok {
		return kept{}, noJob(id)
	}
	k, err := t.readOne(t.w.st.byID, b[:])
	switch {
	case err != nil:
		return kept{}, err
	case k.Job == nil:
		n := int64(-1)
		if err := t.w.st.strangers.each(func(v []driver.Value) error {
			n, _ = numbers(v)
			return nil
		}, b[:]); err != nil {
			return kept{}, t.fail("read job", err)
		}
		err := notFound(id, n)
		t.w.noteDamage(err)
		return kept{}, err
	}
	return k, nil
}

// at is the job whose rows have a number, its Job nil for none. It is not to be changed.
func (t *tx) at(n int64) (kept, error) {
	if k, ok := t.call.jobs.at(n); ok {
		return k, nil
	}
	if k, ok := t.w.cache.at(n); ok {
		t.call.jobs.put(k.ID, k)
		return k, nil
	}
	return t.readOne(t.w.st.byNumber, n)
}

// readOne reads the job that a statement names, and remembers it. Its Job is nil if
// there is none.
func (t *tx) readOne(s *stmt, arg driver.Value) (k kept, err error) {
	if err := t.settle(); err != nil {
		return k, err
	}
	err = s.each(func(v []driver.Value) (err error) {
		k, err = jobFrom(v)
		return err
	}, arg)
	if errors.Is(err, errDamaged) { // no statement has failed
		t.w.noteDamage(err)
		return kept{}, err
	}
	if err != nil {
		return kept{}, t.fail("read job", err)
	}
	if k.Job != nil {
		t.call.jobs.put(k.ID, k)
	}
	return k, nil
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
	was, _ := t.call.jobs.get(j.ID)
	if was.Job == nil {
		return job.Errorf(job.Internal, "job %s was not read in this transaction", j.ID)
	}
	if err := t.settleFor(was.n); err != nil {
		return err
	}
	t.place(j)
	var err error
	if j.LastEvent, err = t.note(j, was.LastEvent); err != nil {
		return err
	}
	var u stateUpdate
	t.args = t.args[:0]
	for i := range changing {
		if changing[i].Equal(was.Job, j) {
			continue
		}
		u.changed |= 1 << i
		if v := changing[i].Value(j); v == nil {
			u.emptied |= 1 << i
		} else {
			t.args = append(t.args, v)
		}
	}
	if u.changed != 0 {
		if err := t.write(u, was, j); err != nil {
			return err
		}
	}
	t.count(was.Job, -1)
	t.count(j, 1)
	t.tally(was.Job, j)
	now := kept{j.Clone(), was.n}
	t.moved(was, now)
	t.call.jobs.put(j.ID, now)
	return nil
}

// write stores the columns that have changed, whose values are in t.args.
func (t *tx) write(u stateUpdate, was kept, j *job.Job) error {
	s, err := t.w.updating(u)
	if err != nil {
		return t.fail("update job", err)
	}
	t.args = append(t.args, was.n, job.StateCode(was.State))
	t.wrote = true
	n, err := t.do(s, t.args...)
	if err != nil {
		return t.fail("update job", err)
	}
	if n != 1 {
		return job.Errorf(job.Internal, "job %s was not %s any more", j.ID, was.State)
	}
	return nil
}

// maxUpdates is how many statements that write some columns are kept. The steps of
// a life take a dozen.
const maxUpdates = 64

// updating is the statement of a stateUpdate.
func (w *writer) updating(u stateUpdate) (*stmt, error) {
	if s := w.updates[u]; s != nil {
		return s, nil
	}
	s, err := prepare(w.conn, u.sql())
	if err != nil {
		return nil, err
	}
	if len(w.updates) >= maxUpdates {
		w.closeUpdates()
	}
	w.updates[u] = s
	return s, nil
}

func (w *writer) closeUpdates() {
	for _, s := range w.updates {
		_ = s.s.Close() // each of its runs has been judged
	}
	clear(w.updates)
}

// RewriteJob saves a job's Status, Args and Meta.
func (t *tx) RewriteJob(j *job.Job) error {
	was, _ := t.call.jobs.get(j.ID)
	if was.Job == nil {
		return job.Errorf(job.Internal, "job %s was not read in this transaction", j.ID)
	}
	if err := t.settleFor(was.n); err != nil {
		return err
	}
	t.wrote = true
	t.args = append(valuesOf(t.args[:0], rewritable, j), was.n)
	if _, err := t.do(t.w.st.rewrite, t.args...); err != nil {
		return t.fail("rewrite job", err)
	}
	return t.UpdateJob(j)
}

// DeleteJob removes a job for good.
func (t *tx) DeleteJob(id job.ID) error {
	k, err := t.known(id)
	if err == nil {
		err = t.settleFor(k.n)
	}
	if err != nil {
		return err
	}
	t.wrote = true
	for _, remove := range [...]*stmt{t.w.st.removeState, t.w.st.removeBody} {
		if _, err := t.do(remove, k.n); err != nil {
			return t.fail("delete job", err)
		}
	}
	t.count(k.Job, -1)
	t.moved(k, kept{})
	t.call.jobs.put(id, kept{n: k.n})
	return nil
}

// count adds n times what a job counts for.
func (t *tx) count(j *job.Job, n int64) {
	at := j.CreatedAt.UnixMilli()
	t.call.counts = append(t.call.counts, count{j.Queue, j.State, n, at})
	if j.After != "" {
		t.call.waiting += n
	}
	if j.Behind {
		t.call.counts = append(t.call.counts, count{j.Queue, behindCount, n, at})
	}
	if j.Dead {
		t.call.counts = append(t.call.counts, count{j.Queue, deadCount, n, at})
	}
}
