package echo_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	jobsecho "github.com/outrider-jobs/outrider/adapters/echo"
	"github.com/outrider-jobs/outrider/adapters/nethttp"
	"github.com/outrider-jobs/outrider/job"
)

func TestAJobIsToldWhatItsRequestKnows(t *testing.T) {
	t.Parallel()
	says := func(s string) func(echo.Context) string { return func(echo.Context) string { return s } }
	// As echo's own RequestID does, whose package would bring another dependency.
	fixed := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Response().Header().Set(echo.HeaderXRequestID, cmp.Or(c.Request().Header.Get(echo.HeaderXRequestID), "made"))
			return next(c)
		}
	}
	for _, c := range []struct {
		name   string
		header map[string]string
		before []echo.MiddlewareFunc
		o      jobsecho.Options
		want   string
	}{
		{"headers", map[string]string{"X-Request-Id": "r", "Accept-Language": "de", "X-OJS-Tenant": "acme"}, nil, jobsecho.Options{}, `{"request_id":"r","locale":"de"}`},
		{"what the program knows", map[string]string{"X-OJS-Tenant": "acme"}, nil,
			jobsecho.Options{RequestID: says("own"), User: func(c echo.Context) string { return c.Param("user") }, Tenant: jobsecho.TenantHeader, Locale: says("fr")},
			`{"request_id":"own","user_id":"7","tenant_id":"acme","locale":"fr"}`},
		{"echo's request id", nil, []echo.MiddlewareFunc{fixed}, jobsecho.Options{}, `{"request_id":"made"}`},
		{"the client's id that echo has taken", map[string]string{"X-Request-Id": "r"}, []echo.MiddlewareFunc{fixed}, jobsecho.Options{}, `{"request_id":"r"}`},
		{"a hostile id that echo has taken", map[string]string{"X-Request-Id": `r" x`}, []echo.MiddlewareFunc{fixed}, jobsecho.Options{}, ``},
		{"a function comes before echo's id", nil, []echo.MiddlewareFunc{fixed}, jobsecho.Options{RequestID: says("own")}, `{"request_id":"own"}`},
		{"nothing", nil, nil, jobsecho.Options{}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := echo.New()
			e.Use(append(c.before, jobsecho.Middleware(c.o))...)
			e.POST("/users/:user/orders", func(c echo.Context) error {
				ctx := c.Request().Context()
				e := job.Envelope{Type: "email.send", Args: json.RawMessage(`[]`)}
				if a, b := jobsecho.Annotate(ctx, e), nethttp.Annotate(ctx, e); string(a.Meta) != string(b.Meta) {
					t.Errorf("echo says %s, nethttp %s", a.Meta, b.Meta)
				}
				return c.String(http.StatusCreated, string(jobsecho.Annotate(ctx, e).Meta))
			})
			r := httptest.NewRequest("POST", "/users/7/orders", nil)
			for name, v := range c.header {
				r.Header.Set(name, v)
			}
			w := httptest.NewRecorder()
			e.ServeHTTP(w, r)
			if w.Code != http.StatusCreated || w.Body.String() != c.want {
				t.Errorf("got %d %s, want %s", w.Code, w.Body, c.want)
			}
		})
	}
}

func TestAnErrorOfTheHandlerPassesThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	c := e.NewContext(httptest.NewRequest("GET", "/", nil), httptest.NewRecorder())
	err := jobsecho.Middleware(jobsecho.Options{})(func(echo.Context) error { return echo.ErrTeapot })(c)
	if !errors.Is(err, echo.ErrTeapot) {
		t.Errorf("got %v", err)
	}
}
