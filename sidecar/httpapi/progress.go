package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// appendResume appends the answer to a caller who asks where a job may go on.
func appendResume(dst []byte, j *job.Job) []byte { return wire.AppendResume(dst, j.Checkpoint) }

// report takes a progress report; its body names the job where the path does not.
func (a *api) report(c echo.Context) error {
	var id job.ID
	if c.Param("id") != "" {
		var err error
		if id, err = jobID(c); err != nil {
			return err
		}
	}
	raw, err := body(c, wire.MaxProgressBytes)
	if err != nil {
		return err
	}
	claim, r, err := wire.DecodeProgress(raw, id)
	if err != nil {
		return err
	}
	told, err := a.svc.Progress(c.Request().Context(), claim, r)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendReported(dst, claim.ID, told) })
}

// checkpoint makes the handler that saves a checkpoint, in one of its spellings.
func (a *api) checkpoint(decode func([]byte, job.ID) (job.Claim, json.RawMessage, json.RawMessage, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := jobID(c)
		if err != nil {
			return err
		}
		raw, err := body(c, wire.MaxProgressBytes)
		if err != nil {
			return err
		}
		claim, state, metadata, err := decode(raw, id)
		if err != nil {
			return err
		}
		saved, err := a.svc.SaveCheckpoint(c.Request().Context(), claim, state, metadata)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendCheckpoint(dst, id, saved) })
	}
}

// saved reads a job that has a checkpoint.
func (a *api) saved(ctx context.Context, id job.ID) (*job.Job, error) {
	j, err := a.svc.Job(ctx, id)
	if err == nil && j.Checkpoint == nil {
		err = wire.NoCheckpoint(id)
	}
	return j, err
}

func appendSaved(dst []byte, j *job.Job) []byte {
	return wire.AppendCheckpoint(dst, j.ID, *j.Checkpoint)
}

// result says what came of a job, and waits for its end where the query asks for that.
func (a *api) result(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	wait, err := fromQuery(wire.DecodeOutcomeQuery)(c)
	if err != nil {
		return err
	}
	o, err := a.svc.Outcome(c.Request().Context(), id, wait)
	if err != nil {
		return err
	}
	if wait > 0 && !o.State.Terminal() {
		return wire.NotEnded(o)
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendOutcome(dst, o) })
}
