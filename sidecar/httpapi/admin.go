package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// dashboardRoutes are those that show an administrator jobs, workers and dead letters, and
// those of the server as a whole.
func (a *api) dashboardRoutes() []Route {
	rs := []Route{
		{"GET", "/admin/jobs", readers, "3.23", "list jobs", false, a.page(wire.DecodeFilter, adminJobs)},
		{"GET", "/admin/jobs/:id", readers, "3.23", "read all that is known of a job", false, handle(jobID, a.svc.Detail, wire.AppendJobDetail)},
		{"GET", "/admin/jobs/:id/trace", readers, "3.23", "read what became of a job, step by step", false, handleBoth(jobID, a.svc.History, wire.AppendTrace)},
		{"POST", "/admin/jobs/:id/cancel", operators, "3.23", "cancel a job", false, a.cancel},
		{"GET", "/jobs/:id/retries", anyRole, "3.17", "list the failed attempts of a job", false, handle(jobID, a.svc.Detail, wire.AppendRetries)},

		{"GET", "/admin/workers", readers, "3.23", "list workers", false, handleAll(a.svc.Workers, wire.AppendAdminWorkers)},
		{"GET", "/admin/workers/:id", readers, "3.23", "read a worker", false, handle(fromPath("id"), a.svc.Worker, wire.AppendWorker)},
		{"DELETE", "/admin/workers/:id", operators, "3.23", "forget a stale worker, and release its jobs", false, handleBoth(fromPath("id"), a.svc.ForgetWorker, wire.AppendDeregistered)},

		{"GET", "/admin/dead-letter", readers, "3.23", "list dead letters", false, a.page(wire.DecodeDeadFilter, adminDead)},
		{"GET", "/admin/dead-letter/stats", readers, "3.23", "count dead letters", false, a.deadStats},
		{"GET", "/admin/dead-letter/:id", readers, "3.23", "read a dead letter", false, handle(jobID, a.deadDetail, wire.AppendJobDetail)},
		{"POST", "/admin/dead-letter/retry", operators, "3.23", "retry dead letters", false, handle(fromBody(job.MaxJobBytes, wire.DecodeReviveDead), a.svc.ReviveDead, wire.AppendRevived)},
		{"POST", "/admin/dead-letter/:id/retry", operators, "3.23", "retry a dead letter", false, handle(revived, a.svc.Revive, wire.AppendRetried)},
		{"DELETE", "/admin/dead-letter/:id", operators, "3.23", "remove a dead letter for good", false, a.dropDead},
		{"DELETE", "/admin/dead-letter", operators, "3.23", "remove dead letters for good, when confirmed", false, a.purgeDead(true)},

		{"GET", "/admin/tenants", readers, "3.23", "list the tenants that have jobs", false, a.tenantList},
		{"GET", "/admin/tenants/:id", readers, "3.23", "read a tenant", false, handle(fromPath("id"), a.tenant, wire.AppendTenant)},
		{"GET", "/admin/tenants/:id/jobs", readers, "3.23", "list the jobs of a tenant", false, a.tenantJobs},
		{"PUT", "/admin/tenants/:id", operators, "3.23", "refused: nothing is set of a tenant", false, unheld("setting something of a tenant")},
		{"PUT", "/admin/tenants/:id/limits", operators, "3.23", "refused: nothing limits a tenant", false, unheld("limiting a tenant")},
		{"DELETE", "/admin/tenants/:id", operators, "3.23", "refused: a tenant is nothing but its jobs", false, unheld("deleting a tenant")},

		{"GET", "/admin/observability/health", readers, "3.23", "read how the server is, in few words", false, a.observed},
		{"GET", "/health/detail", readers, "3.22", "read how each part of the server is", false, a.healthDetail},
		{"GET", "/middleware", readers, "3.25", "list the middleware around an enqueue", false, handle(nothing, a.middlewares, wire.AppendMiddlewares)},
		{"GET", "/metrics", readers, "3.22", "read the counters of the server", false, a.metrics},
	}
	for _, base := range []string{"/admin", "/admin/system"} { // the second is the name that a command line asks
		rs = append(rs,
			Route{"GET", base + "/maintenance", readers, "3.23", "read whether the server is in maintenance", false, handle(nothing, a.maintenance, wire.AppendMaintenance)},
			Route{"POST", base + "/maintenance", operators, "3.23", "begin or end a maintenance", false, handle(fromBody(wire.MaxAskBytes, wire.DecodeMaintenance), a.svc.SetMaintenance, wire.AppendMaintenance)},
			Route{"GET", base + "/config", readers, "3.23", "read the settings of the server, without secrets", false, a.settings})
	}
	return rs
}

// shortRoutes are those whose base path a command line cuts short (contract §3.25).
func (a *api) shortRoutes() []Route {
	return []Route{
		{"GET", "/v1/health", everybody, "3.25", "read how the server is", false, a.health},
		{"GET", "/v1/queues", readers, "3.25", "list queues", false, handleAll(a.svc.Queues, wire.AppendQueues)},
		{"GET", "/v1/dead-letter", readers, "3.25", "list dead letters", false, a.page(wire.DecodeDeadFilter, deadJobs)},
		{"GET", "/v1/workers", readers, "3.25", "list workers", false, handleAll(a.svc.Workers, wire.AppendWorkers)},
		{"GET", "/metrics", everybody, "3.22", "read the counters of the server, for Prometheus", false, a.prometheus},
	}
}

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
		err = job.Errorf(job.NotFound, "no job names the tenant %.140q", name).With(map[string]any{"resource_type": "tenant", "resource_id": name})
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
