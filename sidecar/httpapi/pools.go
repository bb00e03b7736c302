package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) pool(ctx context.Context, name string) (job.Pool, error) {
	pools, err := a.svc.Pools(ctx)
	if err != nil {
		return job.Pool{}, err
	}
	return job.PoolOf(pools, name)
}

// dispatch shows how the starts of the last hour were shared.
func (a *api) dispatch(c echo.Context) error {
	r, err := a.svc.Dispatch(c.Request().Context())
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendDispatch(dst, r) })
}

func (a *api) putPool(c echo.Context) error {
	raw, err := body(c, wire.MaxAskBytes)
	if err != nil {
		return err
	}
	p, err := job.ParsePool(param(c, "name"), raw)
	if err != nil {
		return err
	}
	fresh, err := a.svc.PutPool(c.Request().Context(), p)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if fresh {
		status = http.StatusCreated
	}
	return reply(c, status, func(dst []byte) []byte { return wire.AppendPool(dst, p) })
}

func (a *api) deletePool(c echo.Context) error {
	name := param(c, "name")
	if err := a.svc.DeletePool(c.Request().Context(), name); err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendPoolDeleted(dst, name) })
}
