package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// eventLog shows a page of events, the oldest first (contract §3.18).
func (a *api) eventLog(c echo.Context) error {
	f, p, err := listed(c, wire.DecodeEventFilter)
	if err != nil {
		return err
	}
	f.Room = &beyond{exchange(c), p.Offset}
	es, err := a.svc.Events(c.Request().Context(), f)
	if err != nil {
		return err
	}
	count := int64(-1)
	if f.All() && job.TenantOf(c.Request().Context()) == "" {
		span, err := a.svc.EventSpan(c.Request().Context())
		if err != nil {
			return err
		}
		count = span.Count()
	}
	p.Cut = exchange(c).cut
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendEvents(dst, es, count, p) })
}

// event shows one event (contract §3.18).
func (a *api) event(c echo.Context) error {
	id := param(c, "event_id")
	missing := job.Errorf(job.NotFound, "there is no event %.60q; events are removed after a week", id).
		With(map[string]any{"resource_type": "event", "resource_id": id})
	seq, err := wire.ParseEventID(id)
	if err != nil || seq == 0 {
		return missing
	}
	es, err := a.svc.Events(c.Request().Context(), job.EventFilter{After: seq - 1, Limit: 1, Room: exchange(c)})
	if err != nil {
		return err
	}
	if len(es) == 0 || es[0].Seq != seq {
		return missing
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendEvent(dst, es[0]) })
}

// beyond is the room of a page that begins at an offset: events before that are
// charged for, but are not part of the page.
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
	after, p, err := listed(c, wire.DecodeHistory)
	if err != nil {
		return err
	}
	es, err := a.svc.History(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendHistory(dst, es, after, p) })
}
