package sidecar

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

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

// noSuchWorker is the NotFound for a worker that cannot be told anything. One that only
// fetches is none that is known (contract §4.9): the answer to a heartbeat is what
// would tell it.
func noSuchWorker(id string) error {
	e := job.Errorf(job.NotFound, "there is no worker %.140q that has registered or sent a heartbeat", id)
	e.Details = map[string]any{"resource_type": "worker", "resource_id": id,
		"hint": "The list of workers has the ids: GET /ojs/v1/workers. A worker that only fetches is not in it, as the answer to a heartbeat is what tells a worker: let it send heartbeats, or stop it where it runs."}
	return e
}

// DirectAll tells all known workers; see [job.Operator].
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

// direct tells the workers with the ids that are known, some in each transaction,
// and returns them. After an error some may have been told.
func (s *Sidecar) direct(ctx context.Context, wish string, ids ...string) (all []job.WorkerInfo, err error) {
	if err := new(job.WorkerInfo).Direct(wish); err != nil {
		return nil, err
	}
	now := s.now()
	for len(ids) > 0 {
		var told []job.WorkerInfo
		var version uint64
		n := 0
		err := s.update(ctx, func(t *turn) error {
			told, n, version = nil, 0, s.roster.next()
			for r := newWorkShare(); n < len(ids) && !r.over(); n++ {
				w, err := s.directOne(t, ids[n], wish, now)
				if err == nil {
					told = append(told, w)
				} else if job.KindOf(err) != job.NotFound {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		s.roster.set(version, told...)
		all, ids = append(all, told...), ids[n:]
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
