package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// directives is what an operator may tell workers (contract §3.23).
func (a *api) directives(g *echo.Group) {
	g.POST("/admin/workers/directive", a.directAll)
	for _, wish := range []string{job.Quiet, job.Terminate, job.Resume} {
		g.POST("/admin/workers/:id/"+wish, a.direct(wish))
	}
}

// direct tells one worker. A body is not looked at.
func (a *api) direct(wish string) echo.HandlerFunc {
	return func(c echo.Context) error {
		w, err := a.svc.Direct(c.Request().Context(), param(c, "id"), wish)
		if err != nil {
			return err
		}
		b := buffer()
		*b = wire.AppendWorker(*b, w)
		return send(c, http.StatusOK, b)
	}
}

// directAll tells all workers.
func (a *api) directAll(c echo.Context) error {
	raw, err := body(c, maxReason)
	if err != nil {
		return err
	}
	wish, err := wire.DecodeDirective(raw)
	if err != nil {
		return err
	}
	n, err := a.svc.DirectAll(c.Request().Context(), wish)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendDirected(*b, wish, n)
	return send(c, http.StatusOK, b)
}
