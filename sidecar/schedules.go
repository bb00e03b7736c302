package sidecar

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar/schedule"
)

// Ticks is where the servers of one app agree on which of them makes the job of
// a tick. See [Options].
type Ticks = schedule.Ticks

// cronService are the verbs of the schedules.
type cronService = job.CronService

// schedules makes the schedules of this service.
func (s *Sidecar) schedules() *schedule.Schedules {
	return schedule.New(schedule.Host{Log: s.log, Now: s.now, NewID: s.o.NewID, Admit: s.admitRun, AdmitFlow: s.admitSteps, Show: s.show, Held: s.held,
		View: func(ctx context.Context, fn func(job.ReadTx) error) error { return s.store.View(ctx, fn) },
		Update: func(ctx context.Context, fn func(schedule.Tx) error) error {
			return s.update(ctx, func(t *turn) error { return fn(cronTurn{t, s}) })
		}}, s.o.Ticks)
}

// admitRun asks the schemas and the middleware about the run of a schedule.
func (s *Sidecar) admitRun(ctx context.Context, c *job.Checked) error {
	if err := s.fits(ctx, []job.Checked{*c}); err != nil {
		return err
	}
	links := s.o.Middleware.Links()
	if len(links) == 0 {
		return nil
	}
	made, err := s.admitOne(ctx, links, *c)
	*c = made
	return err
}

// cronTurn is a turn as package schedule knows it.
type cronTurn struct {
	*turn
	s *Sidecar
}

func (t cronTurn) Save(j *job.Job) error { return t.save(j) }

func (t cronTurn) AddEvent(e job.Event) error { return t.addEvent(e) }

func (t cronTurn) Insert(js ...*job.Job) error {
	stored, err := t.insertAll(js)
	for i := range stored {
		if err == nil && !stored[i] {
			_, err = taken(t, js[i].Envelope)
		}
	}
	return err
}

func (t cronTurn) InsertKeyed(j *job.Job, now time.Time) (job.Receipt, error) {
	return t.s.insertKeyed(t.turn, j, now, taken)
}

func (t cronTurn) BeginFlow(f *job.Flow, behind job.ID, now time.Time) (*job.Workflow, error) {
	return t.beginFlow(f, behind, now)
}

func (t cronTurn) CancelFlow(f *job.Flow, by, reason string, now time.Time) error {
	return job.Turn(f.ID, flowBook{t.turn, f.ID}, now).Cancel(by, reason, f.Count)
}

func (t cronTurn) Left(j *job.Job) *job.Job {
	if latest := t.latest()[j.ID]; latest != nil {
		return latest
	}
	return j
}

// taken is known for ids that were made a moment ago.
func taken(_ job.JobReader, e job.Envelope) (*job.Job, error) {
	return nil, job.Errorf(job.Internal, "job %s exists already, and its id was made a moment ago", e.ID)
}
