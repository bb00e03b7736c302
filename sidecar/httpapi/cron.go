package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func (a *api) crons(g *echo.Group) {
	for _, base := range []string{"/cron", "/crons"} { // the second is the name that a dashboard asks
		one := base + "/:name"
		g.POST(base, a.putCron)
		get(g, base, a.cronList(base == "/crons"))
		get(g, one, a.cron)
		g.PATCH(one, a.changeCron)
		g.PUT(one, a.changeCron)
		g.DELETE(one, a.deleteCron)
		g.POST(one+"/pause", a.enableCron(false))
		g.POST(one+"/resume", a.enableCron(true))
		g.POST(one+"/trigger", a.triggerCron)
		get(g, one+"/history", a.cronHistory)
	}
}

// cronName is the path parameter "name". Text that can name no schedule is
// NotFound, as an unknown name is.
func cronName(c echo.Context) (string, error) {
	name := param(c, "name")
	if !job.ValidCronName(name) {
		return "", job.NoCron(name)
	}
	return name, nil
}

// putCron stores a schedule, in place of one of the same name (contract §3.15).
func (a *api) putCron(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	ifNew, err := wire.DecodeIfNew(q, c.Request().Header.Get("If-None-Match"))
	if err != nil {
		return err
	}
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	s, err := wire.DecodeCron(raw)
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
	b := buffer()
	*b = wire.AppendCron(*b, stored)
	return send(c, status, b)
}

// noCron is Duplicate when there is a schedule of that name (contract C-16). Of
// two who ask at the same instant both may find none.
func (a *api) noCron(c echo.Context, name string) error {
	_, err := a.svc.Cron(c.Request().Context(), name)
	switch {
	case err == nil:
		e := job.Errorf(job.Duplicate, "there is a schedule %q already; choose another name, or leave out if_not_exists and If-None-Match to replace it", name)
		e.Details = map[string]any{"resource_type": "cron", "resource_id": name}
		return e
	case job.KindOf(err) == job.NotFound:
		return nil
	}
	return err
}

// cronList shows a page of the schedules, by name.
func (a *api) cronList(plural bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		q, err := query(c)
		if err != nil {
			return err
		}
		f, p, err := wire.DecodeCronFilter(q)
		if err != nil {
			return err
		}
		page, err := a.svc.Crons(c.Request().Context(), f)
		if err != nil {
			return err
		}
		b := buffer()
		*b = wire.AppendCrons(*b, page, p, plural)
		return send(c, http.StatusOK, b)
	}
}

// cron shows one schedule.
func (a *api) cron(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	found, err := a.svc.Cron(c.Request().Context(), name)
	return sendCron(c, found, err)
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
	b := buffer()
	*b = wire.AppendCronChanged(*b, changed)
	return send(c, http.StatusOK, b)
}

// enableCron lets a schedule fire, or not. A body is not looked at.
func (a *api) enableCron(on bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		name, err := cronName(c)
		if err != nil {
			return err
		}
		changed, err := a.svc.ChangeCron(c.Request().Context(), name, job.CronPatch{Enabled: &on})
		return sendCron(c, changed, err)
	}
}

// sendCron answers with one schedule, or fails.
func sendCron(c echo.Context, found *job.Cron, err error) error {
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendCronFlat(*b, found)
	return send(c, http.StatusOK, b)
}

// deleteCron removes a schedule, and shows what it was.
func (a *api) deleteCron(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	was, err := a.svc.DeleteCron(c.Request().Context(), name)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendCronDeleted(*b, was)
	return send(c, http.StatusOK, b)
}

// triggerCron makes a job of a schedule now. A body is not looked at.
func (a *api) triggerCron(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	j, err := a.svc.TriggerCron(c.Request().Context(), name)
	if err != nil {
		return err
	}
	c.Response().Header()["Location"] = []string{"/ojs/v1/jobs/" + string(j.ID)}
	b := buffer()
	*b = wire.AppendTriggered(*b, name, j)
	return send(c, http.StatusCreated, b)
}

// cronHistory tells what became of the newest ticks. All of them are read, so
// that the answer can count them.
func (a *api) cronHistory(c echo.Context) error {
	name, err := cronName(c)
	if err != nil {
		return err
	}
	q, err := query(c)
	if err != nil {
		return err
	}
	p, whole, err := wire.DecodeCronHistory(q)
	if err != nil {
		return err
	}
	runs, err := a.svc.CronHistory(c.Request().Context(), name, 0)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendCronHistory(*b, runs, p, whole)
	return send(c, http.StatusOK, b)
}
