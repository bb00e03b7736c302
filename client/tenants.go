package client

import (
	"context"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// speaking is a context for a tenant that a request names, where it names one.
func speaking(ctx context.Context, tenant string) context.Context {
	if tenant == "" {
		return ctx
	}
	return job.WithTenant(ctx, tenant)
}

// TenantStats counts the jobs of a tenant; see [job.TenantService].
func (c *Client) TenantStats(ctx context.Context, tenant string) (job.TenantStats, error) {
	r := get("/admin/tenants/" + url.PathEscape(tenant) + "/stats")
	return ask(ctx, c, r.unless(job.CheckTenant(tenant)), wire.ReadTenantStats)
}
