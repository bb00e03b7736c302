package sqlitestore

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// eventChunks starts at the row that may hold the event behind a Seq.
const eventChunks = `SELECT lines FROM events
WHERE first >= coalesce((SELECT max(first) FROM events WHERE first <= ?), 0) AND at >= ?
ORDER BY first`

// Events reads the log in order.
func (r reader) Events(f job.EventFilter) ([]job.Event, error) {
	since := int64(0)
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	rows, err := r.q.Queryx(eventChunks, f.After+1, since)
	if err != nil {
		return nil, translate("read events", err)
	}
	defer rows.Close()
	var out []job.Event
	for rows.Next() && len(out) < f.Limit {
		var lines string
		if err := rows.Scan(&lines); err != nil {
			return nil, translate("read events", err)
		}
		for line := range strings.Lines(lines) {
			var l eventLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				return nil, job.Errorf(job.Internal, "read events: %w", err)
			}
			if e := l.event(); len(out) < f.Limit && wanted(f, e) {
				out = append(out, e)
			}
		}
	}
	return out, translate("read events", rows.Err())
}

// wanted reports whether the filter lets an event through.
func wanted(f job.EventFilter, e job.Event) bool {
	return e.Seq > f.After &&
		(f.JobID == "" || e.JobID == f.JobID) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) &&
		(f.Until.IsZero() || e.Time.Before(f.Until)) &&
		listed(f.Types, e.Type) && listed(f.Queues, e.Queue) && listed(f.JobTypes, e.JobType)
}

// listed reports whether s is among the words, of which "*" is all and "job.*" a prefix.
func listed(words []string, s string) bool {
	if len(words) == 0 {
		return true
	}
	for _, w := range words {
		if prefix, ok := strings.CutSuffix(w, "*"); w == s || ok && strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
