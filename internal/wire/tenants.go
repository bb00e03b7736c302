package wire

import (
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// AppendTenantStats appends the counters of a tenant (contract §3.23).
func AppendTenantStats(dst []byte, s job.TenantStats) []byte {
	b := rawjson.Object(dst)
	tenantStats(&b, s)
	return b.Close()
}

func tenantStats(b *rawjson.Writer, s job.TenantStats) {
	b.Str("tenant_id", s.Tenant).Int("total_jobs", s.Total)
	b.Object("jobs")
	for _, st := range job.States {
		b.Int(string(st), s.Counts[st])
	}
	b.End()
	counts(b, "queues", s.Queues)
}

// ReadTenantStats reads them.
func ReadTenantStats(body []byte) (job.TenantStats, error) {
	var r struct {
		Tenant string              `json:"tenant_id"`
		Total  int64               `json:"total_jobs"`
		Jobs   map[job.State]int64 `json:"jobs"`
		Queues map[string]int64    `json:"queues"`
	}
	if err := read(body, &r); err != nil {
		return job.TenantStats{}, err
	}
	if r.Tenant == "" || r.Jobs == nil {
		return job.TenantStats{}, unread(job.Errorf(job.Malformed, "there are no counters of a tenant in it"))
	}
	return job.TenantStats{Tenant: r.Tenant, Total: r.Total, Counts: r.Jobs, Queues: r.Queues}, nil
}

// NoTenant is the NotFound for a tenant whom no job names.
func NoTenant(name string) error {
	return job.Errorf(job.NotFound, "no job names the tenant %.140q", name).With(map[string]any{"resource_type": "tenant", "resource_id": name})
}
