package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// manifest says what this server is and can do (contract §3.21).
func (a *api) manifest(c echo.Context) error {
	about := wire.About{Version: a.Version, Backend: a.Backend, BaseURL: a.scheme() + "://" + c.Request().Host + v1, Endpoints: a.named,
		Webhooks: a.Webhooks != nil, Delivers: a.Webhooks != nil && a.Webhooks.Deliver()}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendManifest(dst, about, profile(c)) })
}

// measure asks the service how it is. One that does not answer is unhealthy; the
// reason is only logged, as everybody may read the answer.
func (a *api) measure(c echo.Context) (job.Health, int) {
	ctx := c.Request().Context()
	h, err := a.svc.Health(ctx)
	if err != nil {
		h = job.Health{Backend: a.Backend, Problem: err.Error(), Time: a.Now()}
	}
	if h.OK {
		if a.unhealthy.CompareAndSwap(true, false) {
			a.Log.LogAttrs(ctx, slog.LevelInfo, "healthy again")
		}
		return h, http.StatusOK
	}
	c.Response().Header().Set("Retry-After", "1")
	level := slog.LevelDebug // only the first of several warns
	if !h.Logged && !a.unhealthy.Swap(true) {
		level = slog.LevelWarn
	}
	a.Log.LogAttrs(ctx, level, "unhealthy", slog.String("problem", h.Problem),
		slog.String("request_id", c.Response().Header().Get(headerRequestID)))
	return h, http.StatusServiceUnavailable
}

// health shows the counters of contract §3.22.
func (a *api) health(c echo.Context) error {
	h, status := a.measure(c)
	return reply(c, status, func(dst []byte) []byte { return wire.AppendHealth(dst, h) })
}

// ready says whether requests can be served now.
func (a *api) ready(c echo.Context) error {
	h, status := a.measure(c)
	return reply(c, status, func(dst []byte) []byte { return wire.AppendStatus(dst, h.OK) })
}

// live says that the process answers; it asks nothing else.
func (a *api) live(c echo.Context) error {
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendStatus(dst, true) })
}
