package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// A schedule that was read from a server holds neither its runs nor the marks by which
// the server knows which ticks it has decided; CronHistory has the runs.

// PutCron stores a schedule; see [job.CronService].
func (c *Client) PutCron(ctx context.Context, s job.CronSpec) (stored *job.Cron, created bool, err error) {
	// The server checks this too, but only a valid schedule can be encoded.
	if _, err := s.Validate(); err != nil {
		return nil, false, err
	}
	status, body, err := c.send(ctx, post("/cron", wire.CronBody(s)))
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
	r := call{method: http.MethodPatch, path: cronPath(name), body: wire.CronPatchBody(p)}
	return ask(ctx, c, r.unless(noCron(name)), wire.ReadCron)
}

// Cron reads a schedule; see [job.CronService].
func (c *Client) Cron(ctx context.Context, name string) (*job.Cron, error) {
	return ask(ctx, c, get(cronPath(name)).unless(noCron(name)), wire.ReadCron)
}

// DeleteCron removes a schedule; see [job.CronService].
func (c *Client) DeleteCron(ctx context.Context, name string) (*job.Cron, error) {
	return ask(ctx, c, remove(cronPath(name)).unless(noCron(name)), wire.ReadCron)
}

// cronPath is the path of a schedule. Its name has no characters that need an escape.
func cronPath(name string) string { return "/cron/" + name }

// noCron is the NotFound for what cannot be the name of a schedule.
func noCron(name string) error {
	if job.ValidCronName(name) {
		return nil
	}
	return job.NoCron(name)
}

// Crons lists schedules; see [job.CronService]. More than 200 are read in several
// requests, so they are not a snapshot.
func (c *Client) Crons(ctx context.Context, f job.CronFilter) (job.CronPage, error) {
	want := f.Limit
	var all job.CronPage
	for {
		f.Limit = wire.PageMax
		if want > 0 {
			f.Limit = min(want-len(all.Crons), wire.PageMax)
		}
		page, err := ask(ctx, c, get("/cron?"+wire.CronsQuery(f).Encode()), wire.ReadCrons)
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

// TriggerCron makes a job or a workflow of a schedule now; see [job.CronService]. Of what
// it made the answer has no At.
func (c *Client) TriggerCron(ctx context.Context, name string) (job.CronJob, error) {
	return ask(ctx, c, post(cronPath(name)+"/trigger", nil).unless(noCron(name)), wire.ReadTriggered)
}

// CronHistory tells of the newest runs; see [job.CronService].
func (c *Client) CronHistory(ctx context.Context, name string, n int) ([]job.CronJob, error) {
	q := url.Values{"jobs": {"true"}}
	if n > 0 {
		q.Set("limit", strconv.Itoa(n))
	}
	return ask(ctx, c, get(cronPath(name)+"/history?"+q.Encode()).unless(noCron(name)), wire.ReadCronHistory)
}
