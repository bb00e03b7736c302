package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func adminJobs(dst []byte, page job.Page, p wire.Paging) []byte {
	return wire.AppendAdminJobs(dst, page, p, false)
}

func adminDead(dst []byte, page job.Page, p wire.Paging) []byte {
	return wire.AppendAdminJobs(dst, page, p, true)
}

// nothing reads nothing of a request.
func nothing(echo.Context) (struct{}, error) { return struct{}{}, nil }

// deadDetail is all that is known of a dead letter; any other job is NotFound here.
func (a *api) deadDetail(ctx context.Context, id job.ID) (job.Detail, error) {
	d, err := a.svc.Detail(ctx, id)
	if err == nil {
		err = d.CheckDead()
	}
	return d, err
}

// dropDead removes a dead letter, and says no more than that.
func (a *api) dropDead(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteDead(c.Request().Context(), id); err != nil {
		return err
	}
	return empty(c)
}

// empty answers without a body.
func empty(c echo.Context) error {
	delete(c.Response().Header(), "Content-Type")
	c.Response().WriteHeader(http.StatusNoContent)
	return nil
}

// purgeDead removes dead letters for good; an administrator must confirm it.
func (a *api) purgeDead(confirm bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		q, err := query(c)
		if err != nil {
			return err
		}
		raw, err := body(c, wire.MaxAskBytes)
		if err != nil {
			return err
		}
		before, err := wire.DecodePurgeDead(q, raw, confirm, a.Now())
		if err != nil {
			return err
		}
		n, err := a.svc.PurgeDead(c.Request().Context(), before)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendPurged(dst, n) })
	}
}

// tenantList lists the tenants. Those on the page are counted, which reads their jobs in
// an index.
func (a *api) tenantList(c echo.Context) error {
	ctx := c.Request().Context()
	p, err := fromQuery(wire.DecodePages)(c)
	if err != nil {
		return err
	}
	all, err := a.svc.Tenants(ctx, "", wire.MaxTenants)
	if err != nil {
		return err
	}
	shown, rest := wire.TenantsShown(all, p)
	stats := make([]job.TenantStats, len(shown))
	for i, name := range shown {
		if stats[i], err = a.svc.TenantStats(ctx, name); err != nil {
			return err
		}
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendTenants(dst, stats, p, len(all), rest) })
}

// tenant is a tenant that has jobs; any other is NotFound.
func (a *api) tenant(ctx context.Context, name string) (job.TenantStats, error) {
	s, err := a.svc.TenantStats(ctx, name)
	if err == nil && s.Total == 0 {
		err = wire.NoTenant(name)
	}
	return s, err
}

// tenantJobs lists the jobs of a tenant.
func (a *api) tenantJobs(c echo.Context) error {
	name := param(c, "id")
	if err := job.CheckTenant(name); err != nil {
		return err
	}
	decode := func(q url.Values) (job.Filter, wire.Paging, error) {
		f, p, err := wire.DecodeFilter(q)
		f.Tenant = name
		return f, p, err
	}
	return a.page(decode, adminJobs)(c)
}

// unheld makes the handler that refuses what this server would not hold to.
func unheld(what string) echo.HandlerFunc {
	return func(echo.Context) error { return wire.Unheld(what) }
}

func (a *api) maintenance(ctx context.Context, _ struct{}) (job.Maintenance, error) {
	return a.svc.Maintenance(ctx)
}

func (a *api) middlewares(ctx context.Context, _ struct{}) ([]job.MiddlewareInfo, error) {
	return a.svc.Middlewares(ctx)
}

// settings shows what this server was told.
func (a *api) settings(c echo.Context) error {
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendSettings(dst, a.Version, a.Settings) })
}

func (a *api) observed(c echo.Context) error {
	h, _ := a.measure(c)
	c.Response().Header().Del("Retry-After") // it is an answer, and not a refusal
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendObserved(dst, h) })
}

func (a *api) healthDetail(c echo.Context) error {
	h, status := a.measure(c)
	return reply(c, status, func(dst []byte) []byte { return wire.AppendHealthDetail(dst, h) })
}
