package wire

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// pages appends the pagination object and the total of a list (contract §1.7).
func pages(b []byte, p Paging, total int64, more bool, next string) []byte {
	return countedPages(b, p, total, false, more, next)
}

// countedPages is pages for a list whose count may have stopped, as
// total_at_least then says.
func countedPages(b []byte, p Paging, total int64, atLeast, more bool, next string) []byte {
	b = append(key(b, "pagination"), '{')
	b = counted(b, total, atLeast)
	b = num(b, "limit", int64(p.Limit))
	b = num(b, "offset", int64(p.Offset))
	b = num(b, "page", int64(p.Offset/p.Limit+1))
	b = num(b, "per_page", int64(p.Limit))
	b = flag(b, "has_more", more)
	if more && next != "" {
		b = str(b, "next_cursor", next)
	}
	return counted(append(b, '}'), total, atLeast)
}

func counted(b []byte, total int64, atLeast bool) []byte {
	if b = num(b, "total", total); atLeast {
		b = flag(b, "total_at_least", true)
	}
	return b
}

// AppendJobs appends a page of jobs (contract §3.3), or of dead letters, which
// also tell how many attempts were made (§3.14).
func AppendJobs(dst []byte, page job.Page, p Paging, dead bool) []byte {
	b := append(dst, `{"jobs":`...)
	from := len(b)
	b = append(b, '[')
	for i, j := range page.Jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = j.AppendJSON(b, job.View{})
		if dead && !bytes.Contains(j.Extra, []byte(`"total_attempts"`)) {
			b = append(num(b[:len(b)-1], "total_attempts", int64(j.Attempt)), '}')
		}
	}
	b = append(b, ']')
	if p.Items {
		b = again(b, "items", from, len(b))
	}
	more := page.Next != "" || int64(p.Offset+len(page.Jobs)) < page.Total && p.Cursor == ""
	return append(countedPages(b, p, page.Total, page.AtLeast, more, page.Next), '}')
}

// AppendDeadStats appends the counters of the dead letters (contract §3.14).
func AppendDeadStats(dst []byte, s job.DeadStats) []byte {
	b := num(append(dst, '{'), "total", s.Total)
	b = counts(b, "by_queue", s.ByQueue)
	b = counts(b, "by_type", s.ByType)
	b = counts(b, "by_error_type", s.ByErrorType)
	b = at(b, "oldest_at", s.Oldest)
	return append(at(b, "newest_at", s.Newest), '}')
}

func counts(b []byte, name string, m map[string]int64) []byte {
	b = append(key(b, name), '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(job.AppendString(b, k), ':')
		b = strconv.AppendInt(b, m[k], 10)
	}
	return append(b, '}')
}

// AppendEvents appends a page of events, oldest first (contract §3.18). es may
// hold more than the page: that is how more is known. The log has no count, so
// total is how far this page has looked, and if there is more at least one more.
func AppendEvents(dst []byte, es []job.Event, p Paging) []byte {
	es = es[min(p.Offset, len(es)):]
	more := p.Cut || len(es) > p.Limit || len(es) == p.Limit && p.Offset+p.Limit == EventsMax
	es = es[:min(p.Limit, len(es))]
	b := append(dst, `{"events":`...)
	from := len(b)
	b = append(b, '[')
	for i, e := range es {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendEvent(b, e)
	}
	b = append(b, ']')
	if p.Items {
		b = again(b, "items", from, len(b))
	}
	cursor := p.Cursor
	if len(es) > 0 {
		cursor = EventID(es[len(es)-1])
	}
	if cursor != "" {
		b = str(b, "cursor", cursor)
	}
	b = flag(b, "has_more", more)
	total := int64(p.Offset + len(es))
	if more {
		total++
	}
	return append(countedPages(b, p, total, more, more, cursor), '}')
}

// aliasOf is the other name of an event that asyncmq-deduplication.md spells
// with a colon, and empty for any other event.
func aliasOf(kind string) string {
	switch kind {
	case "job.debounced", "job.deduplicated", "job.duplicated":
		return "job:" + kind[len("job."):]
	}
	return ""
}

// AppendEvent appends one event in the envelope of contract §3.18.
func AppendEvent(dst []byte, e job.Event) []byte {
	b := str(append(dst, '{'), "specversion", "1.0")
	b = AppendEventID(append(key(b, "id"), '"'), e)
	b = append(b, '"')
	b = str(b, "type", e.Type)
	b = str(b, "event", e.Type)
	if a := aliasOf(e.Type); a != "" {
		b = str(b, "alias_type", a)
	}
	b = str(b, "source", "ojs://outrider/api")
	b = at(b, "time", e.Time)
	b = at(b, "timestamp", e.Time)
	if e.JobID != "" {
		b = str(b, "subject", string(e.JobID))
	} else if e.Queue != "" {
		b = str(b, "subject", e.Queue)
	}
	b = str(b, "datacontenttype", "application/json")
	b = append(key(b, "data"), '{')
	for _, m := range [][2]string{{"job_id", string(e.JobID)}, {"job_type", e.JobType}, {"queue", e.Queue}} {
		if m[1] != "" {
			b = str(b, m[0], m[1])
		}
	}
	if len(e.Data) > 2 {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		return append(append(b, e.Data[1:]...), '}')
	}
	return append(b, '}', '}')
}

// status is the word for a queue's condition.
func status(q job.Queue) string {
	if q.Paused {
		return "paused"
	}
	return "active"
}

// AppendQueues appends a page of all queues (contract §3.13).
func AppendQueues(dst []byte, qs []job.Queue, p Paging) []byte {
	total := len(qs)
	qs = qs[min(p.Offset, total):]
	qs = qs[:min(p.Limit, len(qs))]
	b := append(dst, `{"queues":`...)
	from := len(b)
	b = append(b, '[')
	for i, q := range qs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQueue(append(b, '{'), q)
		b = append(b, '}')
	}
	b = append(b, ']')
	if p.Items {
		b = again(b, "items", from, len(b))
	}
	return append(pages(b, p, int64(total), p.Offset+len(qs) < total, ""), '}')
}

// appendQueue appends the members of a queue.
func appendQueue(b []byte, q job.Queue) []byte {
	b = str(b, "name", q.Name)
	b = str(b, "status", status(q))
	b = str(b, "state", status(q))
	b = flag(b, "paused", q.Paused)
	b = at(b, "created_at", q.CreatedAt)
	b = num(b, "depth", q.Depth())
	return num(perState(b, q), "running", q.Counts[job.Active])
}

func perState(b []byte, q job.Queue) []byte {
	for _, s := range job.States {
		b = num(b, string(s), q.Counts[s])
	}
	return b
}

// AppendQueue appends the answer about one queue (contract §3.13).
func AppendQueue(dst []byte, q job.Queue) []byte {
	b := append(dst, `{"queue":{`...)
	b = append(num(appendQueue(b, q), "dead_letter", q.Dead), '}')
	b = str(b, "name", q.Name)
	b = str(b, "status", status(q))
	b = flag(b, "paused", q.Paused)
	b = num(b, "depth", q.Depth())
	b = num(b, "available", q.Counts[job.Available])
	return append(num(b, "running", q.Counts[job.Active]), '}')
}

// AppendQueueStats appends a queue's counters in the one shape that all clients
// can read (contract §3.13): "queue" is an object for Bare and a name for
// others. What is not measured is 0.
func AppendQueueStats(dst []byte, q job.Queue, p Profile, now time.Time) []byte {
	b := append(dst, '{')
	if p == Bare {
		b = append(key(b, "queue"), '{')
		b = str(b, "name", q.Name)
		b = str(b, "status", status(q))
		b = flag(b, "paused", q.Paused)
		b = num(perState(b, q), "dead_letter", q.Dead)
		b = append(num(b, "depth", q.Depth()), '}')
	} else {
		b = str(b, "queue", q.Name)
	}
	b = str(b, "name", q.Name)
	b = str(b, "status", status(q))
	b = flag(b, "paused", q.Paused)
	b = perState(b, q)
	b = append(key(b, "stats"), '{')
	b = str(b, "queue", q.Name)
	b = num(perState(b, q), "dead", q.Dead)
	b = num(b, "depth", q.Depth())
	for _, name := range []string{"completed_last_hour", "failed_last_hour", "avg_duration_ms", "avg_wait_ms", "throughput_per_second"} {
		b = num(b, name, 0)
	}
	return append(at(append(b, '}'), "computed_at", now), '}')
}
