package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) unique(g *echo.Group) {
	g.POST("/unique/explain", a.explain)
	get(g, "/unique-jobs", a.heldKeys)
	g.DELETE("/unique-jobs/:key", a.releaseKey)
	for _, name := range []string{"deduplication", "debounce"} { // the second is the older name
		get(g, "/queues/:name/"+name+"/:id", a.dedupOwner(name == "debounce"))
		g.DELETE("/queues/:name/"+name+"/:id", a.releaseDedup)
	}
}

// explain says what would become of a job with a unique policy. It stores nothing.
func (a *api) explain(c echo.Context) error {
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	e, err := wire.DecodePush(raw)
	if err != nil {
		return err
	}
	x, err := a.svc.Explain(c.Request().Context(), e)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendExplanation(*b, x)
	return send(c, http.StatusOK, b)
}

// heldKeys shows a page of the unique keys that are held (contract §3.25).
func (a *api) heldKeys(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	f, p, err := wire.DecodeKeyFilter(q)
	if err != nil {
		return err
	}
	page, err := a.svc.HeldKeys(c.Request().Context(), f)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendHeldKeys(*b, page, p)
	return send(c, http.StatusOK, b)
}

// releaseKey takes a unique key off its jobs.
func (a *api) releaseKey(c echo.Context) error {
	key := param(c, "key")
	if !job.ValidKey(key) {
		return wire.NoKey(key)
	}
	n, err := a.svc.ReleaseKey(c.Request().Context(), key)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendReleasedKey(*b, key, n)
	return send(c, http.StatusOK, b)
}

// dedupOwner shows who holds a deduplication key (contract §3.13).
func (a *api) dedupOwner(older bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		queue, id := param(c, "name"), param(c, "id")
		owner, err := a.svc.DedupOwner(c.Request().Context(), queue, id)
		if err != nil {
			return err
		}
		b := buffer()
		*b = wire.AppendDedupOwner(*b, queue, id, owner, older)
		return send(c, http.StatusOK, b)
	}
}

// releaseDedup takes a deduplication key off its owner (contract §3.13).
func (a *api) releaseDedup(c echo.Context) error {
	released, err := a.svc.ReleaseDedup(c.Request().Context(), param(c, "name"), param(c, "id"))
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendReleasedDedup(*b, released)
	return send(c, http.StatusOK, b)
}
