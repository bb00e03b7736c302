package wire

import (
	"bytes"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeHistory reads the query of a job's history (contract §3.17); the page begins
// behind the event with the Seq after.
func DecodeHistory(q url.Values) (after int64, p Paging, err error) {
	if p, err = pagingOf(q, job.HistoryLimit, EventsMax, "after"); err != nil {
		return 0, p, err
	}
	if q.Has("after") {
		p.Cursor = q.Get("after")
	}
	if p.Cursor != "" {
		after, err = ParseEventID(p.Cursor)
	}
	return after, p, err
}

// became is the state that a job has after an event (contract §3.17).
var became = map[string]job.State{
	"job.enqueued": job.Available, "job.scheduled": job.Scheduled, "job.started": job.Active, "job.completed": job.Completed,
	"job.retrying": job.Retryable, "job.discarded": job.Discarded, "job.cancelled": job.Cancelled,
}

// stateAfter is the state that a job has after an event: a job that is held enters as
// pending.
func stateAfter(e job.Event) job.State {
	if e.Type == "job.enqueued" && bytes.Contains(e.Data, []byte(`"state":"pending"`)) {
		return job.Pending
	}
	return became[e.Type]
}

// AppendHistory appends a page of the events of one job, oldest first, each also with
// the state that the job then has (contract §3.17). es is all of them.
func AppendHistory(dst []byte, es []job.Event, after int64, p Paging) []byte {
	total := int64(len(es))
	for len(es) > 0 && es[0].Seq <= after {
		es = es[1:]
	}
	more := len(es) > p.Offset+p.Limit
	es = page(es, p)
	b := rawjson.Object(dst)
	from := array(&b, "events", es, func(b *rawjson.Writer, e job.Event) {
		*b = AppendEvent(*b, e)
		if s := stateAfter(e); s != job.None {
			b.Reopen().Str("state", string(s)).End()
		}
	})
	next := ""
	if len(es) > 0 {
		next = EventID(es[len(es)-1])
	}
	return endList(&b, p, from, listed{total: total, more: more, next: next})
}
