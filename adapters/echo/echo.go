// Package echo is adapters/nethttp as a middleware of github.com/labstack/echo/v4.
// What reaches the meta of a job, and what of it may be believed, is told there.
package echo

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/adapters/nethttp"
	"github.com/outrider-jobs/outrider/job"
)

// Options say where what a request knows comes from. A function may return the
// empty string for what is not known.
type Options struct {
	RequestID func(echo.Context) string // nil: what echo's RequestID middleware has set, else the header X-Request-Id
	User      func(echo.Context) string // nil: no job has a user
	Tenant    func(echo.Context) string // nil: no job has a tenant; see TenantHeader
	Locale    func(echo.Context) string // nil: the first tag of Accept-Language
}

// TenantHeader is a value for Options.Tenant: the header X-OJS-Tenant, under the
// conditions of [nethttp.TenantHeader].
func TenantHeader(c echo.Context) string { return nethttp.TenantHeader(c.Request()) }

// Middleware puts what each request knows into its context. It stands behind the
// middleware that finds out about user and tenant, and behind echo's RequestID.
// Where two of them are passed, the inner one counts.
func Middleware(o Options) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			of := func(f func(echo.Context) string) func(*http.Request) string {
				if f == nil {
					return nil
				}
				return func(*http.Request) string { return f(c) }
			}
			n := nethttp.Options{RequestID: of(o.RequestID), User: of(o.User), Tenant: of(o.Tenant), Locale: of(o.Locale)}
			if o.RequestID == nil && c.Response().Header().Get(echo.HeaderXRequestID) != "" {
				n.RequestID = func(*http.Request) string { return c.Response().Header().Get(echo.HeaderXRequestID) }
			}
			r := c.Request()
			c.SetRequest(r.WithContext(nethttp.Context(r, n)))
			return next(c)
		}
	}
}

// Annotate is [nethttp.Annotate]: e with what the request of ctx knows added to
// its meta. The ctx of a handler is c.Request().Context(), not c itself.
func Annotate(ctx context.Context, e job.Envelope) job.Envelope { return nethttp.Annotate(ctx, e) }
