package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) system(e *echo.Echo) {
	get(e, "/ojs/manifest", a.manifest)
	for _, path := range []string{"/ojs/v1/health", "/health", "/healthz"} {
		get(e, path, a.health)
	}
	for _, path := range []string{"/ready", "/readyz"} {
		get(e, path, a.ready)
	}
	for _, path := range []string{"/live", "/livez"} {
		get(e, path, a.live)
	}
}

// manifest says what this server is and can do (contract §3.21).
func (a *api) manifest(c echo.Context) error {
	about := wire.About{Version: a.Version, Backend: a.Backend, BaseURL: "http://" + c.Request().Host + "/ojs/v1"}
	b := buffer()
	*b = wire.AppendManifest(*b, about, profile(c))
	return send(c, http.StatusOK, b)
}

// measure asks the service how it is. One that cannot tell is not well; why is
// for the log alone, as everybody may read the answer.
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
	level := slog.LevelDebug // who asks often is not told often
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
	b := buffer()
	*b = wire.AppendHealth(*b, h)
	return send(c, status, b)
}

// ready says whether requests can be served now.
func (a *api) ready(c echo.Context) error {
	h, status := a.measure(c)
	b := buffer()
	*b = wire.AppendStatus(*b, h.OK)
	return send(c, status, b)
}

// live says that the process answers; it asks nothing else.
func (a *api) live(c echo.Context) error {
	b := buffer()
	*b = wire.AppendStatus(*b, true)
	return send(c, http.StatusOK, b)
}
