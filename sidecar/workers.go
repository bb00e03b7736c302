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

// nameless is the Invalid for a worker without an id.
func nameless() error {
	return job.Errorf(job.Invalid, "worker_id is required: the name under which this worker beats").With(map[string]any{"field": "worker_id"})
}

// Register stores a worker before its first beat; see [job.Worker].
func (s *Sidecar) Register(ctx context.Context, w job.WorkerInfo) (job.Registration, error) {
	if w.ID == "" {
		return job.Registration{}, nameless()
	}
	now := s.now()
	var fresh job.WorkerInfo
	var version uint64
	err := s.update(ctx, func(t *turn) error {
		known, err := t.Worker(w.ID)
		if err != nil && job.KindOf(err) != job.NotFound {
			return err
		}
		fresh = job.WorkerInfo{ID: w.ID, Directive: known.Directive}.Merge(w, now)
		if err := t.addEvent(job.WorkerEvent(job.WorkerStarted, w.ID, now)); err != nil {
			return err
		}
		version = s.roster.next()
		return s.saveWorker(t, job.WorkerInfo{BeatAt: now}, fresh, now)
	})
	if err != nil {
		return job.Registration{}, err
	}
	s.workerSaved(fresh, version, now)
	return job.Registration{Time: now, Heartbeat: pulse, Silence: s.o.Silence, Visibility: s.o.Visibility}, nil
}

// saveWorker stores what is known of a worker that has spoken, with the events of what is
// new about it: that it is there, or there again, and that it takes no more jobs.
func (s *Sidecar) saveWorker(t *turn, before, w job.WorkerInfo, now time.Time) error {
	if before.BeatAt.IsZero() || before.Stale {
		if err := t.addEvent(job.WorkerEvent(job.WorkerStarted, w.ID, now)); err != nil {
			return err
		}
	}
	if err := s.addQuietEvent(t, before, w, now); err != nil {
		return err
	}
	return t.PutWorker(w)
}

// addQuietEvent stores the event of a worker that takes no more jobs, if that is new.
func (s *Sidecar) addQuietEvent(t *turn, before, w job.WorkerInfo, now time.Time) error {
	if w.Wanted() != job.Quiet || before.Wanted() == job.Quiet {
		return nil
	}
	return t.addEvent(job.WorkerEvent(job.WorkerQuiet, w.ID, now))
}

// workerSaved is what follows once a worker is on disk; version is that of its
// transaction.
func (s *Sidecar) workerSaved(w job.WorkerInfo, version uint64, now time.Time) {
	s.roster.set(version, w)
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
	return s.dismiss(ctx, id, func(job.WorkerInfo) error { return nil })
}

// dismiss is Deregister for a worker that may be forgotten.
func (s *Sidecar) dismiss(ctx context.Context, id string, may func(job.WorkerInfo) error) (released []job.ID, err error) {
	if id == "" {
		return nil, nameless()
	}
	held, err := view(ctx, s, func(tx job.ReadTx) (map[string][]job.ID, error) { return tx.Holders(id) })
	if err != nil {
		return nil, err
	}
	now := s.now()
	for left, stopped := held[id], false; !stopped; { // it may hold very many
		var freed []job.ID
		var version uint64
		done := 0
		err := s.update(ctx, func(t *turn) error {
			freed, done, stopped, version = nil, 0, false, s.roster.next()
			w, err := t.Worker(id)
			if err == nil {
				err = may(w)
			}
			if err != nil {
				return err
			}
			for r := newWorkShare(); done < len(left) && !r.over(); done++ {
				held, err := s.giveBack(t, left[done], id, now)
				if err != nil {
					return err
				}
				if held {
					freed = append(freed, left[done])
				}
			}
			if stopped = done == len(left); !stopped {
				return nil
			}
			if err := t.addEvent(job.WorkerEvent(job.WorkerStopped, id, now)); err != nil {
				return err
			}
			return t.DeleteWorker(id)
		})
		if err != nil {
			return released, err
		}
		left, released = left[done:], append(released, freed...)
		if stopped {
			s.roster.drop(version, id)
			s.answers.forgetWorker(id)
		}
	}
	return released, nil
}

// giveBack returns a job that a worker held a moment ago to its queue, and reports
// whether it still held it.
func (s *Sidecar) giveBack(t *turn, id job.ID, worker string, now time.Time) (bool, error) {
	j, err := t.Job(id)
	switch {
	case err != nil && job.KindOf(err) == job.NotFound, err == nil && (j.State != job.Active || j.Lease.Worker != worker):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := s.ruled(t, j).Fail(now, job.Claim{ID: j.ID, Worker: worker}, job.Failure{Requeue: true}, s.o.Rand()); err != nil {
		return false, err
	}
	return true, t.save(j)
}

// Workers lists the workers that are known; see [job.Operator].
func (s *Sidecar) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	now := s.now()
	var held map[string][]job.ID
	ws, err := view(ctx, s, func(tx job.ReadTx) (ws []job.WorkerInfo, err error) {
		if ws, err = tx.Workers(); err == nil && len(ws) > 0 {
			held, err = tx.Holders("")
		}
		return ws, err
	})
	for i := range ws {
		ws[i].Active = len(held[ws[i].ID])
		ws[i].Stale = s.stale(ws[i], now)
		s.roster.complete(&ws[i])
	}
	return ws, err
}

// Worker reads one worker; see [job.Operator].
func (s *Sidecar) Worker(ctx context.Context, id string) (job.WorkerInfo, error) {
	now := s.now()
	var held map[string][]job.ID
	w, err := view(ctx, s, func(tx job.ReadTx) (w job.WorkerInfo, err error) {
		if w, err = tx.Worker(id); err == nil {
			held, err = tx.Holders(id)
		}
		return w, err
	})
	if err == nil {
		w.Active = len(held[id])
		w.Stale = s.stale(w, now)
		s.roster.complete(&w)
	}
	return w, err
}

// stale reports whether a worker has been silent for too long.
func (s *Sidecar) stale(w job.WorkerInfo, now time.Time) bool {
	return now.Sub(w.BeatAt) >= s.o.Silence
}

// Direct tells a worker to be quiet, to terminate, or to go on; see [job.Operator].
func (s *Sidecar) Direct(ctx context.Context, id, wish string) (job.WorkerInfo, error) {
	all, err := s.direct(ctx, wish, id)
	if err == nil && len(all) == 0 {
		err = noSuchWorker(id)
	}
	if err != nil {
		return job.WorkerInfo{}, err
	}
	s.log.Info("an operator directs a worker; it takes effect with its next heartbeat", "directive", wish, "worker", id, "workers", 1)
	return all[0], nil
}

// noSuchWorker is the NotFound for a worker that cannot be directed. One that only
// fetches is not known (contract §4.9): a directive travels in the answer to a heartbeat.
func noSuchWorker(id string) error {
	return job.Errorf(job.NotFound, "there is no worker %.140q that has registered or sent a heartbeat", id).
		With(map[string]any{"resource_type": "worker", "resource_id": id,
			"hint": "The list of workers has the ids: GET /ojs/v1/workers. A worker that only fetches is not in it, as the answer to a heartbeat is what tells a worker: let it send heartbeats, or stop it where it runs."})
}

// DirectAll directs all known workers; see [job.Operator].
func (s *Sidecar) DirectAll(ctx context.Context, wish string) (int, error) {
	known, err := view(ctx, s, job.ReadTx.Workers)
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(known))
	for i, w := range known {
		ids[i] = w.ID
	}
	all, err := s.direct(ctx, wish, ids...)
	if err != nil {
		return 0, err
	}
	s.log.Info("an operator directs all workers; it takes effect with their next heartbeats", "directive", wish, "workers", len(all))
	return len(all), nil
}

// direct directs those of the workers that are known, some in each transaction, and
// returns them. After an error some may have been directed.
func (s *Sidecar) direct(ctx context.Context, wish string, ids ...string) (all []job.WorkerInfo, err error) {
	if err := new(job.WorkerInfo).Direct(wish); err != nil {
		return nil, err
	}
	now := s.now()
	for len(ids) > 0 {
		var directed []job.WorkerInfo
		var version uint64
		n := 0
		err := s.update(ctx, func(t *turn) error {
			directed, n, version = nil, 0, s.roster.next()
			for r := newWorkShare(); n < len(ids) && !r.over(); n++ {
				w, err := s.directOne(t, ids[n], wish, now)
				if err == nil {
					directed = append(directed, w)
				} else if job.KindOf(err) != job.NotFound {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		s.roster.set(version, directed...)
		all, ids = append(all, directed...), ids[n:]
	}
	for i := range all {
		all[i].Stale = s.stale(all[i], now)
	}
	return all, nil
}

func (s *Sidecar) directOne(t *turn, id, wish string, now time.Time) (job.WorkerInfo, error) {
	before, err := t.Worker(id)
	if err != nil {
		return before, err
	}
	w := before
	if err := w.Direct(wish); err != nil {
		return w, err
	}
	if err := s.addQuietEvent(t, before, w, now); err != nil {
		return w, err
	}
	return w, t.PutWorker(w)
}
