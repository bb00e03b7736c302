package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"

	"github.com/outrider-jobs/outrider/job"
)

// EnqueueFunc hands one job on towards the store. It returns nil when all
// further middleware has let the job pass; the job is stored after that,
// together with the others of its call, so nil does not mean that it is on disk.
type EnqueueFunc func(ctx context.Context, e *job.Envelope) error

// Middleware looks at one job on its way into the store: after it was found
// valid and was given its id, before it is stored (ojs-core.md §9). It lets the
// job pass by calling next, with e, which it may have changed. What the last
// next of the chain is given is stored, and is checked again if it was changed;
// changes after that have no effect. The id must not change. The chain has the raw
// JSON to itself.
//
// It refuses the job by returning an error, or by not calling next. An error is
// a Rejected with its text as the reason, except a *[job.Error], which keeps its
// Kind (so that a middleware can say Invalid, or Unavailable when it cannot decide
// now), and the end of a context, which is Unavailable. One that panics has refused
// the job; the log has the stack. Details["middleware"] is the name of the one
// that refused. Every job of one call is asked for before
// the first is stored, and one refusal refuses them all; [job.Enqueuer] says how
// the error names the job.
//
// A middleware must not keep e, or call next, after it has returned. It is
// called by many goroutines at once. The outbox relay and callers with ids
// repeat an Enqueue that may have succeeded: a middleware that changes args or
// the type must make the same of the same, or the repetition is a Duplicate.
type Middleware func(ctx context.Context, e *job.Envelope, next EnqueueFunc) error

// Chain is the middleware around PUSH. The zero value is empty.
type Chain = job.Middlewares[Middleware]

// admit asks the middleware for every job and puts into cs what it made of them.
// It says which of them ask for something else now; nil is none.
func (s *Sidecar) admit(ctx context.Context, cs []job.Checked) (altered []bool, err error) {
	links := s.o.Middleware.Links()
	if len(links) == 0 {
		return nil, nil
	}
	altered = make([]bool, len(cs))
	for i := range cs {
		before := cs[i].Envelope()
		if cs[i], err = s.admitOne(ctx, links, cs[i]); err != nil {
			return nil, atIndex(err, i, len(cs))
		}
		after := cs[i].Envelope()
		altered[i] = !before.Same(&after)
	}
	return altered, nil
}

// admitOne asks the middleware for one job and returns what it made of it.
func (s *Sidecar) admitOne(ctx context.Context, links []job.Link[Middleware], c job.Checked) (job.Checked, error) {
	w := walk{links: links, log: s.log, id: c.ID(), made: c, seen: make([]job.Envelope, len(links)+1)}
	return w.admit(ctx)
}

// walk is the way of one job through the chain.
type walk struct {
	links   []job.Link[Middleware]
	log     *slog.Logger
	id      job.ID
	made    job.Checked    // what is to be stored; before the last link has passed it, what was asked for
	seen    []job.Envelope // copies of what each link was given, and behind the last of what it made of it
	deepest int            // how far the job has come
	passed  bool           // the whole chain has let it pass
	refused error          // the latest refusal
}

// admit lets the job walk and returns what shall be stored. A refusal that an
// outer middleware hides is one all the same.
func (w *walk) admit(ctx context.Context) (job.Checked, error) {
	passing := w.made.Envelope().Clone() // what a middleware keeps against the rules is not what is stored
	err := w.step(0)(ctx, &passing)
	switch {
	case err != nil:
		return w.made, err
	case w.passed:
		return w.made, nil
	case w.refused != nil:
		return w.made, w.refused
	}
	return w.made, refusal(w.links[w.deepest].Name, errors.New("it did not let the job pass and gave no reason"))
}

// step is what leads into link i, and behind the last to the store.
func (w *walk) step(i int) EnqueueFunc {
	return func(ctx context.Context, e *job.Envelope) error {
		if e.ID != w.id {
			return w.refuse(w.links[i-1].Name, job.Errorf(job.Rejected, "the id of a job must not change, from %s to %q", w.id, e.ID))
		}
		w.seen[i] = e.Clone() // what is written into its JSON after this has no effect
		if i == len(w.links) {
			return w.pass()
		}
		w.deepest = max(w.deepest, i)
		l := w.links[i]
		if err := w.call(l, ctx, e, w.step(i+1)); err != nil {
			return w.refuse(l.Name, err)
		}
		return nil
	}
}

// call asks one middleware. A panic is its refusal: the caller may be a relay or
// the loop of schedules, which would end the process, and again after each restart.
func (w *walk) call(l job.Link[Middleware], ctx context.Context, e *job.Envelope, next EnqueueFunc) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("a middleware panicked; the job is refused", "middleware", l.Name, "job", w.id, "type", w.seen[0].Type, "panic", p, "stack", string(debug.Stack()))
			err = job.Errorf(job.Rejected, "middleware %s panicked: %v", l.Name, p)
		}
	}()
	return l.Func(ctx, e, next)
}

// pass takes what came through if it is as it was, or else if it is valid. If not,
// the first that handed it on as invalid is to blame.
func (w *walk) pass() error {
	last := len(w.links)
	if reflect.DeepEqual(w.seen[last], w.made.Envelope()) {
		w.passed = true
		return nil
	}
	c, err := w.seen[last].Check()
	if err == nil {
		w.made, w.passed = c, true
		return nil
	}
	for i := 1; i < last; i++ {
		if _, early := w.seen[i].Check(); early != nil {
			return w.refuse(w.links[i-1].Name, early)
		}
	}
	return w.refuse(w.links[last-1].Name, err)
}

func (w *walk) refuse(by string, err error) error {
	w.passed = false
	w.refused = refusal(by, err)
	return w.refused
}

// refusal is a middleware's error as the caller of Enqueue sees it. The
// innermost of several names keeps its place, and the outermost text.
func refusal(by string, err error) error {
	out := &job.Error{Kind: job.Rejected, Message: err.Error(), Err: err, Details: map[string]any{}}
	var inner *job.Error
	switch {
	case errors.As(err, &inner):
		out.Kind = inner.Kind
		maps.Copy(out.Details, inner.Details)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		out.Kind = job.Unavailable
	}
	if _, named := out.Details["middleware"]; !named {
		out.Details["middleware"] = by
	}
	return out
}
