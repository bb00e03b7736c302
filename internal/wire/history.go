package wire

import (
	"bytes"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeHistory reads the query of a job's history (contract §3.17); after is
// the Seq of the event that the page begins behind.
func DecodeHistory(q url.Values) (after int64, p Paging, err error) {
	if err := only(q, "after"); err != nil {
		return 0, p, err
	}
	if p, err = DecodePaging(q, job.HistoryLimit, EventsMax); err != nil {
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

// became is the state that an event tells of (contract §3.17).
var became = map[string]job.State{
	"job.enqueued": job.Available, "job.scheduled": job.Scheduled, "job.started": job.Active, "job.completed": job.Completed,
	"job.retrying": job.Retryable, "job.discarded": job.Discarded, "job.cancelled": job.Cancelled,
}

// stateAfter is the state that an event tells of: a job that is held enters as pending.
func stateAfter(e job.Event) job.State {
	if e.Type == "job.enqueued" && bytes.Contains(e.Data, []byte(`"state":"pending"`)) {
		return job.Pending
	}
	return became[e.Type]
}

// AppendHistory appends a page of the events of one job, oldest first, each also
// with the state that it tells of (contract §3.17). es is all of them.
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
	items(&b, p, from)
	next := ""
	if len(es) > 0 {
		next = EventID(es[len(es)-1])
	}
	pages(&b, p, listed{total: total, more: more, next: next})
	return b.Close()
}
