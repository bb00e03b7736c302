package wire

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// The bodies about outboxes are our own: Open Job Spec has none.

// OutboxStatus is how an outbox is.
type OutboxStatus struct {
	Name     string // in paths
	Database string // without user and password
	Table    string
	Release  string // "on_relay" or "on_complete"
	State    string // "running", "standby" while another job server relays, or "trouble"
	Error    string // the latest, even if it is over
	ErrorAt  time.Time

	Counted                               bool // the rest is known, as the database answers
	Pending, Taken, Relayed, Sent, Parked int64
	Oldest                                time.Time     // when the oldest pending row was written
	Lag                                   time.Duration // how long it has waited
	Relays                                []OutboxRelay
}

// OutboxRelay is a job server that relays an outbox, or has within the last day.
type OutboxRelay struct {
	Owner   string
	Host    string // of its newest process; empty if it is not known
	PID     int
	Release string
	Sent    int64
	SeenAt  time.Time
}

// OutboxRow is a row that can never be a job.
type OutboxRow struct {
	ID        int64
	Type      string
	Attempts  int64
	CreatedAt time.Time
	Error     string
}

// AppendOutboxes appends a page of all outboxes.
func AppendOutboxes(dst []byte, all []OutboxStatus, p Paging) []byte {
	all = slices.SortedFunc(slices.Values(all), func(a, b OutboxStatus) int { return strings.Compare(a.Name, b.Name) })
	all, l := byName(all, p, func(o OutboxStatus) string { return o.Name })
	b := rawjson.Object(dst)
	return endList(&b, p, objects(&b, "outboxes", all, appendOutbox), l)
}

func appendOutbox(b *rawjson.Writer, o OutboxStatus) {
	b.Str("name", o.Name)
	b.Str("database", o.Database)
	b.Str("table", o.Table)
	b.Str("release", o.Release)
	b.Str("state", o.State)
	if o.Counted {
		b.Int("pending", o.Pending)
		b.Int("taken", o.Taken)
		b.Int("relayed", o.Relayed)
		b.Int("sent", o.Sent)
		b.Int("parked", o.Parked)
		b.Raw("lag_seconds", strconv.AppendFloat(nil, o.Lag.Seconds(), 'f', 3, 64))
		b.Time("oldest_at", o.Oldest)
		objects(b, "relays", o.Relays, func(b *rawjson.Writer, r OutboxRelay) {
			b.Str("owner", r.Owner)
			if r.Host != "" {
				b.Str("host", r.Host)
				b.Int("pid", int64(r.PID))
			}
			b.Str("release", r.Release)
			b.Int("sent", r.Sent)
			b.Time("seen_at", r.SeenAt)
		})
	}
	if o.Error != "" {
		b.Object("last_error").Str("message", o.Error).Time("at", o.ErrorAt).End()
	}
}

// DecodeRowPaging reads the query of a list of rows: the id above which it begins,
// from the cursor, and how many rows there may be. An offset is refused: rows are
// listed by id.
func DecodeRowPaging(q url.Values) (after int64, p Paging, err error) {
	if p, err = DecodePages(q); err != nil {
		return 0, p, err
	}
	if p.Offset > 0 {
		return 0, p, refuse("offset", "is not known here; use the next_cursor of the page before")
	}
	if p.Cursor == "" {
		return 0, p, nil
	}
	if after, err = strconv.ParseInt(p.Cursor, 10, 64); err != nil || after < 0 {
		return 0, p, refuse("cursor", "must be the next_cursor of the page before")
	}
	return after, p, nil
}

// AppendParked appends a page of rows that can never be jobs. rows may hold one more
// than the page, which shows that there is more. total is of all pages.
func AppendParked(dst []byte, rows []OutboxRow, total int64, p Paging) []byte {
	more := len(rows) > p.Limit
	rows = rows[:min(p.Limit, len(rows))]
	b := rawjson.Object(dst)
	from := objects(&b, "rows", rows, func(b *rawjson.Writer, r OutboxRow) {
		b.Int("id", r.ID)
		b.Str("type", r.Type)
		b.Int("attempts", r.Attempts)
		b.Time("created_at", r.CreatedAt)
		b.Str("error", r.Error)
	})
	next := ""
	if more {
		next = strconv.FormatInt(rows[len(rows)-1].ID, 10)
	}
	return endList(&b, p, from, listed{total: total, more: more, next: next})
}

// DecodeRows reads which rows a replay or a discard is about: {"ids":[…]}, or
// {"all":true}, for which no ids are returned. It must hold one of them and nothing
// else: a member that was meant to narrow it must not be ignored.
func DecodeRows(raw []byte) (ids []int64, err error) {
	all, given := false, false
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "ids":
			given = true
			ids, err = rowIDs(v)
		case "all":
			all, err = boolean(v, member)
		default:
			err = refuse(member, "is not known; there are ids and all")
		}
		return err
	})
	if err == nil && all == given {
		err = refuse("ids", "must name rows, or all must be true")
	}
	return ids, err
}

// rowIDs is an array of ids, each once, in the order given.
func rowIDs(v json.RawMessage) (ids []int64, err error) {
	wrong := refuse("ids", "must be an array of 1 to 10000 ids of rows, which are integers of 1 or more"+got(v))
	if v[0] != '[' {
		return nil, wrong
	}
	seen := map[int64]bool{}
	err = job.Elements(v, func(i int, e json.RawMessage) error {
		id, ok := rawjson.Integer(e)
		if !ok || id < 1 || i >= 10_000 {
			return wrong
		}
		if !seen[id] {
			ids = append(ids, id)
		}
		seen[id] = true
		return nil
	})
	if err == nil && len(ids) == 0 {
		err = wrong
	}
	return ids, err
}

// AppendRowsDone appends the answer to a replay or a discard: how many rows it was about.
func AppendRowsDone(dst []byte, outbox, verb string, n int64) []byte {
	b := rawjson.Object(dst)
	return b.Str("outbox", outbox).Int(verb, n).Int("total", n).Close()
}

// AppendPoked appends how many relays were told to look.
func AppendPoked(dst []byte, n int) []byte {
	b := rawjson.Object(dst)
	return b.Int("poked", int64(n)).Close()
}
