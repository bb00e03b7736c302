package client

import (
	"context"
	"slices"

	"github.com/outrider-jobs/outrider/job"
)

// Middleware runs around the handler of every job that has one (ojs-core.md §9). It
// calls next to go on, with the ctx and the job that the rest is to see, and returns
// the result and the error that count as the handler's. If it does not call next it
// answers for the handler; it may also call next more than once. What is said of a
// [Handler] holds for it too: the job's timeout covers the whole chain, a panic fails
// the attempt, and it must not change j.
type Middleware func(ctx context.Context, j *job.Job, next Handler) (result any, err error)

// Chain is the middleware of a [Worker]. The zero value is empty.
type Chain = job.Middlewares[Middleware]

// wrap puts the chain around a handler, as it is now.
func wrap(c *Chain, h Handler) Handler {
	for _, l := range slices.Backward(c.Links()) {
		next := h
		h = func(ctx context.Context, j *job.Job) (any, error) { return l.Func(ctx, j, next) }
	}
	return h
}
