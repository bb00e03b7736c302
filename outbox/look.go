package outbox

import (
	"context"
	"database/sql"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Row is all of one row of an outbox, as it is now.
type Row struct {
	ID       int64
	Status   string // "pending", "taken", "relayed", "sent" or "parked"
	Type     string
	Args     []byte // as they were written, which may be no JSON
	Options  []byte
	Owner    string // the job server that has it; empty: none
	Attempts int64
	NextTry  time.Time // zero: at once
	Error    string    // of the latest try, or why it is parked
	Written  time.Time // zero: its created_at is no time
	Sent     time.Time // zero: it was not

	Job        job.ID // that it makes, or has made: its own job_id, or the one made of the row
	Workflow   bool   // Job is the id of a workflow
	AnsweredBy job.ID // the job that answers for a relayed row, if that is not Job
}

// RowOf reads one row. NotFound: there is none, as rows go once they were sent, unless
// the relay keeps them. Unavailable: the database does not answer.
func RowOf(ctx context.Context, db *sql.DB, d Dialect, id int64) (Row, error) {
	if err := d.known(); err != nil {
		return Row{}, err
	}
	of, err := identity(ctx, db, d)
	if err != nil {
		return Row{}, unavailable(d, err)
	}
	found, r := false, Row{ID: id}
	err = ask(ctx, db, d, func(rows *sql.Rows) (bool, error) {
		var own, by string
		var next, written, sent int64
		err := rows.Scan(&own, &r.Type, &r.Args, &r.Options, &r.Status, &r.Owner, &r.Attempts, &next, &r.Error, &written, &sent, &by)
		found, r.AnsweredBy = true, job.ID(by)
		r.NextTry, r.Written, r.Sent = instant(next), instant(written), instant(sent)
		read := row{id: id, jobID: own, options: r.Options, created: written}
		r.Job, r.Workflow = read.job(of), read.workflow() != nil
		return true, err
	}, d.sql.Row, id)
	if err == nil && !found {
		err = job.Errorf(job.NotFound, "the outbox table %s has no row %d", d.sql.Table, id)
	}
	return r, err
}

// instant is a time of a row; 0 is none.
func instant(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
