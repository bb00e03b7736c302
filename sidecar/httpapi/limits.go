package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

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
