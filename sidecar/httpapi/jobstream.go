package httpapi

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// jobStream tells what happens to a job until it has ended (contract §3.18).
func (a *api) jobStream(c echo.Context) error {
	f, err := fromQuery(wire.DecodeJobStream)(c)
	if err != nil {
		return err
	}
	return a.openJob(c, func(s *sse) jobOutlet { return &jobOut{sse: s, shown: f} })
}

// progressStream tells how far a job is until it has ended (contract §3.17).
func (a *api) progressStream(c echo.Context) error {
	if _, err := fromQuery(wire.DecodeNothing)(c); err != nil {
		return err
	}
	return a.openJob(c, func(s *sse) jobOutlet { return &progressOut{sse: s} })
}

// jobOutlet is the outlet of a stream about one job.
type jobOutlet interface {
	outlet
	// begin tells how the job is before anything else.
	begin(j *job.Job) error
	// ended tells by which event it ended, to somebody who comes behind that, and is errDone.
	ended(j *job.Job, by job.Event) error
}

// openJob begins a stream about the job that the path names. One that has ended is told so
// and no more; who knows it already is answered nothing, and does not ask again.
func (a *api) openJob(c echo.Context, to func(*sse) jobOutlet) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	from, err := resumed(c.Request())
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := a.svc.Job(ctx, id); err != nil { // before anything is begun for it
		return err
	}
	r := &reader{filter: job.EventFilter{JobID: id}}
	return a.open(c, r, from, func(s *sse) (opened, error) {
		j, err := a.svc.Job(ctx, id) // what happens behind this is told
		if err != nil {
			return opened{}, err
		}
		out := to(s)
		if !j.State.Terminal() {
			return opened{out: out, first: func() error { return out.begin(j) }}, nil
		}
		end, kept, err := a.endOf(ctx, j)
		if err != nil {
			return opened{}, err
		}
		if from.seq != job.FromNow && (!kept || from.seq >= end.Seq && from.seq != wire.NoEvent) {
			return opened{}, errDone
		}
		return opened{out: out, over: true, first: func() error {
			if err := out.begin(j); err != nil {
				return err
			}
			return out.ended(j, end)
		}}, nil
	})
}

// endOf is the event by which a job has ended; one that is not kept any more is told from
// what is known of the job.
func (a *api) endOf(ctx context.Context, j *job.Job) (e job.Event, kept bool, err error) {
	history, err := a.svc.History(ctx, j.ID)
	if err != nil {
		return e, false, err
	}
	for i := len(history) - 1; i >= 0; i-- {
		if ends(history[i]) {
			return history[i], true, nil
		}
	}
	return job.Event{Type: "job." + string(j.State), Time: j.FinishedAt, JobID: j.ID, JobType: j.Type, Queue: j.Queue}, false, nil
}

// ends reports whether an event is the end of its job.
func ends(e job.Event) bool {
	_, to, ok := e.Transition()
	return ok && to.Terminal()
}

// jobOut tells the events of a job.
type jobOut struct {
	*sse
	shown job.EventFilter
}

// begin is part of [jobOutlet].
func (o *jobOut) begin(*job.Job) error { return nil }

// ended is part of [jobOutlet].
func (o *jobOut) ended(_ *job.Job, by job.Event) error {
	return o.last(wire.AppendEventFrame(nil, by, wire.OfJobs), true)
}

// tell is part of [outlet].
func (o *jobOut) tell(_ context.Context, r *reader, batches []*batch, seen int64) error {
	var text []byte
	over := eachOf(r, batches, seen, func(e job.Event) {
		if o.shown.Wants(e) {
			text = wire.AppendFrame(text, e, wire.OfJobs)
		}
	})
	return o.last(text, over)
}

// last writes, and ends the stream where that was the end of the job.
func (s *sse) last(text []byte, over bool) error {
	if len(text) > 0 {
		if err := s.write(text); err != nil {
			return err
		}
	}
	if over {
		return errDone
	}
	return nil
}

// eachOf calls fn with what is told of one job, and reports whether the job has ended by
// then.
func eachOf(r *reader, batches []*batch, seen int64, fn func(job.Event)) (over bool) {
	for _, b := range batches {
		for _, e := range b.events[b.behind(seen):] {
			if e.JobID != r.filter.JobID {
				continue
			}
			fn(e)
			if ends(e) {
				return true
			}
		}
	}
	return false
}

// progressOut tells how far a job is.
type progressOut struct{ *sse }

// begin is part of [jobOutlet].
func (o *progressOut) begin(j *job.Job) error {
	if j.Progress == nil {
		return nil
	}
	return o.write(wire.AppendProgressNow(nil, howFar(j)))
}

// ended is part of [jobOutlet].
func (o *progressOut) ended(j *job.Job, by job.Event) error {
	return o.last(wire.AppendProgressEnd(nil, by, howFar(j)), true)
}

func howFar(j *job.Job) wire.Progressing {
	return wire.Progressing{ID: j.ID, State: j.State, Progress: j.Progress}
}

// tell is part of [outlet]. What the event does not hold is read from the job, where that
// has not gone on since.
func (o *progressOut) tell(ctx context.Context, r *reader, batches []*batch, seen int64) error {
	now := &job.Job{}
	if j, err := o.feed.a.svc.Job(ctx, r.filter.JobID); err == nil {
		now = j
	}
	var text []byte
	over := eachOf(r, batches, seen, func(e job.Event) {
		switch {
		case e.Type == "job.progress":
			p := wire.ProgressOf(e)
			if now.Progress != nil && now.Progress.At.Equal(p.At) {
				p = now.Progress
			}
			text = wire.AppendProgressFrames(text, e, wire.Progressing{ID: e.JobID, State: job.Active, Progress: p})
		case ends(e):
			_, to, _ := e.Transition()
			text = wire.AppendProgressEnd(text, e, wire.Progressing{ID: e.JobID, State: to, Progress: now.Progress})
		}
	})
	return o.last(text, over)
}
