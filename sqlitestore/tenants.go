package sqlitestore

import (
	"slices"

	"github.com/outrider-jobs/outrider/job"
)

const (
	tenantJobs = `SELECT n, priority, seq FROM job_states
WHERE tenant = ? AND queue = ? AND state_code = 1 AND behind = 0
ORDER BY priority DESC, seq
LIMIT ?`
	// Each step is one look into the index behind the tenant before.
	listTenants = `WITH RECURSIVE t(name) AS (
  SELECT (SELECT min(tenant) FROM job_states WHERE tenant > ?)
  UNION ALL
  SELECT (SELECT min(tenant) FROM job_states WHERE tenant > t.name) FROM t WHERE t.name IS NOT NULL
)
SELECT name FROM t WHERE name IS NOT NULL LIMIT ?`

	countTenant = `SELECT queue, state_code, count(*) FROM job_states WHERE tenant = ? GROUP BY queue, state_code`
)

// AvailableOf reads the first available jobs of a tenant in the queues, in claim order.
func (t *tx) AvailableOf(tenant string, queues []string, n int) ([]*job.Job, error) {
	var jobs []*job.Job
	for i, name := range queues {
		if n == 0 || slices.Contains(queues[:i], name) || t.setOf(name).Paused() {
			continue
		}
		fits := func(j *job.Job, e entry) bool { return j.Tenant == tenant && waitsAs(j, name, e) }
		found, _, whole, err := t.read(tenantIndex, t.w.st.tenantJobs, n, fits, tenant, name, int64(n))
		if err != nil {
			return nil, t.fail("read the jobs of a tenant", err)
		}
		if jobs, n = append(jobs, found...), n-len(found); !whole {
			break
		}
	}
	return jobs, nil
}

// TenantCounts counts in the index of the tenants.
func (r reader) TenantCounts(tenant string) (map[string]map[job.State]int64, error) {
	if err := r.long(); err != nil {
		return nil, translate("count the jobs of a tenant", err)
	}
	counts := map[string]map[job.State]int64{}
	err := r.each(countTenant, func(v *row[any]) {
		queue, state, n := v.str(), v.int(), v.int()
		if state < 0 || state >= int64(len(job.States)) {
			return // a damaged row, which is reported when it is read
		}
		if counts[queue] == nil {
			counts[queue] = map[job.State]int64{}
		}
		counts[queue][job.States[state]] = n
	}, tenant)
	return counts, translate("count the jobs of a tenant", err)
}

// Tenants walks through the index of the tenants.
func (r reader) Tenants(after string, n int) (names []string, err error) {
	err = r.each(listTenants, func(v *row[any]) { names = append(names, v.str()) }, after, int64(n))
	return names, translate("list the tenants", err)
}
