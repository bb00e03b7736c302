package wire

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sort"
	"strconv"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// listed is what an answer says of a list beside its page.
type listed struct {
	total   int64
	atLeast bool // the count stopped there
	more    bool
	next    string
}

// pages writes the pagination object and the total of a list (contract §1.7).
func pages(b *rawjson.Writer, p Paging, l listed) {
	l.count(b.Object("pagination"))
	b.Int("limit", int64(p.Limit))
	b.Int("offset", int64(p.Offset))
	b.Int("page", int64(p.Offset/p.Limit+1))
	b.Int("per_page", int64(p.Limit))
	b.Bool("has_more", l.more)
	if l.more {
		b.Optional("next_cursor", l.next)
	}
	l.count(b.End())
}

func (l listed) count(b *rawjson.Writer) {
	if b.Int("total", l.total); l.atLeast {
		b.Bool("total_at_least", true)
	}
}

// page is the part of a whole list that is asked for.
func page[T any](all []T, p Paging) []T {
	all = all[min(p.Offset, len(all)):]
	return all[:min(p.Limit, len(all))]
}

// byName is page for a list that is sorted by name, with what the answer says of the
// list. A cursor is the last name of the page before.
func byName[T any](all []T, p Paging, name func(T) string) ([]T, listed) {
	from := 0
	if p.Cursor != "" {
		from = sort.Search(len(all), func(i int) bool { return name(all[i]) > p.Cursor })
	}
	shown := page(all[from:], p)
	l := listed{total: int64(len(all)), more: from+p.Offset+len(shown) < len(all)}
	if l.more = l.more && len(shown) > 0; l.more {
		l.next = name(shown[len(shown)-1])
	}
	return shown, l
}

// listed makes a listed for a page of n elements; next is the cursor behind it.
func (p Paging) listed(n int, total int64, atLeast bool, next string) listed {
	more := next != "" || int64(p.Offset+n) < total && p.Cursor == ""
	return listed{total, atLeast, more, next}
}

// endList ends an answer that holds one list; the list begins at from and ends b.
func endList(b *rawjson.Writer, p Paging, from int, l listed) []byte {
	items(b, p, from)
	pages(b, p, l)
	return b.Close()
}

// items writes the list that begins at from, and ends b, once more if the caller asked
// for items.
func items(b *rawjson.Writer, p Paging, from int) {
	if p.Items {
		b.Raw("items", (*b)[from:])
	}
}

// AppendJobs appends a page of jobs (contract §3.3), or of dead letters, which
// also tell how many attempts were made (§3.14).
func AppendJobs(dst []byte, page job.Page, p Paging, dead bool) []byte {
	b := rawjson.Object(dst)
	from := appendJobs(&b, "jobs", page.Jobs, dead)
	return endList(&b, p, from, p.listed(len(page.Jobs), page.Total, page.AtLeast, page.Next))
}

// appendJobs appends the jobs of a list, and returns where it begins.
func appendJobs(b *rawjson.Writer, name string, jobs []*job.Job, dead bool) (from int) {
	return array(b, name, jobs, func(b *rawjson.Writer, j *job.Job) {
		*b = j.AppendJSON(*b, job.View{})
		if dead && !bytes.Contains(j.Extra, []byte(`"total_attempts"`)) {
			b.Reopen().Int("total_attempts", int64(j.Attempt)).End()
		}
	})
}

// AppendDeadStats appends the counters of the dead letters (contract §3.14).
func AppendDeadStats(dst []byte, s job.DeadStats) []byte {
	b := rawjson.Object(dst)
	b.Int("total", s.Total)
	counts(&b, "by_queue", s.ByQueue)
	counts(&b, "by_type", s.ByType)
	counts(&b, "by_error_type", s.ByErrorType)
	return b.Time("oldest_at", s.Oldest).Time("newest_at", s.Newest).Close()
}

func counts(b *rawjson.Writer, name string, m map[string]int64) {
	b.Object(name)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.Quoted(k, strconv.AppendInt(nil, m[k], 10))
	}
	b.End()
}

// AppendEvents appends a page of events, oldest first (contract §3.18). es begins with
// the events that the offset skips, and may hold one more than the page, which shows
// that there is more. count is how many events there are in the whole log, for a page of
// that; negative for a page of those that a filter lets through, which nobody counts: total
// is where the page ends then, and one more if there is more.
func AppendEvents(dst []byte, es []job.Event, count int64, p Paging) []byte {
	es = es[min(p.Offset, len(es)):]
	more := p.Cut || len(es) > p.Limit || len(es) == p.Limit && p.Offset+p.Limit == EventsMax
	es = es[:min(p.Limit, len(es))]
	b := rawjson.Object(dst)
	from := array(&b, "events", es, func(b *rawjson.Writer, e job.Event) { *b = AppendEvent(*b, e) })
	items(&b, p, from)
	cursor := p.Cursor
	if len(es) > 0 {
		cursor = EventID(es[len(es)-1])
	}
	b.Optional("cursor", cursor).Bool("has_more", more)
	l := listed{total: count, more: more, next: cursor}
	if count < 0 {
		l.total, l.atLeast = int64(p.Offset+len(es)), more || p.Cursor != ""
		if more {
			l.total++
		}
	}
	pages(&b, p, l)
	return b.Close()
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
	b := rawjson.Object(dst)
	b.Str("specversion", "1.0")
	b.Key("id")
	b = append(AppendEventID(append(b, '"'), e), '"')
	b.Str("type", e.Type)
	b.Str("event", e.Type)
	b.Optional("alias_type", aliasOf(e.Type))
	b.Str("source", "ojs://outrider/api")
	b.Time("time", e.Time)
	b.Time("timestamp", e.Time)
	b.Optional("subject", cmp.Or(string(e.JobID), e.Queue))
	b.Str("datacontenttype", "application/json")
	b.Object("data")
	b.Optional("job_id", string(e.JobID))
	b.Optional("job_type", e.JobType)
	b.Optional("queue", e.Queue)
	b.Splice(e.Data)
	return b.End().Close()
}

// status is the word for a queue's condition.
func status(q job.Queue) string {
	switch {
	case q.Paused:
		return job.QueuePaused
	case q.Draining:
		return job.QueueDraining
	}
	return job.QueueActive
}

// AppendQueues appends a page of all queues (contract §3.13).
func AppendQueues(dst []byte, qs []job.Queue, p Paging) []byte {
	qs, l := byName(qs, p, func(q job.Queue) string { return q.Name })
	b := rawjson.Object(dst)
	return endList(&b, p, objects(&b, "queues", qs, appendQueue), l)
}

// appendQueue appends the members of a queue.
func appendQueue(b *rawjson.Writer, q job.Queue) {
	b.Str("name", q.Name)
	b.Str("status", status(q))
	b.Str("state", status(q))
	b.Bool("paused", q.Paused)
	b.Time("created_at", q.CreatedAt)
	b.Int("depth", q.Depth())
	perState(b, q)
	b.Int("running", q.Counts[job.Active])
	since(b, q)
}

func perState(b *rawjson.Writer, q job.Queue) {
	for _, s := range job.States {
		b.Int(string(s), q.Counts[s])
	}
}

// AppendQueue appends the answer about one queue (contract §3.13).
func AppendQueue(dst []byte, q job.Queue, c job.QueueConfig) []byte {
	b := rawjson.Object(dst)
	b.Object("queue")
	appendQueue(&b, q)
	b.Int("dead_letter", q.Dead)
	b.Raw("config", c.Raw)
	b.End()
	b.Str("name", q.Name)
	b.Str("status", status(q))
	b.Bool("paused", q.Paused)
	b.Int("depth", q.Depth())
	b.Int("available", q.Counts[job.Available])
	b.Int("running", q.Counts[job.Active])
	return b.Close()
}

// AppendQueueStats appends a queue's counters in one shape that all clients can read
// (contract §3.13): "queue" is an object for Bare and a name for others.
func AppendQueueStats(dst []byte, r job.QueueReport, p Profile) []byte {
	q := r.Queue
	b := rawjson.Object(dst)
	if p == Bare {
		b.Object("queue").Str("name", q.Name).Str("status", status(q)).Bool("paused", q.Paused)
		perState(&b, q)
		b.Int("dead_letter", q.Dead).Int("depth", q.Depth()).End()
	} else {
		b.Str("queue", q.Name)
	}
	b.Str("name", q.Name).Str("status", status(q)).Bool("paused", q.Paused)
	perState(&b, q)
	b.Object("stats").Str("queue", q.Name)
	perState(&b, q)
	b.Int("dead", q.Dead).Int("depth", q.Depth())
	if r.Bound > 0 {
		b.Int("max_depth", r.Bound)
	} else {
		b.Raw("max_depth", []byte("null"))
	}
	measured(&b, r.Stats)
	if !r.Oldest.IsZero() {
		b.Time("oldest_available_at", r.Oldest)
	}
	return b.End().Time("computed_at", r.At).Close()
}
