package wire

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// Paging is the part of a list that is asked for (contract §1.7).
type Paging struct {
	Limit  int
	Offset int
	Cursor string // opaque; where the page before ended
	Items  bool   // the caller counts in pages, and looks for the list under "items" too
	Cut    bool   // there was no memory for the whole page, so there is more
}

// Bounds of lists (contract §1.7).
const (
	PageDefault   = 50
	PageMax       = 200
	EventsDefault = 100
	EventsMax     = 1000
	offsetMax     = 1_000_000_000
)

// paging are the parameters that every list takes. sort and order only matter to a
// list of jobs; other lists ignore them.
var paging = []string{"limit", "offset", "cursor", "page", "per_page", "sort", "order"}

// only refuses a parameter that is neither in paging nor among names: it was meant to
// narrow the list, and must not be ignored.
func only(q url.Values, names ...string) error { return known(q, "list", slices.Concat(names, paging)) }

// known refuses a parameter that is not among all those of what is asked for.
func known(q url.Values, of string, all []string) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if slices.Contains(all, name) {
			continue
		}
		if near := wording.Nearest(name, all); near != "" {
			return refuse(short(name), "is not a parameter of this "+of+"; did you mean "+near+"?")
		}
		return refuse(short(name), "is not a parameter of this "+of+"; there are "+strings.Join(all, ", "))
	}
	return nil
}

// short is a name that somebody else chose, cut for a message.
func short(name string) string { return fmt.Sprintf("%.80s", wording.Printable(name)) }

// DecodePages reads the query of a list without filters.
func DecodePages(q url.Values) (Paging, error) { return pagingOf(q, PageDefault, PageMax) }

// pagingOf reads limit, offset and cursor, or page (from 1) and per_page. A limit
// above limitMax becomes limitMax; 0, a negative number and what is no integer are
// Invalid, and so is a parameter that is not one of names.
func pagingOf(q url.Values, limitDefault, limitMax int, names ...string) (Paging, error) {
	if err := only(q, names...); err != nil {
		return Paging{}, err
	}
	p := Paging{Limit: limitDefault, Cursor: q.Get("cursor"), Items: q.Has("page") || q.Has("per_page")}
	page := 1
	for _, f := range []struct {
		name string
		into *int
		from int
	}{{"per_page", &p.Limit, 1}, {"limit", &p.Limit, 1}, {"page", &page, 1}, {"offset", &p.Offset, 0}} {
		if !q.Has(f.name) {
			continue
		}
		n, ok := digits(q.Get(f.name))
		if !ok || n < f.from {
			return p, refuse(f.name, "must be an integer of "+[]string{"0", "1"}[f.from]+" or more")
		}
		*f.into = n
	}
	p.Limit = min(p.Limit, limitMax)
	if page > 1 && !q.Has("offset") {
		p.Offset = min((page-1)*p.Limit, offsetMax)
	}
	return p, nil
}

// digits is a non-negative decimal number; a larger one counts as offsetMax.
func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), offsetMax)
	}
	return n, s != ""
}

// maxListed is how many values a list of a filter has at most.
const maxListed = 100

// list is all values of the parameters, repeated or separated by commas.
func list(q url.Values, params ...string) ([]string, error) {
	var all []string
	for _, p := range params {
		for _, v := range q[p] {
			for s := range strings.SplitSeq(v, ",") {
				if s = strings.TrimSpace(s); s != "" {
					all = append(all, s)
				}
			}
		}
		if len(all) > maxListed {
			return nil, refuse(p, "must name at most 100 values")
		}
	}
	return all, nil
}

// window reads since and until. A plus sign that nobody escaped arrives as a space.
func window(q url.Values) (since, until time.Time, err error) {
	for _, f := range []struct {
		name string
		into *time.Time
	}{{"since", &since}, {"until", &until}} {
		if s := q.Get(f.name); s != "" && err == nil {
			*f.into, err = instant(strings.Replace(s, " ", "+", 1), f.name)
		}
	}
	return since, until, err
}

// DecodeFilter reads the query of GET /ojs/v1/jobs (contract §3.3). Only the
// newest-first order exists; another is Unsupported.
func DecodeFilter(q url.Values) (job.Filter, Paging, error) {
	f, p, err := filter(q, "state", "queue", "type", "since", "until")
	if err != nil {
		return f, p, err
	}
	if f.States, err = states(q); err != nil {
		return f, p, err
	}
	if o := q.Get("order"); o != "" && o != "desc" {
		return f, p, unsorted("order", o)
	}
	if s := q.Get("sort"); s != "" && s != "created_at" && s != "id" {
		return f, p, unsorted("sort", s)
	}
	return f, p, nil
}

// states reads the states that a list is restricted to.
func states(q url.Values) ([]job.State, error) {
	names, err := list(q, "state")
	if err != nil {
		return nil, err
	}
	var all []job.State
	for _, s := range names {
		if !slices.Contains(job.States, job.State(s)) {
			return nil, refuse("state", "must be one of the eight states of a job")
		}
		all = append(all, job.State(s))
	}
	return all, nil
}

func unsorted(field, value string) error {
	return job.Errorf(job.Unsupported, "%s %.40q is not supported: lists are sorted by created_at, newest first", field, value).
		With(map[string]any{"field": field})
}

// DecodeDeadFilter reads the query of GET /ojs/v1/dead-letter (contract §3.14).
func DecodeDeadFilter(q url.Values) (job.Filter, Paging, error) {
	f, p, err := filter(q, "error_type", "queue", "type", "since", "until")
	f.Dead, f.ErrorType = true, q.Get("error_type")
	return f, p, err
}

// filter reads what the lists of jobs and of keys have in common; names are the
// parameters that this one knows.
func filter(q url.Values, names ...string) (f job.Filter, p Paging, err error) {
	if p, err = pagingOf(q, PageDefault, PageMax, names...); err != nil {
		return f, p, err
	}
	f = job.Filter{Queue: q.Get("queue"), Type: q.Get("type"), Limit: p.Limit, Offset: p.Offset, Cursor: p.Cursor}
	f.Since, f.Until, err = window(q)
	return f, p, err
}

// DecodeEventFilter reads the query of GET /ojs/v1/events (contract §3.18). The
// filter asks for one event more than the page holds, where that is allowed, so
// that the answer can tell whether there are more. "job:x" is "job.x".
func DecodeEventFilter(q url.Values) (f job.EventFilter, p Paging, err error) {
	p, err = pagingOf(q, EventsDefault, EventsMax, "types", "type", "queues", "queue", "job_types", "job_type", "job_id", "after", "since", "until")
	if err != nil {
		return f, p, err
	}
	if p.Offset+p.Limit > EventsMax {
		return f, p, refuse("offset", "reaches only over the first 1000 events; use after with the cursor of the page before")
	}
	f.Limit = min(p.Offset+p.Limit+1, EventsMax)
	if q.Has("after") {
		p.Cursor = q.Get("after")
	}
	if p.Cursor != "" {
		if f.After, err = ParseEventID(p.Cursor); err != nil {
			return f, p, err
		}
	}
	if id := q.Get("job_id"); id != "" {
		if !job.ValidID(id) {
			return f, p, refuse("job_id", "must be the id of a job, a UUIDv7 in lower case")
		}
		f.JobID = job.ID(id)
	}
	if f.Types, err = list(q, "types", "type"); err != nil {
		return f, p, err
	}
	f.Types = dotted(f.Types)
	if f.Queues, err = list(q, "queues", "queue"); err != nil {
		return f, p, err
	}
	if f.JobTypes, err = list(q, "job_types", "job_type"); err != nil {
		return f, p, err
	}
	f.Since, f.Until, err = window(q)
	return f, p, err
}
