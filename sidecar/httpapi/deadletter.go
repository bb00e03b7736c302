package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) deadLetters(g *echo.Group) {
	get(g, "/dead-letter", a.deadList)
	get(g, "/dead-letter/stats", a.deadStats)
	get(g, "/dead-letter/:id", a.deadInfo)
	g.POST("/dead-letter/retry", a.reviveDead)
	g.POST("/dead-letter/purge", a.purgeDead)
	g.POST("/dead-letter/:id/retry", a.revive)
	g.DELETE("/dead-letter/:id", a.deleteDead)
	g.POST("/admin/jobs/:id/retry", a.retry)
}

// deadList shows a page of dead letters, the newest first (contract §3.14).
func (a *api) deadList(c echo.Context) error { return a.page(c, wire.DecodeDeadFilter, true) }

func (a *api) deadStats(c echo.Context) error {
	s, err := a.svc.DeadStats(c.Request().Context())
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendDeadStats(*b, s)
	return send(c, http.StatusOK, b)
}

// deadInfo shows one dead letter; any other job is NotFound here.
func (a *api) deadInfo(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	j, err := a.svc.Job(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if err := j.CheckDead(); err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendJob(*b, j, wire.Extras{Error: true})
	return send(c, http.StatusOK, b)
}

// revive takes a dead letter back into its queue (contract §3.14).
func (a *api) revive(c echo.Context) error {
	id, err := revived(c)
	if err != nil {
		return err
	}
	return a.changed(c, wire.Extras{Revived: true}, func(ctx context.Context) (job.Change, error) {
		return a.svc.Revive(ctx, id)
	})
}

// retry takes any discarded job back into its queue (contract §3.23).
func (a *api) retry(c echo.Context) error {
	id, err := revived(c)
	if err != nil {
		return err
	}
	ch, err := a.svc.Retry(c.Request().Context(), id)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendRetried(*b, ch)
	return send(c, http.StatusOK, b)
}

// revived is the job that shall run again as it is.
func revived(c echo.Context) (job.ID, error) {
	id, err := jobID(c)
	if err != nil {
		return "", err
	}
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return "", err
	}
	return id, wire.DecodeRevive(raw)
}

func (a *api) deleteDead(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteDead(c.Request().Context(), id); err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendDeleted(*b, id)
	return send(c, http.StatusOK, b)
}

// reviveDead takes many dead letters back into their queues (contract §3.14).
func (a *api) reviveDead(c echo.Context) error {
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	f, err := wire.DecodeReviveDead(raw)
	if err != nil {
		return err
	}
	n, err := a.svc.ReviveDead(c.Request().Context(), f)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendRevived(*b, n)
	return send(c, http.StatusOK, b)
}

// purgeDead removes dead letters by their age (contract §3.14). A body is not looked at.
func (a *api) purgeDead(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	before, err := wire.DecodePurge(q, a.Now())
	if err != nil {
		return err
	}
	n, err := a.svc.PurgeDead(c.Request().Context(), before)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendPurged(*b, n)
	return send(c, http.StatusOK, b)
}
