package sqlitestore

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

const insertJob = `INSERT INTO jobs (` + jobColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING`

// insertPlain is insertJob for a job that has just entered its queue and asks for
// nothing special, as most do: what is not named is NULL. Binding the twenty
// NULLs would cost a fifth of the insert.
const insertPlain = `INSERT INTO jobs (id, type, queue, args, meta, priority, max_attempts, extra, created_at, state, attempt, releases, seq, enqueued_at, dead, told)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'available', 0, 0, ?, ?, 0, ?)
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

// unmet stands for the id in an insert that looks and stores at once: where
// jobs_past knows the unique key there is no id, and OR IGNORE leaves the row
// out, as it does where jobs_held or the primary key have it. To look first with
// statements of its own would double the cost of the insert, and so would
// INSERT ... SELECT, for which SQLite keeps a journal of the statement.
const unmet = `iif(EXISTS (SELECT 1 FROM jobs WHERE fingerprint = ? AND holds = 0), NULL, ?)`

const insertFirst = `INSERT OR IGNORE INTO jobs (` + jobColumns + `)
VALUES (` + unmet + `, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// insertFirstPlain is to insertFirst what insertPlain is to insertJob.
const insertFirstPlain = `INSERT OR IGNORE INTO jobs (id, type, queue, args, meta, priority, max_attempts, extra, created_at, state, attempt, releases, seq, enqueued_at, dead, told, uniq, fingerprint, holds)
VALUES (` + unmet + `, ?, ?, ?, ?, ?, ?, ?, ?, 'available', 0, 0, ?, ?, 0, ?, ?, ?, ?)`

// plain reports whether insertPlain, or insertFirstPlain, writes all there is of a job.
func plain(j *job.Job) bool {
	return j.State == job.Available && j.Attempt == 0 && j.Releases == 0 && j.DueAt.IsZero() &&
		j.ScheduledAt.IsZero() && j.ExpiresAt.IsZero() && j.Timeout == 0 && j.Visibility == 0 &&
		j.Retry == nil && j.Deduplication == nil && j.CustomID == "" && j.After == "" && j.Keep.IsZero() && j.RetryDelay == 0 && j.Lost == nil &&
		j.Result == nil && j.Errors == nil && j.Error == nil && !j.Dead &&
		j.StartedAt.IsZero() && j.ActivatedAt.IsZero() && j.FinishedAt.IsZero() && j.NextRetryAt.IsZero() && j.RewrittenAt.IsZero()
}

const deleteSeq = `DELETE FROM jobs WHERE id = ? AND seq = ?`

// InsertJob stores a new job.
func (t *tx) InsertJob(j *job.Job) error {
	insert, args := t.w.st.insert, allArgs
	if plain(j) && j.Unique == nil {
		insert, args = t.w.st.insertPlain, plainArgs
	}
	stored, err := t.insert(j, insert, args)
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
		if j.Told = 0; j.Untold() > 0 {
			told += int64(j.Untold())
			j.Told = told
		}
		t.args = plainArgs(t.args, j)
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
		j.Seq, j.Told = 0, 0
	}
	t.w.seq = seq
	return false, nil
}

// InsertFirst stores a new job whose unique key no other has.
func (t *tx) InsertFirst(j *job.Job) (bool, error) {
	if plain(j) {
		return t.insert(j, t.w.st.insertFirstPlain, func(args []driver.Value, j *job.Job) []driver.Value {
			key := blob(j.Fingerprint)
			return append(plainArgs(append(args, key), j), text(j.Unique), key, int64(j.Holds))
		})
	}
	return t.insert(j, t.w.st.insertFirst, func(args []driver.Value, j *job.Job) []driver.Value {
		return allArgs(append(args, blob(j.Fingerprint)), j)
	})
}

// insert stores a new job, its events and its counters, unless the statement finds that it must not.
func (t *tx) insert(j *job.Job, insert *stmt, args func([]driver.Value, *job.Job) []driver.Value) (bool, error) {
	seq := j.Seq
	t.place(j)
	if j.Told = 0; j.Untold() > 0 {
		j.Told = t.nextSeq() + int64(j.Untold()) - 1
	}
	t.args = args(t.args[:0], j)
	n, err := t.do(insert, t.args...)
	t.wrote = t.wrote || n > 0
	if err != nil {
		return false, t.fail("insert job", err)
	}
	if n == 0 {
		j.Seq, j.Told = seq, 0
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
	if q := t.w.queues[j.Queue]; len(t.call.jobs) < shallow && (j.State != job.Available || q == nil || q.Available < shallow) {
		t.call.jobs[j.ID] = j.Clone() // it will be asked for soon
	}
	return nil
}

func allArgs(args []driver.Value, j *job.Job) []driver.Value {
	return append(keyArgs(statusArgs(envelopeArgs(args, j), j), j), text(j.After))
}

func plainArgs(args []driver.Value, j *job.Job) []driver.Value {
	return append(args, string(j.ID), j.Type, j.Queue, string(j.Args), text(j.Meta), int64(j.Priority),
		int64(j.MaxAttempts), text(j.Extra), j.CreatedAt.UnixMilli(), j.Seq, millis(j.EnqueuedAt), j.Told)
}

// shallow is how many jobs may wait in a queue for a new one still to be worth remembering.
const shallow = 1000
