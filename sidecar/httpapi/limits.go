package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// limits are the routes of contract §3.25 that are about rate limits.
func (a *api) limits(g *echo.Group) {
	const one = "/rate-limits/:key"
	get(g, "/rate-limits", handleList(wire.DecodeLimitFilter, a.svc.Limits, wire.AppendLimits))
	get(g, one, handle(limitKey, a.svc.Limit, wire.AppendLimit))
	g.PUT(one, a.overrideLimit)
	g.PUT(one+"/override", a.overrideLimit)
	g.DELETE(one+"/override", handle(limitKey, a.svc.DropLimitOverride, wire.AppendLimit))
}

// limitKey is the path parameter "key". Text that can be no key is NotFound, as an
// unknown key is.
func limitKey(c echo.Context) (string, error) {
	key := param(c, "key")
	if !job.ValidLimitKey(key) {
		return "", wire.NoLimit(key)
	}
	return key, nil
}

// overrideLimit sets what a key allows, whatever its jobs say.
func (a *api) overrideLimit(c echo.Context) error {
	p, err := decoded(c, job.MaxMetaBytes, wire.DecodePace)
	if err != nil {
		return err
	}
	l, err := a.svc.OverrideLimit(c.Request().Context(), param(c, "key"), p)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendLimit(dst, l) })
}
