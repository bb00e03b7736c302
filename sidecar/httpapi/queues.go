package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// queues are the routes of contract §3.13.
func (a *api) queues(g *echo.Group) {
	get(g, "/queues", handleAll(a.svc.Queues, wire.AppendQueues))
	get(g, "/queues/:name", handle(fromPath("name"), a.svc.Queue, wire.AppendQueue))
	get(g, "/queues/:name/stats", a.queueStats)
}

// queueStats shows a queue's counters; a queue that no job ever named has zeros.
func (a *api) queueStats(c echo.Context) error {
	name := param(c, "name")
	q, err := a.svc.Queue(c.Request().Context(), name)
	if job.KindOf(err) == job.NotFound {
		q, err = job.Queue{Name: name}, nil
	}
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendQueueStats(dst, q, profile(c), a.Now()) })
}
