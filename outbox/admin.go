package outbox

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// What an operator asks of an outbox. These functions need no relay, and get in
// the way of none.

// Status is how an outbox is.
type Status struct {
	Pending int64 // written by the app, and not taken yet
	Taken   int64 // a relay is sending them now
	Relayed int64 // sent; they stay until their jobs have ended
	Sent    int64 // sent; they stay for a while
	Parked  int64 // they can never be jobs, until somebody mends them
	Strays  []Stray
	Oldest  time.Time
	Lag     time.Duration // how long the oldest pending row has waited
	Relays  []Peer
}

// Stray is how many rows have a status that is none: no relay ever takes them.
type Stray struct {
	Status string
	Rows   int64
}

// Peer is a job server that relays the outbox, or has within the last day.
type Peer struct {
	Owner string
	Mode  Release
	Sent  int64
	Seen  time.Time
}

// Parked is a row that can never be a job.
type Parked struct {
	ID       int64
	Type     string
	Attempts int64
	Written  time.Time
	Reason   string
}

// Inspect counts the rows of an outbox; now is the time of the caller. The error is Unavailable.
func Inspect(ctx context.Context, db *sql.DB, d Dialect, now time.Time) (Status, error) {
	var s Status
	err := ask(ctx, db, d, func(rows *sql.Rows) error {
		var text sql.NullString
		var n, oldest int64
		if err := rows.Scan(&text, &n, &oldest); err != nil {
			return err
		}
		status := text.String
		into := map[string]*int64{"pending": &s.Pending, "taken": &s.Taken, "relayed": &s.Relayed, "sent": &s.Sent, "parked": &s.Parked}[status]
		if into == nil || status == "taken" && d.sql.Take == "" {
			s.Strays = append(s.Strays, Stray{status, n})
			return nil
		}
		*into = n
		if status == "pending" && oldest > 0 {
			s.Oldest = time.UnixMilli(oldest).UTC()
			s.Lag = max(0, now.Sub(s.Oldest))
		}
		return nil
	}, d.sql.Stats)
	if err != nil {
		return Status{}, err
	}
	err = ask(ctx, db, d, func(rows *sql.Rows) error {
		var p Peer
		var seen int64
		err := rows.Scan(&p.Owner, &p.Mode, &p.Sent, &seen)
		p.Seen = time.UnixMilli(seen).UTC()
		s.Relays = append(s.Relays, p)
		return err
	}, d.sql.Peers, now.Add(-24*time.Hour).UnixMilli())
	return s, err
}

// ParkedRows are the rows that are parked, from above an id on, at most limit of them.
func ParkedRows(ctx context.Context, db *sql.DB, d Dialect, after int64, limit int) (all []Parked, err error) {
	err = ask(ctx, db, d, func(rows *sql.Rows) error {
		var p Parked
		var written int64
		var reason sql.NullString
		err := rows.Scan(&p.ID, &p.Type, &p.Attempts, &written, &reason)
		p.Written, p.Reason = time.UnixMilli(written).UTC(), reason.String
		all = append(all, p)
		return err
	}, d.sql.List, after, limit)
	return all, err
}

// Replay makes parked rows pending again, as after their cause was mended, and
// says how many. Without ids it is all of them.
func Replay(ctx context.Context, db *sql.DB, d Dialect, ids ...int64) (int64, error) {
	return onParked(ctx, db, d, d.sql.Replay, ids)
}

// Discard removes parked rows for good, and says how many. Without ids it is all of them.
func Discard(ctx context.Context, db *sql.DB, d Dialect, ids ...int64) (int64, error) {
	return onParked(ctx, db, d, d.sql.Discard, ids)
}

// onParked runs a statement on parked rows, some hundred at a time.
func onParked(ctx context.Context, db *sql.DB, d Dialect, stmt string, ids []int64) (changed int64, err error) {
	all, after := len(ids) == 0, int64(0)
	for {
		var some []int64
		if all {
			page, err := ParkedRows(ctx, db, d, after, manyRows)
			if err != nil {
				return changed, err
			}
			for _, p := range page {
				some, after = append(some, p.ID), p.ID
			}
		} else {
			n := min(len(ids), manyRows)
			some, ids = ids[:n], ids[n:]
		}
		if len(some) == 0 {
			return changed, nil
		}
		res, err := db.ExecContext(ctx, fill(stmt, "{ids}", list(some)))
		if err != nil {
			return changed, unavailable(d, err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return changed, unavailable(d, err)
		}
		changed += n
	}
}

func list(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

func ask(ctx context.Context, db *sql.DB, d Dialect, fn func(*sql.Rows) error, query string, args ...any) error {
	err := eachOf(ctx, db, func(rows *sql.Rows) (bool, error) { return true, fn(rows) }, query, args...)
	if err != nil {
		return unavailable(d, err)
	}
	return nil
}

func unavailable(d Dialect, err error) error {
	return job.Errorf(job.Unavailable, "outbox table %s: %w", d.sql.Table, err)
}
