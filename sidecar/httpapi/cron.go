package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// cronName is the path parameter "name". Text that can name no schedule is
// NotFound, as an unknown name is.
func cronName(c echo.Context) (string, error) {
	name := param(c, "name")
	if !job.ValidCronName(name) {
		return "", job.NoCron(name)
	}
	return name, nil
}

// putCron stores a schedule, in place of one of the same name.
func (a *api) putCron(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	ifNew, err := wire.DecodeIfNew(q, c.Request().Header.Get("If-None-Match"))
	if err != nil {
		return err
	}
	s, err := decoded(c, job.MaxJobBytes, wire.DecodeCron)
	if err != nil {
		return err
	}
	if ifNew {
		if err := a.noCron(c, s.Name); err != nil {
			return err
		}
	}
	stored, created, err := a.svc.PutCron(c.Request().Context(), s)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return reply(c, status, func(dst []byte) []byte { return wire.AppendCron(dst, stored) })
}

// noCron is Duplicate when there is a schedule of that name (contract C-16). Two who
// ask at the same instant may both find none.
func (a *api) noCron(c echo.Context, name string) error {
	_, err := a.svc.Cron(c.Request().Context(), name)
	switch {
	case err == nil:
		return job.Errorf(job.Duplicate, "there is a schedule %q already; choose another name, or leave out if_not_exists and If-None-Match to replace it", name).
			With(map[string]any{"resource_type": "cron", "resource_id": name})
	case job.KindOf(err) == job.NotFound:
		return nil
	}
	return err
}

// changeCron changes parts of a schedule. PUT does the same as PATCH.
func (a *api) changeCron(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	p, err := wire.DecodeCronPatch(raw, name)
	if err != nil {
		return err
	}
	changed, err := a.svc.ChangeCron(c.Request().Context(), name, p)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendCronChanged(dst, changed) })
}

// enableCron lets a schedule fire, or not.
func (a *api) enableCron(on bool) func(context.Context, string) (*job.Cron, error) {
	return func(ctx context.Context, name string) (*job.Cron, error) {
		return a.svc.ChangeCron(ctx, name, job.CronPatch{Enabled: &on})
	}
}

// triggerCron makes a job, or a workflow, of a schedule now. A body is not looked at.
func (a *api) triggerCron(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	r, err := a.svc.TriggerCron(c.Request().Context(), name)
	if err != nil {
		return err
	}
	if r.Flow != nil {
		locatedFlow(c, r.FlowID)
	} else {
		located(c, r.JobID)
	}
	return reply(c, http.StatusCreated, func(dst []byte) []byte { return wire.AppendTriggered(dst, name, r) })
}

// cronHistory tells what became of the newest ticks. All of them are read, so
// that the answer can count them.
func (a *api) cronHistory(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	whole, p, err := listed(c, wire.DecodeCronHistory)
	if err != nil {
		return err
	}
	runs, err := a.svc.CronHistory(c.Request().Context(), name, 0)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendCronHistory(dst, runs, p, whole) })
}
