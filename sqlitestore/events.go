package sqlitestore

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// eventChunks starts at the row that may hold the event behind a Seq.
const eventChunks = `SELECT lines FROM events
WHERE first >= coalesce((SELECT max(first) FROM events WHERE first <= ?), 0) AND at >= ?
ORDER BY first`

// Events reads the log in order.
func (r reader) Events(f job.EventFilter) ([]job.Event, error) {
	if err := r.long(); err != nil {
		return nil, err
	}
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
	may := lineFilter(f)
	for rows.Next() && len(out) < f.Limit {
		values, err := rows.SliceScan()
		if err != nil {
			return nil, translate("read events", err)
		}
		lines, ok := values[0].(string)
		if !ok {
			return nil, unreadable("a row of the event log")
		}
		if !may(lines) {
			continue
		}
		for line := range strings.Lines(lines) {
			if !may(line) {
				continue
			}
			var l eventLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				return nil, unreadable("a line of the event log")
			}
			if e := l.event(); len(out) < f.Limit && wanted(f, e) {
				if full, err := full(f.Room, e.Size(), len(out)); full {
					return out, err
				}
				out = append(out, e)
			}
		}
	}
	return out, translate("read events", rows.Err())
}

// lineFilter reports of lines whether one of them may be wanted, by what must stand in
// it as [appendEvent] writes it: to look for a text costs a hundredth of decoding.
func lineFilter(f job.EventFilter) func(lines string) bool {
	var types []string
	for _, t := range f.Types {
		prefix, open := strings.CutSuffix(t, "*")
		if strings.ContainsFunc(prefix, func(r rune) bool { return r != '.' && r != '_' && (r < 'a' || r > 'z') }) {
			types = nil // it may have been written in another way
			break
		}
		if prefix = `,"t":"` + prefix; !open {
			prefix += `"`
		}
		types = append(types, prefix)
	}
	return func(lines string) bool {
		if f.JobID != "" && !strings.Contains(lines, string(f.JobID)) {
			return false
		}
		return len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return strings.Contains(lines, t) })
	}
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
