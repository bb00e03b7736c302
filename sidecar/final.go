package sidecar

import (
	"context"
	"log/slog"

	"github.com/outrider-jobs/outrider/job"
)

// logFailed logs the jobs that have failed for good: by default they are in no
// list of dead letters, and nobody would hear of it. What its worker discarded on
// purpose is no news.
func (s *Sidecar) logFailed(changes []change) {
	for _, c := range changes {
		j := c.job
		if j.State != job.Discarded || c.from == job.Discarded || j.Error == nil {
			continue
		}
		kind, code := j.ErrorType(), j.ErrorCode()
		level := slog.LevelWarn
		switch {
		case code == "expired" && j.Expired(j.FinishedAt):
			continue // nothing has failed
		case job.DiscardCode(code):
			level = slog.LevelInfo
		}
		s.log.Log(context.Background(), level, "a job has failed for good; to run it again, POST to its retry path", "job", j.ID, "type", j.Type,
			"queue", j.Queue, "attempts", j.Attempt, "error_type", kind, "dead_letter", j.Dead, "retry", "/ojs/v1/admin/jobs/"+string(j.ID)+"/retry")
	}
}
