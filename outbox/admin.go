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
	Pending int64         `json:"pending"` // written by the app, and not taken yet
	Taken   int64         `json:"taken"`   // a relay is sending them now
	Relayed int64         `json:"relayed"` // sent; they stay until their jobs have ended
	Sent    int64         `json:"sent"`    // sent; they stay for a while
	Parked  int64         `json:"parked"`  // they can never be jobs, until somebody mends them
	Strays  []Stray       `json:"strays"`
	Oldest  time.Time     `json:"-"`
	Lag     time.Duration `json:"-"` // how long the oldest pending row has waited
	Relays  []Peer        `json:"relays"`
}

// Stray counts rows with an invalid status, which no relay ever takes.
type Stray struct {
	Status string `json:"status"`
	Rows   int64  `json:"rows"`
}

// Peer is a job server that relays the outbox, or has within the last day.
type Peer struct {
	Owner string    `json:"owner"`
	Host  string    `json:"host,omitempty"` // of its newest process; empty in a row that no relay has renewed yet
	PID   int       `json:"pid,omitempty"`
	Mode  Release   `json:"release"`
	Sent  int64     `json:"sent"`
	Seen  time.Time `json:"seen_at"`
}

// Parked is a row that can never be a job.
type Parked struct {
	ID       int64     `json:"id"`
	Type     string    `json:"type"`
	Attempts int64     `json:"attempts"`
	Written  time.Time `json:"created_at"`
	Reason   string    `json:"error"`
}

// Inspect counts the rows of an outbox; now is the time of the caller. The error is Unavailable.
func Inspect(ctx context.Context, db *sql.DB, d Dialect, now time.Time) (Status, error) {
	var s Status
	err := ask(ctx, db, d, func(rows *sql.Rows) (bool, error) {
		var text sql.NullString
		var n, oldest int64
		if err := rows.Scan(&text, &n, &oldest); err != nil {
			return false, err
		}
		status := text.String
		into := map[string]*int64{"pending": &s.Pending, "taken": &s.Taken, "relayed": &s.Relayed, "sent": &s.Sent, "parked": &s.Parked}[status]
		if into == nil || status == "taken" && !d.shared() {
			s.Strays = append(s.Strays, Stray{status, n})
			return true, nil
		}
		*into = n
		if status == "pending" && oldest > 0 {
			s.Oldest = time.UnixMilli(oldest).UTC()
			s.Lag = max(0, now.Sub(s.Oldest))
		}
		return true, nil
	}, d.sql.Stats)
	if err != nil {
		return Status{}, err
	}
	err = ask(ctx, db, d, intoPeers(&s.Relays), d.sql.Peers, now.Add(-24*time.Hour).UnixMilli())
	return s, err
}

// ParkedRows are the rows that are parked, from above an id on, at most limit of them.
func ParkedRows(ctx context.Context, db *sql.DB, d Dialect, after int64, limit int) (all []Parked, err error) {
	err = ask(ctx, db, d, func(rows *sql.Rows) (bool, error) {
		var p Parked
		var written int64
		var reason sql.NullString
		err := rows.Scan(&p.ID, &p.Type, &p.Attempts, &written, &reason)
		p.Written, p.Reason = time.UnixMilli(written).UTC(), reason.String
		all = append(all, p)
		return true, err
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
		n, err := affected(db.ExecContext(ctx, fill(stmt, "{ids}", list(some))))
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

func ask(ctx context.Context, db *sql.DB, d Dialect, fn func(*sql.Rows) (more bool, err error), query string, args ...any) error {
	if err := eachOf(ctx, db, fn, query, args...); err != nil {
		return unavailable(d, err)
	}
	return nil
}

func unavailable(d Dialect, err error) error {
	return job.Errorf(job.Unavailable, "outbox table %s: %w", d.sql.Table, err)
}
