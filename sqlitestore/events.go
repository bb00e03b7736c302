package sqlitestore

import (
	"encoding/json"
	"slices"
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
	if err := r.long(); err != nil {
		return nil, err
	}
	since := int64(0)
	if !f.Since.IsZero() {
		since = f.Since.UnixMilli()
	}
	var out []job.Event
	may := lineFilter(f)
	for values, err := range r.rows(eventChunks, f.After+1, since) {
		if err != nil {
			return nil, translate("read events", err)
		}
		if len(out) >= f.Limit {
			break
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
	return out, nil
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
	return len(words) == 0 || slices.ContainsFunc(words, func(w string) bool {
		prefix, open := strings.CutSuffix(w, "*")
		return w == s || open && strings.HasPrefix(s, prefix)
	})
}

// The events of a job are a chain: the job knows its newest event, and each
// event knows the one before. A write pays for it with one number in a row that
// is written anyway, a read with one search by key for each commit with an event of
// the job, however long the log is. Pruning breaks the chain off at its old end,
// where it should.

const selectLastEvent = `SELECT told FROM jobs WHERE id = ?`

// eventChunk is the row that holds the event with a Seq, if it is still there.
const eventChunk = `SELECT lines FROM events
WHERE first <= ?
ORDER BY first DESC
LIMIT 1`

// History reads the newest events of a job.
func (r reader) History(id job.ID) ([]job.Event, error) {
	last, found := int64(0), false
	if err := r.each(selectLastEvent, func(v *row[any]) { last, found = v.int(), true }, string(id)); err != nil {
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
	lines := ""
	for last > 0 && len(newer) < job.HistoryLimit {
		line, ok := lineOf(lines, last)
		if !ok {
			if err := r.each(eventChunk, func(v *row[any]) { lines = v.str() }, last); err != nil {
				return nil, translate("read history", err)
			}
			if line, ok = lineOf(lines, last); !ok {
				break // pruned
			}
		}
		var l eventLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, unreadable("a line of the event log")
		}
		newer = append(newer, l.event())
		last = l.Prev
	}
	slices.Reverse(newer)
	return newer, nil
}

// lineOf is the line of the event with a Seq. Only the start of a line counts:
// the data of another event may look like one.
func lineOf(lines string, seq int64) (string, bool) {
	start := string(append(strconv.AppendInt([]byte("\n{\"s\":"), seq, 10), ','))
	if !strings.HasPrefix(lines, start[1:]) {
		i := strings.Index(lines, start)
		if i < 0 {
			return "", false
		}
		lines = lines[i+1:]
	}
	line, _, _ := strings.Cut(lines, "\n")
	return line, true
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
