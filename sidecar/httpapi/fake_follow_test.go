package httpapi

import (
	"context"

	"github.com/outrider-jobs/outrider/job"
)

// fakeFollow is a job.FollowService made of functions, as fake is. Without a function the
// log is empty and stays so.
type fakeFollow struct {
	span   func(context.Context) (job.EventSpan, error)
	follow func(context.Context, job.EventFilter, func(job.News) error) error
}

func (f *fakeFollow) EventSpan(ctx context.Context) (job.EventSpan, error) {
	if f.span == nil {
		return job.EventSpan{First: 1}, nil
	}
	return f.span(ctx)
}

func (f *fakeFollow) Follow(ctx context.Context, q job.EventFilter, fn func(job.News) error) error {
	if f.follow != nil {
		return f.follow(ctx, q, fn)
	}
	if err := fn(job.News{}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
