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
// often as it may be has failed.
func (s *Sidecar) Deregister(ctx context.Context, id string) (released []job.ID, err error) {
	if id == "" {
		return nil, nameless()
	}
	now := s.now()
	var freed []*job.Job
	err = s.store.Update(ctx, func(tx job.Tx) error {
		freed, released = nil, nil
		if _, err := tx.Worker(id); err != nil {
			return err
		}
		held, err := tx.Held(id)
		if err != nil {
			return err
		}
		for _, h := range held {
			j, err := tx.Job(h.ID)
			if err != nil {
				return err
			}
			if err := j.Under(&s.o.Rules).Fail(now, job.Claim{ID: j.ID, Worker: id}, job.Failure{Requeue: true}, s.o.Rand()); err != nil {
				return err
			}
			if err := tx.UpdateJob(j); err != nil {
				return err
			}
			freed, released = append(freed, j), append(released, j.ID)
		}
		if err := tx.Tell(job.WorkerEvent(job.WorkerStopped, id, now)); err != nil {
			return err
		}
		return tx.DeleteWorker(id)
	})
	if err != nil {
		return nil, err
	}
	s.roster.drop(id)
	s.announce(freed...)
	s.tellFinal(freed...)
	return released, nil
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

// watch takes the jobs of workers that beat once and then fell silent, and
// forgets them after a day (contract §4.9).
func (s *Sidecar) watch(ctx context.Context, now time.Time) (next time.Time, err error) {
	if until := s.started.Add(s.o.Silence); now.Before(until) {
		return until, nil // nobody could beat while this server was down
	}
	upto, over := s.pauses.limit(now)
	var lost []*job.Job
	var gone []string
	err = s.store.Update(ctx, func(tx job.Tx) error {
		lost, gone, next = nil, nil, time.Time{}
		ws, err := tx.Workers()
		if err != nil {
			return err
		}
		for _, w := range ws {
			if !s.stale(w, upto) {
				next = sooner(next, w.BeatAt.Add(s.o.Silence))
				continue
			}
			if err := s.mourn(tx, w, now); err != nil {
				return err
			}
			if now.Sub(w.BeatAt) > day {
				gone = append(gone, w.ID)
			}
			if w.Stale && now.Sub(w.BeatAt) > 3*s.o.Silence {
				continue // its jobs have been looked at; what it claims without a beat, its lease decides
			}
			jobs, until, err := s.bereave(tx, w, upto, now)
			if err != nil {
				return err
			}
			lost, next = append(lost, jobs...), sooner(next, until)
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	for _, id := range gone {
		s.roster.drop(id)
	}
	s.announce(lost...)
	s.tellFinal(lost...)
	if next.IsZero() {
		next = now.Add(hourly)
	}
	return later(next, over), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mourn tells once that a worker is stale, and forgets it after a day.
func (s *Sidecar) mourn(tx job.Tx, w job.WorkerInfo, now time.Time) error {
	if !w.Stale {
		if err := tx.Tell(job.WorkerEvent(job.WorkerStale, w.ID, now)); err != nil {
			return err
		}
	}
	if now.Sub(w.BeatAt) > day {
		return tx.DeleteWorker(w.ID)
	}
	if w.Stale {
		return nil
	}
	w.Stale = true
	return tx.PutWorker(w)
}

// bereave takes the jobs of a stale worker. A job claimed after its last beat
// shows that it lived then; until says when that is too long ago, too. What has
// not run out at upto is covered by a grace.
func (s *Sidecar) bereave(tx job.Tx, w job.WorkerInfo, upto, now time.Time) (lost []*job.Job, until time.Time, err error) {
	held, err := tx.Held(w.ID)
	if err != nil {
		return nil, until, err
	}
	for _, h := range held {
		if end := h.StartedAt.Add(s.o.Silence); upto.Before(end) {
			until = sooner(until, end)
			continue
		}
		j, err := tx.Job(h.ID)
		if err != nil {
			return nil, until, err
		}
		if err := j.Under(&s.o.Rules).Lose(now, "worker_death", s.o.Rand()); err != nil {
			return nil, until, err
		}
		if err := tx.UpdateJob(j); err != nil {
			return nil, until, err
		}
		s.log.Warn("a worker fell silent, its job goes to another", "worker", w.ID, "job", j.ID, "silent", now.Sub(w.BeatAt))
		lost = append(lost, j)
	}
	return lost, until, nil
}
