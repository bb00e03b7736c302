package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) queues(g *echo.Group) {
	get(g, "/queues", a.allQueues)
	get(g, "/queues/:name", a.queue)
	get(g, "/queues/:name/stats", a.queueStats)
}

// allQueues shows a page of queues (contract §3.13).
func (a *api) allQueues(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	p, err := wire.DecodePages(q)
	if err != nil {
		return err
	}
	qs, err := a.svc.Queues(c.Request().Context())
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendQueues(*b, qs, p)
	return send(c, http.StatusOK, b)
}

// queue shows one queue (contract §3.13).
func (a *api) queue(c echo.Context) error {
	q, err := a.svc.Queue(c.Request().Context(), param(c, "name"))
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendQueue(*b, q)
	return send(c, http.StatusOK, b)
}

// queueStats shows a queue's counters; a queue that no job ever named has zeros
// (contract §3.13).
func (a *api) queueStats(c echo.Context) error {
	name := param(c, "name")
	q, err := a.svc.Queue(c.Request().Context(), name)
	if job.KindOf(err) == job.NotFound {
		q, err = job.Queue{Name: name}, nil
	}
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendQueueStats(*b, q, profile(c), a.Now())
	return send(c, http.StatusOK, b)
}
