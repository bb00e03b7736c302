package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// letter is a row that is a job.
type letter struct {
	row row
	job job.Envelope
}

// send hands one batch over and notes the fate of its rows. When it returns an
// error the rows that have no fate are as they were.
func (r *Relay) send(ctx context.Context) error {
	rows, err := r.pending(ctx)
	if err != nil {
		return err
	}
	letters := make([]letter, 0, len(rows))
	for _, row := range rows {
		e, err := row.envelope(r.of)
		if err != nil {
			r.park(row, err)
			continue
		}
		letters = append(letters, letter{row, e})
	}
	return r.push(ctx, letters)
}

// pending reads the batch. The snapshot is closed before anything else happens.
func (r *Relay) pending(ctx context.Context) ([]row, error) {
	r.more = false
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	skip, err := r.skip(ctx)
	if err != nil {
		return nil, err
	}
	batch, size := make([]row, 0, 8), 0
	err = r.each(ctx, func(rows *sql.Rows) (bool, error) {
		var b row
		var jobID, typ sql.NullString
		err := rows.Scan(&b.id, &jobID, &typ, &b.args, &b.options, &b.created, &b.attempts)
		b.jobID, b.typ = jobID.String, typ.String
		batch, size = append(batch, b), size+b.size()
		return size < maxBytes, err
	}, fill(r.d.Pending, "{skip}", skip), r.o.Now().UnixMilli(), r.o.Batch)
	if err != nil {
		return nil, r.failed(ctx, "read", err)
	}
	r.more = len(batch) == r.o.Batch || size >= maxBytes
	return batch, nil
}

// push hands letters over in one call. Those that the job server refuses for
// what they are get their fate alone, and the rest is handed over again.
func (r *Relay) push(ctx context.Context, letters []letter) error {
	for len(letters) > 0 {
		es := make([]job.Envelope, len(letters))
		for i, l := range letters {
			es[i] = l.job
		}
		receipts, err := r.to.Enqueue(ctx, es...)
		if err == nil {
			r.sent(letters, receipts)
			return nil
		}
		i, named := culprit(err, len(letters))
		refused := hopeless[job.KindOf(err)]
		switch {
		case named && refused:
			r.park(letters[i].row, err)
		case named && job.KindOf(err) != job.Unavailable:
			r.putOff(letters[i].row, err)
		case refused: // one of them, and the answer does not say which
			half := len(letters) / 2
			if err := r.push(ctx, letters[:half]); err != nil {
				return err
			}
			letters = letters[half:]
			continue
		default:
			return r.halted(ctx, letters[0].row, err)
		}
		letters = append(letters[:i:i], letters[i+1:]...)
	}
	return nil
}

// hopeless are the kinds of errors that asking again cannot mend.
var hopeless = map[job.Kind]bool{job.Malformed: true, job.Invalid: true, job.BadRetry: true, job.Rejected: true,
	job.TooLarge: true, job.Duplicate: true, job.Unsupported: true}

// culprit is the index of the envelope that an error is about, if it says so.
func culprit(err error, n int) (int, bool) {
	if n == 1 && hopeless[job.KindOf(err)] {
		return 0, true
	}
	var e *job.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	i := -1
	switch v := e.Details["index"].(type) { // a number that came over the wire has another type
	case int:
		i = v
	case int64:
		i = int(v)
	case float64:
		i = int(v)
	case json.Number:
		if m, err := v.Int64(); err == nil {
			i = int(m)
		}
	}
	return i, i >= 0 && i < n
}

// sent notes that the job server has the letters.
func (r *Relay) sent(letters []letter, receipts []job.Receipt) {
	at := r.o.Now()
	told := make([]Relayed, 0, len(letters))
	for i, l := range letters {
		r.settle(l.row, fate{verb: sent, tries: r.trouble.refused + 1})
		told = append(told, Relayed{Row: l.row.id, Job: l.job.ID, Written: time.UnixMilli(l.row.created), At: at,
			Existing: i < len(receipts) && receipts[i].Existing})
	}
	if r.o.OnRelay != nil {
		r.o.OnRelay(told)
	}
}

// park notes that a row can never be a job.
func (r *Relay) park(row row, why error) {
	r.settle(row, fate{verb: parked, tries: 1, reason: why.Error()})
	r.o.Log.Warn("outbox: a row is parked: it can never be a job. Mend it and set its status to 'pending', or delete it",
		"outbox", r.o.Name, "table", r.d.Table, "row", row.id, "error", why)
}

// putOff notes that a row fails alone, for a reason that may pass: it waits for
// 1 s, doubled at each try up to 5 minutes, and the rows behind it flow.
func (r *Relay) putOff(row row, why error) {
	wait := min(time.Second<<min(max(row.attempts, 0), 10), 5*time.Minute)
	r.settle(row, fate{verb: putOff, tries: 1, reason: why.Error(), until: r.o.Now().Add(wait).UnixMilli()})
	r.o.Log.Warn("outbox: the job server fails at a row; it is tried again later, and the rows behind it go on",
		"outbox", r.o.Name, "row", row.id, "after", wait, "error", why)
}

// halted is the error of a batch that the job server did not take. The first of
// an outage is also written to the row at the head, which stays pending.
func (r *Relay) halted(ctx context.Context, head row, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if r.trouble.refused == 0 {
		f := fate{row: head.id, verb: putOff, reason: fmt.Sprintf("the job server does not take jobs, this is tried again: %v", err)}
		_ = r.write(ctx, f, idsOf([]fate{f})) // it is for people only; a database that is gone shows soon enough
	}
	r.trouble.refused++
	return &job.Error{Kind: job.KindOf(err), Err: err,
		Message: fmt.Sprintf("outbox %s: the job server does not take jobs from row %d on: %v", r.o.Name, head.id, err)}
}
