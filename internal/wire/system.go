package wire

import (
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Setting is one setting of a server, as it may be shown.
type Setting struct {
	Name   string
	Value  []string // of a list each; nil for one that is not given
	List   bool
	Origin string // what has given it: a flag, a variable of the environment, a file that one names, or "default"
}

// AppendSettings appends the settings of a server (contract §3.23): all by their names
// under "config", and where they come from under "origins".
func AppendSettings(dst []byte, version string, all []Setting) []byte {
	b := rawjson.Object(dst)
	b.Str("version", version)
	b.Object("config")
	for _, s := range all {
		switch {
		case s.List:
			rawjson.Strings(&b, s.Name, s.Value)
		case len(s.Value) == 0:
			b.Null(s.Name)
		default:
			b.Str(s.Name, s.Value[0])
		}
	}
	b.End().Object("origins")
	for _, s := range all {
		b.Str(s.Name, s.Origin)
	}
	return b.End().Close()
}

// AppendMiddlewares appends the middleware around PUSH (contract §3.25). That around the
// handlers of workers runs in the workers, and nobody here knows it.
func AppendMiddlewares(dst []byte, all []job.MiddlewareInfo) []byte {
	b := rawjson.Object(dst)
	objects(&b, "enqueue", all, func(b *rawjson.Writer, m job.MiddlewareInfo) {
		b.Str("name", m.Name).Str("phase", "enqueue").Int("order", int64(m.Order)).Str("description", "of the program that the server is part of")
	})
	return b.Array("execution").EndArray().Close()
}

// ReadMiddlewares reads them.
func ReadMiddlewares(body []byte) (all []job.MiddlewareInfo, err error) {
	var r struct {
		Enqueue []struct {
			Name  string `json:"name"`
			Order int    `json:"order"`
		} `json:"enqueue"`
	}
	err = read(body, &r)
	for _, m := range r.Enqueue {
		all = append(all, job.MiddlewareInfo(m))
	}
	return all, err
}

// AppendHealthDetail appends the health of the server, and of each part of it (contract
// §3.22).
func AppendHealthDetail(dst []byte, h job.Health) []byte {
	b := rawjson.Writer(AppendHealth(dst, h))
	b.Reopen()
	b.Object("checks")
	b.Object("store").Str("status", wordOf(h)).Int("latency_ms", h.Latency.Milliseconds()).Optional("check", h.Check).End()
	workers := condition(true)
	if h.StaleNow > 0 {
		workers = degraded
	}
	b.Object("workers").Str("status", workers).Int("stale", int64(h.StaleNow)).End()
	return b.End().Close()
}

// AppendObserved appends how the server is in few words (contract §3.23). It sets no
// objectives and looks for no anomalies, so there are none.
func AppendObserved(dst []byte, h job.Health) []byte {
	score := int64(100)
	switch {
	case !h.OK:
		score = 0
	case h.Degraded:
		score = 50
	}
	b := rawjson.Object(dst)
	b.Int("score", score).Str("status", wordOf(h)).Array("slo_violations").EndArray().Int("anomaly_count", 0)
	return b.Close()
}

// AppendTenants appends a page of tenants with their counters (contract §3.23).
func AppendTenants(dst []byte, ts []job.TenantStats, p Paging, total int, more bool) []byte {
	b := rawjson.Object(dst)
	objects(&b, "items", ts, appendTenant)
	l := listed{total: int64(total), atLeast: total >= MaxTenants, more: more}
	if more {
		l.next = ts[len(ts)-1].Tenant
	}
	pages(&b, p, l)
	return b.Close()
}

// TenantsShown are the tenants of a page, and whether there are more behind it.
func TenantsShown(all []string, p Paging) (shown []string, more bool) {
	shown, l := byName(all, p, func(name string) string { return name })
	return shown, l.more
}

// MaxTenants is how many tenants a list counts.
const MaxTenants = 10_000

func appendTenant(b *rawjson.Writer, s job.TenantStats) {
	b.Str("id", s.Tenant)
	tenantStats(b, s)
}

// AppendTenant appends one tenant.
func AppendTenant(dst []byte, s job.TenantStats) []byte {
	b := rawjson.Object(dst)
	appendTenant(&b, s)
	return b.Close()
}

// ReadTenants reads the names of a page of tenants, and what comes behind it.
func ReadTenants(body []byte) (names []string, rest Rest, err error) {
	var r struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
		Pages pagination `json:"pagination"`
	}
	err = read(body, &r)
	for _, t := range r.Items {
		names = append(names, t.ID)
	}
	return names, r.Pages.Rest, err
}

// Unheld refuses settings of a tenant: a tenant is nothing but a name in the meta of jobs,
// and none of its limits would hold.
func Unheld(what string) error {
	return job.Errorf(job.Unsupported, "%s is not supported: a tenant is the tenant_id in the meta of jobs and nothing more, so this server would not hold to it", what).
		With(map[string]any{"resource_type": "tenant",
			"hint": "Limit the queues that the tenant uses (PUT /ojs/v1/admin/queues/{name}/rate-limit), or its jobs by a rate_limit.key that names it; remove its jobs with POST /ojs/v1/admin/jobs/bulk/delete and the filter meta.tenant_id."})
}
