package outbox

import (
	"context"
	"database/sql"
	"errors"
	"maps"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

// Execer is what [Outbox.Add] needs of a transaction. *sql.Tx, *sql.Conn and
// *sqlx.Tx have it.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Outbox writes jobs into the outbox table. It holds no connection and no
// state, and may be used by many goroutines at once.
type Outbox struct{ d Dialect }

// New returns the outbox of a dialect. It touches no database.
func New(d Dialect) *Outbox { return &Outbox{d} }

// Add writes jobs into the outbox inside tx and returns their ids in the same
// order; an envelope without an id is given one. The jobs exist if and only if
// tx commits, and reach the job server after that.
//
// Every envelope is checked before the first is written. An error names the
// envelope, has its index in Details["index"], and keeps the Kind of the rule
// that is broken; it is Unavailable when the database refuses. After an error
// tx must be rolled back, as some of the jobs may be written in it.
//
// Delay and TTL count from the moment at which the relay hands the job over.
// Times and durations are kept in whole milliseconds.
func (o *Outbox) Add(ctx context.Context, tx Execer, es ...job.Envelope) ([]job.ID, error) {
	if err := o.d.known(); err != nil {
		return nil, err
	}
	rows := make([]row, len(es))
	ids := make([]job.ID, len(es))
	for i, e := range es {
		c, err := e.Check()
		if err == nil {
			rows[i], err = newRow(c)
		}
		if err != nil {
			return nil, naming(i, len(es), err)
		}
		ids[i] = job.ID(rows[i].jobID)
	}
	for i, r := range rows {
		if _, err := tx.ExecContext(ctx, o.d.sql.Insert, r.jobID, r.typ, string(r.args), string(r.options)); err != nil {
			err = job.Errorf(job.Unavailable, "write to the outbox table %s: %w (if there is none, make it with: outrider outbox init DSN)", o.d.sql.Table, err)
			return nil, naming(i, len(es), err)
		}
	}
	return ids, nil
}

// newRow is the row that the relay will read back as c. It is read back here
// already, so that what would be parked later is refused now.
func newRow(c job.Checked) (row, error) {
	if c.ID() == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return row{}, job.Errorf(job.Internal, "make a job id: %w", err)
		}
		if err := c.SetID(job.ID(id.String())); err != nil {
			return row{}, err
		}
	}
	e := c.Envelope()
	r := row{jobID: string(e.ID), typ: e.Type, args: e.Args, options: c.AppendOptions(nil)}
	_, err := r.envelope("")
	return r, err
}

// naming says which of several envelopes an error is about.
func naming(i, of int, err error) error {
	e := job.Errorf(job.KindOf(err), "%w", err)
	if of > 1 {
		e = job.Errorf(e.Kind, "job %d of %d: %w", i+1, of, err)
	}
	e.Details = map[string]any{"index": i}
	var was *job.Error
	if errors.As(err, &was) {
		maps.Copy(e.Details, was.Details)
	}
	return e
}
