package sqlitestore

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// The events of a job are a chain: the job knows its newest event, and each
// event knows the one before. A write pays for it with one number in a row that
// is written anyway, a read with one search by key for each commit that told of
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
	told, found := int64(0), false
	if err := r.each(selectLastEvent, func(v *row[any]) { told, found = v.int(), true }, string(id)); err != nil {
		return nil, translate("read history", err)
	}
	if !found {
		return nil, noJob(id)
	}
	return r.chain(told, nil)
}

// chain follows the events of a job from its newest one on; newer are those
// that have been found already, the newest first.
func (r reader) chain(told int64, newer []job.Event) ([]job.Event, error) {
	lines := ""
	for told > 0 && len(newer) < job.HistoryLimit {
		line, ok := lineOf(lines, told)
		if !ok {
			if err := r.each(eventChunk, func(v *row[any]) { lines = v.str() }, told); err != nil {
				return nil, translate("read history", err)
			}
			if line, ok = lineOf(lines, told); !ok {
				break // pruned
			}
		}
		var l eventLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, unreadable("a line of the event log")
		}
		newer = append(newer, l.event())
		told = l.Prev
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
	told := j.LastEvent
	var newest []job.Event
	for told > t.written() && len(newest) < job.HistoryLimit {
		n := t.noted(told)
		newest = append(newest, n.Event)
		told = n.prev
	}
	return t.chain(told, newest)
}

// noted is an event that is not written yet.
func (t *tx) noted(seq int64) note {
	i := int(seq - t.written() - 1)
	if i < len(t.group.events) {
		return t.group.events[i]
	}
	return t.call.events[i-len(t.group.events)]
}
