package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// uniqueKey is the path parameter "key". Text that can be no key is NotFound.
func uniqueKey(c echo.Context) (string, error) {
	key := param(c, "key")
	if !job.ValidKey(key) {
		return "", wire.NoKey(key)
	}
	return key, nil
}

// dedupOwner shows who holds a deduplication key (contract §3.13).
func (a *api) dedupOwner(older bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		queue, id := param(c, "name"), param(c, "id")
		owner, err := a.svc.DedupOwner(c.Request().Context(), queue, id)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendDedupOwner(dst, queue, id, owner, older) })
	}
}

// releaseDedup takes a deduplication key off its owner (contract §3.13).
func (a *api) releaseDedup(c echo.Context) error {
	released, err := a.svc.ReleaseDedup(c.Request().Context(), param(c, "name"), param(c, "id"))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendReleasedDedup(dst, released) })
}
