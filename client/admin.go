package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Detail reads a job and the policy that holds for it; see [job.AdminService].
func (c *Client) Detail(ctx context.Context, id job.ID) (job.Detail, error) {
	return ask(ctx, c, get(jobPath("/admin/jobs", id)).unless(noJob(id)), wire.ReadJobDetail)
}

// ForgetWorker removes a stale worker; see [job.AdminService].
func (c *Client) ForgetWorker(ctx context.Context, id string) ([]job.ID, error) {
	if id == "" {
		return nil, job.Errorf(job.Invalid, "worker_id is required: the name of the worker to forget").With(map[string]any{"field": "worker_id"})
	}
	return ask(ctx, c, remove("/admin/workers/"+url.PathEscape(id)).unless(inPath("worker", id)), wire.ReadReleased)
}

// Maintenance reads whether the server is in maintenance; see [job.AdminService].
func (c *Client) Maintenance(ctx context.Context) (job.Maintenance, error) {
	return ask(ctx, c, get("/admin/maintenance"), wire.ReadMaintenance)
}

// SetMaintenance begins, changes or ends a maintenance; see [job.AdminService].
func (c *Client) SetMaintenance(ctx context.Context, m job.MaintenanceAsk) (job.Maintenance, error) {
	if err := m.Validate(); err != nil {
		return job.Maintenance{}, err
	}
	return ask(ctx, c, post("/admin/maintenance", wire.MaintenanceBody(m)), wire.ReadMaintenance)
}

// Tenants lists the tenants that have jobs; see [job.AdminService]. More than 200 are
// read in several requests.
func (c *Client) Tenants(ctx context.Context, after string, n int) (all []string, err error) {
	for len(all) < n {
		q := url.Values{"limit": {strconv.Itoa(min(n-len(all), wire.PageMax))}}
		if after != "" {
			q.Set("cursor", after)
		}
		body, err := c.do(ctx, get("/admin/tenants?"+q.Encode()))
		if err != nil {
			return nil, err
		}
		names, rest, err := wire.ReadTenants(body)
		if err != nil {
			return nil, err
		}
		if all = append(all, names...); !rest.More || len(names) == 0 {
			break
		}
		after = names[len(names)-1]
	}
	return all, nil
}

// Middlewares lists the middleware around PUSH; see [job.AdminService].
func (c *Client) Middlewares(ctx context.Context) ([]job.MiddlewareInfo, error) {
	return ask(ctx, c, get("/middleware"), wire.ReadMiddlewares)
}

// Metrics counts; see [job.AdminService]. Uptime is in whole seconds.
func (c *Client) Metrics(ctx context.Context) (job.Metrics, error) {
	return ask(ctx, c, get("/metrics"), wire.ReadMetrics)
}
