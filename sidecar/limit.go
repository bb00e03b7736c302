package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// limitAll gives the limit of this server to the jobs that were claimed from one
// with a longer one, or with none.
func (s *Sidecar) limitAll(ctx context.Context) error {
	for f := (job.Filter{States: []job.State{job.Active}, Limit: slice}); ; {
		page, err := view(ctx, s, func(tx job.ReadTx) (job.Page, error) { return tx.Jobs(f) })
		if err != nil {
			return err
		}
		if err := s.update(ctx, func(t *turn) error { return s.limitSome(t, page.Jobs) }); err != nil {
			return err
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}

// limitSome does limitAll's work for jobs that were active a moment ago.
func (s *Sidecar) limitSome(t *turn, jobs []*job.Job) error {
	for _, seen := range jobs {
		was := seen.DueAt
		if seen.Limit(s.o.Timeout, 0); seen.DueAt.Equal(was) {
			continue
		}
		j, err := t.Job(seen.ID)
		switch {
		case job.KindOf(err) == job.NotFound:
			continue
		case err != nil:
			return err
		}
		if j.Limit(s.o.Timeout, 0); j.State != job.Active {
			continue
		}
		if err := t.save(j); err != nil {
			return err
		}
	}
	return nil
}
