package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// maxList is the most that any list of a [job.Service] holds.
const maxList = 1000

// Jobs lists jobs, or dead letters; see [job.Operator]. A page of more than 200
// jobs is read in several requests, so it is not a snapshot.
func (c *Client) Jobs(ctx context.Context, f job.Filter) (job.Page, error) {
	want := min(max(cmp.Or(f.Limit, 50), 1), maxList)
	ctx = speaking(ctx, f.Tenant)
	var all job.Page
	for {
		f.Limit = min(want-len(all.Jobs), wire.PageMax)
		page, err := c.page(ctx, f)
		if err != nil {
			return job.Page{}, err
		}
		if all.Jobs == nil {
			all.Total, all.AtLeast = page.Total, page.AtLeast
		}
		all.Jobs, all.Next = append(all.Jobs, page.Jobs...), page.Next
		if page.Next == "" || len(page.Jobs) == 0 || len(all.Jobs) >= want {
			return all, nil
		}
		f.Cursor, f.Offset = page.Next, 0
	}
}

func (c *Client) page(ctx context.Context, f job.Filter) (job.Page, error) {
	path := "/jobs"
	if f.Dead {
		path = "/dead-letter"
	}
	read := func(body []byte) (job.Page, error) { return wire.ReadPage(body, f.Dead) }
	return ask(ctx, c, get(path+"?"+wire.JobsQuery(f).Encode()), read)
}

// Cancel stops a job; see [job.Operator].
func (c *Client) Cancel(ctx context.Context, id job.ID, by, reason string) (job.Change, error) {
	r := remove(jobPath("/jobs", id))
	r.body = wire.CancelBody(by, reason)
	return ask(ctx, c, r.unless(noJob(id)), wire.ReadChange)
}

// Activate releases a pending job; see [job.Operator].
func (c *Client) Activate(ctx context.Context, id job.ID) (job.Change, error) {
	return ask(ctx, c, post(jobPath("/jobs", id)+"/activate", nil).unless(noJob(id)), wire.ReadChange)
}

// Revive takes a dead letter back into its queue; see [job.Operator].
func (c *Client) Revive(ctx context.Context, id job.ID) (job.Change, error) {
	return ask(ctx, c, post(jobPath("/dead-letter", id)+"/retry", nil).unless(noJob(id)), wire.ReadChange)
}

// Retry takes any discarded job back into its queue; see [job.Operator].
func (c *Client) Retry(ctx context.Context, id job.ID) (job.Change, error) {
	return ask(ctx, c, post(jobPath("/admin/jobs", id)+"/retry", nil).unless(noJob(id)), wire.ReadChange)
}

// ReviveDead takes many dead letters back; see [job.Operator]. After an error it is
// not known how many were taken back.
func (c *Client) ReviveDead(ctx context.Context, f job.Filter) (int64, error) {
	return ask(ctx, c, post("/dead-letter/retry", wire.ReviveDeadBody(f)), wire.ReadCount)
}

// PurgeDead removes the dead letters from before an instant; see [job.Operator]. After
// an error it is not known how many were removed.
func (c *Client) PurgeDead(ctx context.Context, before time.Time) (int64, error) {
	if err := job.CheckPurge(before); err != nil { // the server would take it for all of them
		return 0, err
	}
	q := url.Values{"older_than": {job.FormatTime(before)}}
	return ask(ctx, c, post("/dead-letter/purge?"+q.Encode(), nil), wire.ReadCount)
}

// DeleteDead removes a dead letter for good; see [job.Operator].
func (c *Client) DeleteDead(ctx context.Context, id job.ID) error {
	_, err := c.do(ctx, remove(jobPath("/dead-letter", id)).unless(noJob(id)))
	return err
}

// DeadStats counts the dead letters; see [job.Operator].
func (c *Client) DeadStats(ctx context.Context) (job.DeadStats, error) {
	return ask(ctx, c, get("/dead-letter/stats"), wire.ReadDeadStats)
}

// Queue reads a queue's counters; see [job.Operator].
func (c *Client) Queue(ctx context.Context, name string) (job.Queue, error) {
	return ask(ctx, c, get("/queues/"+url.PathEscape(name)).unless(inPath("queue", name)), wire.ReadQueue)
}

// Queues reads all queues; see [job.Operator]. More than 200 are read in
// several requests.
func (c *Client) Queues(ctx context.Context) ([]job.Queue, error) {
	return listed(ctx, c, "/queues", wire.ReadQueues)
}

// listed reads a whole list, page by page: behind the cursor of the page before,
// or by number from a server that gives none.
func listed[T any](ctx context.Context, c *Client, path string, read func(body []byte) ([]T, wire.Rest, error)) (all []T, err error) {
	return listedWith(ctx, c, path, url.Values{}, read)
}

// listedWith is listed with a query, which it changes.
func listedWith[T any](ctx context.Context, c *Client, path string, q url.Values, read func(body []byte) ([]T, wire.Rest, error)) (all []T, err error) {
	q.Set("limit", strconv.Itoa(wire.PageMax))
	for {
		body, err := c.do(ctx, get(path+"?"+q.Encode()))
		if err != nil {
			return nil, err
		}
		page, rest, err := read(body)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); !rest.More || len(page) == 0 {
			return all, nil
		}
		if q.Del("offset"); rest.Next != "" {
			q.Set("cursor", rest.Next)
		} else {
			q.Set("offset", strconv.Itoa(len(all)))
		}
	}
}

// Events reads the event log; see [job.Operator].
func (c *Client) Events(ctx context.Context, f job.EventFilter) ([]job.Event, error) {
	f.Limit = min(max(cmp.Or(f.Limit, 100), 1), maxList)
	ctx = speaking(ctx, f.Tenant)
	return ask(ctx, c, get("/events?"+wire.EventsQuery(f).Encode()), wire.ReadEvents)
}

// History reads the newest events of a job; see [job.Operator].
func (c *Client) History(ctx context.Context, id job.ID) ([]job.Event, error) {
	path := jobPath("/jobs", id) + "/history?limit=" + strconv.Itoa(job.HistoryLimit)
	return ask(ctx, c, get(path).unless(noJob(id)), wire.ReadEvents)
}

// Health measures the server; see [job.Operator]. A server that says it is unhealthy
// is not an error; one that does not answer is Unavailable. Problem holds no more than
// the server tells everybody, and StaleAfter is not sent.
func (c *Client) Health(ctx context.Context) (job.Health, error) {
	status, body, err := c.send(ctx, get("/health"))
	if err != nil {
		return job.Health{}, err
	}
	h, err := wire.ReadHealth(body)
	if err != nil && status != http.StatusOK {
		err = wire.DecodeError(status, body)
	}
	return h, err
}

// Implementation is the program that serves, and its version, as its manifest names
// them. The error is Unavailable where there is no answer.
func (c *Client) Implementation(ctx context.Context) (name, version string, err error) {
	body, err := c.do(ctx, call{method: http.MethodGet, path: "/ojs/manifest", whole: true})
	if err != nil {
		return "", "", err
	}
	var m struct {
		Implementation struct{ Name, Version string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return "", "", job.Errorf(job.Unavailable, "the manifest of %s cannot be read: %w", c.shown, err)
	}
	return m.Implementation.Name, m.Implementation.Version, nil
}
