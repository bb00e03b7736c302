package httpapi

import (
	"net/http"
	"testing"
)

// A bad X-OJS-Tenant refuses what speaks for a tenant, and nothing that names a lease
// (contract §4.19).
func TestBadTenant(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		request, body string
		refused       bool
	}{
		{"POST /jobs", `{"type":"a.b","args":[]}`, true},
		{"POST /workers/fetch", `{"queues":["mail"]}`, true},
		{"POST /workers/next", `{"queues":["mail"]}`, true},
		{"GET /jobs", ``, true},
		{"POST /workers/ack", `{"job_id":"` + string(idOne) + `"}`, false},
		{"POST /workers/ack/", `{"job_id":"` + string(idOne) + `"}`, false},
		{"POST /workers/nack", `{"job_id":"` + string(idOne) + `","error":{"type":"e","message":"m"}}`, false},
		{"POST /workers/heartbeat", `{"worker_id":"w"}`, false},
		{"POST /workers/beat", `{"worker_id":"w"}`, false},
		{"POST /jobs/" + string(idOne) + "/ack", `{}`, false},
	} {
		for _, header := range []string{"", "-a", "a b", "ä"} {
			method, path := tt.request[:4], tt.request[5:]
			if method == "GET " {
				method, path = "GET", tt.request[4:]
			}
			without := serve(New(world(), quiet()), method, "/ojs/v1"+path, tt.body)
			w := serve(New(world(), quiet()), method, "/ojs/v1"+path, tt.body, "X-OJS-Tenant", header)
			switch {
			case tt.refused && (w.Code != http.StatusBadRequest || failureOf(t, w.Body).Details["field"] != "X-OJS-Tenant"):
				t.Errorf("%s for %q: got %d", tt.request, header, w.Code)
			case !tt.refused && (w.Code != without.Code || w.Code >= 500):
				t.Errorf("%s for %q: got %d, without %d: %s", tt.request, header, w.Code, without.Code, w.Body)
			}
		}
	}
}
