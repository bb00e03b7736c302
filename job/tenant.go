package job

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// The tenant of a job is the tenant_id of its meta (contract §4.19). Who speaks for a
// tenant finds its jobs alone; who speaks for none finds all.

type tenantKey struct{}

// WithTenant is a context in which a Service speaks for a tenant: Enqueue writes it into
// the meta of each job, and is Invalid where that names another; Fetch, Jobs and Events
// find its jobs alone; and a job of another is NotFound to Job, Cancel and Activate. ACK,
// FAIL and BEAT, which name their lease, do not look at it.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf is the tenant of a context, empty for none.
func TenantOf(ctx context.Context) string {
	t, _ := ctx.Value(tenantKey{}).(string)
	return t
}

// Foreign is the NotFound for a job of another tenant than that of the context, nil for others.
func (j *Job) Foreign(ctx context.Context) error {
	if t := TenantOf(ctx); t != "" && t != j.Tenant {
		return Errorf(NotFound, "there is no job %s of the tenant %q", j.ID, t).With(map[string]any{"resource_type": "job", "resource_id": string(j.ID)})
	}
	return nil
}

// CheckTenant is the Invalid for text that can name no tenant, nil for others.
func CheckTenant(s string) error {
	ok := s != "" && len(s) <= 128
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && (c == '.' || c == '_' || c == '-')
	}
	if !ok {
		return invalid(Invalid, "X-OJS-Tenant", "must be 1 to 128 letters, digits, points, underscores and hyphens, starting with a letter or digit, got %.60q", s)
	}
	return nil
}

// tenantOf is the tenant that a job's meta names, empty for none.
func tenantOf(meta json.RawMessage) string {
	if meta == nil || !bytes.Contains(meta, []byte("tenant_id")) {
		return ""
	}
	if t := detail(meta, "tenant_id"); CheckTenant(t) == nil {
		return t
	}
	return ""
}

// ForTenant is the envelope with the tenant in its meta. Invalid where that names another.
func (c Checked) ForTenant(tenant string) (Checked, error) {
	if err := CheckTenant(tenant); err != nil {
		return c, err
	}
	if v := rawjson.Member(c.e.Meta, "tenant_id"); v != nil {
		if said := detail(c.e.Meta, "tenant_id"); v[0] != '"' || said != tenant {
			return c, invalid(Invalid, "meta.tenant_id", "is %s, and the request speaks for the tenant %q: leave one of them out", shown(v), tenant)
		}
		return c, nil
	}
	o := rawjson.Object(make([]byte, 0, len(c.e.Meta)+len(tenant)+20))
	o.Str("tenant_id", tenant)
	o.Splice(c.e.Meta)
	return c.withMeta(o.Close())
}

// Tenant is the tenant of the job that an event is about, empty for none (contract §4.18).
func (e Event) Tenant() string { return tenantOf(e.Data) }

// TenantReader reads what belongs to a tenant.
type TenantReader interface {
	// TenantCounts counts the jobs of a tenant by queue and state.
	TenantCounts(tenant string) (map[string]map[State]int64, error)
	// Tenants returns the tenants that have jobs, by name: at most n of those behind
	// after. It reads as much as it returns, and not all jobs.
	Tenants(after string, n int) ([]string, error)
}

// TenantService is what people ask of tenants (contract §3.23).
type TenantService interface {
	// TenantStats counts the jobs of a tenant. One that nobody knows has none.
	TenantStats(ctx context.Context, tenant string) (TenantStats, error)
}

// TenantStats counts the jobs of a tenant.
type TenantStats struct {
	Tenant string
	Total  int64
	Counts map[State]int64
	Queues map[string]int64
}
