package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// A schedule that comes from a server has neither the runs nor the marks in it
// by which the server knows which ticks it has decided; see CronHistory for the
// runs.

// PutCron stores a schedule; see [job.CronService].
func (c *Client) PutCron(ctx context.Context, s job.CronSpec) (stored *job.Cron, created bool, err error) {
	// The server would say the same; but only what is valid can be encoded.
	if _, err := s.Validate(); err != nil {
		return nil, false, err
	}
	status, body, err := c.send(ctx, call{method: http.MethodPost, path: "/cron", body: wire.CronBody(s)})
	if err != nil {
		return nil, false, err
	}
	if status != http.StatusOK && status != http.StatusCreated {
		return nil, false, wire.DecodeError(status, body)
	}
	if stored, err = wire.ReadCron(body); err != nil {
		return nil, false, err
	}
	return stored, status == http.StatusCreated, nil
}

// ChangeCron changes parts of a schedule; see [job.CronService]. A template that
// is no JSON is Malformed.
func (c *Client) ChangeCron(ctx context.Context, name string, p job.CronPatch) (*job.Cron, error) {
	if p.Template != nil {
		if err := job.CheckJSON(p.Template); err != nil {
			return nil, err
		}
	}
	return c.cron(ctx, http.MethodPatch, name, wire.CronPatchBody(p))
}

// Cron reads a schedule; see [job.CronService].
func (c *Client) Cron(ctx context.Context, name string) (*job.Cron, error) {
	return c.cron(ctx, http.MethodGet, name, nil)
}

// DeleteCron removes a schedule; see [job.CronService].
func (c *Client) DeleteCron(ctx context.Context, name string) (*job.Cron, error) {
	return c.cron(ctx, http.MethodDelete, name, nil)
}

// cron asks something of one schedule and reads it from the answer.
func (c *Client) cron(ctx context.Context, method, name string, request []byte) (*job.Cron, error) {
	body, err := c.ofCron(ctx, name, call{method: method, body: request})
	if err != nil {
		return nil, err
	}
	return wire.ReadCron(body)
}

// ofCron sends a request whose path is below that of a schedule. What cannot name
// one is NotFound, as its path may lead elsewhere.
func (c *Client) ofCron(ctx context.Context, name string, r call) ([]byte, error) {
	if !job.ValidCronName(name) {
		return nil, job.NoCron(name)
	}
	r.path = "/cron/" + name + r.path // of characters that need no escape
	return c.do(ctx, r)
}

// Crons lists schedules; see [job.CronService]. More than 200 are read in several
// requests, so they are no snapshot of one instant.
func (c *Client) Crons(ctx context.Context, f job.CronFilter) (job.CronPage, error) {
	want := f.Limit
	var all job.CronPage
	for {
		f.Limit = wire.PageMax
		if want > 0 {
			f.Limit = min(want-len(all.Crons), wire.PageMax)
		}
		body, err := c.do(ctx, call{method: http.MethodGet, path: "/cron?" + wire.CronsQuery(f).Encode()})
		if err != nil {
			return job.CronPage{}, err
		}
		page, err := wire.ReadCrons(body)
		if err != nil {
			return job.CronPage{}, err
		}
		if all.Crons == nil {
			all.Total = page.Total
		}
		all.Crons = append(all.Crons, page.Crons...)
		all.Next = page.Next
		if f.Offset = max(f.Offset, 0) + len(page.Crons); page.Next != "" {
			f.Cursor, f.Offset = page.Next, 0
		}
		more := page.Next != "" || f.Cursor == "" && int64(f.Offset) < page.Total
		if len(page.Crons) == 0 || !more || want > 0 && len(all.Crons) >= want {
			return all, nil
		}
	}
}

// TriggerCron makes a job of a schedule now; see [job.CronService].
func (c *Client) TriggerCron(ctx context.Context, name string) (*job.Job, error) {
	body, err := c.ofCron(ctx, name, call{method: http.MethodPost, path: "/trigger"})
	if err != nil {
		return nil, err
	}
	return wire.ReadJob(body)
}

// CronHistory tells of the newest runs; see [job.CronService].
func (c *Client) CronHistory(ctx context.Context, name string, n int) ([]job.CronJob, error) {
	q := url.Values{"jobs": {"true"}}
	if n > 0 {
		q.Set("limit", strconv.Itoa(n))
	}
	body, err := c.ofCron(ctx, name, call{method: http.MethodGet, path: "/history?" + q.Encode()})
	if err != nil {
		return nil, err
	}
	return wire.ReadCronHistory(body)
}
