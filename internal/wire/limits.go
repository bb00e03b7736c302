package wire

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeLimitFilter reads the query of GET /ojs/v1/rate-limits (contract §3.25).
func DecodeLimitFilter(q url.Values) (job.LimitFilter, Paging, error) {
	p, err := pagingOf(q, PageDefault, PageMax)
	return job.LimitFilter{Limit: p.Limit, Offset: p.Offset, Cursor: p.Cursor}, p, err
}

// LimitsQuery is the query for a page of limits.
func LimitsQuery(f job.LimitFilter) url.Values {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	if f.Offset > 0 {
		q.Set("offset", strconv.Itoa(f.Offset))
	}
	if f.Cursor != "" {
		q.Set("cursor", f.Cursor)
	}
	return q
}

// DecodePace reads the body that sets an override.
func DecodePace(raw []byte) (job.Pace, error) { return job.ParsePace(raw) }

// DecodeQueueLimits reads the body that limits a whole queue, as a patch of its configuration.
func DecodeQueueLimits(raw []byte) (json.RawMessage, error) { return job.ParseQueueLimits(raw) }

// PaceBody is the body that sets an override.
func PaceBody(p job.Pace) []byte {
	b := rawjson.Object(nil)
	pace(&b, p)
	return b.Close()
}

func pace(b *rawjson.Writer, p job.Pace) {
	if p.Concurrency > 0 {
		b.Int("concurrency", int64(p.Concurrency))
	}
	for _, q := range [...]struct {
		name string
		is   job.Quota
	}{{"rate", p.Rate}, {"throttle", p.Throttle}} {
		if q.is.Limit > 0 {
			b.Raw(q.name, q.is.JSON())
		}
	}
}

// AppendLimit appends a limit (contract §3.25). limit and period are those of its rate,
// else of its throttle; where it has neither, limit is its concurrency.
func AppendLimit(dst []byte, l job.LimitInfo) []byte {
	b := rawjson.Object(dst)
	b.Str("key", l.Key)
	pace(&b, l.Pace)
	b.Int("active", int64(l.Active)).Int("available", int64(l.Left)).Int("waiting", l.Waiting)
	if l.Limit > 0 {
		b.Int("limit", int64(l.Limit))
	}
	for _, q := range [...]job.Quota{l.Pace.Rate, l.Pace.Throttle} {
		if q.Limit > 0 {
			b.Str("period", job.Period(q.Period))
			break
		}
	}
	if l.After > 0 {
		b.Int("opens_in_ms", roundedUp(l.After))
	}
	if l.Override != nil {
		b.Object("override")
		pace(&b, *l.Override)
		b.End()
	}
	return b.Close()
}

// roundedUp rounds up: who comes back earlier comes in vain.
func roundedUp(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// AppendLimits appends a page of limits.
func AppendLimits(dst []byte, page job.LimitPage, p Paging) []byte {
	b := rawjson.Object(dst)
	from := array(&b, "rate_limits", page.Limits, func(b *rawjson.Writer, l job.LimitInfo) { *b = AppendLimit(*b, l) })
	return endList(&b, p, from, p.listed(len(page.Limits), page.Total, false, page.Next))
}

type quotaObject struct {
	Limit  int    `json:"limit"`
	Period string `json:"period"`
}

func (q *quotaObject) quota() (job.Quota, error) {
	if q == nil {
		return job.Quota{}, nil
	}
	d, err := job.ParseDuration(q.Period)
	return job.Quota{Limit: q.Limit, Period: d}, err
}

type paceObject struct {
	Concurrency int          `json:"concurrency"`
	Rate        *quotaObject `json:"rate"`
	Throttle    *quotaObject `json:"throttle"`
}

func (o *paceObject) pace() (p job.Pace, err error) {
	p.Concurrency = o.Concurrency
	if p.Rate, err = o.Rate.quota(); err == nil {
		p.Throttle, err = o.Throttle.quota()
	}
	return p, err
}

type limitObject struct {
	Key string `json:"key"`
	paceObject
	Active   int         `json:"active"`
	Left     int         `json:"available"`
	Waiting  int64       `json:"waiting"`
	Limit    int         `json:"limit"`
	OpensIn  int64       `json:"opens_in_ms"`
	Override *paceObject `json:"override"`
}

func (o *limitObject) info() (l job.LimitInfo, err error) {
	if o.Key == "" {
		return l, unread(job.Errorf(job.Malformed, "there is no limit in it"))
	}
	l = job.LimitInfo{Key: o.Key, Active: o.Active, Waiting: o.Waiting,
		Permits: job.Permits{Limit: o.Limit, Left: o.Left, After: time.Duration(o.OpensIn) * time.Millisecond}}
	if l.Pace, err = o.pace(); err == nil && o.Override != nil {
		var p job.Pace
		p, err = o.Override.pace()
		l.Override = &p
	}
	if err != nil {
		err = unread(err)
	}
	return l, err
}

// ReadLimit reads an answer about one limit.
func ReadLimit(body []byte) (job.LimitInfo, error) {
	var o limitObject
	if err := read(body, &o); err != nil {
		return job.LimitInfo{}, err
	}
	return o.info()
}

// ReadLimits reads a page of limits.
func ReadLimits(body []byte) (page job.LimitPage, err error) {
	var r struct {
		Limits []json.RawMessage `json:"rate_limits"`
		Pages  *pagination       `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return page, err
	}
	if r.Pages == nil {
		return page, unread(job.Errorf(job.Malformed, "there are no limits in it"))
	}
	page = job.LimitPage{Limits: make([]job.LimitInfo, len(r.Limits)), Total: r.Pages.Total, Next: r.Pages.Next}
	for i, raw := range r.Limits {
		if page.Limits[i], err = ReadLimit(raw); err != nil {
			return job.LimitPage{}, err
		}
	}
	return page, nil
}

// The headers of an answer to a PUSH that names a limit (contract §1.2).
const (
	headerLimit     = "X-Ratelimit-Limit"
	headerRemaining = "X-Ratelimit-Remaining"
	headerReset     = "X-Ratelimit-Reset"
)

// SetPermits writes what a limit lets through into the headers of an answer: the numbers
// of Permits, and in how many seconds, rounded up, the next job may start.
func SetPermits(h http.Header, p job.Permits) {
	h[headerLimit] = []string{strconv.Itoa(p.Limit)}
	h[headerRemaining] = []string{strconv.Itoa(p.Left)}
	h[headerReset] = []string{strconv.FormatInt((roundedUp(p.After)+999)/1000, 10)}
}

// NoLimit is the NotFound for a key that no limit can have.
func NoLimit(key string) error {
	return job.Errorf(job.NotFound, "there is no limit %.80q", key).With(map[string]any{"resource_type": "rate_limit", "resource_id": key})
}
