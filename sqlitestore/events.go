package sqlitestore

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// eventChunks starts at the row that may hold the event behind a Seq.
const eventChunks = `SELECT first, packed FROM events
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
	var out []job.Event
	may := lineFilter(f)
	var id []byte
	if b, ok := f.JobID.Bytes(); ok {
		id = b[:]
	}
	for values, err := range r.rows(eventChunks, f.After+1, since) {
		if err != nil {
			return nil, translate("read events", err)
		}
		if len(out) >= f.Limit {
			break
		}
		// To look for a text costs a fraction of reading the row.
		if row, ok := values[1].([]byte); ok && f.JobID != "" && !bytes.Contains(row, id) {
			continue
		}
		if lines, ok := values[1].(string); ok && !may(lines) {
			continue
		}
		var stop bool
		var room error
		if err := eachEvent(values[0], values[1], func(n note) bool {
			if !f.Wants(n.Event) {
				return true
			}
			if stop, room = full(f.Room, n.Size(), len(out)); stop {
				return false
			}
			out = append(out, n.Event)
			return len(out) < f.Limit
		}); err != nil {
			return nil, err
		}
		if stop {
			return out, room
		}
	}
	return out, nil
}

// eachEvent calls fn with the events of a row, as it is stored, until it returns false.
func eachEvent(first, row any, fn func(note) bool) error {
	n, ok := first.(int64)
	switch row := row.(type) {
	case []byte:
		ok = ok && unpack(n, row, fn)
	case string: // of schema 3 or older: a line of JSON for each event
		for line := range strings.Lines(row) {
			var l eventLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				ok = false
				break
			}
			if !fn(l.note()) {
				break
			}
		}
	default:
		ok = false
	}
	if !ok {
		return unreadable("a row of the event log")
	}
	return nil
}

const eventSpan = `SELECT coalesce((SELECT min(first) FROM events), 0), (` + lastEvent + `)`

// EventSpan reads which part of the log is there.
func (r reader) EventSpan() (s job.EventSpan, err error) {
	if err := r.each(eventSpan, func(v *row[any]) { s.First, s.Last = v.int(), v.int() }); err != nil {
		return s, translate("read how long the log of events is", err)
	}
	if s.First == 0 {
		s.First = s.Last + 1 // none is kept
	}
	return s, nil
}

// eventLine is how older schemas stored an event.
type eventLine struct {
	Seq     int64           `json:"s"`
	Prev    int64           `json:"p,omitempty"`
	Type    string          `json:"t"`
	At      int64           `json:"at"`
	JobID   job.ID          `json:"j,omitempty"`
	JobType string          `json:"jt,omitempty"`
	Queue   string          `json:"q,omitempty"`
	Data    json.RawMessage `json:"d,omitempty"`
}

func (l eventLine) note() note {
	return note{job.Event{Seq: l.Seq, Type: l.Type, Time: time.UnixMilli(l.At).UTC(), JobID: l.JobID,
		JobType: l.JobType, Queue: l.Queue, Data: l.Data}, l.Prev}
}

// lineFilter reports of the lines of an older schema whether one of them may be wanted, by what must stand in
// it as those schemas wrote it: to look for a text costs a hundredth of decoding.
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

// The events of a job are a chain: the job knows its newest event, and each
// event knows the one before. A write pays for it with one number in a row that
// is written anyway, a read with one search by key for each commit with an event of
// the job, however long the log is. Pruning breaks the chain off at its old end,
// where it should.

const selectLastEvent = `SELECT s.n, told` + byBody + ` WHERE id_bytes = ?`

// eventChunk is the row that holds the event with a Seq, if it is still there.
const eventChunk = `SELECT first, packed FROM events
WHERE first <= ?
ORDER BY first DESC
LIMIT 1`

// History reads the newest events of a job.
func (r reader) History(id job.ID) ([]job.Event, error) {
	b, ok := id.Bytes()
	if !ok {
		return nil, noJob(id)
	}
	last, found := int64(0), false
	if err := r.each(selectLastEvent, func(v *row[any]) {
		whole := v.int() > 0
		last, found, v.bad = v.int(), true, v.bad || !whole
	}, b[:]); err != nil {
		return nil, translate("read history", err)
	}
	if !found {
		return nil, noJob(id)
	}
	return r.chain(last, nil)
}

// chain follows the events of a job from its newest one on; newer are those
// that have been found already, the newest first.
func (r reader) chain(last int64, newer []job.Event) ([]job.Event, error) {
	for last > 0 && len(newer) < job.HistoryLimit {
		var those []note // of one row, the newest last
		for values, err := range r.rows(eventChunk, last) {
			if err == nil {
				err = eachEvent(values[0], values[1], func(n note) bool {
					if n.Seq <= last {
						those = append(those, n)
					}
					return n.Seq < last
				})
			}
			if err != nil {
				return nil, translate("read history", err)
			}
		}
		found := false
		for i := len(those) - 1; i >= 0 && len(newer) < job.HistoryLimit; i-- {
			if those[i].Seq == last {
				newer, last, found = append(newer, those[i].Event), those[i].prev, true
			}
		}
		if !found {
			break // pruned
		}
	}
	slices.Reverse(newer)
	return newer, nil
}

// History reads the newest events of a job, also those that this commit has not
// written yet.
func (t *tx) History(id job.ID) ([]job.Event, error) {
	j, err := t.Job(id)
	if err != nil {
		return nil, err
	}
	last := j.LastEvent
	var newest []job.Event
	for last > t.written() && len(newest) < job.HistoryLimit {
		n := t.noted(last)
		newest = append(newest, n.Event)
		last = n.prev
	}
	return t.chain(last, newest)
}

// noted is an event that is not written yet.
func (t *tx) noted(seq int64) note {
	i := int(seq - t.written() - 1)
	if i < len(t.group.events) {
		return t.group.events[i]
	}
	return t.call.events[i-len(t.group.events)]
}
