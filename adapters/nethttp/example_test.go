package nethttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/outrider-jobs/outrider/adapters/nethttp"
	"github.com/outrider-jobs/outrider/job"
)

// login is the program's own: it finds out who asks.
type login struct{}

func signIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), login{}, "7")))
	})
}

func signedIn(r *http.Request) string {
	id, _ := r.Context().Value(login{}).(string)
	return id
}

// A job is told which request it comes from, and for whom it is.
func ExampleMiddleware() {
	order := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := nethttp.Annotate(r.Context(), job.Envelope{
			Type: "email.send",
			Args: json.RawMessage(`["ada@example.com"]`),
			Meta: json.RawMessage(`{"shop":"pens"}`),
		})
		// … outbox.Add(r.Context(), tx, e) …
		fmt.Println(string(e.Meta))
	})
	shop := signIn(nethttp.Middleware(nethttp.Options{User: signedIn})(order))

	r := httptest.NewRequest("POST", "/orders", nil)
	r.Header.Set("X-Request-Id", "req_42")
	r.Header.Set("Accept-Language", "de-AT,de;q=0.9,en;q=0.8")
	shop.ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// {"shop":"pens","request_id":"req_42","user_id":"7","locale":"de-AT"}
}

// Behind a proxy that sets X-OJS-Tenant on every request, whatever the client
// has sent, the header may name the tenant.
func ExampleTenantHeader() {
	r := httptest.NewRequest("POST", "/orders", nil)
	r.Header.Set("X-OJS-Tenant", "acme")
	ctx := nethttp.Context(r, nethttp.Options{Tenant: nethttp.TenantHeader})
	fmt.Println(string(nethttp.Annotate(ctx, job.Envelope{Type: "report.make", Args: json.RawMessage(`[]`)}).Meta))
	// Output:
	// {"tenant_id":"acme"}
}
