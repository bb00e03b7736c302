package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
)

func (a *api) events(g *echo.Group) {
	get(g, "/events", a.eventLog)
	get(g, "/events/:id/history", a.history)
	get(g, "/jobs/:id/history", a.history)
}

// eventLog shows a page of events, the oldest first (contract §3.18).
func (a *api) eventLog(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	f, p, err := wire.DecodeEventFilter(q)
	if err != nil {
		return err
	}
	f.Room = &beyond{exchange(c), p.Offset}
	es, err := a.svc.Events(c.Request().Context(), f)
	if err != nil {
		return err
	}
	p.Cut = exchange(c).cut
	b := buffer()
	*b = wire.AppendEvents(*b, es, p)
	return send(c, http.StatusOK, b)
}

// beyond is the room of a page that begins at an offset: what is read before that
// is held, and is no part of the page.
type beyond struct {
	*metered
	before int
}

// Take is part of [job.Room].
func (b *beyond) Take(n int) bool {
	if b.before == 0 {
		return b.metered.Take(n)
	}
	b.before--
	return b.hold(n)
}

// history shows the events of one job, the oldest first (contract §3.17).
func (a *api) history(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	q, err := query(c)
	if err != nil {
		return err
	}
	after, p, err := wire.DecodeHistory(q)
	if err != nil {
		return err
	}
	es, err := a.svc.History(c.Request().Context(), id)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendHistory(*b, es, after, p)
	return send(c, http.StatusOK, b)
}
