package httpapi

import (
	"net/http"
	"strings"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// spoken is the request in a context for the tenant that its header names (contract §4.19).
// What names a lease is not looked at for it, and not refused for a bad one either: a
// worker could not end what it runs.
func spoken(r *http.Request) (*http.Request, error) {
	values := r.Header["X-Ojs-Tenant"]
	if len(values) == 0 || namesLease(r.URL.Path) {
		return r, nil
	}
	if err := job.CheckTenant(values[0]); err != nil {
		return r, err
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return r, job.Errorf(job.Invalid, "X-OJS-Tenant names two tenants, %q and %.60q; send it once", values[0], v).With(map[string]any{"field": "X-OJS-Tenant"})
		}
	}
	return r.WithContext(job.WithTenant(r.Context(), values[0])), nil
}

// namesLease reports whether a path is that of an ACK, a FAIL or a BEAT.
func namesLease(path string) bool {
	path, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/ojs/v1")
	if !ok {
		return false
	}
	switch path {
	case wire.AckPath, "/workers/nack", "/workers/heartbeat", "/workers/beat":
		return true
	}
	return strings.HasPrefix(path, "/jobs/") && strings.HasSuffix(path, "/ack")
}
