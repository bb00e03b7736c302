package client

import (
	"cmp"
	"context"
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
// jobs is read in several requests, so it is no snapshot of one instant.
func (c *Client) Jobs(ctx context.Context, f job.Filter) (job.Page, error) {
	want := min(max(cmp.Or(f.Limit, 50), 1), maxList)
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
		f.States = nil
	}
	body, err := c.do(ctx, call{method: http.MethodGet, path: path + "?" + wire.JobsQuery(f).Encode()})
	if err != nil {
		return job.Page{}, err
	}
	return wire.ReadPage(body, f.Dead)
}

// Cancel stops a job; see [job.Operator].
func (c *Client) Cancel(ctx context.Context, id job.ID, by, reason string) (job.Change, error) {
	return c.change(ctx, id, call{method: http.MethodDelete, path: jobPath("/jobs", id), body: wire.CancelBody(by, reason)})
}

// Activate releases a pending job; see [job.Operator].
func (c *Client) Activate(ctx context.Context, id job.ID) (job.Change, error) {
	return c.change(ctx, id, call{method: http.MethodPost, path: jobPath("/jobs", id) + "/activate"})
}

// Revive takes a dead letter back into its queue; see [job.Operator].
func (c *Client) Revive(ctx context.Context, id job.ID) (job.Change, error) {
	return c.change(ctx, id, call{method: http.MethodPost, path: jobPath("/dead-letter", id) + "/retry"})
}

func (c *Client) change(ctx context.Context, id job.ID, r call) (job.Change, error) {
	if err := named(id); err != nil {
		return job.Change{}, err
	}
	body, err := c.do(ctx, r)
	if err != nil {
		return job.Change{}, err
	}
	return wire.ReadChange(body)
}

// Retry takes any discarded job back into its queue; see [job.Operator].
func (c *Client) Retry(ctx context.Context, id job.ID) (job.Change, error) {
	return c.change(ctx, id, call{method: http.MethodPost, path: jobPath("/admin/jobs", id) + "/retry"})
}

// ReviveDead takes many dead letters back; see [job.Operator]. How many were
// taken before an error is not known here.
func (c *Client) ReviveDead(ctx context.Context, f job.Filter) (int64, error) {
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/dead-letter/retry", body: wire.ReviveDeadBody(f)})
	if err != nil {
		return 0, err
	}
	return wire.ReadCount(body)
}

// PurgeDead removes the dead letters from before an instant; see
// [job.Operator]. How many were removed before an error is not known here.
func (c *Client) PurgeDead(ctx context.Context, before time.Time) (int64, error) {
	q := url.Values{}
	if !before.IsZero() {
		q.Set("older_than", job.FormatTime(before))
	}
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/dead-letter/purge?" + q.Encode()})
	if err != nil {
		return 0, err
	}
	return wire.ReadCount(body)
}

// DeleteDead removes a dead letter for good; see [job.Operator].
func (c *Client) DeleteDead(ctx context.Context, id job.ID) error {
	if err := named(id); err != nil {
		return err
	}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: jobPath("/dead-letter", id)})
	return err
}

// DeadStats counts the dead letters; see [job.Operator].
func (c *Client) DeadStats(ctx context.Context) (job.DeadStats, error) {
	body, err := c.do(ctx, call{method: http.MethodGet, path: "/dead-letter/stats"})
	if err != nil {
		return job.DeadStats{}, err
	}
	return wire.ReadDeadStats(body)
}

// Queue reads a queue's counters; see [job.Operator].
func (c *Client) Queue(ctx context.Context, name string) (job.Queue, error) {
	if name == "" || name == "." || name == ".." { // paths that lead elsewhere
		e := job.Errorf(job.NotFound, "there is no queue %q", name)
		e.Details = map[string]any{"resource_type": "queue", "resource_id": name}
		return job.Queue{}, e
	}
	body, err := c.do(ctx, call{method: http.MethodGet, path: "/queues/" + url.PathEscape(name)})
	if err != nil {
		return job.Queue{}, err
	}
	return wire.ReadQueue(body)
}

// Queues reads all queues; see [job.Operator]. More than 200 are read in
// several requests.
func (c *Client) Queues(ctx context.Context) ([]job.Queue, error) {
	return listed(ctx, c, "/queues", wire.ReadQueues)
}

// listed reads a whole list, page by page: behind the cursor of the page before,
// or by number from a server that gives none.
func listed[T any](ctx context.Context, c *Client, path string, read func(body []byte) ([]T, wire.Rest, error)) (all []T, err error) {
	q := url.Values{"limit": {strconv.Itoa(wire.PageMax)}}
	for {
		body, err := c.do(ctx, call{method: http.MethodGet, path: path + "?" + q.Encode()})
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
	body, err := c.do(ctx, call{method: http.MethodGet, path: "/events?" + wire.EventsQuery(f).Encode()})
	if err != nil {
		return nil, err
	}
	return wire.ReadEvents(body)
}

// History reads the newest events of a job; see [job.Operator].
func (c *Client) History(ctx context.Context, id job.ID) ([]job.Event, error) {
	if err := named(id); err != nil {
		return nil, err
	}
	q := url.Values{"limit": {strconv.Itoa(job.HistoryLimit)}}
	body, err := c.do(ctx, call{method: http.MethodGet, path: jobPath("/jobs", id) + "/history?" + q.Encode()})
	if err != nil {
		return nil, err
	}
	return wire.ReadEvents(body)
}

// Health measures the server; see [job.Operator]. A server that answers that it
// is unhealthy is no error, one that does not answer is Unavailable. Problem
// holds no more than the server tells everybody, and StaleAfter is not told.
func (c *Client) Health(ctx context.Context) (job.Health, error) {
	status, body, err := c.send(ctx, call{method: http.MethodGet, path: "/health"})
	if err != nil {
		return job.Health{}, err
	}
	h, err := wire.ReadHealth(body)
	if err != nil && status != http.StatusOK {
		err = wire.DecodeError(status, body)
	}
	return h, err
}
