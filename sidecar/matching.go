package sidecar

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// each does something to every job that a list holds and that is meant, slice by
// slice: the list is read beside the writer, and each job once more by it. meant
// may be nil. do reports whether it has done it; it may run more than once, and counts
// nothing itself that an undone run must not. It says how many were done, also
// beside an error.
func (s *Sidecar) each(ctx context.Context, f job.Filter, meant func(*job.Job) bool, do func(*turn, *job.Job) (bool, error)) (done int64, err error) {
	for f.Limit = fewLarge; ; {
		page, err := view(ctx, s, func(tx job.ReadTx) (job.Page, error) { return tx.Jobs(f) })
		if err != nil {
			return done, err
		}
		n, err := s.eachOf(ctx, idsOf(page.Jobs, meant), meant, do)
		if done += n; err != nil {
			return done, err
		}
		f.Limit = paced(page.Jobs)
		if f.Cursor, f.Offset = page.Next, 0; f.Cursor == "" {
			return done, nil
		}
	}
}

// count is how many jobs a list holds that are meant.
func (s *Sidecar) count(ctx context.Context, f job.Filter, meant func(job.ReadTx, *job.Job) (bool, error)) (n int64, err error) {
	for f.Limit = fewLarge; ; {
		page, err := view(ctx, s, func(tx job.ReadTx) (page job.Page, err error) {
			page, err = tx.Jobs(f)
			for i := 0; i < len(page.Jobs) && err == nil; i++ {
				var is bool
				if is, err = meant(tx, page.Jobs[i]); is {
					n++
				}
			}
			return page, err
		})
		if err != nil {
			return n, err
		}
		f.Limit = paced(page.Jobs)
		if f.Cursor = page.Next; f.Cursor == "" {
			return n, nil
		}
	}
}

// idsOf are the ids of those jobs that are meant.
func idsOf(jobs []*job.Job, meant func(*job.Job) bool) (ids []job.ID) {
	for _, j := range jobs {
		if meant == nil || meant(j) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// eachOf is each for jobs that are named. One that has gone, or is not meant any more,
// is passed over.
func (s *Sidecar) eachOf(ctx context.Context, ids []job.ID, meant func(*job.Job) bool, do func(*turn, *job.Job) (bool, error)) (done int64, err error) {
	for len(ids) > 0 {
		var taken, counted int
		if err := s.update(ctx, func(t *turn) error {
			taken, counted = 0, 0
			for work := newWorkShare(); taken < len(ids) && !work.over(); taken++ {
				j, err := t.Job(ids[taken])
				if err != nil && job.KindOf(err) == job.NotFound {
					continue
				}
				if err != nil {
					return err
				}
				if meant != nil && !meant(j) {
					continue
				}
				did, err := do(t, s.ruled(t, j))
				if err != nil {
					return err
				}
				if did {
					counted++
				}
			}
			return nil
		}); err != nil {
			return done, err
		}
		done += int64(counted)
		ids = ids[taken:]
	}
	return done, nil
}
