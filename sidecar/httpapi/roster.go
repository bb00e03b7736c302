package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// register takes a worker down (contract §3.12).
func (a *api) register(c echo.Context) error {
	raw, err := body(c, job.MaxJobBytes)
	if err != nil {
		return err
	}
	w, err := wire.DecodeRegister(raw)
	if err != nil {
		return err
	}
	r, err := a.svc.Register(c.Request().Context(), w)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendRegistered(*b, w.ID, r)
	return send(c, http.StatusOK, b)
}

// deregister forgets a worker and releases its jobs (contract §3.12).
func (a *api) deregister(c echo.Context) error {
	raw, err := body(c, maxReason)
	if err != nil {
		return err
	}
	id, err := wire.DecodeDeregister(raw)
	if err != nil {
		return err
	}
	return a.forgetWorker(c, id)
}

// removeWorker is deregister with the worker in the path. A body is not looked at.
func (a *api) removeWorker(c echo.Context) error {
	return a.forgetWorker(c, param(c, "id"))
}

func (a *api) forgetWorker(c echo.Context, id string) error {
	released, err := a.svc.Deregister(c.Request().Context(), id)
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendDeregistered(*b, id, released)
	return send(c, http.StatusOK, b)
}

// workerList shows a page of the workers (contract §3.12).
func (a *api) workerList(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	p, err := wire.DecodePages(q)
	if err != nil {
		return err
	}
	ws, err := a.svc.Workers(c.Request().Context())
	if err != nil {
		return err
	}
	b := buffer()
	*b = wire.AppendWorkers(*b, ws, p)
	return send(c, http.StatusOK, b)
}

// workerInfo shows one worker.
func (a *api) workerInfo(c echo.Context) error { return a.oneWorker(c, wire.AppendWorker) }

// workerHealth shows how one worker is.
func (a *api) workerHealth(c echo.Context) error { return a.oneWorker(c, wire.AppendWorkerHealth) }

func (a *api) oneWorker(c echo.Context, write func([]byte, job.WorkerInfo) []byte) error {
	w, err := a.svc.Worker(c.Request().Context(), param(c, "id"))
	if err != nil {
		return err
	}
	b := buffer()
	*b = write(*b, w)
	return send(c, http.StatusOK, b)
}
