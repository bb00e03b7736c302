package outbox

import (
	"context"
	"database/sql"
	"time"
)

// sweep deletes rows that were sent long ago: some hundred at a time, by the
// primary key, so that no second index must be kept under the app's writes.
// It walks from the lowest id to the first row whose sending is not yet old, and
// passes rows that are parked or wait; now and then it begins anew, as such a row
// may have been sent since. Nothing depends on where it stands.
type sweep struct {
	next  time.Time // nothing is deleted before
	began time.Time // when it last began at the lowest id
	after int64     // ids up to here are done
}

const (
	sweepEvery = 10 * time.Second
	sweepSize  = 64
)

func (r *Relay) sweep(ctx context.Context, now time.Time) error {
	s := &r.swept
	if now.Before(s.next) {
		return nil
	}
	if now.Sub(s.began) >= max(r.o.Keep, time.Minute) {
		s.began, s.after = now, 0
	}
	old, done, err := r.old(ctx, now)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		if _, err := r.change(ctx, "delete old rows of", fill(r.d.sql.Delete, "{ids}", idsOf(old))); err != nil {
			return err
		}
	}
	if done {
		s.next = now.Add(sweepEvery)
		if r.o.Keep <= 0 { // then there is nothing but what another setting has left
			s.next = now.Add(60 * sweepEvery)
		}
	}
	return nil
}

// old are the next rows that were kept long enough, and whether there are no more.
func (r *Relay) old(ctx context.Context, now time.Time) (old []outcome, done bool, err error) {
	n, before := 0, now.Add(-max(r.o.Keep, 0)).UnixMilli()
	err = r.each(ctx, "look for old rows in", func(rows *sql.Rows) (bool, error) {
		var id, at int64
		var status string
		if err := rows.Scan(&id, &status, &at); err != nil {
			return false, err
		}
		if status == "sent" {
			switch {
			case at <= before:
				old = append(old, outcome{row: id})
			case at <= now.UnixMilli(): // a time to come tells nothing of the rows behind
				return false, nil
			}
		}
		r.swept.after, n = id, n+1
		return true, nil
	}, r.d.sql.Kept, r.swept.after, sweepSize)
	return old, n < sweepSize, err
}
