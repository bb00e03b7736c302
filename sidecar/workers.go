package sidecar

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// pulse is how often a worker that registers is asked to beat (contract §3.12).
const pulse = 5 * time.Second

// What [Options.Silence] may sensibly be (ojs-core.md §7.5): three heartbeats of
// the workers that beat every 5 s, and less than the day after which a silent
// worker is forgotten.
const (
	MinSilence = 3 * pulse
	MaxSilence = 8 * time.Hour
)

// nameless is the Invalid for a worker that does not say who it is.
func nameless() error {
	e := job.Errorf(job.Invalid, "worker_id is required: the name under which this worker beats")
	e.Details = map[string]any{"field": "worker_id"}
	return e
}

// Register takes down a worker before it beats; see [job.Worker].
func (s *Sidecar) Register(ctx context.Context, w job.WorkerInfo) (job.Registration, error) {
	if w.ID == "" {
		return job.Registration{}, nameless()
	}
	now := s.now()
	var fresh job.WorkerInfo
	var turn uint64
	err := s.store.Update(ctx, func(tx job.Tx) error {
		known, err := tx.Worker(w.ID)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		fresh = job.WorkerInfo{ID: w.ID, Directive: known.Directive}.Merge(w, now)
		if err := tx.Tell(job.WorkerEvent(job.WorkerStarted, w.ID, now)); err != nil {
			return err
		}
		turn = s.roster.turn()
		return s.meet(tx, job.WorkerInfo{BeatAt: now}, fresh, now)
	})
	if err != nil {
		return job.Registration{}, err
	}
	s.met(fresh, turn, now)
	return job.Registration{Time: now, Heartbeat: pulse, Silence: s.o.Silence, Visibility: s.o.Visibility}, nil
}

// meet stores what is known of a worker that has spoken, and tells what is new
// about it: that it is there, or there again, and that it takes no more jobs.
func (s *Sidecar) meet(tx job.Tx, before, w job.WorkerInfo, now time.Time) error {
	if before.BeatAt.IsZero() || before.Stale {
		if err := tx.Tell(job.WorkerEvent(job.WorkerStarted, w.ID, now)); err != nil {
			return err
		}
	}
	if err := s.tellQuiet(tx, before, w, now); err != nil {
		return err
	}
	return tx.PutWorker(w)
}

// tellQuiet tells that a worker takes no more jobs, if that is new.
func (s *Sidecar) tellQuiet(tx job.Tx, before, w job.WorkerInfo, now time.Time) error {
	if w.Wanted() != job.Quiet || before.Wanted() == job.Quiet {
		return nil
	}
	return tx.Tell(job.WorkerEvent(job.WorkerQuiet, w.ID, now))
}

// met is what follows when meet is on disk; turn is that of its transaction.
func (s *Sidecar) met(w job.WorkerInfo, turn uint64, now time.Time) {
	s.roster.set(turn, w)
	s.clock.wake(dutyWorkers, now.Add(s.o.Silence))
}

// Deregister forgets a worker that has stopped; see [job.Worker].
//
// Its jobs go back the way of a requeue and not of a lost reservation: the
// worker said itself that it has stopped, so nothing is to be learned from the
// attempt, and ojs-core.md §7.5 has a worker that shuts down return its jobs.
// They keep their places in line and their attempts; one that was given back as
// often as it may be has failed. The worker goes with the last of them: after an
// error in between, it can be deregistered again.
func (s *Sidecar) Deregister(ctx context.Context, id string) (released []job.ID, err error) {
	if id == "" {
		return nil, nameless()
	}
	held, err := view(ctx, s, func(tx job.ReadTx) (map[string][]job.ID, error) { return tx.Holders(id) })
	if err != nil {
		return nil, err
	}
	now := s.now()
	for left, stopped := held[id], false; !stopped; { // it may hold very many
		var freed []*job.Job
		var turn uint64
		done := 0
		err := s.store.Update(ctx, func(tx job.Tx) error {
			freed, done, stopped, turn = nil, 0, false, s.roster.turn()
			if _, err := tx.Worker(id); err != nil {
				return err
			}
			for r := newRation(); done < len(left) && !r.over(); done++ {
				j, err := s.giveBack(tx, left[done], id, now)
				if err != nil {
					return err
				}
				if j != nil {
					freed = append(freed, j)
				}
			}
			if stopped = done == len(left); !stopped {
				return nil
			}
			if err := tx.Tell(job.WorkerEvent(job.WorkerStopped, id, now)); err != nil {
				return err
			}
			return tx.DeleteWorker(id)
		})
		if err != nil {
			return released, err
		}
		left = left[done:]
		for _, j := range freed {
			released = append(released, j.ID)
		}
		if stopped {
			s.roster.drop(turn, id)
			s.answers.forgetWorker(id)
		}
		s.announce(freed...)
		s.tellFinal(freed...)
	}
	return released, nil
}

// giveBack returns a job that a worker held a moment ago to its queue, nil if it
// does not hold it any more.
func (s *Sidecar) giveBack(tx job.Tx, id job.ID, worker string, now time.Time) (*job.Job, error) {
	j, err := tx.Job(id)
	switch {
	case err != nil && job.KindOf(err) == job.NotFound, err == nil && (j.State != job.Active || j.Lease.Worker != worker):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := j.Under(&s.o.Rules).Fail(now, job.Claim{ID: j.ID, Worker: worker}, job.Failure{Requeue: true}, s.o.Rand()); err != nil {
		return nil, err
	}
	return j, tx.UpdateJob(j)
}

// Workers lists the workers that are known; see [job.Operator].
func (s *Sidecar) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	now := s.now()
	ws, err := view(ctx, s, job.ReadTx.Workers)
	for i := range ws {
		ws[i].Stale = s.stale(ws[i], now)
	}
	return ws, err
}

// Worker reads one worker; see [job.Operator].
func (s *Sidecar) Worker(ctx context.Context, id string) (job.WorkerInfo, error) {
	now := s.now()
	w, err := view(ctx, s, func(tx job.ReadTx) (job.WorkerInfo, error) { return tx.Worker(id) })
	w.Stale = err == nil && s.stale(w, now)
	return w, err
}

// stale reports whether a worker has been silent for too long.
func (s *Sidecar) stale(w job.WorkerInfo, now time.Time) bool {
	return now.Sub(w.BeatAt) >= s.o.Silence
}
