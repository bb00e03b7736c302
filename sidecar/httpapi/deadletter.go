package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) deadStats(c echo.Context) error {
	s, err := a.svc.DeadStats(c.Request().Context())
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendDeadStats(dst, s) })
}

// revived reads which job is to run again. Its body may only say that nothing changes.
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

// deadLetter is a dead letter; any other job is NotFound here.
func (a *api) deadLetter(ctx context.Context, id job.ID) (*job.Job, error) {
	j, err := a.svc.Job(ctx, id)
	if err == nil {
		err = j.CheckDead()
	}
	return j, err
}

// deleteDead removes a dead letter, and names it for the answer.
func (a *api) deleteDead(ctx context.Context, id job.ID) (job.ID, error) {
	return id, a.svc.DeleteDead(ctx, id)
}

func appendRevivedJob(dst []byte, ch job.Change) []byte {
	return wire.AppendJob(dst, ch.Job, wire.Extras{Previous: ch.Previous, Revived: true})
}
